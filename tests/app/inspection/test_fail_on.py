"""What is wrong with groups, by short names."""

from __future__ import annotations

import json
from typing import Any

from groupreplay.app.inspection.fail_on import Findings
from groupreplay.state import Context
from groupreplay.state.conditions.registry import CONDITIONS
from groupreplay.streaming.contract.output import Output, OutputRow
from groupreplay.streaming.engine.replay import Replay


def described(*conditions: tuple[str, str, int]) -> dict[str, Any]:
    """A group with conditions: name, severity and second of their start."""
    held = [
        {"condition": name, "severity": severity, "since_ms": 1_000 * since}
        for name, severity, since in conditions
    ]
    return {"group_id": "g", "conditions": held}


def event(name: str, group: str | None, second: int) -> OutputRow:
    """An event among the rows of a replay."""
    content = {
        "type": f"groupreplay.{name}.v1",
        "time": f"1970-01-01T00:00:0{second}.000Z",
        "data": {"group_id": group},
    }
    return OutputRow(Output.EVENTS, b"", json.dumps(content).encode())


def test_names() -> None:
    """The last word is enough; it means all conditions that end in it."""
    names = [kind.NAME for kind in CONDITIONS]
    short = [name.rpartition(".")[2] for name in names]
    assert Findings(short).names == set(names) == Findings(names).names
    assert Findings(["expired", "offsets.expired", "stuck"]).names == {"offsets.expired", "rebalance.stuck"}


def test_lost_offsets() -> None:
    """They count until the group commits again, also when it is gone; of the groups that were asked for."""
    rows = [
        event("offsets.expired", "gone", 1),
        event("offsets.expired", "back", 2),
        event("offsets.expired", "other", 3),
        event("offsets.reset", "back", 4),
        event("record.skipped", None, 5),
        OutputRow(Output.STATES, b"g", None),
    ]
    findings = Findings(["expired", "slow"])
    assert list(findings.observe(rows)) == rows
    replay = Replay(Context(cluster_id="c"), ["gone", "back", "g"])
    describeds = [described(("rebalance.slow", "WARN", 2), ("rebalance.storm", "WARN", 3))]
    assert findings.lines(describeds, replay) == {
        "g": ["rebalance.slow (WARN) since 1970-01-01T00:00:02.000Z"],
        "gone": ["offsets.expired at 1970-01-01T00:00:01.000Z"],
    }
