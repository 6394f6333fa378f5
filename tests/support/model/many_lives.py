"""Runs the histories of the coordinator model (`classic_lives`, `consumer_lives`), from a seed or from Hypothesis."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from groupreplay.state.kafka_terms import ConsumerPhase, Phase
from groupreplay.state.model.requests import Error
from support.model.classic_lives import Life

STEPS = 50
_SHORT_MS = 3_000
State = ConsumerPhase | Phase


def _run(life: Life, happenings: Iterable[str], waits_ms: Sequence[int], seed: int) -> Life:
    """``STEPS`` random steps, the same for the same seed."""
    numbers = random.Random(seed)
    # Long waits empty a group, so short ones are more frequent.
    weighted_ms = [wait_ms for wait_ms in waits_ms for _ in range(4 if wait_ms <= _SHORT_MS else 1)]
    names = list(happenings)
    for _ in range(STEPS):
        life.step(numbers.choice(names), numbers.randrange(6), numbers.choice(weighted_ms))
    life.end()
    return life


def run_seeds(
    make: Callable[[int], Life], happenings: Iterable[str], waits_ms: Sequence[int], seeds: range
) -> tuple[set[tuple[State, State]], Counter[Error]]:
    """Replay and compare the history of every seed; returns all state changes, and the errors of all answers."""
    changes: set[tuple[State, State]] = set()
    answers: Counter[Error] = Counter()
    for seed in seeds:
        try:
            life = _run(make(seed), happenings, waits_ms, seed)
        except AssertionError as error:
            raise AssertionError(f"history {seed}: {error}") from error
        changes |= {(change.before, change.after) for change in life.clients.changes}
        answers.update(answer.error for _, answer in life.clients.answers)
    return changes, answers


def machine(make: Callable[[int], Life], happenings: Iterable[str], waits_ms: Sequence[int]) -> type:
    """The same with histories that Hypothesis makes, and makes small where one fails."""

    class LifeMachine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.life = make(0)

        @initialize(seed=st.integers(0, 5))
        def begin(self, seed: int) -> None:
            """A group that nobody knows yet."""
            self.life = make(seed)

        @rule(
            happening=st.sampled_from(list(happenings)),
            who=st.integers(0, 5),
            wait_ms=st.sampled_from(waits_ms),
        )
        def step(self, happening: str, who: int, wait_ms: int) -> None:
            """A step; every operation that follows from it is compared."""
            self.life.step(happening, who, wait_ms)

        def teardown(self) -> None:
            """All events are compared."""
            self.life.end()

    return LifeMachine.TestCase
