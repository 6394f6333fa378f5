"""Properties of every history: batches, the order of arrival, restarts and repeats do not change the events."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.state import Event, Group, Observations
from groupreplay.state.output.envelope import cloud_event
from support.histories.builders import GROUP, Raw, observed, read
from support.histories.strategies import WrittenLog, cuts, histories, logs
from support.model.consumer_lives import NAMED

every_kind = pytest.mark.parametrize(
    "log_of", [histories().map(WrittenLog), logs()], ids=["arbitrary classic", "written by a coordinator"]
)


def at_once(records: Sequence[Raw]) -> tuple[list[Event], dict[str, Any]]:
    """The reference: the whole history in one batch."""
    group, events = read(records, NAMED)
    return events, group.describe()


@pytest.mark.parametrize("restarts", [False, True])
@every_kind
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_batches_restarts_repeats_and_arrival_do_not_matter(
    log_of: st.SearchStrategy[WrittenLog], restarts: bool, data: st.DataObject, seed: int
) -> None:
    """Cut anywhere, also within operations, each batch shuffled and applied twice, with or without a restart after it.

    After a rollback of the reader no event is emitted twice.
    """
    records = data.draw(log_of).records
    group, events = Group(GROUP, NAMED), []
    for batch in cuts(data, records):
        seen = observed(batch)
        shuffled = random.Random(seed).sample(list(seen.items), len(seen.items))
        events += group.apply(Observations(items=shuffled, seen_to=seen.seen_to), 0)
        assert group.apply(seen, 0) == []
        group = Group.from_snapshot(GROUP, NAMED, group.snapshot()) if restarts else group
    events += group.expire(records[-1].at + 1)
    assert (events, group.describe()) == at_once(records)


@given(histories(), st.data())
def test_caught_up_time_between_batches_does_not_matter(records: list[Raw], data: st.DataObject) -> None:
    """Earlier knowledge of the log's end changes when an event is emitted, never the event."""
    group, events = Group(GROUP, NAMED), []
    batches = cuts(data, records)
    for batch, after in zip(batches, [*batches[1:], []], strict=True):
        events += group.apply(observed(batch), 0)
        # The log is known up to a moment only when everything before it has been handed over.
        known_ms = after[0].at if after else records[-1].at + 1
        whole = not after or not batch or after[0].at > batch[-1].at
        events += group.expire(known_ms) if whole else []
    events += group.expire(records[-1].at + 1)
    assert (events, group.describe()) == at_once(records)


@every_kind
@given(data=st.data())
def test_ids_are_unique_and_the_same_every_time(
    log_of: st.SearchStrategy[WrittenLog], data: st.DataObject
) -> None:
    """Two runs give byte-equal events, and no two events of a history share an id."""
    records = data.draw(log_of).records
    first, second = (
        [cloud_event(event, NAMED, event.time_ms) for event in at_once(records)[0]] for _ in range(2)
    )
    assert [event.value for event in first] == [event.value for event in second]
    assert len({event.id for event in first}) == len(first)


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
