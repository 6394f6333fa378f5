"""``rebalance.storm``: more generations than changed members explain."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from groupreplay.state import Severity
from groupreplay.state.conditions.rebalance_storm import RebalanceStormDetector
from groupreplay.state.snapshot.members import Mark
from support.histories.builders import Raw, commit, generation, member
from support.histories.probed import MINUTE, PROBING, rounds, told
from support.histories.slot_lives import HOUR, START, life, said


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


def test_a_prober_without_an_interval() -> None:
    """Whoever may write to the probes topic may say that it asks every 0 ms."""
    history = storm_for(40, commits=True)
    seen = rounds(START + HOUR + 60_000, START + HOUR + 40 * MINUTE, "PreparingRebalance", "a", "b")
    probes = [msgspec.structs.replace(one, interval_ms=0) for one in seen]
    _, events = told(history, probes, START + 5 * HOUR, PROBING)
    storms = [event for event in events if event.fact.NAME == "rebalance.storm"]
    assert [event.severity for event in storms] == [Severity.WARN, Severity.WARN]


def test_an_active_storm_waits_for_its_end() -> None:
    """It is over when five generations of its window are left, in the order of time; a mark may have none."""
    marks = [Mark(at_ms, 3, ()) for at_ms in (2_000, 1_000, 3_000)] + [Mark(1_500, 0, (7,))]
    detector = RebalanceStormDetector(window_ms=10_000)
    assert detector._ends_ms(marks, 9) == 2_000 + 10_000
    assert detector._ends_ms(marks, 5) is None
