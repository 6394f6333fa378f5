"""Marks of a simulated coordinator's trace: on which lane, and which are left out first."""

from __future__ import annotations

from typing import Any

from groupreplay.timeline.document import TraceMark
from groupreplay.timeline.lanes import Lanes
from groupreplay.timeline.rows import Window
from groupreplay.timeline.trace_marks import trace_marks

LANES = Lanes(slot_of={"m": 3})
WINDOW = Window(0, 100)


def entry(at_ms: int, kind: str, **fields: Any) -> dict[str, Any]:
    """A line of a trace."""
    return {"time_ms": at_ms, "group_id": "g", "kind": kind, **fields}


TRACE = [
    entry(1, "request", api="JoinGroup", member_id="m"),
    entry(2, "answer", api="JoinGroup", member_id="m", error="NONE", waited_ms=1),
    entry(3, "answer", api="Heartbeat", member_id="m", error="REBALANCE_IN_PROGRESS", waited_ms=0),
    entry(4, "request", api="Heartbeat", member_id="m"),
    entry(5, "timer", timer="session", change="fired", member_id="m"),
    entry(6, "rebalance", reason="Adding \x1b new member"),
    entry(7, "state", before="Empty", after="Stable"),
    entry(100, "request", api="JoinGroup", member_id="m"),
    {**entry(8, "request", api="JoinGroup"), "group_id": "other"},
    {"kind": "request"},
]


def test_marks() -> None:
    """Requests, answers, timers and rebalances of the group in the time, on the lane of their member."""
    found, left_out = trace_marks(TRACE, "g", WINDOW, LANES, {3: 0}, 100)
    assert (found, left_out) == (
        [
            TraceMark(at_ms=1, slot=0, kind="request", text="JoinGroup", failed=False),
            TraceMark(
                at_ms=2, slot=0, kind="answer", text="JoinGroup answered NONE after 1 ms", failed=False
            ),
            TraceMark(
                at_ms=3,
                slot=0,
                kind="answer",
                text="Heartbeat answered REBALANCE_IN_PROGRESS after 0 ms",
                failed=True,
            ),
            TraceMark(at_ms=4, slot=0, kind="request", text="Heartbeat", failed=False),
            TraceMark(at_ms=5, slot=0, kind="timer", text="session timer fired", failed=False),
            TraceMark(
                at_ms=6,
                slot=None,
                kind="rebalance",
                text="rebalance: Adding \\u{1b} new member",
                failed=False,
            ),
        ],
        0,
    )


def test_what_is_left_out_first() -> None:
    """Heartbeats and answers without an error; failures, rebalances and fired timers stay."""
    found, left_out = trace_marks(TRACE, "g", WINDOW, LANES, {3: 0}, 3)
    assert ([mark.at_ms for mark in found], left_out) == ([3, 5, 6], 3)
