"""Conditions that count in windows: each fires at exactly its number, and ends when its window has moved on."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from groupreplay.codecs import MemberMetadata
from groupreplay.state import Context, Event, Severity
from groupreplay.state.conditions.churn import (
    MemberFlappingDetector,
    RebalanceStormDetector,
    StaticConflictDetector,
)
from groupreplay.state.conditions.conditions import Condition
from groupreplay.state.policy.rules import GroupRule, Policy
from groupreplay.state.replay.slot_history import KEPT_MS, MOST_TIMES
from support.histories.builders import CONTEXT, Raw, asked_for, commit, emptied, generation, gone, member
from support.histories.modern_builders import current, described, group_epoch, operation, target_epoch
from support.histories.modern_builders import left as leaving
from support.histories.probed import MINUTE, PROBING, conditions, rounds, told

START = 1_000 * MINUTE
HOUR = 60 * MINUTE


def said(
    history: list[Raw], *names: str, until: int = START + 5 * HOUR, context: Context = CONTEXT
) -> tuple[list[tuple[str, str, int]], list[Event]]:
    """What was said of these conditions: short, and as events."""
    _, events = told(history, [], until, context)
    chosen = [event for event in events if isinstance(event.fact, Condition) and event.fact.NAME in names]
    return conditions(chosen), chosen


def life(*rounds_: tuple[int, list[MemberMetadata]]) -> list[Raw]:
    """A new group's generations at these times after START."""
    return [
        asked_for(at=START - 1),
        *(
            generation(number, *members, at=START + at) if members else emptied(number, at=START + at)
            for number, (at, members) in enumerate(rounds_, 1)
        ),
    ]


def pod(number: int, **fields: Any) -> MemberMetadata:
    """The member that a slot has at its n-th start."""
    return member(f"c-{number}", [0], client_id="c", host="/h", **fields)


OTHER = member("other", [1])


def returns(*times: int) -> list[Raw]:
    """A slot whose process starts again at these times, seen in one round each."""
    starts = [(0, [pod(0), OTHER]), *((at, [pod(n), OTHER]) for n, at in enumerate(times, 1))]
    return life(*starts)


def test_flapping_at_the_third_return() -> None:
    """Not at the second; it ends a quarter of an hour after the first of the three."""
    assert said(returns(1 * MINUTE, 2 * MINUTE), "member.flapping")[0] == []
    found, events = said(returns(1 * MINUTE, 2 * MINUTE, 3 * MINUTE), "member.flapping")
    assert found == [
        ("member.flapping", "firing", START + 3 * MINUTE),
        ("member.flapping", "resolved", START + 16 * MINUTE),
    ]
    fact: Any = events[0].fact
    assert (fact.member_id, fact.client_id, fact.client_host, fact.since_ms, fact.threshold_ms) == (
        "c-3",
        "c",
        "/h",
        START + 3 * MINUTE,
        15 * MINUTE,
    )
    assert fact.returned_ms == (START + 1 * MINUTE, START + 2 * MINUTE, START + 3 * MINUTE)
    assert [event.severity for event in events] == [Severity.WARN, Severity.WARN]


def test_returns_too_far_apart_are_no_flapping() -> None:
    """The first is exactly a quarter of an hour old when the third comes."""
    assert said(returns(1 * MINUTE, 2 * MINUTE, 16 * MINUTE), "member.flapping")[0] == []
    assert len(said(returns(1 * MINUTE, 2 * MINUTE, 16 * MINUTE - 1), "member.flapping")[0]) == 2


def test_a_slot_that_leaves_and_comes_back_returns() -> None:
    """A round without it lies between; a single consumer leaves the group empty each time."""
    history: list[tuple[int, list[MemberMetadata]]] = [(0, [pod(0)])]
    for number in (1, 2, 3):
        history += [(number * MINUTE, []), (number * MINUTE + 1_000, [pod(number)])]
    found, _ = said(life(*history), "member.flapping")
    assert found[0] == ("member.flapping", "firing", START + 3 * MINUTE + 1_000)


def test_tasks_of_a_connect_sink_do_not_flap() -> None:
    """They come back whenever the workers rebalance; a member of another name in the same rounds does flap."""
    client = "connector-consumer-files-0"
    rounds = [(n * MINUTE, [pod(n), member(f"task-{n}", [1], client_id=client, host="/h")]) for n in range(4)]
    _, events = said(life(*rounds), "member.flapping")
    facts: list[Any] = [event.fact for event in events]
    assert [fact.client_id for fact in facts] == ["c", "c"]


def test_members_that_share_a_place_have_no_slot() -> None:
    """Two consumers of one host and client id: a new one may be anybody."""
    twin = member("twin", [1], client_id="c", host="/h")
    history = life((0, [pod(0), twin]), *((n * MINUTE, [pod(n), twin]) for n in range(1, 6)))
    assert said(history, "member.flapping")[0] == []


def test_numbers_are_settings() -> None:
    """Other numbers for a group; such as reach beyond the memory are refused."""
    numbers = {"member.flapping": {"times": 2, "window_ms": 5 * MINUTE}}
    context = replace(CONTEXT, policy=Policy(groups=(GroupRule(groups="g", numbers=numbers),)))
    found, _ = said(returns(1 * MINUTE, 2 * MINUTE), "member.flapping", context=context)
    assert [at for _, _, at in found] == [START + 2 * MINUTE, START + 6 * MINUTE]
    for wrong in ({"window_ms": KEPT_MS + 1}, {"window_ms": 0}, {"times": 0}, {"times": MOST_TIMES + 1}):
        with pytest.raises(ValueError, match=r"member\.flapping"):
            MemberFlappingDetector(**wrong)
    with pytest.raises(ValueError, match=r"rebalance\.storm"):
        RebalanceStormDetector(windows=13)
    with pytest.raises(ValueError, match=r"static\.conflict"):
        StaticConflictDetector(window_ms=-1)


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
    ("elapsed", "fires"),
    [(53_999, False), (54_000, True), (60_000, True), (70_000, True), (70_001, False)],
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


@pytest.mark.parametrize(
    ("count", "changing", "fires"), [(10, 0, False), (11, 0, True), (12, 2, False), (13, 2, True)]
)
def test_a_storm_is_more_than_changes_explain(count: int, changing: int, fires: bool) -> None:
    """More than ten in ten minutes, and more than four for each slot that changed and four more.

    Slots that leave the window before the generations do make no storm of them.
    """
    members = [member("a", [0]), member("b", [1])]
    more = [member(f"n{number}", host=f"/n{number}") for number in range(changing)]
    steps = [(HOUR + number * 10_000, [*members, *more]) for number in range(1, count + 1)]
    assert bool(said(life((0, members), *steps), "rebalance.storm")[0]) is fires


def test_a_storm_from_firing_to_resolved() -> None:
    """It ends when the window has no more than five generations; what it tells is of when it began."""
    old = [member("a", [0]), member("b", [1])]
    history = life((0, old), *((HOUR + number * 10_000, old) for number in range(1, 12)))
    found, events = said(history, "rebalance.storm")
    assert found == [
        ("rebalance.storm", "firing", START + HOUR + 110_000),
        ("rebalance.storm", "resolved", START + HOUR + 60_000 + 10 * MINUTE),
    ]
    fact: Any = events[0].fact
    assert (fact.generations, fact.slots_changed, fact.window_ms) == (11, 0, 10 * MINUTE)
    assert events[0].severity is Severity.WARN


def test_a_storm_that_goes_on_is_said_once() -> None:
    """A generation every 50 to 59 seconds for hours: eleven in one window, ten in the next, and still one storm."""
    old = [member("a", [0]), member("b", [1])]
    steps = itertools.accumulate(50_000 + 1_000 * (number * 7 % 10) for number in range(200))
    history = life((0, old), *((HOUR + step, old) for step in steps))
    found, events = said(history, "rebalance.storm")
    assert [status for _, status, _ in found] in (["firing", "resolved"], ["firing", "firing", "resolved"])
    assert [event.severity for event in events[1:-1]] == [Severity.ERROR] * (len(events) - 2)


def test_skipped_generations_count() -> None:
    """Join phases that came to nothing make a storm as well."""
    old = [member("a", [0]), member("b", [1])]
    first = life((0, old))
    assert said([*first, generation(12, *old, at=START + HOUR)], "rebalance.storm")[0] != []
    assert said([*first, generation(11, *old, at=START + HOUR)], "rebalance.storm")[0] == []


def test_a_hole_in_the_history_makes_no_storm() -> None:
    """In a log that was cleaned, generations may be missing that took days."""
    old = [member("a", [0]), member("b", [1])]
    history = [generation(50, *old, at=START), generation(90, *old, at=START + 1_000)]
    assert said(history, "rebalance.storm")[0] == []


def storm_for(minutes: int, *, commits: bool) -> list[Raw]:
    """A generation every half minute; the offset moves with each, or is the same all the time."""
    old = [member("a", [0]), member("b", [1])]
    history = [*life((0, old)), commit("t", 0, 0, at=START + 1)]
    for number in range(2, 2 * minutes + 2):
        at = START + HOUR + number * 30_000
        history += [generation(number, *old, at=at), commit("t", 0, number if commits else 0, at=at + 1)]
    return history


def test_a_storm_becomes_an_error_when_nothing_else_is_done() -> None:
    """Stormy for three windows on end, and no committed offset has moved: said again, once."""
    found, events = said(storm_for(40, commits=False), "rebalance.storm")
    assert [(event.severity, event.fact.status) for event in events] == [  # type: ignore[attr-defined]
        (Severity.WARN, "firing"),
        (Severity.ERROR, "firing"),
        (Severity.ERROR, "resolved"),
    ]
    assert found[1][2] - found[0][2] == 20 * MINUTE
    assert len({event.fact.condition_id for event in events}) == 1  # type: ignore[attr-defined]
    _, events = said(storm_for(40, commits=True), "rebalance.storm")
    assert [event.severity for event in events] == [Severity.WARN, Severity.WARN]


def test_a_storm_in_which_probes_find_the_group_rebalancing() -> None:
    """More than half of the prober's rounds of three windows: an error although offsets move."""
    history = storm_for(40, commits=True)
    probes = [
        one
        for one in rounds(START + HOUR + 60_000, START + HOUR + 40 * MINUTE, "PreparingRebalance", "a", "b")
        if one.taken_ms % 30_000 != 0
    ]
    _, events = told(history, probes, START + 5 * HOUR, PROBING)
    storms = [event for event in events if event.fact.NAME == "rebalance.storm"]
    assert [event.severity for event in storms] == [Severity.WARN, Severity.ERROR, Severity.ERROR]
    few = [one for one in probes if one.taken_ms % 30_000 == 10_000]
    _, events = told(history, few, START + 5 * HOUR, PROBING)
    storms = [event for event in events if event.fact.NAME == "rebalance.storm"]
    assert [event.severity for event in storms] == [Severity.WARN, Severity.WARN]


def static(number: int, host: str, client_id: str = "c") -> MemberMetadata:
    """The n-th process of one instance id."""
    return member(f"i-{number}", [0], instance_id="i", host=host, client_id=client_id)


def takeovers(*places: tuple[int, str]) -> list[Raw]:
    """Generation 1, then the same generation with another member id at each of these (time, host)."""
    begin = [asked_for(at=START - 1), generation(1, static(0, "/a"), OTHER, at=START)]
    return begin + [
        generation(1, static(number, host), OTHER, at=START + at)
        for number, (at, host) in enumerate(places, 1)
    ]


def test_two_processes_with_one_instance_id() -> None:
    """From A to B and back to A in ten minutes; not to a third place, and not more slowly."""
    found, events = said(takeovers((MINUTE, "/b"), (2 * MINUTE, "/a")), "static.conflict")
    assert found == [
        ("static.conflict", "firing", START + 2 * MINUTE),
        ("static.conflict", "resolved", START + 11 * MINUTE),
    ]
    fact: Any = events[0].fact
    assert (fact.instance_id, fact.places, events[0].severity) == (
        "i",
        ("c@/a", "c@/b", "c@/a"),
        Severity.ERROR,
    )
    assert said(takeovers((MINUTE, "/b"), (2 * MINUTE, "/c")), "static.conflict")[0] == []
    assert said(takeovers((MINUTE, "/b"), (11 * MINUTE, "/a")), "static.conflict")[0] == []
    assert said(takeovers((MINUTE, "/a"), (2 * MINUTE, "/a")), "static.conflict")[0] == []


def test_a_static_member_that_starts_again_and_again() -> None:
    """Three times at one place in ten minutes; moves to other places do not count."""
    three = [(number * MINUTE, "/a") for number in (1, 2, 3)]
    assert said(takeovers(*three[:2]), "static.crash_loop")[0] == []
    found, events = said(takeovers(*three), "static.crash_loop")
    assert found == [
        ("static.crash_loop", "firing", START + 3 * MINUTE),
        ("static.crash_loop", "resolved", START + 11 * MINUTE),
    ]
    fact: Any = events[0].fact
    assert (fact.instance_id, fact.place, len(fact.restarted_ms), events[0].severity) == (
        "i",
        "c@/a",
        3,
        Severity.WARN,
    )
    assert (
        said(takeovers((MINUTE, "/b"), (2 * MINUTE, "/c"), (3 * MINUTE, "/d")), "static.crash_loop")[0] == []
    )


def test_the_memory_counts_from_before_the_first_start() -> None:
    """Nothing is said of the time before; what then still holds is said then, with its real start."""
    context = replace(CONTEXT, emit_since_ms=START + 5 * MINUTE)
    found, events = said(returns(1 * MINUTE, 2 * MINUTE, 3 * MINUTE), "member.flapping", context=context)
    assert [at for _, _, at in found] == [START + 5 * MINUTE, START + 16 * MINUTE]
    assert events[0].fact.since_ms == START + 3 * MINUTE  # type: ignore[attr-defined]
    old = [member("a", [0]), member("b", [1])]
    history = life((0, old), *((HOUR + number * 10_000, old) for number in range(1, 14)))
    context = replace(CONTEXT, emit_since_ms=START + HOUR + 3 * MINUTE)
    found, events = said(history, "rebalance.storm", context=context)
    assert found[0][2] == START + HOUR + 3 * MINUTE
    assert events[0].fact.since_ms == START + HOUR + 110_000  # type: ignore[attr-defined]


def test_a_group_that_is_deleted_resolves_all() -> None:
    """With the group its habits are gone."""
    history = [*returns(1 * MINUTE, 2 * MINUTE, 3 * MINUTE)]
    history += [emptied(5, at=START + 4 * MINUTE), gone(at=START + 5 * MINUTE)]
    found, _ = said(history, "member.flapping")
    assert found[-1] == ("member.flapping", "resolved", START + 5 * MINUTE)
