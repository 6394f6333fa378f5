"""Histories of classic groups from the coordinator model: after every step the replay has the model's state."""

from __future__ import annotations

import pytest
from hypothesis import settings

from groupreplay.state.kafka_terms import Phase
from groupreplay.state.model.classic_group import VALID_PREVIOUS_STATES
from groupreplay.state.model.requests import Error
from support.model.classic_clients import Clients
from support.model.classic_lives import HAPPENINGS, WAITS_MS, Life
from support.model.many_lives import STEPS, machine, run_seeds


def life(seed: int) -> Life:
    """A group; every other one with a prober."""
    return Life(Clients(gap=1 + seed % 3), probing=seed % 2 == 1)


def test_the_replay_of_many_histories_is_the_truth() -> None:
    """State, generation, members, protocol, leader and offsets after every step; at the end every event."""
    changes, answers = run_seeds(life, HAPPENINGS, WAITS_MS, range(500))
    # The model's broker never unloads a group that is not Empty.
    unloaded = {(old, Phase.DEAD) for old in Phase if old is not Phase.EMPTY}
    legal = {(old, new) for new, olds in VALID_PREVIOUS_STATES.items() for old in olds} - unloaded
    assert changes == legal | {(Phase.DEAD, Phase.EMPTY)}
    # Histories in which most requests are refused would prove little.
    assert answers[Error.NONE] > sum(answers.values()) / 2


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
def test_the_replay_of_very_many_histories_is_the_truth(part: int) -> None:
    """Ten thousand more."""
    run_seeds(life, HAPPENINGS, WAITS_MS, range(1_000 * (part + 1), 1_000 * (part + 2)))


TestMachine = machine(life, HAPPENINGS, WAITS_MS)
TestMachine.settings = settings(max_examples=20, stateful_step_count=STEPS)
