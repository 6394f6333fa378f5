"""What is assumed of sessions where no broker has told it."""

from __future__ import annotations

from groupreplay.state.policy.context import ASSUMED_SESSIONS, SessionSettings


def test_an_assumption_is_marked_and_excludes_nothing_above_the_least_session() -> None:
    """Kafka's defaults, but a session may be as short as those of classic groups."""
    assert SessionSettings(45_000, 6_000, 5_000, assumed=True) == ASSUMED_SESSIONS
    assert not SessionSettings(50_000, 45_000, 5_000).assumed
