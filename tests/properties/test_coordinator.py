"""Histories of the coordinator model, replayed: at every step the replay knows what the coordinator knows."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from classic_clients import Clients
from classic_lives import HAPPENINGS, WAITS_MS, Life
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.state.coordinator_group import VALID_PREVIOUS_STATES
from groupreplay.state.coordinator_requests import Error
from groupreplay.state.phases import Phase

STEPS = 50


def lived(seed: int) -> Life:
    """A life of ``STEPS`` steps, the same for the same seed; every other one is watched by a prober."""
    numbers = random.Random(seed)
    life = Life(Clients(gap=1 + seed % 3), probing=seed % 2 == 1)
    # Long waits empty a group: most of the time they are short.
    waits = [number for number in range(len(WAITS_MS)) for _ in range(4 if number < 4 else 1)]
    for _ in range(STEPS):
        life.step(numbers.randrange(len(HAPPENINGS)), numbers.randrange(6), numbers.choice(waits))
    life.end()
    return life


def test_the_replay_of_many_histories_is_the_truth() -> None:
    """State, generation, members, protocol, leader and offsets after every step; at the end every event."""
    changes: set[tuple[Phase, Phase]] = set()
    answers: Counter[Error] = Counter()
    for seed in range(400):
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


@given(st.lists(st.tuples(*[st.integers(0, 40)] * 3), max_size=30), st.booleans())
def test_short_histories(steps: list[tuple[int, int, int]], probing: bool) -> None:
    """The same with histories that Hypothesis makes, and makes small where one fails."""
    life = Life(probing=probing)
    for step in steps:
        life.step(*step)
    life.end()
