"""Histories of commits, read record by record, and the conditions they lead to."""

from __future__ import annotations

from groupreplay.state import Context, Event, Group
from groupreplay.state.conditions.condition import Condition
from support.histories.builders import (
    CONTEXT,
    GROUP,
    Raw,
    asked_for,
    commit,
    generation,
    member,
    observed,
    placed,
)
from support.histories.probed import MINUTE, conditions

START = 1_000 * MINUTE


HOUR = 60 * MINUTE


def live(history: list[Raw], until: int, context: Context = CONTEXT) -> list[Event]:
    """The conditions said when every record is read at its own time, and written down in between."""
    events: list[Event] = []
    blob = Group(GROUP, context).snapshot()
    for raw in placed(history):
        group = Group.from_snapshot(GROUP, context, blob)
        events += group.apply(observed([raw]), raw.at)
        blob = group.snapshot()
    events += Group.from_snapshot(GROUP, context, blob).expire(until)
    return [event for event in events if isinstance(event.fact, Condition)]


def of(events: list[Event], name: str) -> list[tuple[str, str, int]]:
    """Those of one name, short."""
    return [one for one in conditions(events) if one[0] == name]


TWO = generation(1, member("a", [0]), member("b", [1]), at=START)


BEGIN = [asked_for(at=START - 1), TWO]


def beat(
    partitions: tuple[int, ...], first: int, last: int, every: int = 5_000, moves: bool = False
) -> list[Raw]:
    """A commit of each partition every so often; the offset is always the same unless it moves."""
    return [
        commit("t", number, at // every if moves else 5, at=START + at)
        for at in range(first, last, every)
        for number in partitions
    ]


def poisoned(generations: int) -> list[Raw]:
    """Partition 0 comes to offset 9 and stays there; 1 and 2 move with each round of six minutes."""
    history: list[Raw] = [asked_for(at=START - 1)]
    for number in range(1, generations + 1):
        at = START + (number - 1) * 6 * MINUTE
        history.append(generation(number, member("a", [0, 1, 2, 3]), at=at))
        history += [commit("t", 0, 8, at=at + 10)] if number == 1 else []
        history += [commit("t", partition, number, at=at + 20) for partition in (1, 2)]
        history.append(commit("t", 0, 9, at=at + 30))
        history += [commit("t", partition, 100 + number, at=at + 40) for partition in (1, 2)]
    return history
