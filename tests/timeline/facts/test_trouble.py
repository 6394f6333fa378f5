"""What is wrong with a group, by its events."""

from __future__ import annotations

from typing import Any

import pytest

from groupreplay.timeline.event_reading import ReadEvent
from groupreplay.timeline.facts.trouble import is_trouble, tone_of, worst

LEADER = {"leader": "m", "members": [{"member_id": "m", "client_id": "a", "client_host": "/h"}]}


def read(name: str, severity: str = "INFO", **data: Any) -> ReadEvent:
    """An event."""
    return ReadEvent(index=0, id="", name=name, time_ms=0, severity=severity, data=data, body={})


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (read("rebalance.completed", sync_ms=10, **LEADER), False),
        (read("rebalance.completed", sync_ms=8_001, **LEADER), True),
        (read("rebalance.completed", sync_ms=8_001), False),
        (read("member.joined"), False),
        (read("offset.rewound"), False),
        (read("offsets.set"), False),
        (read("offsets.set", "WARN"), True),
        (read("offsets.expired"), True),
        (read("offsets.deleted"), True),
        (read("offsets.reset"), True),
        (read("commits.paused", condition_id="c"), True),
        (read("of.a.later.release", "WARN"), True),
    ],
)
def test_trouble(event: ReadEvent, expected: bool) -> None:
    """Warnings, conditions and lost offsets of any severity, and a leader that took long."""
    assert is_trouble(event) is expected


def test_severities() -> None:
    """The tone is the severity."""
    assert [tone_of(one) for one in ("INFO", "WARN", "ERROR")] == ["info", "warn", "error"]
    assert (worst(["INFO", "ERROR", "WARN"]), worst([])) == ("ERROR", "INFO")
