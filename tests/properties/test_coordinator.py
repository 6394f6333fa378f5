"""Histories of the coordinator model, replayed: at every step the replay knows what the coordinator knows."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from groupreplay.state.kafka_terms import Phase
from groupreplay.state.model.classic_group import VALID_PREVIOUS_STATES
from groupreplay.state.model.requests import Error
from support.model.classic_clients import Clients
from support.model.classic_lives import HAPPENINGS, WAITS_MS, Life

STEPS = 50
_SHORT_MS = 3_000


def lived(seed: int) -> Life:
    """A life of ``STEPS`` steps, the same for the same seed; every other one is watched by a prober."""
    numbers = random.Random(seed)
    life = Life(Clients(gap=1 + seed % 3), probing=seed % 2 == 1)
    # Long waits empty a group: most of the time they are short.
    waits_ms = [wait_ms for wait_ms in WAITS_MS for _ in range(4 if wait_ms <= _SHORT_MS else 1)]
    for _ in range(STEPS):
        life.step(numbers.choice(list(HAPPENINGS)), numbers.randrange(6), numbers.choice(waits_ms))
    life.end()
    return life


def test_the_replay_of_many_histories_is_the_truth() -> None:
    """State, generation, members, protocol, leader and offsets after every step; at the end every event."""
    changes: set[tuple[Phase, Phase]] = set()
    answers: Counter[Error] = Counter()
    for seed in range(500):
        try:
            life = lived(seed)
        except AssertionError as error:
            raise AssertionError(
                f"history {seed} of tests/properties/test_coordinator.py: {error}"
            ) from error
        changes |= {(change.before, change.after) for change in life.clients.changes}
        answers.update(answer.error for _, answer in life.clients.answers)
    unloaded = {(old, Phase.DEAD) for old in Phase if old is not Phase.EMPTY}
    legal = {(old, new) for new, olds in VALID_PREVIOUS_STATES.items() for old in olds} - unloaded
    assert changes == legal | {(Phase.DEAD, Phase.EMPTY)}
    # Histories that are refused everything would prove nothing.
    assert answers[Error.NONE] > sum(answers.values()) / 2


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
def test_the_replay_of_very_many_histories_is_the_truth(part: int) -> None:
    """Ten thousand more."""
    for seed in range(1_000 * (part + 1), 1_000 * (part + 2)):
        lived(seed)


class Machine(RuleBasedStateMachine):
    """The same with histories that Hypothesis makes, and makes small where one fails."""

    def __init__(self) -> None:
        super().__init__()
        self.life = Life()

    @initialize(probing=st.booleans(), gap=st.integers(1, 3))
    def begin(self, probing: bool, gap: int) -> None:
        """A group that nobody knows yet."""
        self.life = Life(Clients(gap=gap), probing=probing)

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
TestMachine.settings = settings(max_examples=20, stateful_step_count=STEPS)
