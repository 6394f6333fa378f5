"""Histories of the coordinator model with members of both protocols: after every step the replay has its state."""

from __future__ import annotations

import pytest
from hypothesis import settings

from groupreplay.state.kafka_terms import Phase
from groupreplay.state.model.consumer_group import VALID_PREVIOUS
from groupreplay.state.model.requests import Error
from support.model.consumer_clients import ConsumerClients
from support.model.consumer_lives import HAPPENINGS, WAITS_MS, ConsumerLife
from support.model.many_lives import STEPS, machine, run_seeds


def life(seed: int) -> ConsumerLife:
    """A group of either type."""
    return ConsumerLife(ConsumerClients(gap=1 + seed % 3))


def test_the_replay_of_many_histories_is_the_truth() -> None:
    """Epochs, members, assignments and offsets after every step, at the end every event; all state changes occur."""
    changes, answers = run_seeds(life, HAPPENINGS, WAITS_MS, range(500))
    legal = {(old, new) for new, olds in VALID_PREVIOUS.items() for old in olds}
    of_consumers = {one for one in changes if {type(state) for state in one} != {Phase}}
    assert of_consumers == legal
    # Histories in which most requests are refused would prove little.
    assert answers[Error.NONE] > sum(answers.values()) / 2


@pytest.mark.parametrize("seed", [3397, 4627, 5363])
def test_histories_that_were_replayed_wrongly_once(seed: int) -> None:
    """Sessions that end at the same time; a rebalance after a conversion, which the log shows whole or not."""
    run_seeds(life, HAPPENINGS, WAITS_MS, range(seed, seed + 1))


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
def test_the_replay_of_very_many_histories_is_the_truth(part: int) -> None:
    """Ten thousand more."""
    run_seeds(life, HAPPENINGS, WAITS_MS, range(1_000 * (part + 1), 1_000 * (part + 2)))


TestMachine = machine(life, HAPPENINGS, WAITS_MS)
TestMachine.settings = settings(max_examples=10, stateful_step_count=STEPS)
