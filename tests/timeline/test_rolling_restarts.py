"""Restarts in place, and those of nearly all members one after another."""

from __future__ import annotations

from groupreplay.timeline.rolling_restarts import restarts, rolling
from timeline.test_diagnoses import lane


def test_a_restart_has_the_members_before_and_after() -> None:
    """A place that gets another member within the time that is given was restarted; later it came back."""
    found = restarts((lane("a", (1, 100), (105, 200), (400, None)),))
    assert [(each.before.until_ms, each.at_ms) for each in found] == [(100_000, 105_000)]
    longer = restarts((lane("a", (1, 100), (105, 200), (400, None)),), 300_000)
    assert [each.at_ms for each in longer] == [105_000, 400_000]


def test_an_occasion_has_each_member_once() -> None:
    """A second restart of the same member begins another occasion."""
    first = lane("a", (1, 100), (105, 300), (305, None))
    second = lane("b", (1, 130), (136, 340), (346, None))
    assert [(each.since_ms, each.until_ms, len(each.restarts)) for each in rolling((first, second))] == [
        (105_000, 136_000, 2),
        (305_000, 346_000, 2),
    ]
