"""What is summed up where a document would be too large."""

from __future__ import annotations

from groupreplay.timeline.document import MIXED, ConditionBar, LaneMark, PartitionRow, StateBar, Tenure
from groupreplay.timeline.limits import (
    TimelineLimits,
    coarser_holdings,
    coarser_rows,
    coarser_states,
    coarser_tenures,
    kept_conditions,
    kept_marks,
    kept_rows,
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


def tenure(name: str, since: int, until: int | None, members: int = 1) -> Tenure:
    """A member between two seconds, which then left."""
    until_ms = None if until is None else until * SECOND
    return Tenure(member_id=name, since_ms=since * SECOND, until_ms=until_ms, reason="left", members=members)


def test_tenures() -> None:
    """Members that followed each other soon are one bar with their number; a long one, and a long gap, stay."""
    lane = [
        tenure("a", 0, 60),
        tenure("b", 60, 61),
        tenure("c", 62, 63),
        tenure("d", 63, 64),
        tenure("e", 90, 91),
        tenure("f", 92, None),
    ]
    assert coarser_tenures([lane], 6) == ([lane], 0)
    joined = [tenure("a", 0, 60), tenure("d", 60, 64, 3), tenure("e", 90, 91), tenure("f", 92, None)]
    assert coarser_tenures([lane], 4) == ([joined], 2 * SECOND)


def test_marks() -> None:
    """What bars show anyway goes first, then the oldest; the order stays."""
    marks = {
        0: [
            LaneMark(at_ms=at, name=name, event=None)
            for at, name in ((1, "member.joined"), (2, "static.fenced"))
        ],
        3: [
            LaneMark(at_ms=at, name=name, event=None) for at, name in ((3, "member.left"), (4, "x"), (5, "y"))
        ],
    }
    assert kept_marks(marks, 5) == (marks, 0)
    assert kept_marks(marks, 2) == ({0: [], 3: marks[3][1:]}, 3)


def condition(severity: str, since: int, until: int | None) -> tuple[ConditionBar, str]:
    """A condition between two seconds, and what comes with it."""
    bar = ConditionBar(
        name="rebalance.slow",
        condition_id=f"{severity}{since}",
        severity=severity,
        since_ms=since * SECOND,
        until_ms=None if until is None else until * SECOND,
        subject="",
        text="",
        runbook="",
        events=(),
    )
    return bar, bar.condition_id


def test_conditions() -> None:
    """The most severe ones are kept, of these the longest; one that holds is longer than all."""
    told = [
        condition("INFO", 0, None),
        condition("WARN", 1, 9),
        condition("WARN", 2, 50),
        condition("ERROR", 3, 4),
        condition("WARN", 70, None),
    ]
    assert kept_conditions(told, 5) == told
    assert [name for _, name in kept_conditions(told, 3)] == ["WARN2", "ERROR3", "WARN70"]


def test_rows() -> None:
    """The partitions with the most owners and pauses are kept, in order."""
    rows = [
        PartitionRow(partition=number, owners=((0, 1, 0, 0),) * owners, pauses=((0, 1),) * pauses)
        for number, (owners, pauses) in enumerate(((1, 0), (3, 0), (1, 1), (2, 2)))
    ]
    assert (kept_rows(rows, 4), kept_rows(rows, 2)) == ([0, 1, 2, 3], [1, 3])


def test_less_of_everything() -> None:
    """Scaled limits have at least one of each, and buckets enough for a picture."""
    assert TimelineLimits().scaled(0.5).events == 1_500
    least = TimelineLimits().scaled(0.000_001)
    assert (least.events, least.slots, least.buckets) == (1, 1, 24)
    assert least.scaled(0.5) == least


def test_limits_of_many_documents() -> None:
    """Fifty documents on one page hold less each; one holds what a page of its own does."""
    assert TimelineLimits().of_many(1) == TimelineLimits()
    many = TimelineLimits().of_many(50)
    assert (many.event_bytes, many.slots, many.buckets) == (33_333, 200, 180)
