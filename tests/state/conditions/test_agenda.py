"""Which detectors are due."""

from __future__ import annotations

import pytest

from groupreplay.codecs.kafka_terms import Phase
from groupreplay.state.conditions.agenda import Agenda, group_detectors
from groupreplay.state.conditions.detection import Dependency
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
    assert due(Agenda(DETECTORS)) == {*DETECTORS.names}


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
    assert due(agenda) == {*DETECTORS.names}


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
