"""``rebalance.timeouts``: a slot that is dropped at about its rebalance timeout."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from groupreplay.state import Severity
from support.histories.builders import CONTEXT, Raw, asked_for, commit, generation, member
from support.histories.modern_builders import current, described, group_epoch, operation, target_epoch
from support.histories.modern_builders import left as leaving
from support.histories.probed import MINUTE
from support.histories.slot_lives import HOUR, START, pod, said


def drops(*elapsed: int, rebalance_ms: int = 60_000, session_ms: int = 10_000, after: int = 0) -> list[Raw]:
    """A slot that is gone so long after its last commit, again and again, and comes back a minute later."""
    slow = {"rebalance_ms": rebalance_ms, "session_ms": session_ms}
    other = member("other", [1], **slow)
    history = [asked_for(at=START - 1), generation(1, pod(0, **slow), other, at=START)]
    at, number = START, 1
    for count, ms in enumerate(elapsed, 1):
        history.append(commit("t", 0, count, at=at + 1))
        at += 1 + ms
        history.append(generation(number + 1, other, at=at, since=at))
        at += MINUTE + after
        history.append(generation(number + 2, pod(count, **slow), other, at=at))
        number += 2
    return history


@pytest.mark.parametrize(
    ("elapsed", "fires"), [(53_999, False), (54_000, True), (60_000, True), (70_000, True), (70_001, False)]
)
def test_dropped_at_about_the_rebalance_timeout(elapsed: int, fires: bool) -> None:
    """From 90 % of it to ten seconds more, three times in an hour."""
    found, _ = said(drops(elapsed, elapsed, elapsed), "rebalance.timeouts")
    assert bool(found) is fires


def test_timeouts_at_the_third() -> None:
    """Two are none; the third is an error with the times, until the first is an hour old."""
    assert said(drops(60_000, 60_000), "rebalance.timeouts")[0] == []
    found, events = said(drops(60_000, 60_000, 60_000), "rebalance.timeouts")
    fact: Any = events[0].fact
    first, _, third = fact.dropped_ms
    assert found == [
        ("rebalance.timeouts", "firing", third),
        ("rebalance.timeouts", "resolved", first + HOUR),
    ]
    assert (fact.rebalance_timeout_ms, events[0].severity, fact.since_ms) == (60_000, Severity.ERROR, third)
    assert said(drops(60_000, 60_000, 60_000, after=28 * MINUTE), "rebalance.timeouts")[0] == []


def test_a_prober_would_have_seen_it() -> None:
    """Where rounds are close enough, a member that is gone with no rebalance in sight was not thrown out of one."""
    looking = replace(CONTEXT, probing=True)
    assert said(drops(60_000, 60_000, 60_000), "rebalance.timeouts", context=looking)[0] == []
    short = drops(29_000, 29_000, 29_000, rebalance_ms=29_000)
    assert said(short, "rebalance.timeouts", context=looking)[0] != []


def test_a_session_that_expires_is_no_timeout() -> None:
    """Where both timeouts are about the same, the time cannot tell them apart."""
    assert said(drops(60_000, 60_000, 60_000, session_ms=58_000), "rebalance.timeouts")[0] == []


def test_a_member_of_the_newer_kind_fenced_for_not_revoking() -> None:
    """The log proves it: three times in UNREVOKED for exactly its rebalance timeout."""
    at, epoch = START, 2
    history: list[Raw] = operation(
        at,
        described("b", rebalance_ms=30_000),
        group_epoch(epoch),
        target_epoch(epoch),
        current("b", epoch, [1]),
    )
    for number in range(3):
        name = f"m{number}"
        at, epoch = at + 1_000, epoch + 1
        history += operation(
            at,
            described(name, client_id="slow", rebalance_ms=30_000),
            group_epoch(epoch),
            target_epoch(epoch),
            current(name, epoch, [0]),
        )
        at, epoch = at + 1_000, epoch + 1
        history += operation(
            at, group_epoch(epoch), target_epoch(epoch), current(name, epoch - 1, [], state=1, revoking=[0])
        )
        at, epoch = at + 30_000, epoch + 1
        history += operation(at, leaving(name), group_epoch(epoch), target_epoch(epoch))
        at += 1_000
        history += operation(at, current("b", epoch, [1]))
    found, events = said(history, "rebalance.timeouts")
    assert found[0] == ("rebalance.timeouts", "firing", at - 1_000)
    assert (events[0].severity, events[0].fact.client_id) == (Severity.ERROR, "slow")  # type: ignore[attr-defined]
