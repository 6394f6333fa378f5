"""The active conditions of a group as text."""

from __future__ import annotations

from groupreplay.app.inspection.active_conditions import conditions_cell, risk
from groupreplay.app.text.tables import cell_text, whole_clock


def test_the_worst_is_the_risk() -> None:
    """By severity, and among equals the oldest."""
    names = (("member.idle", "INFO", 1), ("rebalance.storm", "WARN", 3), ("rebalance.slow", "WARN", 2))
    group = {
        "conditions": [
            {"condition": name, "severity": severity, "since_ms": 1_000 * second}
            for name, severity, second in names
        ]
    }
    assert (risk(group), risk({"conditions": []})) == ("slow", None)
    assert conditions_cell({"conditions": []}) is None
    assert cell_text(conditions_cell(group), whole_clock()) == (
        "rebalance.slow (WARN) since 1970-01-01T00:00:02.000Z; "
        "rebalance.storm (WARN) since 1970-01-01T00:00:03.000Z; "
        "member.idle (INFO) since 1970-01-01T00:00:01.000Z"
    )
