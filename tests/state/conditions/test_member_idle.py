"""``member.idle``: a member without partitions."""

from __future__ import annotations

from typing import Any

import pytest

from groupreplay.state import Evidence, Severity
from support.histories.builders import Raw, check, emptied, generation, member
from support.histories.commit_lives import HOUR, START, live, of
from support.histories.probed import MINUTE


def round_of(number: int, at: int, *idle: str) -> Raw:
    """A generation in which one member has everything and these have nothing."""
    return generation(number, member("a", [0, 1]), *(member(name, []) for name in idle), at=START + at)


def test_a_member_without_work() -> None:
    """In its third round without a partition it is so, once a quarter of an hour has passed; until it gets one."""
    history = [round_of(1, 0, "b"), round_of(2, MINUTE, "b"), round_of(3, 2 * MINUTE, "b")]
    assert of(live(history[:2], START + HOUR), "member.idle") == []
    busy = generation(4, member("a", [0]), member("b", [1]), at=START + 20 * MINUTE)
    events = live([*history, busy], START + HOUR)
    assert of(events, "member.idle") == [
        ("member.idle", "firing", START + 15 * MINUTE),
        ("member.idle", "resolved", START + 20 * MINUTE),
    ]
    fact: Any = events[0].fact
    check(fact, member_id="b", rounds=3, since_ms=START)
    check(events[0], severity=Severity.INFO, evidence=Evidence.LOG)


@pytest.mark.parametrize("ends", [emptied(4, at=START + 20 * MINUTE), round_of(4, 20 * MINUTE)])
def test_who_leaves_is_not_idle(ends: Raw) -> None:
    """With the member, or with all of them."""
    history = [round_of(1, 0, "b"), round_of(2, MINUTE, "b"), round_of(3, 2 * MINUTE, "b"), ends]
    found = of(live(history, START + HOUR), "member.idle")
    assert found[1] == ("member.idle", "resolved", START + 20 * MINUTE)


def test_assignments_that_cannot_be_read_make_nobody_idle() -> None:
    """Members of another protocol have no partitions that could be counted."""
    history = [
        generation(number, member("a", []), at=START + number * MINUTE, protocol_type="other")
        for number in range(1, 6)
    ]
    assert live(history, START + HOUR) == []
