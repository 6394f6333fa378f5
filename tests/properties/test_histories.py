"""Properties for arbitrary classic histories: batches, the order of arrival and restarts do not change the events."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from groupreplay.state import Event, Group, Observations
from groupreplay.state.output.envelope import cloud_event
from support.histories.builders import CONTEXT, GROUP, Raw, observed
from support.histories.strategies import cuts, histories


def at_once(records: list[Raw]) -> tuple[list[Event], dict[str, Any]]:
    """The reference: the whole history in one batch."""
    group = Group(GROUP, CONTEXT)
    events = group.apply(observed(records), 0)
    return events + group.expire(records[-1].at + 1), group.describe()


@given(histories(), st.data())
def test_how_it_is_cut_into_batches_does_not_matter(records: list[Raw], data: st.DataObject) -> None:
    """Any cut, through an operation too, gives the same events and the same group."""
    group, events = Group(GROUP, CONTEXT), []
    for batch in cuts(data, records):
        events += group.apply(observed(batch), 0)
    events += group.expire(records[-1].at + 1)
    assert (events, group.describe()) == at_once(records)


@given(histories(), st.data())
def test_snapshot_and_restore_anywhere_do_not_matter(records: list[Raw], data: st.DataObject) -> None:
    """A group that is restored from a snapshot after every batch, also within operations."""
    blob, events = Group(GROUP, CONTEXT).snapshot(), []
    for batch in cuts(data, records):
        group = Group.from_snapshot(GROUP, CONTEXT, blob)
        events += group.apply(observed(batch), 0)
        blob = group.snapshot()
    group = Group.from_snapshot(GROUP, CONTEXT, blob)
    events += group.expire(records[-1].at + 1)
    assert (events, group.describe()) == at_once(records)


@given(histories(), st.data(), st.integers(0, 2**32))
def test_the_order_of_arrival_in_a_batch_does_not_matter(
    records: list[Raw], data: st.DataObject, seed: int
) -> None:
    """Rows of one group arrive in any order; the log's order counts."""
    group, events = Group(GROUP, CONTEXT), []
    for batch in cuts(data, records):
        seen = observed(batch)
        shuffled = random.Random(seed).sample(list(seen.items), len(seen.items))
        events += group.apply(Observations(items=shuffled, seen_to=seen.seen_to), 0)
    events += group.expire(records[-1].at + 1)
    assert (events, group.describe()) == at_once(records)


@given(histories(), st.data())
def test_a_repeated_batch_emits_nothing(records: list[Raw], data: st.DataObject) -> None:
    """Applied records are ignored: after a rollback of the reader no event is emitted twice."""
    group, events = Group(GROUP, CONTEXT), []
    for batch in cuts(data, records):
        events += group.apply(observed(batch), 0)
        assert group.apply(observed(batch), 0) == []
    events += group.expire(records[-1].at + 1)
    assert (events, group.describe()) == at_once(records)


@given(histories(), st.data())
def test_caught_up_time_between_batches_does_not_matter(records: list[Raw], data: st.DataObject) -> None:
    """Earlier knowledge of the log's end changes when an event is emitted, never the event."""
    group, events = Group(GROUP, CONTEXT), []
    batches = cuts(data, records)
    for batch, after in zip(batches, [*batches[1:], []], strict=True):
        events += group.apply(observed(batch), 0)
        # The log is known up to a moment only when everything before it has been handed over.
        known_ms = after[0].at if after else records[-1].at + 1
        whole = not after or not batch or after[0].at > batch[-1].at
        events += group.expire(known_ms) if whole else []
    events += group.expire(records[-1].at + 1)
    assert (events, group.describe()) == at_once(records)


@given(histories())
def test_ids_are_unique_and_the_same_every_time(records: list[Raw]) -> None:
    """Two runs give byte-equal events, and no two events of a history share an id."""
    first, _ = at_once(records)
    second, _ = at_once(records)
    written = [cloud_event(event, CONTEXT, event.time_ms) for event in first]
    assert [event.value for event in written] == [
        cloud_event(event, CONTEXT, event.time_ms).value for event in second
    ]
    assert len({event.id for event in written}) == len(written)


@given(histories())
def test_compaction_leads_to_the_same_group(records: list[Raw]) -> None:
    """The last record of every key alone leads to the same members, generation and offsets.

    A simple group without offsets leaves no record from which a later reader could know it.
    """
    last = {raw.key: raw for raw in records}
    compacted = [raw for raw in records if last[raw.key] is raw]
    _, whole = at_once(records)
    _, short = at_once(compacted)
    steady = ("group_id", "type", "state", "generation", "protocol", "leader", "members", "offsets")
    if whole["simple"] and not whole["offsets"] and whole["generation"] is None:
        steady = tuple(name for name in steady if name != "state")
    assert {name: short[name] for name in steady} == {name: whole[name] for name in steady}
