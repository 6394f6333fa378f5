"""Which reasons the numbers of a departure leave, and which one is stated."""

from __future__ import annotations

import msgspec
import pytest

from groupreplay.state.events.event import Evidence, LeaveCandidate
from groupreplay.state.policy.context import ASSUMED_SESSIONS, SessionSettings
from groupreplay.state.replay.departure_reasons import STAMP_LAG_MS, JoinTimer, Leaving, fenced, why

#: A member that commits every 5 s, with Kafka's defaults; it left at 1 000 000 ms.
AT_MS = 1_000_000
MEMBER = Leaving(
    earliest_ms=AT_MS - 2_000,
    latest_ms=AT_MS,
    heard_ms=AT_MS - 100,
    committed_ms=AT_MS - 100,
    heartbeat_ms=AT_MS - 100,
    usual_gap_ms=8_192,
    session=SessionSettings(45_000, 45_000, 0),
    poll_ms=300_000,
    is_static=False,
)
JOIN = JoinTimer(
    earliest_ms=AT_MS - 305_000,
    latest_ms=AT_MS - 295_000,
    others_ms=AT_MS - 299_000,
    usual_gap_ms=8_192,
    timeout_ms=300_000,
    most_ms=300_000,
    is_probed=True,
)


def silent(silent_ms: int, **more: object) -> Leaving:
    """It gave its last sign of life, a commit, so long before."""
    heard = dict.fromkeys(("heard_ms", "committed_ms", "heartbeat_ms"), AT_MS - silent_ms)
    return msgspec.structs.replace(MEMBER, **{**heard, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("leaving", "reason", "evidence", "candidates"),
    [
        (silent(100), "left", Evidence.LOG, ["left"]),
        (silent(45_000 - STAMP_LAG_MS - 1), "left", Evidence.LOG, ["left"]),
        # The coordinator started the session's timer before it stamped the record that shows the last sign of life.
        (silent(45_000 - STAMP_LAG_MS), "session_timeout", Evidence.INFERRED, ["session_timeout", "left"]),
        # The session could have ended, and a member at work would have committed before.
        (silent(47_000), "session_timeout", Evidence.INFERRED, ["session_timeout", "left"]),
        # Neither: it left on purpose after a long silence, or its heartbeats ended later than its commits.
        (silent(100_000), "unknown", Evidence.LOG, ["left", "session_timeout"]),
        # Its client gave up: the coordinator's timer cannot have fired, because the rebalance began later.
        (
            silent(
                302_000,
                join=msgspec.structs.replace(JOIN, earliest_ms=AT_MS - 90_000, latest_ms=AT_MS - 80_000),
            ),
            "poll_timeout",
            Evidence.INFERRED,
            ["poll_timeout", "left", "session_timeout"],
        ),
        # The timer, to the moment: that the client gave up in the same seconds would be a coincidence.
        (
            silent(302_000, join=JOIN),
            "rebalance_timeout",
            Evidence.INFERRED,
            ["rebalance_timeout", "left", "session_timeout", "poll_timeout"],
        ),
        # A static member sends no LeaveGroup; its session ends after its client has given up.
        (
            silent(347_000, is_static=True, gives_up_silently=True),
            "session_timeout",
            Evidence.INFERRED,
            ["session_timeout", "left"],
        ),
        # It commits too seldom to tell.
        (silent(47_000, usual_gap_ms=65_536), "unknown", Evidence.LOG, ["left", "session_timeout"]),
        (silent(47_000, usual_gap_ms=None), "unknown", Evidence.LOG, ["left", "session_timeout"]),
    ],
)
def test_the_sums(leaving: Leaving, reason: str, evidence: Evidence, candidates: list[str]) -> None:
    """A reason that cannot have come true is excluded; of the others one is stated if only its time fits."""
    found = why(leaving)
    assert (found.reason, found.evidence) == (reason, evidence)
    assert [one.reason for one in found.candidates] == candidates


@pytest.mark.parametrize(
    ("silent_ms", "reason"),
    [(900, "left"), (5_000, "unknown"), (20_000, "unknown"), (47_000, "session_timeout")],
)
def test_an_assumed_session_timeout_excludes_nothing(silent_ms: int, reason: str) -> None:
    """The brokers may have a shorter one: what lies between is unknown."""
    beat_ms = AT_MS - silent_ms - ASSUMED_SESSIONS.heartbeat_ms
    leaving = silent(silent_ms, session=ASSUMED_SESSIONS, heartbeat_ms=beat_ms, earliest_ms=AT_MS)
    assert why(leaving).reason == reason


def test_a_sum_as_words_and_numbers() -> None:
    """Since when, how long, and when that was over at the earliest."""
    timed_out = why(silent(47_000)).candidates[0]
    assert timed_out == LeaveCandidate(
        reason="session_timeout",
        timeout_ms=45_000,
        since_ms=953_000,
        earliest_ms=998_000,
        likely=True,
        words="silent 47.0 s; session_timeout_ms=45000; its session could end at 00:16:38.000 UTC at the earliest",
    )
    assert fenced(10, 20, 35).candidates[0].words == (
        "silent 25 ms; rebalance_timeout_ms=20; the coordinator's timer could fire at 00:00:00.030 UTC at the earliest"
    )


def test_who_has_said_that_it_comes_back_has_not_left() -> None:
    """A static member of KIP-848 that goes for a moment: its session ends."""
    leaving = silent(41_000, is_static=True, is_away=True, heartbeat_ms=AT_MS - 46_000, earliest_ms=AT_MS)
    assert why(leaving).reason == "session_timeout"
