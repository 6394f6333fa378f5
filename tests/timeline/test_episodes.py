"""The signs of trouble that the events of a group tell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from groupreplay.timeline.commit_rates import CommitLog
from groupreplay.timeline.document import ConditionBar
from groupreplay.timeline.episodes import (
    Episode,
    VerdictFacts,
    episodes,
    failed_generations,
    shown_conditions,
)
from groupreplay.timeline.event_reading import ReadEvent
from groupreplay.timeline.states import ProbedState

FACTS = VerdictFacts(
    since_ms=0,
    until_ms=1_000_000,
    conditions=(),
    generations=(),
    slots=(),
    changes=(),
    commits=CommitLog(),
    state="Stable",
    members=2,
)
MEMBER = {"member_id": "m", "client_id": "c", "client_host": "/h", "instance_id": None}


def told(name: str, at_ms: int, severity: str = "INFO", index: int = 0, **data: Any) -> ReadEvent:
    """An event at this time."""
    data = {"group_type": "classic", **data}
    return ReadEvent(index=index, id="", name=name, time_ms=at_ms, severity=severity, data=data, body={})


def bar(name: str, since_ms: int = 100, until_ms: int | None = 900) -> ConditionBar:
    """A condition."""
    return ConditionBar(
        name=name,
        condition_id=f"{name} {since_ms}",
        severity="WARN",
        since_ms=since_ms,
        until_ms=until_ms,
        subject="",
        text="",
        runbook="",
        events=(),
    )


def spans(**facts: Any) -> list[tuple[str, int, int | None]]:
    """Sign, begin at the earliest and end of each episode."""
    return [(one.sign, one.began_ms, one.until_ms) for one in episodes(replace(FACTS, **facts))]


def test_signs() -> None:
    """Lost members from their last sign of life, leaders from the end of the join phase, failed generations."""
    lost = told("member.left", 500, "WARN", elapsed_ms=400, **MEMBER)
    slow = told("rebalance.completed", 9_000, sync_ms=4_000, leader="m", members=[MEMBER])
    failed = told("rebalance.completed", 20_000, index=3, skipped_generations=3)
    assert spans(events=(lost, slow, failed, told("member.left", 600, **MEMBER))) == [
        ("member.left", 100, 500),
        ("leader.slow", 5_000, 9_000),
        ("generations.failed", 9_000, 20_000),
    ]


def test_conditions() -> None:
    """From the earliest of their times; one that another implies is none of its own."""
    stuck, slow, often = (
        bar("rebalance.stuck", 100),
        bar("rebalance.slow"),
        bar("rebalance.timeouts", 400, None),
    )
    events = (
        told("rebalance.stuck", 200, since_ms_earliest=90),
        told("rebalance.slow", 150),
        told("rebalance.timeouts", 450, dropped_ms=(20, 30)),
    )
    facts = replace(FACTS, conditions=(stuck, slow, often), condition_events=events)
    assert [number for number, _ in shown_conditions(facts)] == [0, 2]
    assert spans(conditions=facts.conditions, condition_events=events) == [
        ("rebalance.stuck", 90, 900),
        ("rebalance.timeouts", 20, None),
    ]


def test_a_condition_of_another_time_implies_nothing() -> None:
    """A rebalance that is slow after another one was stuck has its own row."""
    conditions = (
        bar("rebalance.stuck", 100, 900),
        bar("rebalance.slow", 901, None),
        bar("rebalance.slow", 90, 100),
    )
    facts = replace(FACTS, conditions=conditions)
    assert [number for number, _ in shown_conditions(facts)] == [0, 1]
    lasting = replace(FACTS, conditions=(bar("rebalance.stuck", 100, None), bar("rebalance.slow", 901, None)))
    assert [number for number, _ in shown_conditions(lasting)] == [0]


def test_episodes_that_meet() -> None:
    """Those that overlap, or are at most so far apart; one that holds lasts to the end of what is known."""
    event = told("x", 0)

    def episode(since_ms: int, until_ms: int | None) -> Episode:
        return Episode(sign="x", since_ms=since_ms, until_ms=until_ms, severity="WARN", event=event)

    first = episode(100, 200)
    assert first.meets(episode(150, 300), FACTS, 0)
    assert not first.meets(episode(250, 300), FACTS, 49)
    assert first.meets(episode(250, 300), FACTS, 50)
    assert episode(100, None).meets(episode(900_000, 950_000), FACTS, 0)


def test_failed_generations() -> None:
    """By the number of the next one that was completed, or by answers that go back to the join phase."""
    stuck = Episode(sign="x", since_ms=100, until_ms=None, severity="WARN", event=told("x", 0))
    states = ("PreparingRebalance", "CompletingRebalance", "PreparingRebalance", "CompletingRebalance")
    answers = [
        ProbedState(at_ms, at_ms + 1, state)
        for at_ms, state in zip((150, 160, 170, 180), states, strict=True)
    ]
    assert failed_generations(stuck, replace(FACTS, answers=answers)) == (1, [171])
    completed = told("rebalance.completed", 300, skipped_generations=7)
    assert failed_generations(stuck, replace(FACTS, answers=answers, events=(completed,))) == (7, [171])
    assert failed_generations(stuck, FACTS) == (0, [])
