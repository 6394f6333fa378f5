"""Conditions about members and rounds that come too often: each at exactly its number, and over by itself."""

from __future__ import annotations

import pytest
from builders import Raw, generation, member
from probed import MINUTE, START, conditions, told

from groupreplay.state import Event, Severity
from groupreplay.state.storms import MemberFlappingRule, RebalanceStormRule

SECOND = 1_000


def said(events: list[Event], name: str) -> list[tuple[str, int]]:
    """Status and time of one kind of condition."""
    return [(status, at) for found, status, at in conditions(events) if found == name]


def restarts(count: int, *, instance: str | None = None, places: str = "a") -> list[Raw]:
    """One slot comes back under a new member id, a generation each (a static one in the same generation)."""
    history = []
    for number in range(count + 1):
        place = places[number % len(places)]
        one = member(f"m-{number}", [0], instance_id=instance, client_id="c", host=f"/{place}")
        other = member("other", [1], client_id="d", host="/o")
        made = 5 if instance else 5 + number
        history.append(generation(made, one, other, at=START + number * MINUTE))
    return history


def test_a_slot_that_flaps() -> None:
    """The third return within a quarter of an hour; over when the first has left the window."""
    name = "member.flapping"
    assert said(told(restarts(2), [], START + 60 * MINUTE)[1], name) == []
    events = told(restarts(3), [], START + 60 * MINUTE)[1]
    assert said(events, name) == [("firing", START + 3 * MINUTE), ("resolved", START + 16 * MINUTE)]
    assert {event.severity for event in events if name == event.fact.NAME} == {Severity.WARN}


def test_two_processes_with_one_instance_id() -> None:
    """From one place to another and back is a conflict, an error; away for good is a move."""
    name = "static.conflict"
    assert said(told(restarts(1, instance="i", places="ab"), [], START + 60 * MINUTE)[1], name) == []
    events = told(restarts(2, instance="i", places="ab"), [], START + 60 * MINUTE)[1]
    assert said(events, name)[0] == ("firing", START + 2 * MINUTE)
    assert said(events, name)[-1][0] == "resolved"
    (fired, *_) = [event for event in events if name == event.fact.NAME]
    assert (fired.severity, fired.fact.places) == (Severity.ERROR, ("c@/a", "c@/b", "c@/a"))  # type: ignore[attr-defined]


def test_a_static_member_that_crashes_again_and_again() -> None:
    """Three takeovers at one place are a loop, and no conflict."""
    events = told(restarts(3, instance="i"), [], START + 60 * MINUTE)[1]
    assert said(events, "static.crash_loop") == [
        ("firing", START + 3 * MINUTE),
        ("resolved", START + 11 * MINUTE),
    ]
    assert said(events, "static.conflict") == []


def rounds(count: int) -> list[Raw]:
    """Generations of the same two members, ten seconds apart."""
    return [
        generation(5 + number, member("a", [0]), member("b", [1]), at=START + number * 10 * SECOND)
        for number in range(count + 1)
    ]


def test_a_storm() -> None:
    """More than ten generations in ten minutes while nobody comes or goes."""
    name = "rebalance.storm"
    assert said(told(rounds(10), [], START + 60 * MINUTE)[1], name) == []
    events = told(rounds(11), [], START + 60 * MINUTE)[1]
    assert said(events, name)[0] == ("firing", START + 110 * SECOND)
    assert said(events, name)[-1] == ("resolved", START + 10 * MINUTE + 10 * SECOND)


def test_a_rolling_deployment_is_no_storm() -> None:
    """Twelve members are replaced one after the other: each explains its generations."""
    names = [f"m{number}" for number in range(12)]
    history, number = [], 5
    for replaced in range(13):
        members = [
            member(f"{name}-{place < replaced}", [place], client_id=name, host=f"/{name}")
            for place, name in enumerate(names)
        ]
        history.append(generation(number, *members, at=START + replaced * 20 * SECOND))
        number += 1
    events = told(history, [], START + 60 * MINUTE)[1]
    assert [one for one in conditions(events) if one[0] != "member.idle"] == []


def test_a_slot_that_is_dropped_at_its_timeout() -> None:
    """Three times within the hour, by the time since its last sign of life: the member is too slow."""
    history, number, at = [], 5, START
    for _ in range(3):
        slow = member("slow", [0], client_id="c", rebalance_ms=60_000, session_ms=10_000)
        other = member("other", [1], client_id="d", rebalance_ms=60_000, session_ms=10_000)
        history.append(generation(number, slow, other, at=at))
        at += 65 * SECOND
        history.append(generation(number + 1, other, at=at))
        at, number = at + 10 * SECOND, number + 2
    last = history[-1].at
    events = told(history, [], last + 1)[1]
    assert said(events, "rebalance.timeouts") == [("firing", last)]


def test_numbers_beyond_the_memory_are_refused() -> None:
    """A rule that looks back further than is remembered would never fire."""
    with pytest.raises(ValueError, match=r"member\.flapping"):
        MemberFlappingRule(times=1_000)
    with pytest.raises(ValueError, match=r"rebalance\.storm"):
        RebalanceStormRule(window_ms=86_400_000)
