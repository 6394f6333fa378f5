"""The transition table is total, and reaches every state and event."""

from __future__ import annotations

import pytest

from groupreplay.codecs.kafka_terms import REBALANCING, Phase
from groupreplay.state.replay.phases import NEXT, PROBED, Observed, TransitionEvent


def test_every_state_has_every_proof() -> None:
    """No transition may be refused: the log is compacted and may begin in the middle."""
    assert {phase: set(cells) for phase, cells in NEXT.items()} == {phase: set(Observed) for phase in Phase}


def test_every_state_and_every_report_is_reached() -> None:
    """Every state and every event of the enums is used."""
    cells = [cell for row in NEXT.values() for cell in row.values()]
    assert {phase for phase, _ in cells} == set(Phase)
    assert {said for _, said in cells} == set(TransitionEvent)


def test_states_are_spelled_as_kafka_spells_them() -> None:
    """The five names of ``ClassicGroupState``."""
    assert [phase.value for phase in Phase] == [
        "Empty",
        "PreparingRebalance",
        "CompletingRebalance",
        "Stable",
        "Dead",
    ]


@pytest.mark.parametrize("phase", list(Phase))
def test_a_record_decides_whatever_was_known(phase: Phase) -> None:
    """A record with members means Stable, one without means Empty, a tombstone means Dead."""
    assert NEXT[phase][Observed.NEW_GENERATION] == (Phase.STABLE, TransitionEvent.COMPLETED)
    assert NEXT[phase][Observed.NO_MEMBERS][0] is Phase.EMPTY
    assert NEXT[phase][Observed.TOMBSTONE][0] is Phase.DEAD


@pytest.mark.parametrize("phase", list(Phase))
def test_a_live_answer_is_never_a_fact(phase: Phase) -> None:
    """The prober changes the state; only the log causes events."""
    answers = {seen: cell for seen, cell in NEXT[phase].items() if seen.name.startswith("PROBED")}
    assert {said for _, said in answers.values()} == {TransitionEvent.NOTHING}


@pytest.mark.parametrize("phase", list(Phase))
def test_a_live_answer_begins_and_ends_a_rebalance_and_no_more(phase: Phase) -> None:
    """Without a rebalance the state is that of the log; from a rebalance every state can be reached."""
    to = {name: NEXT[phase][PROBED[name]][0] for name in PROBED}
    begins = {one.value: one for one in REBALANCING}
    rest = {Phase(name) for name in PROBED} - REBALANCING
    expected = {one.value: one if phase in REBALANCING else phase for one in rest}
    assert to == {**begins, **expected}
