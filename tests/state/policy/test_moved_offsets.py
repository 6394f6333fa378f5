"""The bounds of moved offsets: their defaults, their rules, and what they make of a number of records."""

from __future__ import annotations

import pytest

from groupreplay.state.events.event import Severity
from groupreplay.state.policy.moved_offsets import MovedOffsets
from groupreplay.state.policy.rules import Rules


@pytest.mark.parametrize(
    ("repeated", "skipped", "severity"),
    [
        (0, 0, Severity.INFO),
        (10_000, 500, Severity.INFO),
        (10_001, 500, Severity.WARN),
        (0, 501, Severity.ERROR),
        (10_001, 501, Severity.ERROR),
    ],
)
def test_what_is_beyond_a_bound(repeated: int, skipped: int, severity: Severity) -> None:
    """Skipped records are worse than repeated ones."""
    assert MovedOffsets().severity(repeated=repeated, skipped=skipped) is severity


def test_the_bounds_of_a_group() -> None:
    """Those of its rules, and the defaults for the others."""
    rules = Rules(thresholds={"offsets.moved": {"most_skipped": 3}})
    assert MovedOffsets.of(rules) == MovedOffsets(most_skipped=3)
    assert MovedOffsets.of(Rules()) == MovedOffsets()
    assert MovedOffsets.thresholds() == {"most_repeated": int, "most_skipped": int}
