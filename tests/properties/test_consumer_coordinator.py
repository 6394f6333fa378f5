"""Histories of the coordinator model with members of both protocols, replayed: what it knows at every step."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from groupreplay.state.kafka_terms import ConsumerPhase, Phase
from groupreplay.state.model.consumer_group import VALID_PREVIOUS
from groupreplay.state.model.requests import Error
from support.model.consumer_clients import ConsumerClients
from support.model.consumer_lives import HAPPENINGS, WAITS_MS, ConsumerLife

STEPS = 50
_SHORT_MS = 3_000
State = ConsumerPhase | Phase


def lived(seed: int) -> ConsumerLife:
    """A life of ``STEPS`` steps, the same for the same seed."""
    numbers = random.Random(seed)
    life = ConsumerLife(ConsumerClients(gap=1 + seed % 3))
    # Long waits empty a group: most of the time they are short.
    waits_ms = [wait_ms for wait_ms in WAITS_MS for _ in range(4 if wait_ms <= _SHORT_MS else 1)]
    for _ in range(STEPS):
        life.step(numbers.choice(list(HAPPENINGS)), numbers.randrange(6), numbers.choice(waits_ms))
    life.end()
    return life


def lives(seeds: range) -> tuple[set[tuple[State, State]], Counter[Error]]:
    """Every change of state in these lives, and what was answered."""
    changes: set[tuple[State, State]] = set()
    answers: Counter[Error] = Counter()
    for seed in seeds:
        try:
            life = lived(seed)
        except AssertionError as error:
            raise AssertionError(f"history {seed} of {__file__.rpartition('/')[2]}: {error}") from error
        changes |= {(change.before, change.after) for change in life.clients.changes}
        answers.update(answer.error for _, answer in life.clients.answers)
    return changes, answers


def test_the_replay_of_many_histories_is_the_truth() -> None:
    """Epochs, members, assignments and offsets after every step, at the end every event; all changes of state."""
    changes, answers = lives(range(500))
    legal = {(old, new) for new, olds in VALID_PREVIOUS.items() for old in olds}
    of_consumers = {one for one in changes if {type(state) for state in one} != {Phase}}
    assert of_consumers == legal
    # Histories that are refused everything would prove nothing.
    assert answers[Error.NONE] > sum(answers.values()) / 2


@pytest.mark.parametrize("seed", [3397, 4627, 5363])
def test_histories_that_were_told_wrongly_once(seed: int) -> None:
    """Sessions that end at one moment; a round after a conversion, which the log shows whole or not."""
    lives(range(seed, seed + 1))


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
def test_the_replay_of_very_many_histories_is_the_truth(part: int) -> None:
    """Ten thousand more."""
    lives(range(1_000 * (part + 1), 1_000 * (part + 2)))


class Machine(RuleBasedStateMachine):
    """The same with histories that Hypothesis makes, and makes small where one fails."""

    def __init__(self) -> None:
        super().__init__()
        self.life = ConsumerLife()

    @initialize(gap=st.integers(1, 3))
    def begin(self, gap: int) -> None:
        """A group that nobody knows yet."""
        self.life = ConsumerLife(ConsumerClients(gap=gap))

    @rule(
        happening=st.sampled_from(list(HAPPENINGS)), who=st.integers(0, 5), wait_ms=st.sampled_from(WAITS_MS)
    )
    def happens(self, happening: str, who: int, wait_ms: int) -> None:
        """Something happens, and every operation that comes of it is compared."""
        self.life.step(happening, who, wait_ms)

    def teardown(self) -> None:
        """Every event is held against the truth."""
        self.life.end()


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=10, stateful_step_count=STEPS)
