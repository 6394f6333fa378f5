"""Many simulated groups on one partition of the offsets topic: their records in order, and the truth beside them.

Knows time, the order of the log, the broker's clean-up and the rounds of a prober; must not know files or bytes.
A partition is simulated by itself, since a group's records are all in one: so a hundred thousand groups need
the memory of a fiftieth of them.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from groupreplay.codecs import Key, Value
from groupreplay.state.client_scripts import SCENARIOS
from groupreplay.state.coordinator_requests import GroupSummary, Outcome, Settings, StateChange
from groupreplay.state.hashing import DEFAULT_PARTITIONS, partition_for
from groupreplay.state.phases import REBALANCING
from groupreplay.state.simulated_group import SimulatedGroup

#: When a simulation begins: 2026-01-01T00:00:00Z. A fixed time, so that a seed says everything.
BEGIN_MS: Final = 1_767_225_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is simulated. ``probe_interval_ms`` None: no prober looks on."""

    scenario: str
    groups: int
    duration_ms: int
    seed: int
    partitions: int = DEFAULT_PARTITIONS
    check_interval_ms: int = 600_000
    probe_interval_ms: int | None = 10_000
    settings: Settings = field(default_factory=Settings)

    @property
    def end_ms(self) -> int:
        """The first moment that is not simulated."""
        return BEGIN_MS + self.duration_ms

    def group_ids(self) -> list[list[str]]:
        """The groups of each partition."""
        placed: list[list[str]] = [[] for _ in range(self.partitions)]
        for number in range(self.groups):
            group_id = f"{self.scenario}-{number:06d}"
            placed[partition_for(group_id, self.partitions)].append(group_id)
        return placed


@dataclass(frozen=True, slots=True)
class Written:
    """A record of the partition."""

    offset: int
    timestamp_ms: int
    key: Key
    value: Value | None


@dataclass(frozen=True, slots=True)
class Happened:
    """The truth: a group's state changed, whether or not a record says so."""

    group_id: str
    change: StateChange


@dataclass(frozen=True, slots=True)
class Observed:
    """What the coordinator answered a prober about a group."""

    taken_ms: int
    group_id: str
    summary: GroupSummary


Item: TypeAlias = Written | Happened | Observed


def simulate(plan: Plan, group_ids: Sequence[str]) -> Iterator[Item]:
    """Everything that happens to the groups of one partition, by time; offsets count from 0."""
    return _Partition(plan, group_ids).run()


class _Partition:
    def __init__(self, plan: Plan, group_ids: Sequence[str]) -> None:
        self._plan = plan
        self._offset = 0
        self._groups = [_group(plan, group_id) for group_id in group_ids]
        #: (time, place of the group, which reservation it is)
        self._due: list[tuple[int, int, int]] = []
        self._reserved = [0] * len(self._groups)
        self._rebalancing: dict[int, None] = {}
        self._just_over: dict[int, None] = {}
        for place in range(len(self._groups)):
            self._reserve(place)

    def run(self) -> Iterator[Item]:
        plan = self._plan
        clean_up_ms = BEGIN_MS + plan.check_interval_ms
        probe_ms = plan.end_ms if plan.probe_interval_ms is None else BEGIN_MS + plan.probe_interval_ms
        while True:
            now_ms = min(self._due[0][0] if self._due else plan.end_ms, clean_up_ms, probe_ms)
            if now_ms >= plan.end_ms:
                return
            if probe_ms == now_ms:
                # A prober's answers are about the time before.
                yield from self._probe(now_ms)
                probe_ms += plan.probe_interval_ms or plan.duration_ms
            elif clean_up_ms == now_ms:
                for place, group in enumerate(self._groups):
                    yield from self._tell(place, group.clean_up(now_ms))
                    self._reserve(place)
                clean_up_ms += plan.check_interval_ms
            else:
                _, place, reservation = heapq.heappop(self._due)
                if reservation == self._reserved[place]:
                    yield from self._tell(place, self._groups[place].run(now_ms))
                    self._reserve(place)

    def _reserve(self, place: int) -> None:
        next_ms = self._groups[place].next_ms()
        self._reserved[place] += 1
        if next_ms is not None:
            heapq.heappush(self._due, (next_ms, place, self._reserved[place]))

    def _tell(self, place: int, outcomes: Sequence[Outcome]) -> Iterator[Item]:
        group_id = self._groups[place].group_id
        for outcome in outcomes:
            for change in outcome.changes:
                if change.after in REBALANCING:
                    self._rebalancing[place] = None
                elif self._rebalancing.pop(place, self) is None:
                    self._just_over[place] = None
                yield Happened(group_id, change)
            for operation in outcome.operations:
                for key, value in operation.records:
                    yield Written(self._offset, operation.timestamp_ms, key, value)
                    self._offset += 1

    def _probe(self, now_ms: int) -> Iterator[Observed]:
        """Groups in a rebalance, and once more those whose rebalance is over."""
        for place in sorted({**self._rebalancing, **self._just_over}):
            group = self._groups[place]
            yield Observed(now_ms, group.group_id, group.coordinator.summary())
        self._just_over.clear()


def _group(plan: Plan, group_id: str) -> SimulatedGroup:
    # A text as seed: the same on every run, whatever Python's hash of texts is.
    numbers = random.Random(f"{plan.seed} {group_id}")  # noqa: S311 -- made to be repeated
    script = SCENARIOS[plan.scenario](numbers, plan.duration_ms)
    return SimulatedGroup(group_id, script, plan.settings, BEGIN_MS, numbers)
