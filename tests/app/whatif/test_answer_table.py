"""The answer for people."""

from __future__ import annotations

from groupreplay.app.whatif.answer_table import answer_table, summary_lines
from groupreplay.streaming.base.clock import UTC
from groupreplay.timeline.whatif.answer import Answer, cost_answers
from groupreplay.timeline.whatif.costs import Cost


def answer(played: int) -> Answer:
    """Two rebalances are recorded, so many are played."""
    recorded = {Cost.REBALANCES: 2, Cost.STOPPED_MS: 61_000, Cost.MOVED: 4, Cost.LOST: 0}
    other = {Cost.REBALANCES: 0, Cost.STOPPED_MS: 31_000, Cost.MOVED: 0, Cost.LOST: 0}
    costs = cost_answers(recorded, [{**recorded, Cost.REBALANCES: played, Cost.MOVED: 5}], [other])
    return Answer(
        group_id="g",
        since_ms=1_767_225_600_000,
        until_ms=1_767_229_200_000,
        draws=50,
        seed=0,
        changed={"group.instance.id": "auto"},
        settings={"session.timeout.ms": 45_000, "heartbeat.interval.ms": 3_000},
        assumed={"heartbeat.interval.ms": 3_000},
        answered=costs[0].reproduced,
        costs=costs,
        notes=("a note",),
    )


def test_the_table() -> None:
    """Differences have a sign; what is not reproduced has no number."""
    assert answer_table(answer(2)).rows == [
        ("rebalances", "2", "2", "0", "-2"),
        ("partitions stood still", "1 min 1 s", "1 min 1 s", "30.4 s to 31.6 s", "-30.6 s to -29.4 s"),
        ("partitions moved", "4", "5", "not reproduced", None),
        ("offsets lost", "0", "0", "0", "0"),
    ]
    assert [row[3] for row in answer_table(answer(3)).rows] == [
        *("not reproduced", "not answered", "not reproduced", "not answered")
    ]


def test_the_lines() -> None:
    """What was played and asked, what was assumed, and why there is no answer."""
    lines = [
        "g from 2026-01-01 00:00:00.000 to 2026-01-01 01:00:00.000 (UTC), 50 draws: group.instance.id=auto",
        "recorded: session.timeout.ms=45000",
        "assumed, because no record has it (--recorded): heartbeat.interval.ms=3000",
        "a note",
    ]
    assert list(summary_lines(answer(2), UTC)) == lines
    assert list(summary_lines(answer(3), UTC)) == [
        *lines,
        "not answered: the recorded settings, played, do not come to the recorded number of rebalances",
    ]
