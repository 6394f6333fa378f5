"""What is summed up where a document would be too large."""

from __future__ import annotations

from groupreplay.state.timeline.document import MIXED, PartitionRow, StateBar
from groupreplay.state.timeline.limits import (
    TimelineLimits,
    coarser_holdings,
    coarser_rows,
    coarser_states,
    longest_pauses,
)

SECOND = 1_000


def bar(state: str, since: int, until: int | None) -> StateBar:
    """A state between two seconds."""
    return StateBar(
        state=state,
        group_type="classic",
        since_ms=since * SECOND,
        earliest_ms=since * SECOND,
        until_ms=None if until is None else until * SECOND,
        evidence="record",
        generation=1,
        offset=1,
    )


def test_owners() -> None:
    """Neighbours that are shorter than the joined length become one span with the number of changes; long ones stay."""
    owners = (
        (0, 60_000, 0, 0),
        *((60_000 + at * 500, 60_500 + at * 500, at % 2, 0) for at in range(20)),
        (70_000, 99_000, 1, 0),
    )
    rows = [PartitionRow(partition=0, owners=owners, pauses=())]
    assert coarser_rows(rows, 100) == (rows, 0)
    (row,), shortest_ms = coarser_rows(rows, 5)
    assert (row.owners, shortest_ms) == (
        ((0, 60_000, 0, 0), (60_000, 70_000, MIXED, 20), (70_000, 99_000, 1, 0)),
        1_000,
    )


def test_states() -> None:
    """First CompletingRebalance becomes a part of what is before it, then short neighbours are joined."""
    bars = [
        bar("Stable", 0, 60),
        bar("PreparingRebalance", 60, 63),
        bar("CompletingRebalance", 63, 64),
        bar("Stable", 64, 66),
        bar("PreparingRebalance", 66, 70),
        bar("Stable", 70, None),
    ]
    assert coarser_states(bars, 6) == (bars, 0)
    shown = [
        (one.state, one.since_ms // SECOND, one.until_ms and one.until_ms // SECOND, one.evidence)
        for one in coarser_states(bars, 5)[0]
    ]
    assert shown == [
        ("Stable", 0, 60, "record"),
        ("PreparingRebalance", 60, 64, "summed"),
        ("Stable", 64, 66, "record"),
        ("PreparingRebalance", 66, 70, "record"),
        ("Stable", 70, None, "record"),
    ]
    found, shortest_ms = coarser_states(bars, 3)
    assert [(one.state, one.since_ms // SECOND) for one in found] == [
        ("Stable", 0),
        ("PreparingRebalance", 60),
        ("Stable", 70),
    ]
    assert shortest_ms == 8_000


def test_holdings() -> None:
    """Short neighbours become one; a gap between them stays."""
    spans = ((0, 500, 1), (500, 900, 2), (1_500, 1_900, 3), (1_900, 60_000, 4))
    assert coarser_holdings([spans], 10) == ([spans], 0)
    assert coarser_holdings([spans], 3) == ([((0, 900, 2), (1_500, 1_900, 3), (1_900, 60_000, 4))], 1_000)


def test_pauses() -> None:
    """The longest ones are kept, and the others counted."""
    rows = [
        PartitionRow(partition=0, owners=(), pauses=((0, 10), (20, 90))),
        PartitionRow(partition=1, owners=(), pauses=((0, 50),)),
    ]
    kept, left_out = longest_pauses(rows, 2)
    assert ([row.pauses for row in kept], left_out) == ([((20, 90),), ((0, 50),)], 1)


def test_limits_of_many_documents() -> None:
    """Fifty documents on one page hold less each; one holds what a page of its own does."""
    assert TimelineLimits().of_many(1) == TimelineLimits()
    many = TimelineLimits().of_many(50)
    assert (many.event_bytes, many.slots, many.buckets) == (60_000, 200, 180)
