"""Which departures look like a deployment, and which ones a person must know."""

from __future__ import annotations

import pytest

from groupreplay.state.events.event import Evidence, LeaveCandidate, LeaveReason
from groupreplay.state.replay.departures.planned import remember, unplanned
from groupreplay.state.replay.departures.reasons import Finding
from groupreplay.state.snapshot.slot_history import MemberCount, SlotHistory

HOUR_MS = 3_600_000


def gone(reason: LeaveReason, *likely: LeaveReason) -> tuple[Finding, int]:
    """A member that left 47 s after its last sign of life."""
    candidates = tuple(
        LeaveCandidate(reason=one, timeout_ms=1, since_ms=1, earliest_ms=2, likely=True, words="")
        for one in likely
    )
    return Finding(reason, candidates, Evidence.INFERRED), 47_000


def history(*counts: tuple[int, int], stopped_ms: int = -1) -> SlotHistory:
    """So many members since each of these times."""
    return SlotHistory(counts=tuple(MemberCount(*one) for one in counts), stopped_ms=stopped_ms)


@pytest.mark.parametrize(
    ("departure", "known", "members", "expected"),
    [
        # One of three is frozen, and two go on.
        (gone("session_timeout"), history((0, 3)), (3, 2), True),
        (gone("session_timeout"), None, (3, 2), True),
        (gone("left"), history((0, 3)), (3, 2), False),
        (gone("unknown", "left", "session_timeout"), history((0, 3)), (3, 2), False),
        (gone("unknown", "session_timeout", "poll_timeout"), history((0, 3)), (3, 2), True),
        # New members had come before the old ones were killed.
        (gone("session_timeout"), history((0, 3), (HOUR_MS - 100_000, 6)), (4, 3), False),
        # Another one was stopped on purpose about then.
        (gone("session_timeout"), history((0, 3), stopped_ms=HOUR_MS - 60_000), (3, 2), False),
        (gone("session_timeout"), history((0, 3), stopped_ms=HOUR_MS - 200_000), (3, 2), True),
        # No deployment makes a member hang.
        (gone("poll_timeout"), history((0, 3), stopped_ms=HOUR_MS - 60_000), (3, 3), True),
    ],
)
def test_what_nobody_planned(
    departure: tuple[Finding, int], known: SlotHistory | None, members: tuple[int, int], expected: bool
) -> None:
    """It was removed or gave up, nobody has taken its place, and nobody was stopping members."""
    assert list(unplanned([departure], known, HOUR_MS, members)) == [expected]


def test_one_that_is_killed_with_others_that_stop() -> None:
    """The same operation has members that left on purpose."""
    assert list(unplanned([gone("left"), gone("session_timeout")], None, HOUR_MS, (3, 1))) == [False, False]


def test_the_counts_are_few() -> None:
    """Only changes are remembered, and only the last ones."""
    known = SlotHistory()
    for number in range(100):
        remember(known, number, number // 2, stopped=False)
    assert (len(known.counts), known.counts[-1], known.stopped_ms) == (32, MemberCount(98, 49), -1)
    remember(known, 200, 49, stopped=True)
    assert (known.counts[-1], known.stopped_ms) == (MemberCount(98, 49), 200)
