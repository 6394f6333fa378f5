"""Where batches end: bounded, in tasks of the same size, and with some groups ahead of the others."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from groupreplay.streaming.spark.log_offsets import (
    ActiveGroups,
    LogOffsets,
    batch_end,
    bounded,
    deal,
    is_ahead,
    of_topics,
)

OFFSETS = st.dictionaries(st.integers(0, 60), st.tuples(st.integers(0, 10**12), st.integers(0, 10**7)))
SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 10**6), st.integers(1, 10**6)), max_size=60)


@given(OFFSETS, st.integers(1, 10**7))
def test_a_batch_is_bounded(log: dict[int, tuple[int, int]], most: int) -> None:
    """No partition goes back or past its end, each goes on, and the sum is the bound but for one record of each."""
    starts = {number: start for number, (start, _) in log.items()}
    ends = {number: start + left for number, (start, left) in log.items()}
    planned = bounded(starts, ends, most)
    assert planned.keys() == ends.keys()
    assert all(starts[number] <= at <= ends[number] for number, at in planned.items())
    assert all(planned[number] > starts[number] for number in ends if ends[number] > starts[number])
    assert sum(planned[number] - starts[number] for number in ends) <= most + len(ends)
    if sum(left for _, left in log.values()) <= most:
        assert planned == ends


@given(SPANS, st.integers(1, 8))
def test_spans_are_dealt_evenly(spans: list[tuple[int, int, int]], tasks: int) -> None:
    """Every span is in one task, and no task has more than the smallest one and its own last span."""
    spans = [(number, start, start + length) for number, start, length in spans]
    hands = deal(spans, tasks)
    assert Counter(span for hand in hands for span in hand) == Counter(spans)
    assert len(hands) == min(tasks, len(spans))
    sizes = [sum(end - start for _, start, end in hand) for hand in hands]
    for hand, size in zip(hands, sizes, strict=True):
        assert size - (hand[-1][2] - hand[-1][1]) <= min(sizes)


@given(OFFSETS, st.sets(st.binary(max_size=20)))
def test_offsets_come_back_from_their_json(log: dict[int, tuple[int, int]], groups: set[bytes]) -> None:
    """With and without groups ahead; without, they are the connector's, and other programs see the same topic."""
    plain = LogOffsets({number: start for number, (start, _) in log.items()})
    active = ActiveGroups.of(groups)
    ahead = plain.with_active(active, {number: start + left for number, (start, left) in log.items()})
    for place in (plain, ahead):
        document = through_json(place.to_json("t"))
        assert LogOffsets.from_json(document, "t") == place
        assert of_topics(document) == {"t": plain.next}
        assert is_ahead(document) == (place is ahead)
    assert plain.to_json("t") == {"t": {str(number): start for number, start in sorted(plain.next.items())}}
    assert all(group in active for group in groups)


def through_json(document: dict[str, Any]) -> dict[str, Any]:
    """As Spark gives it back."""
    read: dict[str, Any] = json.loads(json.dumps(document))
    return read


def test_active_groups_come_to_the_end_first() -> None:
    """Alone, in batches of twenty times the offsets; then they stay at the end until the others are there, too."""
    place = LogOffsets({0: 0}).with_active(ActiveGroups.of([b"g"]), {0: 300})
    read = []
    # However fast the log grows, the others are read once those have come to where its end was.
    for end in (300, 400, 500, 900, 910, 920):
        place = batch_end(place, {0: end}, 10 if end < 900 else 895)
        read.append((place.next[0], place.ahead and place.ahead.offsets[0]))
    assert read == [(0, 200), (0, 400), (10, 500), (900, None), (910, None), (920, None)]
    # A trigger without a bound reads everything.
    begun = LogOffsets({0: 5}).with_active(ActiveGroups.of([b"g"]), {0: 9})
    assert batch_end(begun, {0: 9}, None) == LogOffsets({0: 9})
