"""Spans as few bytes: what is unpacked is what was packed."""

from __future__ import annotations

import zlib
from array import array

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.streaming.contract.partition_ends import PartitionEnds
from groupreplay.streaming.sources import packed_ends
from groupreplay.streaming.sources.latest_ends import LatestEnds
from groupreplay.streaming.sources.packed_ends import WIDTH, Series, packed_series, unpacked_series
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
        patch.setattr(packed_ends, "_CHUNK_SPANS", chunk_spans)
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
