"""Several lives of one name: a group that is deleted leaves nothing, wherever the batches end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from groupreplay.state.output.envelope import cloud_event
from support.histories.builders import CONTEXT, Raw, placed, read, read_in_batches
from support.histories.strategies import WrittenLog, cuts, histories, logs
from support.model.consumer_lives import NAMED
from support.tools.written_load import short_life

#: The shortest is one operation after the other, the longest makes a group matter that keeps its state.
PAUSES_MS = (1, 27_000, 59_000, 3_600_000, 2 * 24 * 3_600_000)


@st.composite
def short_lives(draw: Any) -> list[Raw]:
    """Groups of one name, each with offsets that are deleted with it."""
    records: list[Raw] = []
    at = 1_000_000
    for _ in range(draw(st.integers(2, 4))):
        records += short_life(at)
        at = records[-1].at + draw(st.sampled_from(PAUSES_MS))
    return placed(records)


@st.composite
def repeated(draw: Any) -> list[Raw]:
    """Histories one after the other, which may end with a deletion."""
    histories_of = st.one_of(histories(), logs().map(lambda log: log.records))
    records: list[Raw] = []
    for _ in range(draw(st.integers(2, 3))):
        history = draw(histories_of)
        after = records[-1] if records else replace(history[0], offset=-1, at=history[0].at - 1)
        by, later = after.offset + 2 - history[0].offset, after.at + draw(st.sampled_from(PAUSES_MS))
        records += [
            replace(raw, offset=raw.offset + by, at=raw.at - history[0].at + later) for raw in history
        ]
    return records


def check(records: list[Raw], data: st.DataObject, context: Any) -> None:
    """A driver that keeps no state of a group that is gone emits what a replay in one batch emits."""
    end_ms = records[-1].at + 1
    whole, expected = read(records, context)
    group, events = read_in_batches(cuts(data, records), context, end_ms)
    assert [cloud_event(event, context, event.time_ms).value for event in events] == [
        cloud_event(event, context, event.time_ms).value for event in expected
    ]
    assert group.describe() == whole.describe()


@given(short_lives(), st.data())
def test_lives_of_one_name_know_nothing_of_each_other(records: list[Raw], data: st.DataObject) -> None:
    """Each reports its deleted offsets, also within the minute in which one group would not repeat them."""
    check(records, data, CONTEXT)
    names = [event.fact.NAME for event in read(records)[1]]
    assert names.count("offsets.deleted") == names.count("group.deleted") == names.count("group.created")


@given(repeated(), st.data())
def test_histories_one_after_the_other(records: list[Raw], data: st.DataObject) -> None:
    """Cut anywhere, whatever a group was before."""
    assert WrittenLog(records).ends
    check(records, data, NAMED)
