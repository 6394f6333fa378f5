"""Folds of events: a rebalance is one row with its events, a storm is few rows."""

from __future__ import annotations

from typing import Any

from groupreplay.timeline.event_folds import EventFold, event_folds
from groupreplay.timeline.event_reading import ReadEvent

SECOND = 1_000


def event(
    index: int, name: str, at_s: int, offset: int | None = None, severity: str = "INFO", **data: Any
) -> ReadEvent:
    """An event of this second, whose record has this offset."""
    cause = {} if offset is None else {"cause": {"partition": 3, "offset": offset}}
    return ReadEvent(
        index=index,
        id=f"e-{index}",
        name=name,
        time_ms=at_s * SECOND,
        severity=severity,
        data={**cause, **data},
        body={},
    )


def folds(events: list[ReadEvent]) -> list[EventFold]:
    """The folds of events whose texts are their ids."""
    return event_folds(events, lambda number: events[number].id)


def completed(index: int, at_s: int, generation: int, trigger: str = "member_left", **data: Any) -> ReadEvent:
    """The end of a rebalance; its record has the offset of the second."""
    return event(
        index, "rebalance.completed", at_s, at_s, generation=generation, trigger=trigger, sync_ms=0, **data
    )


def test_a_rebalance_is_one_row() -> None:
    """Its begin, its end and its members, with the text of its end and the worst severity; a condition stays a row."""
    events = [
        event(0, "group.created", 0, 0),
        event(1, "rebalance.started", 10),
        event(2, "rebalance.stuck", 40, severity="ERROR", condition_id="c"),
        completed(3, 60, 2),
        event(4, "rebalance.stuck", 60, 60, severity="ERROR", condition_id="c"),
        event(5, "member.left", 60, 60, "WARN"),
        event(6, "member.joined", 60, 60),
        event(7, "member.updated", 90, 90),
    ]
    assert folds(events) == [
        EventFold(
            name="rebalance",
            severity="WARN",
            since_ms=10_000,
            until_ms=60_000,
            text="e-3",
            events=(1, 3, 5, 6),
        )
    ]


def test_a_rebalance_of_the_newer_kinds() -> None:
    """Members that come while it goes on are in it, whatever their record; the next epoch's begin ends it."""
    events = [
        event(0, "rebalance.started", 0, 1, generation=2),
        event(1, "member.joined", 0, 1),
        event(2, "member.joined", 5, 5),
        completed(3, 8, 2),
        event(4, "rebalance.started", 20, 20, generation=3),
        event(5, "member.left", 20, 20),
        event(6, "rebalance.started", 30, 30, generation=4),
        event(7, "member.joined", 30, 30),
    ]
    assert [(fold.text, fold.events) for fold in folds(events)] == [
        ("e-3", (0, 1, 2, 3)),
        ("e-4", (4, 5)),
        ("e-6", (6, 7)),
    ]


def test_a_storm_is_few_rows() -> None:
    """Two hundred rebalances with a warning between them: two runs, with counts of their triggers and a long one."""
    events = list[ReadEvent]()
    for number in range(200):
        if number == 80:
            events.append(event(len(events), "rebalance.storm", 800, severity="WARN", condition_id="storm"))
        lasted = {"sync_ms": 9_000, "join_ms_min": 0, "join_ms_max": 0} if number == 150 else {}
        trigger = "member_left" if number % 4 else "member_joined"
        events.append(
            event(
                len(events),
                "rebalance.completed",
                10 * number,
                10 * number,
                generation=number + 1,
                trigger=trigger,
                **lasted,
            )
        )
        if number % 2:
            events.append(event(len(events), "member.left", 10 * number, 10 * number))
    made = folds(events)
    runs = [fold for fold in made if fold.name == "rebalances"]
    assert [(run.text, run.since_ms, run.until_ms, len(run.events), run.within) for run in runs] == [
        (
            "80 rebalances, generations 1 to 80, trigger member_left (60), member_joined (20)",
            0,
            790_000,
            120,
            None,
        ),
        (
            "120 rebalances, generations 81 to 200, trigger member_left (90), member_joined (30), "
            "one took 9.0 s",
            800_000,
            1_990_000,
            180,
            None,
        ),
    ]
    inside = [fold for fold in made if fold.name == "rebalance"]
    assert ([fold.within for fold in inside], {len(fold.events) for fold in inside}) == (
        [0] * 40 + [1] * 60,
        {2},
    )
    rows = len(runs) + len(events) - sum(len(run.events) for run in runs)
    assert rows == 3


def test_a_short_table_has_no_runs() -> None:
    """What fits on a screen is shown rebalance by rebalance; what is quiet between rebalances is counted in a run."""
    few = [completed(number, number, number + 1) for number in range(20)]
    assert folds(few) == []
    many = [completed(number, number, number + 1) for number in range(40)]
    many.append(event(40, "group.emptied", 41, 41))
    (run,) = folds(many)
    assert run.text == "40 rebalances, generations 1 to 40, trigger member_left (40), and 1 other event"
