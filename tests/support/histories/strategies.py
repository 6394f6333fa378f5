"""Hypothesis strategies for the log of one group: arbitrary records of a classic group, and what coordinators write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from groupreplay.coordinator.requests import Settings
from groupreplay.state.snapshot.observations import SILENCE_MS
from support.histories.builders import (
    Raw,
    asked_for,
    commit,
    emptied,
    generation,
    gone,
    member,
    no_offset,
    placed,
)
from support.histories.group_writer import GroupWriter
from support.model.consumer_clients import ConsumerClients
from support.model.consumer_lives import HAPPENINGS as MODEL_HAPPENINGS
from support.model.consumer_lives import WAITS_MS

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
    """One operation of a broker, or records that no broker writes: the replay must accept both."""
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
        return [commit(topic, partition, offset, at=at) for (topic, partition), offset in offsets]
    dropped = [
        no_offset(topic, partition, at=at)
        for topic, partition in draw(st.lists(places, min_size=1, max_size=3))
    ]
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


_DAY_MS = 24 * 3_600_000
#: How a group has lost its members, or never had any.
_BEGINNINGS = (
    [asked_for(at=1_010), emptied(2, at=10_020)],
    [generation(1, member("a", [0]), at=1_000), commit("t", 0, 5, at=2_000), emptied(2, at=10_020)],
    [commit("t", 0, 5, at=1_000), commit("u", 0, 5, at=1_000)],
)


@st.composite
def outlived(draw: Any) -> list[Raw]:
    """Requests into a group without members, near the end of the retention and after it.

    Each commits or deletes offsets of several partitions; some are of one moment.
    """
    records = [*draw(st.sampled_from(_BEGINNINGS))]
    at = records[-1].at
    places = st.tuples(st.sampled_from(TOPICS), st.integers(0, 3))
    for _ in range(draw(st.integers(1, 5))):
        at += draw(st.sampled_from([0, SILENCE_MS, 3 * _DAY_MS, 6 * _DAY_MS, 8 * _DAY_MS]))
        request = draw(st.lists(places, min_size=1, max_size=4, unique=True))
        deletes = draw(st.integers(0, 4)) == 0
        records += [
            no_offset(topic, partition, at=at)
            if deletes
            else commit(topic, partition, draw(st.integers(0, 50)), at=at)
            for topic, partition in request
        ]
    return placed(records)


@dataclass(frozen=True)
class WrittenLog:
    """A log in which every operation is complete; ``ends`` are the numbers of records up to the end of each."""

    records: list[Raw]

    @property
    def ends(self) -> list[int]:
        """Records of an operation have adjacent offsets."""
        gaps = [one.offset + 1 != other.offset for one, other in pairwise(self.records)]
        return [number for number, gap in enumerate([*gaps, True], start=1) if gap]


MEMBERS = ("a", "b", "c")


def _present(writer: GroupWriter, name: str) -> str:
    """A member of the group, if it has any."""
    names = sorted(writer.members)
    return names[MEMBERS.index(name) % len(names)] if names else name


#: What may happen to a group, with a member each. The writer ignores what its group cannot do now.
HAPPENINGS: dict[str, Callable[[GroupWriter, str], None]] = {
    "join": lambda writer, name: writer.join(name),
    "join with a regex": lambda writer, name: writer.join(name, regex="t.*"),
    "join with other topics": lambda writer, name: writer.join(name, topics=("t", "u")),
    "heartbeat": lambda writer, name: writer.heartbeat(name),
    "settle": lambda writer, name: writer.settle(),
    "leave": lambda writer, name: writer.leave(_present(writer, name)),
    "be fenced": lambda writer, name: writer.leave(_present(writer, name), fenced=True),
    "move": lambda writer, name: writer.move(_present(writer, name)),
    "find a new partition": lambda writer, name: writer.grow(_present(writer, name)),
    "resolve again": lambda writer, name: writer.refresh(),
    "commit": lambda writer, name: writer.commit(MEMBERS.index(name), writer.at),
    "delete": lambda writer, name: writer.delete(),
}
_LIKELY = ("join", "heartbeat", "settle", "leave")


@st.composite
def writers(draw: Any) -> GroupWriter:
    """A group after up to 18 happenings."""
    # The assignment interval and 2 as first epoch came with 4.3.
    first_epoch, interval = draw(st.sampled_from([(1, False), (2, False), (2, True)]))
    kind = draw(st.sampled_from(["consumer", "share", "streams"]))
    writer = GroupWriter(kind=kind, first_epoch=first_epoch, interval=interval)
    choices = st.sampled_from([*HAPPENINGS, *_LIKELY])
    happenings = draw(st.lists(st.tuples(choices, st.sampled_from(MEMBERS)), min_size=1, max_size=18))
    for happening, name in [("join", "a"), *happenings]:
        HAPPENINGS[happening](writer, name)
    return writer


@st.composite
def model_logs(draw: Any) -> WrittenLog:
    """The log of the coordinator model after up to 18 happenings to classic and KIP-848 members."""
    clients = ConsumerClients(Settings(consumer_assignment_interval_ms=draw(st.sampled_from([0, 1_000]))))
    happenings = st.tuples(
        st.sampled_from(list(MODEL_HAPPENINGS)), st.integers(0, 5), st.sampled_from(WAITS_MS)
    )
    beginning = draw(st.sampled_from(["enter", "a classic group", "classic: join"]))
    for happening, who, wait_ms in [(beginning, 0, 3_000), *draw(st.lists(happenings, max_size=18))]:
        MODEL_HAPPENINGS[happening](clients, who)
        clients.wait(wait_ms)
    return WrittenLog(clients.log)


def logs() -> st.SearchStrategy[WrittenLog]:
    """Logs of the model, and of a writer for groups that the model does not have."""
    return model_logs() | writers().map(lambda writer: WrittenLog(placed(writer.log)))


def cuts(data: st.DataObject, records: Sequence[Raw]) -> list[Sequence[Raw]]:
    """The records cut into batches anywhere, also within operations."""
    at = sorted(data.draw(st.sets(st.integers(0, len(records))), label="cuts") | {0, len(records)})
    return [records[low:high] for low, high in pairwise(at)]
