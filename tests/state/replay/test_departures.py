"""What a classic record and the prober's answers show of the members that are gone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupreplay.state.events.event import Evidence, LeaveCandidate, LeaveReason, Severity
from groupreplay.state.events.group_events import MemberLeft, RebalanceCompleted
from groupreplay.state.replay.departure_reasons import Finding
from groupreplay.state.replay.departures import remember, unplanned
from groupreplay.state.snapshot.members import MemberCount, SlotHistory
from support.histories.builders import Raw, commit, emptied, facts, generation, member
from support.histories.probed import PROBING, START, probe, rounds, told

SECOND = 1_000
MEMBERS = replace(PROBING, member_events=True)
THREE = generation(5, member("a", [0]), member("b", [1]), member("c", [2]), at=START)
#: When they fall silent.
LAST = START + 100 * SECOND


def working(*ends_ms: int) -> list[Raw]:
    """Three members that commit every five seconds, each until its time."""
    commits = [
        commit("t", partition, at // SECOND, at=at)
        for partition, end_ms in enumerate(ends_ms)
        for at in range(START + 5 * SECOND, end_ms + 1, 5 * SECOND)
    ]
    return [THREE, *sorted(commits, key=lambda one: one.at)]


def departures(history: list[Raw], *probes: object) -> dict[str, str]:
    """Why each member left."""
    _, events = told(history, [*probes], history[-1].at + 1, MEMBERS)  # type: ignore[list-item]
    return {fact.member_id: fact.reason for fact in facts(events) if isinstance(fact, MemberLeft)}


def test_a_member_that_left_while_the_others_waited_for_another() -> None:
    """A leaves, and C is killed: the rebalance lasts until C's session ends, but A had left at its begin."""
    ended = LAST + 45 * SECOND
    history = [*working(LAST, LAST, LAST), generation(6, member("b", [0, 1, 2]), at=ended + 10, since=ended)]
    answers = rounds(LAST + 4 * SECOND, ended - 1, "PreparingRebalance", "b", "c")
    assert departures(history, *answers) == {"a": "left", "c": "session_timeout"}
    # Nobody can know that without answers.
    assert departures(history) == {"a": "unknown", "c": "unknown"}


def test_whoever_is_missing_in_an_answer_was_not_removed_at_the_end() -> None:
    """The coordinator's timer removes nobody before the rebalance ends."""
    ended = LAST + 300 * SECOND
    history = [*working(LAST, LAST, LAST), generation(6, member("b", [0, 1, 2]), at=ended + 10, since=ended)]
    early = rounds(LAST + SECOND, LAST + 60 * SECOND, "PreparingRebalance", "a", "b", "c")
    late = rounds(LAST + 61 * SECOND, ended - 1, "PreparingRebalance", "b", "c")
    found = departures(history, *early, *late)
    assert (found["a"], found["c"]) == ("session_timeout", "rebalance_timeout")


@pytest.mark.parametrize(("silent_s", "reason"), [(2, "left"), (46, "session_timeout")])
def test_the_last_member_has_a_reason_too(silent_s: int, reason: str) -> None:
    """Nobody has to rejoin: the record has the moment at which it was gone."""
    commits = [commit("t", 0, at, at=START + at * SECOND) for at in range(5, 101, 5)]
    alone = generation(5, member("a", [0]), at=START)
    history = [alone, *commits, emptied(6, at=LAST + silent_s * SECOND)]
    assert departures(history) == {"a": reason}


def test_a_frozen_member_is_named_without_the_events_of_members() -> None:
    """One of three: WARN, and the rebalance names it with the reason."""
    ended = LAST + 47 * SECOND
    three = working(ended, ended, LAST)
    history = [*three, generation(6, member("a", [0, 2]), member("b", [1]), at=ended + 100, since=ended)]
    _, events = told(history, [probe(ended + 20 * SECOND, "Stable", "a", "b")], ended + 30 * SECOND)
    (event,) = [one for one in events if isinstance(one.fact, MemberLeft)]
    assert (event.severity, event.fact.member_id) == (Severity.WARN, "c")  # type: ignore[attr-defined]
    (completed,) = [fact for fact in facts(events) if isinstance(fact, RebalanceCompleted)][1:]
    assert [(one.member_id, one.client_host, one.reason) for one in completed.gone] == [
        ("c", "/10.0.0.1", "session_timeout")
    ]


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
        # The same in a group that is younger than a deployment lasts, and one that has lost a member.
        (gone("session_timeout"), history((HOUR_MS - 60_000, 3), (HOUR_MS - 46_000, 4)), (4, 3), False),
        (gone("session_timeout"), history((HOUR_MS - 60_000, 3)), (3, 2), True),
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
