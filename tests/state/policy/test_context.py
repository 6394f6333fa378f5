"""What is assumed of sessions where no broker has told it."""

from __future__ import annotations

import pytest

from groupreplay.state.policy.context import ASSUMED_SESSIONS, SessionSettings


def test_an_assumption_is_marked_and_excludes_nothing_above_the_least_session() -> None:
    """Kafka's defaults, but a session may be as short as those of classic groups."""
    marked = SessionSettings(45_000, 6_000, 5_000, timeout_assumed=True, heartbeat_assumed=True)
    assert marked == ASSUMED_SESSIONS
    assert marked.assumed == {"session_timeout_ms": 45_000, "heartbeat_interval_ms": 5_000}
    assert SessionSettings(50_000, 45_000, 5_000).assumed == {}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((60_000, None, None), SessionSettings(60_000, 6_000, 5_000, heartbeat_assumed=True)),
        ((60_000, 50_000, 9_000), SessionSettings(60_000, 50_000, 9_000)),
        ((None, None, 9_000), SessionSettings(45_000, 6_000, 9_000, timeout_assumed=True)),
        # A broker that has so short a session has no longer least one, and no longer interval.
        ((4_000, None, None), SessionSettings(4_000, 4_000, 4_000, heartbeat_assumed=True)),
    ],
)
def test_only_what_is_given_is_not_assumed(
    given: tuple[int | None, int | None, int | None], expected: SessionSettings
) -> None:
    """Each number by itself: the timeout does not say how often members send heartbeats."""
    assert ASSUMED_SESSIONS.override(*given) == expected
    assert SessionSettings().override(None, None, None) == SessionSettings()
