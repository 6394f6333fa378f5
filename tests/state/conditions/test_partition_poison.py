"""``partition.poison``: an offset that stays while others move."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from groupreplay.state import Evidence, Group, Severity
from support.histories.builders import (
    GROUP,
    Raw,
    check,
    commit,
    generation,
    member,
    no_offset,
    observed,
    placed,
)
from support.histories.commit_lives import HOUR, START, beat, live, of, poisoned
from support.histories.probed import MINUTE, PROBING


def test_an_offset_that_stays() -> None:
    """Over three generations and a quarter of an hour, while the others move: until it moves itself."""
    assert of(live(poisoned(3), START + HOUR, PROBING), "partition.poison") == []
    history = [*poisoned(4), commit("t", 0, 10, at=START + 2 * HOUR)]
    events = live(history, START + 3 * HOUR, PROBING)
    assert of(events, "partition.poison") == [
        ("partition.poison", "firing", START + 18 * MINUTE),
        ("partition.poison", "resolved", START + 2 * HOUR + 1),
    ]
    fact: Any = events[0].fact
    check(fact, topic="t", partition=0, offset=9, generations=3, since_ms=START + 30, lag=None)
    assert (events[0].severity, events[0].evidence) == (Severity.WARN, Evidence.INFERRED)


def test_generations_in_a_row_are_not_enough() -> None:
    """Three of them in a minute: the quarter of an hour is waited for."""
    history = [replace(raw, at=START + (raw.at - START) // 12) for raw in poisoned(4)]
    found = of(
        live([*history, *beat((1, 2), 2 * MINUTE, 16 * MINUTE, moves=True)], START + HOUR, PROBING),
        "partition.poison",
    )
    assert found == [("partition.poison", "firing", START + 30 + 15 * MINUTE)]


QUIET = [commit("t", number, 5, at=START + 2) for number in (3, 4, 5)]


@pytest.mark.parametrize(
    "history",
    [
        pytest.param([*poisoned(4)[:2], *QUIET, *poisoned(4)[2:]], id="less than half of the others move"),
        pytest.param(
            [raw for raw in poisoned(4) if getattr(raw.value, "offset", None) != 8],
            id="it never moved: as far as is known nothing was ever read from it",
        ),
    ],
)
def test_an_offset_that_stays_is_nothing_special(history: list[Raw]) -> None:
    """Where the others stay as well, or where it has always been the same."""
    assert of(live(history, START + HOUR, PROBING), "partition.poison") == []


def test_an_offset_that_is_gone_is_no_poison() -> None:
    """The tombstone ends it."""
    history = [*poisoned(4), no_offset("t", 0, at=START + HOUR)]
    assert of(live(history, START + 2 * HOUR, PROBING), "partition.poison")[1:] == [
        ("partition.poison", "resolved", START + HOUR)
    ]


def after_a_pause(*partitions: int) -> list[Raw]:
    """Five generations in which nobody commits; then these partitions move, and nobody commits any more."""
    history = poisoned(1)
    for number in range(2, 6):
        at = START + (number - 1) * 4 * MINUTE
        history.append(generation(number, member("a", [0, 1, 2, 3]), at=at))
    resumed = START + 20 * MINUTE
    return history + [
        commit("t", number, 50, at=resumed + 5_000 * place) for place, number in enumerate(partitions)
    ]


def test_the_first_commit_after_a_pause_of_the_whole_group() -> None:
    """Whoever commits first has moved before the others, which have not stayed while it worked."""
    assert of(live(after_a_pause(1, 2, 0), START + HOUR, PROBING), "partition.poison") == []


def test_a_pause_of_the_whole_group_asks_for_no_evaluation() -> None:
    """The finding: a group whose commits had stopped was called every quarter of an hour until they went on."""
    group = Group(GROUP, PROBING)
    group.apply(observed(placed(after_a_pause(1, 2))), 0)
    group.expire(START + 3 * HOUR)
    assert group.next_deadline_ms() is None
