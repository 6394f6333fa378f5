"""Histories of one group as Hypothesis makes them: any records for a classic group, a coordinator's for others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from support.histories.builders import Raw, asked_for, commit, emptied, generation, gone, member, no_offset
from support.histories.group_writer import GroupWriter

_NAMES = ("a", "b", "c", "i-1", "i-2")
TOPICS = ("t", "u")


@st.composite
def _members(draw: Any) -> list[Any]:
    chosen = draw(st.lists(st.sampled_from(_NAMES), min_size=1, max_size=4, unique=True))
    return [
        member(
            name,
            draw(st.lists(st.integers(0, 4), max_size=3, unique=True)),
            topic=draw(st.sampled_from(TOPICS)),
            instance_id="i" if name.startswith("i") else None,
            host=draw(st.sampled_from(["/h1", "/h2"])),
            client_id=draw(st.sampled_from(["c1", "c2"])),
        )
        for name in chosen
        if not (name == "i-2" and "i-1" in chosen)
    ]


@st.composite
def _operation(draw: Any, at: int) -> list[Raw]:
    """One operation of a broker, or something no broker would write: both must be survived alike."""
    kind = draw(
        st.sampled_from(["asked", "round", "round", "emptied", "gone", "delete", "commit", "commit", "drop"])
    )
    number = draw(st.integers(0, 6))
    places = st.tuples(st.sampled_from(TOPICS), st.integers(0, 3))
    if kind == "asked":
        return [asked_for(at=at)]
    if kind == "round":
        return [generation(number, *draw(_members()), at=at)]
    if kind == "emptied":
        return [emptied(number, at=at)]
    if kind == "gone":
        return [gone(at=at)]
    if kind == "commit":
        offsets = draw(st.lists(st.tuples(places, st.integers(0, 50)), min_size=1, max_size=4))
        return [commit(*place, offset, at=at) for place, offset in offsets]
    dropped = [no_offset(*place, at=at) for place in draw(st.lists(places, min_size=1, max_size=3))]
    return [*dropped, gone(at=at)] if kind == "delete" else dropped


@st.composite
def histories(draw: Any) -> list[Raw]:
    """Records of one group in log order, with offsets; some operations share a timestamp but are apart."""
    records: list[Raw] = []
    at, offset = 1_000, 10
    for _ in range(draw(st.integers(1, 12))):
        for raw in draw(_operation(at)):
            records.append(replace(raw, offset=offset))
            offset += 1
        offset += draw(st.integers(1, 3))
        at += draw(st.sampled_from([0, 1, 7, 60_000]))
    return records


MEMBERS = ("a", "b", "c")


def _present(life: GroupWriter, name: str) -> str:
    """A member that is there, if there is any."""
    names = sorted(life.members)
    return names[MEMBERS.index(name) % len(names)] if names else name


def _back(life: GroupWriter, name: str) -> None:
    away = [one for one, has in life.holds.items() if has.epoch == -2]
    if away:
        stem, number = away[0].split("-")
        life.back(away[0], f"{stem}-{int(number) + 1}")


#: What may happen to a group, with a member each. The coordinator ignores what its group cannot do now.
HAPPENINGS: dict[str, Callable[[GroupWriter, str], None]] = {
    "join": lambda life, name: life.join(name),
    "join with a regex": lambda life, name: life.join(name, regex="t.*"),
    "join with other topics": lambda life, name: life.join(name, topics=("t", "u")),
    "join as a static member": lambda life, name: life.join(f"{name}-1", instance=f"i-{name}"),
    "heartbeat": lambda life, name: life.heartbeat(name),
    "settle": lambda life, name: life.settle(),
    "leave": lambda life, name: life.leave(_present(life, name)),
    "be fenced": lambda life, name: life.leave(_present(life, name), fenced=True),
    "be away": lambda life, name: life.away(_present(life, name)),
    "be back": _back,
    "move": lambda life, name: life.move(_present(life, name)),
    "find a new partition": lambda life, name: life.grow(_present(life, name)),
    "resolve again": lambda life, name: life.refresh(),
    "commit": lambda life, name: life.commit(MEMBERS.index(name), life.at),
    "delete": lambda life, name: life.delete(),
    "upgrade": lambda life, name: life.upgrade(f"n{name}"),
    "last native leaves": lambda life, name: [life.leave(one) for one in list(life.members) if one[0] == "n"],
    "ask as a classic client": lambda life, name: life.ask(),
    "classic round": lambda life, name: life.classic_round(*MEMBERS[: MEMBERS.index(name) + 1]),
    "classic round of nobody": lambda life, name: life.classic_round(),
}
_LIKELY = ("join", "heartbeat", "settle", "leave", "upgrade", "classic round")


@st.composite
def lives(draw: Any) -> GroupWriter:
    """Up to a dozen and a half happenings; the first one makes a group."""
    # The assignment interval came with 4.3, as did 2 for the first epoch.
    first_epoch, interval = draw(st.sampled_from([(1, False), (2, False), (2, True)]))
    kind = draw(st.sampled_from(["consumer", "consumer", "consumer", "share", "streams"]))
    life = GroupWriter(kind=kind, first_epoch=first_epoch, interval=interval)
    choices = st.sampled_from([*HAPPENINGS, *_LIKELY])
    happenings = draw(st.lists(st.tuples(choices, st.sampled_from(MEMBERS)), min_size=1, max_size=18))
    for happening, name in [("join", "a"), *happenings] if draw(st.booleans()) else happenings:
        HAPPENINGS[happening](life, name)
    if not life.log:
        life.classic_round("a")
    return life
