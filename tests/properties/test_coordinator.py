"""Histories of the coordinator model, of classic members and of both protocols: the replay has its state throughout."""

from __future__ import annotations

import pytest
from hypothesis import settings

from groupreplay.codecs.kafka_terms import VALID_PREVIOUS_STATES, Phase
from groupreplay.coordinator.consumer.consumer_group import VALID_PREVIOUS
from groupreplay.coordinator.requests import Error
from support.model import classic_lives, consumer_lives
from support.model.classic_clients import Clients
from support.model.consumer_clients import ConsumerClients
from support.model.many_lives import STEPS, Histories, State

#: Every other classic group has a prober.
CLASSIC = Histories(
    lambda seed: classic_lives.Life(Clients(gap=1 + seed % 3), probing=seed % 2 == 1),
    classic_lives.HAPPENINGS,
    classic_lives.WAITS_MS,
)
BOTH = Histories(
    lambda seed: consumer_lives.ConsumerLife(ConsumerClients(gap=1 + seed % 3)),
    consumer_lives.HAPPENINGS,
    consumer_lives.WAITS_MS,
)
every_history = pytest.mark.parametrize("histories", [CLASSIC, BOTH], ids=["classic", "both protocols"])


@every_history
def test_the_replay_of_many_histories_is_the_truth(histories: Histories) -> None:
    """Group, members, assignments and offsets after every step, at the end every event; all state changes occur."""
    changes, answers = histories.run(range(360))
    legal: set[tuple[State, State]]
    if histories is CLASSIC:
        # The model's broker never unloads a group that is not Empty.
        unloaded = {(old, Phase.DEAD) for old in Phase if old is not Phase.EMPTY}
        legal = {(old, new) for new, olds in VALID_PREVIOUS_STATES.items() for old in olds} - unloaded
        assert changes == legal | {(Phase.DEAD, Phase.EMPTY)}
    else:
        legal = {(old, new) for new, olds in VALID_PREVIOUS.items() for old in olds}
        assert {one for one in changes if {type(state) for state in one} != {Phase}} == legal
    # Histories in which most requests are refused would prove little.
    assert answers[Error.NONE] > sum(answers.values()) / 2


@pytest.mark.parametrize("seed", [3397, 4627, 5363, 10386])
def test_histories_that_were_replayed_wrongly_once(seed: int) -> None:
    """Sessions that end together; a rebalance after a conversion; a timer that meets the next group."""
    BOTH.run(range(seed, seed + 1))


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
@every_history
def test_the_replay_of_very_many_histories_is_the_truth(histories: Histories, part: int) -> None:
    """Ten thousand more."""
    histories.run(range(1_000 * (part + 1), 1_000 * (part + 2)))


TestClassicMachine = CLASSIC.machine()
TestClassicMachine.settings = settings(max_examples=20, stateful_step_count=STEPS)
TestMachineOfBoth = BOTH.machine()
TestMachineOfBoth.settings = settings(max_examples=10, stateful_step_count=STEPS)
