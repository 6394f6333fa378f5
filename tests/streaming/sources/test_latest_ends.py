"""Ends in bounded memory: all of them while there are few, never wrong when there are many; packing loses none."""

from __future__ import annotations

import zlib
from array import array
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.streaming.contract.partition_ends import EndsRound, PartitionEnds, TopicEnds
from groupreplay.streaming.sources import latest_ends
from groupreplay.streaming.sources.latest_ends import (
    WIDTH,
    LatestEnds,
    Series,
    packed_series,
    unpacked_series,
)
from groupreplay.streaming.sources.recorded_ends import RecordedEnds
from groupreplay.timeline.lag import Committed, Range, lag_at
from support.job.probes import CLUSTER_ID, ends_round, topic_ends

_NUMBERS = st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=WIDTH, max_size=WIDTH)
_ABOUT = st.tuples(st.sampled_from(["", "id", "other"]), st.sampled_from(["", "no answer"]))
_SERIES = st.builds(
    lambda topic, partition, spans: Series(
        topic,
        partition,
        "w",
        array("q", [number for numbers, _ in spans for number in numbers]),
        [about for _, about in spans],
    ),
    st.text(),
    st.integers(0, 9),
    st.lists(st.tuples(_NUMBERS, _ABOUT), min_size=1, max_size=5),
)


@given(st.lists(_SERIES, max_size=6), st.integers(1, 8))
def test_series_are_the_same_again(series: list[Series], chunk_spans: int) -> None:
    """Any numbers, in any number of chunks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(latest_ends, "_CHUNK_SPANS", chunk_spans)
        chunks = list(packed_series(series))
    assert [one for chunk in chunks for one in unpacked_series(chunk)] == series


def test_a_chunk_that_is_damaged() -> None:
    """It is an error, and no other series."""
    (chunk,) = packed_series([Series("t", 0, "w", array("q", range(2 * WIDTH)), [("id", "")] * 2)])
    for damaged in (b"", chunk[:-6], chunk[:20] + b"???" + chunk[23:]):
        with pytest.raises((zlib.error, msgspec.MsgspecError, ValueError)):
            list(unpacked_series(damaged))


@given(st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=1, max_size=45), st.data())
def test_a_memory_goes_on(grown: list[list[int]], data: st.DataObject) -> None:
    """Packed and unpacked at any moment, it has the same spans then and after all that follows."""
    latest, ends = LatestEnds(CLUSTER_ID, 150), [0, 0, 0]
    stop = data.draw(st.integers(0, len(grown)))
    other = LatestEnds(CLUSTER_ID, 150)
    for number, records in enumerate(grown):
        if number == stop:
            other.unpack(latest.packed())
        ends = [end + more for end, more in zip(ends, records, strict=True)]
        changes = {place: PartitionEnds(0, end, end) for place, end in enumerate(ends) if records[place]}
        taken_ms = 60_000 * (number + 1)
        for message in (
            topic_ends(number, changes, taken_ms=taken_ms),
            ends_round(number, taken_ms=taken_ms),
        ):
            latest.add(message)
            if number >= stop:
                other.add(message)
    if stop == len(grown):
        other.unpack(latest.packed())
    assert [other.spans("t", place) for place in range(3)] == [latest.spans("t", place) for place in range(3)]
    assert (other.answered_ms, other.packed()) == (latest.answered_ms, latest.packed())


def test_a_day_of_a_hundred_partitions_is_small() -> None:
    """A span takes 48 bytes of memory and less than four of the file, where rounds and growth are fairly regular."""
    latest = LatestEnds(CLUSTER_ID, 288_000)
    for number in range(200):
        grown = {place: 100 * number + (number * place) % 7 for place in range(100)}
        ends = {place: PartitionEnds(0, end, end) for place, end in grown.items()}
        taken_ms = 30_000 * number + number % 11
        latest.add(topic_ends(number, ends, taken_ms=taken_ms))
        latest.add(ends_round(number, taken_ms=taken_ms))
    assert len(latest.packed()) < 4 * 200 * 100


def rounds_of(grown: list[int]) -> list[TopicEnds | EndsRound]:
    """A round each minute, in which the end has grown by so much; only what has changed is written."""
    messages, end = list[TopicEnds | EndsRound](), 0
    for number, records in enumerate(grown):
        end += records
        if records or not number:
            messages.append(
                topic_ends(number, {0: PartitionEnds(0, end, end)}, taken_ms=60_000 * (number + 1))
            )
        messages.append(ends_round(number, taken_ms=60_000 * (number + 1)))
    return messages


def both(messages: list[TopicEnds | EndsRound]) -> tuple[LatestEnds, RecordedEnds]:
    """The messages in bounded memory, and all of them."""
    latest, recorded = LatestEnds(CLUSTER_ID), RecordedEnds(CLUSTER_ID)
    for message in messages:
        latest.add(message)
        recorded.add(message)
    return latest, recorded


@given(st.lists(st.integers(0, 3), min_size=1, max_size=20))
def test_few_spans_are_all_of_them(grown: list[int]) -> None:
    """As long as nothing is left out."""
    latest, recorded = both(rounds_of(grown))
    assert latest.spans("t", 0) == recorded.spans("t", 0)


@given(st.lists(st.integers(0, 3), min_size=30, max_size=120), st.integers(0, 50), st.integers(1, 130))
def test_what_is_left_out_makes_bounds_wider(grown: list[int], offset: int, minutes: int) -> None:
    """Every bound that all answers prove lies within the wider ones; the memory is bounded."""
    latest, recorded = both(rounds_of(grown))
    spans = latest.spans("t", 0)
    assert len(spans) <= 24
    at_ms, committed = 60_000 * minutes, Committed(offset, None)
    wide, narrow = (lag_at(each, committed, at_ms) for each in (spans, recorded.spans("t", 0)))
    for outer, inner in ((wide.records, narrow.records), (wide.time_ms, narrow.time_ms)):
        assert outer is None or inner is None or is_within(inner, outer)


@given(
    st.lists(st.lists(st.sampled_from((0, 1, 3, -2)), min_size=3, max_size=3), min_size=30, max_size=150),
    st.integers(0, 90),
    st.integers(1, 160),
)
def test_partitions_share_the_spans(grown: list[list[int]], offset: int, minutes: int) -> None:
    """Each has a part of what all may have, and a log that was cut stays cut; bounds are wider, and never wrong."""
    latest, recorded = LatestEnds(CLUSTER_ID, 150), RecordedEnds(CLUSTER_ID)
    ends, at_ms, committed = [0, 0, 0], 60_000 * minutes, Committed(offset, None)
    for number, records in enumerate(grown):
        now = [max(0, end + more) for end, more in zip(ends, records, strict=True)]
        changes = {
            place: PartitionEnds(0, end, end)
            for place, end in enumerate(now)
            if end != ends[place] or not number
        }
        taken_ms, ends = 60_000 * (number + 1), now
        for message in (
            *([topic_ends(number, changes, taken_ms=taken_ms)] if changes else []),
            ends_round(number, taken_ms=taken_ms),
        ):
            latest.add(message)
            recorded.add(message)
    for place in range(3):
        spans = latest.spans("t", place)
        assert len(spans) <= 150
        wide, narrow = (lag_at(each, committed, at_ms) for each in (spans, recorded.spans("t", place)))
        for outer, inner in ((wide.records, narrow.records), (wide.time_ms, narrow.time_ms)):
            assert outer is None or inner is None or is_within(inner, outer)


def test_older_spans_are_further_apart() -> None:
    """Of a day of rounds a partition keeps the last hours, and a span for each part of its age before."""
    latest = LatestEnds(CLUSTER_ID, 400)
    for message in rounds_of([1] * 1_440):
        latest.add(message)
    minutes = [(1_440 * 60_000 + 100 - span.first_ms) // 60_000 for span in latest.spans("t", 0)]
    assert 200 <= len(minutes) <= 400
    assert minutes[-200:] == list(range(199, -1, -1))
    gaps = [(older - newer) / older for older, newer in pairwise(minutes) if newer > 200]
    assert max(gaps) < 0.1


def is_within(inner: Range, outer: Range) -> bool:
    """Whether the bounds of one are within those of the other."""
    most = outer.most is None or (inner.most is not None and inner.most <= outer.most)
    return outer.least <= inner.least and most


def test_deleted_topic_and_another_writer() -> None:
    """A topic that is gone has no ends, and another prober goes on with the same ones."""
    latest = LatestEnds(CLUSTER_ID)
    ends = {0: PartitionEnds(0, 5, 5)}
    for message in (
        topic_ends(0, ends, taken_ms=1_000),
        ends_round(0, taken_ms=1_000),
        topic_ends(0, ends, taken_ms=9_000, writer="other"),
        ends_round(0, taken_ms=9_000, writer="other"),
        ends_round(1, taken_ms=12_000, writer="other"),
    ):
        latest.add(message)
    (span,) = latest.spans("t", 0)
    assert (span.first_ms, span.last_ms, span.end) == (1_100, 12_000, 5)
    latest.add(topic_ends(2, {}, taken_ms=20_000, writer="other", gone=True))
    assert latest.spans("t", 0)[-1].unknown
    assert latest.spans("t", 1) == ()
