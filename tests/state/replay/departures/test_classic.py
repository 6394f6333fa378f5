"""What a classic record and the prober's answers show of the members that are gone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupreplay.state.events.event import Severity
from groupreplay.state.events.group_events import MemberLeft, RebalanceCompleted
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
