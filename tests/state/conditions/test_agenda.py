"""Which detectors are due."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupreplay.codecs.kafka_terms import Phase
from groupreplay.state.conditions.agenda import Agenda, group_detectors
from groupreplay.state.conditions.detection import Dependency, Evaluation
from groupreplay.state.conditions.member_flapping import MemberFlappingDetector
from groupreplay.state.conditions.member_idle import MemberIdleDetector
from groupreplay.state.policy.rules import Rules
from groupreplay.state.snapshot.group_snapshot import GroupSnapshot

DETECTORS = group_detectors(Rules())


def due(agenda: Agenda, now_ms: int = 1_000) -> set[str]:
    """The names of the detectors to evaluate."""
    return {detector.name for detector in agenda._due(now_ms)}


@pytest.fixture
def agenda() -> Agenda:
    """All detectors were evaluated; one wants to be again at 2 000."""
    made = Agenda(DETECTORS)
    made._changed.clear()
    made._next_ms["rebalance.slow"] = 2_000
    return made


def test_a_group_that_was_read_evaluates_all() -> None:
    """Nothing is stored of what was due."""
    assert due(Agenda(DETECTORS)) == {detector.name for detector in DETECTORS.detectors}


@pytest.mark.parametrize("change", [Dependency.MEMBERS, Dependency.COMMITS, Dependency.PROBES])
def test_a_change_makes_due_what_depends_on_it(agenda: Agenda, change: Dependency) -> None:
    """And nothing else."""
    agenda.note((change,))
    expected = {detector.name for detector in DETECTORS.detectors if change in detector.DEPENDS_ON}
    assert due(agenda) == expected
    assert expected


def test_time_makes_due_what_has_asked_for_it(agenda: Agenda) -> None:
    """At that time, not before."""
    assert (due(agenda, 1_999), due(agenda, 2_000)) == (set(), {"rebalance.slow"})
    assert agenda.next_ms() == 2_000


def test_all_are_due_when_everything_may_have_changed(agenda: Agenda) -> None:
    """A clock that was set back, or a planned window."""
    agenda.note_all()
    assert due(agenda) == {detector.name for detector in DETECTORS.detectors}


def test_detectors_learn_from_each_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that remember something: one that says nothing about it is not asked."""
    learned = []

    class Learning(MemberIdleDetector):
        def learn(self, snapshot: GroupSnapshot, at_ms: int) -> None:
            learned.append((snapshot.group.phase, at_ms))

    detectors = (MemberFlappingDetector(), Learning())
    monkeypatch.setattr("groupreplay.state.conditions.agenda.GROUP_DETECTORS", detectors)
    Agenda(group_detectors.__wrapped__(Rules())).learn(GroupSnapshot(), 7)
    assert learned == [(Phase.DEAD, 7)]


#: ``offsets.expiring`` pauses 10 ms between evaluations, and finds the same until 1 055.
PAUSING = "offsets.expiring"


@pytest.fixture
def pausing(agenda: Agenda) -> Agenda:
    """Evaluated at 990; it is due at 1 000."""
    agenda._note_time(PAUSING, Evaluation(next_ms=1_055, pause_ms=10), 990)
    return agenda


def test_evaluations_that_find_the_same_are_left_out(pausing: Agenda) -> None:
    """Up to the last that is due by a time, by its own change, or by another detector; the left ones count."""
    left = pausing.evaluations_left
    assert [pausing.evaluation_ms(1_000, until_ms) for until_ms in (1_000, 1_039, 9_000)] == [
        1_000,
        1_030,
        1_050,
    ]
    assert left - pausing.evaluations_left == 1 + 4 + 6
    pausing._next_ms["rebalance.slow"] = 1_020
    assert pausing.evaluation_ms(1_000, 9_000) == 1_020
    pausing.evaluations_left = 2
    assert pausing.evaluation_ms(1_000, 9_000) == 1_010


@pytest.mark.parametrize("reason", ["a change", "two are due", "one that does not pause", "windows"])
def test_other_evaluations_take_place_when_they_are_due(pausing: Agenda, reason: str) -> None:
    """They may find something else."""
    match reason:
        case "a change":
            pausing.note((Dependency.COMMITS,))
        case "two are due":
            pausing._next_ms["rebalance.slow"] = 1_000
        case "one that does not pause":
            pausing._note_time(PAUSING, Evaluation(next_ms=1_000), 990)
        case "windows":
            pausing._detectors = replace(DETECTORS, in_windows=True)
    assert pausing.evaluation_ms(1_000, 9_000) == 1_000


def test_a_detector_that_wants_no_evaluation_is_not_due() -> None:
    """Nothing holds any more, and time changes nothing."""
    agenda = Agenda(DETECTORS)
    agenda._changed.clear()
    agenda._note_time(PAUSING, Evaluation(pause_ms=10), 990)
    assert (agenda.next_ms(), agenda.evaluation_ms(1_000, 1_025)) == (1_000, 1_020)
    agenda._note_time(PAUSING, Evaluation(), 1_020)
    assert agenda.next_ms() is None
