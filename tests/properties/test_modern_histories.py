"""Histories as a coordinator writes them for the newer kinds of group, and what must hold for each."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from builders import CONTEXT, GROUP, Raw, observed, placed
from cleaner import settled, untrue
from hypothesis import given
from hypothesis import strategies as st
from modern_builders import TOPIC
from modern_coordinator import Coordinator

from groupreplay.state import Event, Group, History, Observations
from groupreplay.state.envelope import cloud_event

NAMED = replace(CONTEXT, topic_names={TOPIC: "t"})
MEMBERS = ("a", "b", "c")


def _present(life: Coordinator, name: str) -> str:
    """A member that is there, if there is any."""
    names = sorted(life.members)
    return names[MEMBERS.index(name) % len(names)] if names else name


def _back(life: Coordinator, name: str) -> None:
    away = [one for one, has in life.holds.items() if has.epoch == -2]
    if away:
        stem, number = away[0].split("-")
        life.back(away[0], f"{stem}-{int(number) + 1}")


#: What may happen to a group, with a member each. The coordinator ignores what its group cannot do now.
_HAPPENINGS: dict[str, Callable[[Coordinator, str], None]] = {
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
def lives(draw: Any) -> Coordinator:
    """Up to a dozen and a half happenings; the first one makes a group."""
    # The assignment interval came with 4.3, as did 2 for the first epoch.
    first_epoch, interval = draw(st.sampled_from([(1, False), (2, False), (2, True)]))
    kind = draw(st.sampled_from(["consumer", "consumer", "consumer", "share", "streams"]))
    life = Coordinator(kind=kind, first_epoch=first_epoch, interval=interval)
    choices = st.sampled_from([*_HAPPENINGS, *_LIKELY])
    happenings = draw(st.lists(st.tuples(choices, st.sampled_from(MEMBERS)), min_size=1, max_size=18))
    for happening, name in [("join", "a"), *happenings] if draw(st.booleans()) else happenings:
        _HAPPENINGS[happening](life, name)
    if not life.log:
        life.classic_round("a")
    return life


def at_once(log: Sequence[Raw]) -> tuple[list[Event], dict[str, Any]]:
    """The reference: the whole history in one batch."""
    records = placed(log)
    group = Group(GROUP, NAMED)
    events = group.apply(observed(records), 0)
    return events + group.expire(records[-1].at + 1), group.describe()


def cuts(data: st.DataObject, records: Sequence[Raw]) -> list[Sequence[Raw]]:
    """The records cut into batches anywhere, through operations too."""
    at = sorted(data.draw(st.sets(st.integers(0, len(records))), label="cuts") | {0, len(records)})
    return [records[low:high] for low, high in pairwise(at)]


@given(lives(), st.data(), st.integers(0, 2**32))
def test_batches_restarts_repeats_and_arrival_do_not_matter(
    life: Coordinator, data: st.DataObject, seed: int
) -> None:
    """Cut anywhere, shuffled in the batch, written down and taken up again, every batch twice."""
    records = placed(life.log)
    blob, events = Group(GROUP, NAMED).snapshot(), []
    for batch in cuts(data, records):
        group = Group.from_snapshot(GROUP, NAMED, blob)
        seen = observed(batch)
        shuffled = random.Random(seed).sample(list(seen.items), len(seen.items))
        events += group.apply(Observations(items=shuffled, seen_to=seen.seen_to), 0)
        assert group.apply(seen, 0) == []
        blob = group.snapshot()
    group = Group.from_snapshot(GROUP, NAMED, blob)
    events += group.expire(records[-1].at + 1)
    assert (events, group.describe()) == at_once(life.log)


@given(lives())
def test_ids_are_unique_and_the_same_every_time(life: Coordinator) -> None:
    """Two runs give byte-equal events, and no two events of a history share an id."""
    first, second = (
        [cloud_event(event, NAMED, event.time_ms) for event in at_once(life.log)[0]] for _ in "12"
    )
    assert [event.value for event in first] == [event.value for event in second]
    assert len({event.id for event in first}) == len(first)


@given(lives())
def test_the_state_is_the_coordinators_at_the_edge_of_every_operation(life: Coordinator) -> None:
    """One group, fed operation by operation, never differs from the coordinator's own books."""
    records = placed(life.log)
    group, start, seen = Group(GROUP, NAMED), 0, []
    for end, _ in life.edges:
        group.apply(observed(records[start:end]), 0)
        group.expire(records[end - 1].at + 1)
        described = group.describe()
        seen.append((end, "Dead" if group.gone else described["state"]))
        start = end
    assert seen == life.edges
    assert [one["member_id"] for one in sorted(described["members"], key=lambda one: one["member_id"])] == (
        sorted(life.members)
    )


@given(lives())
def test_no_fact_is_about_a_phantom(life: Coordinator) -> None:
    """Emptied, created, deleted, converted: as often as at the edges of operations, never in between."""
    events, _ = at_once(life.log)
    said = Counter(event.fact.NAME for event in events)
    assert {name: said[name] for name in life.told} == life.told


@given(lives())
def test_every_rebalance_that_began_ends_once_at_most(life: Coordinator) -> None:
    """A completed one is preceded by its beginning, one at a time, and takes no negative time."""
    began: list[str] = []
    ended: list[str] = []
    for event in at_once(life.log)[0]:
        fact = event.fact
        if fact.NAME == "rebalance.started":
            began.append(fact.rebalance_id)
        if fact.NAME == "rebalance.completed" and event.group_type.value != "classic":
            assert began[-1:] == [fact.rebalance_id]
            assert fact.duration_ms >= 0
            ended.append(fact.rebalance_id)
    assert (len(set(began)), len(set(ended))) == (len(began), len(ended))


@given(lives())
def test_who_joined_left_and_was_replaced_adds_up_to_the_members(life: Coordinator) -> None:
    """A reader of events alone knows who is in the group, as long as the history is full."""
    events, described = at_once(life.log)
    present: set[str] = set()
    for event in events:
        fact = event.fact
        assert event.history is History.FULL
        if fact.NAME == "member.joined":
            assert fact.member_id not in present
            present.add(fact.member_id)
        elif fact.NAME == "member.left":
            present.remove(fact.member_id)
        elif fact.NAME == "static.replaced":
            present.remove(fact.old_member_id)
            present.add(fact.new_member_id)
        elif fact.NAME == "rebalance.completed":
            assert {one.member_id for one in fact.members} >= {*fact.joined, *fact.kept}
    assert present == {one["member_id"] for one in described["members"]}


@given(lives(), st.data())
def test_compaction_leads_to_the_same_group(life: Coordinator, data: st.DataObject) -> None:
    """Everything below any record cleaned, tombstones below any other dropped: the end is the same."""
    records = placed(life.log)
    c = data.draw(st.integers(1, len(records)))
    group, _ = cleaned_and_replayed(records, data.draw(st.integers(0, c - 1)), c)
    whole, short = at_once(life.log)[1], group.describe()
    steady = ("type", "state", "generation", "group_epoch", "target_epoch", "members", "offsets")
    if whole["state"] == "Dead":
        # The kind of what is gone need not be known.
        steady = ("state", "members", "offsets")
    assert {name: short[name] for name in steady} == {name: whole[name] for name in steady}


@given(lives(), st.data())
def test_compaction_leads_to_nothing_untrue(life: Coordinator, data: st.DataObject) -> None:
    """What is said with a full history after the log was cleaned up to the end of an operation."""
    records = placed(life.log)
    c = data.draw(st.sampled_from([end for end, _ in life.edges]))
    _, events = cleaned_and_replayed(records, data.draw(st.integers(0, c - 1)), c)
    assert untrue(events, at_once(life.log)[0]) == []


def cleaned_and_replayed(records: Sequence[Raw], p: int, c: int) -> tuple[Group, list[Event]]:
    """The group of a log that is cleaned below c, and what it says."""
    group = Group(GROUP, NAMED)
    events = group.apply(observed(settled(records, p, c)), 0)
    return group, events + group.expire(records[-1].at + 1)


@pytest.mark.parametrize("happening", list(_HAPPENINGS))
def test_every_happening_can_happen(happening: str) -> None:
    """The generator is not vacuous: after a suitable beginning each of them writes something."""
    beginnings: list[Callable[[Coordinator], object]] = [
        lambda life: None,
        lambda life: (life.join("a"), life.join("b")),
        lambda life: (life.join("b"), life.join("a-1", instance="i-a"), life.settle(), life.leave("b")),
        lambda life: (life.join("b", regex="t.*"), life.join("c-1", instance="i-c"), life.away("c-1")),
        lambda life: (life.join("b"), life.leave("b")),
        lambda life: life.classic_round("b"),
        lambda life: (life.classic_round("b"), life.upgrade("na")),
    ]
    wrote = []
    for begin in beginnings:
        life = Coordinator()
        begin(life)
        before = len(life.log)
        _HAPPENINGS[happening](life, "a")
        wrote.append(len(life.log) > before)
    assert any(wrote)
