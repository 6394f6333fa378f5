"""Offsets that are set from outside, in lives of a group of the coordinator model: each is reported, no other is."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from groupreplay.state import Event, Group
from groupreplay.state.events.offset_events import OffsetsSet
from groupreplay.state.replay.offset_sets import OCCASION_MS
from support.histories.builders import CONTEXT, GROUP, observed, read
from support.model.classic_clients import Clients

COMPLETE = replace(CONTEXT, complete_since_ms=0)
#: (time of the first set, partition -> offset before and after)
Occasion = tuple[int, dict[int, tuple[int | None, int]]]


@dataclass
class Life:
    """A group of one member that comes and goes, and strangers that commit; what the coordinator accepts is known."""

    clients: Clients = field(default_factory=Clients)
    offsets: dict[int, int] = field(default_factory=dict)
    sets: list[tuple[int, int, int | None, int]] = field(default_factory=list)

    def act(self, kind: str, partition: int, offset: int) -> None:
        """One step; a step that is impossible at the moment has no effect."""
        if kind == "come" and not self.clients.member_ids:
            self.clients.stable("c")
        elif kind == "leave" and self.clients.member_ids:
            self.clients.leave(self.clients.member_ids[0])
        elif kind == "work" and self.clients.member_ids:
            (member_id,), generation = self.clients.member_ids, self.clients.group.generation
            answer = self.clients.commit(
                offset, partition=partition, member_id=member_id, generation=generation
            )
            assert answer == "NONE"
            self.offsets[partition] = offset
        elif kind == "set":
            answer = self.clients.commit(offset, partition=partition)
            # Kafka's rule, by the coordinator model: strangers may commit while nobody is a member.
            assert (answer == "NONE") == (not self.clients.member_ids)
            if answer == "NONE":
                self.sets.append((self.clients.now, partition, self.offsets.get(partition), offset))
                self.offsets[partition] = offset

    def occasions(self) -> list[Occasion]:
        """The sets, by the book; without those that changed nothing."""
        found: list[Occasion] = []
        for at_ms, partition, before, after in self.sets:
            if before == after:
                continue
            if not found or at_ms >= found[-1][0] + OCCASION_MS:
                found.append((at_ms, {}))
            first, _ = found[-1][1].get(partition, (before, after))
            found[-1][1][partition] = (first, after)
        changed = [(at, {p: one for p, one in moves.items() if one[0] != one[1]}) for at, moves in found]
        return [(at, moves) for at, moves in changed if moves]


@st.composite
def lives(draw: Any) -> Life:
    """A group that has had a member and an offset before anything else happens."""
    life = Life()
    life.act("come", 0, 0)
    life.act("work", 0, 100)
    for _ in range(draw(st.integers(1, 15))):
        life.clients.wait(draw(st.sampled_from([1_000, 4_000, 30_000, 200_000, 3_600_000])))
        kind = draw(st.sampled_from(["come", "leave", "leave", "work", "set", "set", "set"]))
        life.act(kind, draw(st.integers(0, 1)), draw(st.integers(0, 300)))
    return life


def told(events: list[Event]) -> list[Occasion]:
    """The events in the form of the reference."""
    return [
        (event.time_ms, {one.partition: (one.from_offset, one.to_offset) for one in event.fact.partitions})
        for event in events
        if isinstance(event.fact, OffsetsSet)
    ]


@given(lives(), st.data())
def test_every_set_is_reported_and_nothing_else(life: Life, data: st.DataObject) -> None:
    """With the offsets before and after, once; a steady pace is silent after it was reported. Batches do not matter."""
    records, end_ms = life.clients.log, life.clients.now + OCCASION_MS
    _, events = read(records, COMPLETE, end_ms)
    expected, found = life.occasions(), told(events)
    paces = [one for one in events if isinstance(one.fact, OffsetsSet) and one.fact.interval_ms is not None]
    assert [one for one in expected if one in found] == found
    assert found == expected or paces

    cuts = sorted({raw.at for raw in records if data.draw(st.booleans())})
    blob, pieces = Group(GROUP, COMPLETE).snapshot(), list[Event]()
    for low, high in pairwise([-1, *cuts, end_ms]):
        group = Group.from_snapshot(GROUP, COMPLETE, blob)
        pieces += group.apply(observed([raw for raw in records if low < raw.at <= high]), high)
        blob = group.snapshot()
    assert told(pieces) == found
