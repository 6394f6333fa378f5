"""Runs the histories of the coordinator model (`classic_lives`, `consumer_lives`), from a seed or from Hypothesis."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from groupreplay.codecs.kafka_terms import ConsumerPhase, Phase
from groupreplay.coordinator.requests import Error
from support.model.classic_lives import Life

STEPS = 50
_SHORT_MS = 3_000
State = ConsumerPhase | Phase


@dataclass(frozen=True)
class Histories:
    """Groups that ``make`` returns for a seed, what may happen to them, and the waits between two steps."""

    make: Callable[[int], Life]
    happenings: Iterable[str]
    waits_ms: Sequence[int]

    def _run(self, seed: int) -> Life:
        """``STEPS`` random steps, the same for the same seed."""
        life, numbers = self.make(seed), random.Random(seed)
        # Long waits empty a group, so short ones are more frequent.
        weighted_ms = [wait_ms for wait_ms in self.waits_ms for _ in range(4 if wait_ms <= _SHORT_MS else 1)]
        names = list(self.happenings)
        for _ in range(STEPS):
            life.step(numbers.choice(names), numbers.randrange(6), numbers.choice(weighted_ms))
        life.end()
        return life

    def run(self, seeds: range) -> tuple[set[tuple[State, State]], Counter[Error]]:
        """Replay and compare every seed's history; returns all state changes, and the errors of all answers."""
        changes: set[tuple[State, State]] = set()
        answers: Counter[Error] = Counter()
        for seed in seeds:
            try:
                life = self._run(seed)
            except AssertionError as error:
                raise AssertionError(f"history {seed}: {error}") from error
            changes |= {(change.before, change.after) for change in life.clients.changes}
            answers.update(answer.error for _, answer in life.clients.answers)
        return changes, answers

    def machine(self) -> type:
        """The same with histories that Hypothesis makes, and makes small where one fails."""
        make = self.make

        class LifeMachine(RuleBasedStateMachine):
            def __init__(self) -> None:
                super().__init__()
                self.life = make(0)

            @initialize(seed=st.integers(0, 5))
            def begin(self, seed: int) -> None:
                """A group that nobody knows yet."""
                self.life = make(seed)

            @rule(
                happening=st.sampled_from(list(self.happenings)),
                who=st.integers(0, 5),
                wait_ms=st.sampled_from(self.waits_ms),
            )
            def step(self, happening: str, who: int, wait_ms: int) -> None:
                """A step; every operation that follows from it is compared."""
                self.life.step(happening, who, wait_ms)

            def teardown(self) -> None:
                """All events are compared."""
                self.life.end()

        case: type = LifeMachine.TestCase
        return case
