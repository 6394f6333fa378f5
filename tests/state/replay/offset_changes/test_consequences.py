"""The severity of moved offsets: what is skipped and what is repeated is counted for itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupreplay.state import Context, Event
from groupreplay.state.events.event import Severity
from groupreplay.state.policy.rules import GroupRule, Policy, Rules
from groupreplay.state.replay.offset_changes.consequences import severity_of_moves
from support.histories.builders import CONTEXT, Raw, commit, emptied, generation, member, no_offset, replay

EMPTY = [generation(1, member("a", [0]), at=1), commit("t", 0, 5, at=2), emptied(2, at=1_000)]


def moved(history: list[Raw], context: Context = CONTEXT) -> list[Event]:
    """The events about offsets that were moved."""
    _, events = replay(history, context)
    return [event for event in events if event.fact.NAME in ("offset.rewound", "offsets.reset")]


@pytest.mark.parametrize(
    ("moves", "severity"),
    [
        ([], Severity.INFO),
        ([(0, 400), (0, 400)], Severity.ERROR),
        # One does not make up for the other.
        ([(0, 500), (500, 0)], Severity.INFO),
        ([(0, 500), (10_001, 0)], Severity.WARN),
        ([(0, 501), (10_001, 0)], Severity.ERROR),
    ],
)
def test_over_all_partitions(moves: list[tuple[int, int]], severity: Severity) -> None:
    """In each direction for itself, and at most what the caller allows."""
    assert severity_of_moves(moves, Rules(), most=Severity.ERROR) is severity
    assert severity_of_moves(moves, Rules(), most=Severity.WARN) is min(severity, Severity.WARN)
    assert severity_of_moves(moves, Rules(matters=False), most=Severity.ERROR) is Severity.INFO


MEMBER = [generation(1, member("a", [0]), at=1), commit("t", 0, 50_000, at=2)]


@pytest.mark.parametrize(
    ("back", "kind", "severity"),
    [(500, "small", Severity.INFO), (10_000, "other", Severity.INFO), (10_001, "other", Severity.WARN)],
)
def test_a_rewind_by_its_consequence(back: int, kind: str, severity: Severity) -> None:
    """It is a warning beyond the bound of the rules, whatever the group's history."""
    (event,) = moved([*MEMBER, commit("t", 0, 50_000 - back, at=9_000)])
    assert (event.fact.kind, event.severity) == (kind, severity)  # type: ignore[attr-defined]
    nobody = replace(CONTEXT, policy=Policy(groups=(GroupRule(groups="*", matters=False),)))
    (event,) = moved([*MEMBER, commit("t", 0, 50_000 - back, at=9_000)], nobody)
    assert event.severity is Severity.INFO


@pytest.mark.parametrize(
    ("after", "anew", "severity"),
    [
        (505, True, Severity.INFO),
        (506, True, Severity.ERROR),
        (506, False, Severity.WARN),
    ],
)
def test_a_reset_by_its_consequence(after: int, anew: bool, severity: Severity) -> None:
    """Records that nobody reads are an error, unless the member was there before: it has its place in its memory."""
    lost = [*EMPTY, no_offset("t", 0, at=9_000)]
    back = [generation(3, member("b", [0]), at=20_000)] if anew else []
    (event,) = moved([*lost, *back, commit("t", 0, after, at=30_000)])
    assert (event.fact.NAME, event.severity) == ("offsets.reset", severity)
