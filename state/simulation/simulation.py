"""Many simulated groups on one partition of the offsets topic: their records in order, and the truth beside them.

Knows time, the order of the log, the broker's clean-up and the rounds of a prober; must not know files or bytes.
A partition is simulated by itself, since a group's records are all in one: so a hundred thousand groups need
the memory of a fiftieth of them.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from groupreplay.codecs import Key, Value, uuid_text
from groupreplay.state.kafka_terms import DEFAULT_PARTITIONS, REBALANCING, partition_for
from groupreplay.state.model.requests import GroupSummary, Marker, Operation, Outcome, Settings, StateChange
from groupreplay.state.simulation.consumer import topic_id
from groupreplay.state.simulation.group import SimulatedGroup
from groupreplay.state.simulation.scripts import CONSUMER_SCENARIOS, SCENARIOS, VARIANTS

#: Brokers of the cluster, by id; partition n is led by the broker of this place (n modulo their number).
BROKERS: Final = (1, 2, 3)
#: How long a broker is away that is restarted, and how long after the last one the next one follows.
_AWAY_MS: Final = 40_000
_NEXT_BROKER_MS: Final = 180_000
#: Every so often all of them are restarted, one after another.
_RESTART_EVERY_MS: Final = 2 * 3_600_000
_FIRST_RESTART_MS: Final = 900_000

#: When a simulation begins: 2026-01-01T00:00:00Z. A fixed time, so that a seed says everything.
BEGIN_MS: Final = 1_767_225_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is simulated. ``probe_interval_ms`` None: no prober looks on.

    In the scenario ``cluster-restart`` the brokers are restarted in turn: the groups of a partition move away from
    the broker that leads it, and back when it has returned.
    """

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

    def restarts_ms(self, broker: int) -> range:
        """When a broker goes away, each time for 40 seconds."""
        if self.scenario != "cluster-restart":
            return range(0)
        first_ms = BEGIN_MS + _FIRST_RESTART_MS + BROKERS.index(broker) * _NEXT_BROKER_MS
        return range(first_ms, self.end_ms, _RESTART_EVERY_MS)

    def away(self, now_ms: int) -> frozenset[int]:
        """The brokers that do not answer now."""
        return frozenset(
            broker
            for broker in BROKERS
            if any(0 <= now_ms - at_ms < _AWAY_MS for at_ms in self.restarts_ms(broker))
        )

    def coordinator(self, partition: int, now_ms: int) -> int:
        """The broker that leads a partition; while its own one is not back, the next."""
        place = partition % len(BROKERS)
        gone = any(0 <= now_ms - at_ms < 2 * _AWAY_MS for at_ms in self.restarts_ms(BROKERS[place]))
        return BROKERS[(place + gone) % len(BROKERS)]

    def moves_ms(self, partition: int) -> list[int]:
        """When the coordinator of the groups of a partition moves: with its leader's end, and back."""
        leader = BROKERS[partition % len(BROKERS)]
        return [at_ms + late_ms for at_ms in self.restarts_ms(leader) for late_ms in (0, 2 * _AWAY_MS)]

    def topic_names(self) -> dict[str, str]:
        """Topics by id, where records name them by their ids: of consumer groups."""
        if self.scenario not in CONSUMER_SCENARIOS:
            return {}
        names = (f"{self.scenario}-{number:06d}-input" for number in range(self.groups))
        return {uuid_text(topic_id(name)): name for name in names}

    def group_ids(self) -> list[list[str]]:
        """The groups of each partition."""
        placed: list[list[str]] = [[] for _ in range(self.partitions)]
        for number in range(self.groups):
            group_id = f"{self.scenario}-{number:06d}"
            placed[partition_for(group_id, self.partitions)].append(group_id)
        return placed


@dataclass(frozen=True, slots=True)
class Written:
    """A record of the partition; those of a transaction, and what stands behind them, when it has been committed."""

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
class Warned:
    """What the coordinator has written into its own log."""

    group_id: str
    at_ms: int
    text: str


@dataclass(frozen=True, slots=True)
class Ends:
    """Where the partition ended when a prober looked: all of it, and what open transactions do not hold back."""

    taken_ms: int
    high_watermark: int
    last_stable: int


@dataclass(frozen=True, slots=True)
class Observed:
    """What the coordinator answered a prober about a group."""

    taken_ms: int
    group_id: str
    summary: GroupSummary


Item: TypeAlias = Written | Happened | Warned | Ends | Observed


def simulate(plan: Plan, group_ids: Sequence[str], partition: int = 0) -> Iterator[Item]:
    """Everything that happens to the groups of one partition, by time; offsets count from 0.

    Records come in the order of their offsets, and as late as somebody who reads only what is committed sees them.
    """
    return _Partition(plan, group_ids, partition).run()


@dataclass(slots=True)
class _Log:
    """The partition as who reads only what is committed sees it: nothing behind an open transaction."""

    end: int = 0
    #: Producer -> the offset of its first record.
    open: dict[int, int] = field(default_factory=dict)
    #: Behind the first open transaction: records with the producer whose transaction they are in.
    held: deque[tuple[Written, int | None]] = field(default_factory=deque)
    aborted: set[int] = field(default_factory=set)

    @property
    def last_stable(self) -> int:
        """The first offset that cannot be read yet."""
        return min(self.open.values(), default=self.end)

    def write(self, operation: Operation) -> Iterator[Written]:
        """What can be read now that this has been written."""
        producer_id = operation.producer_id
        if operation.marker is not None and producer_id is not None:
            self.end += 1  # markers are records, too
            self.open.pop(producer_id, None)
            if operation.marker is Marker.ABORT:
                self.aborted.add(producer_id)
            return self._release()
        if producer_id is not None:
            self.open.setdefault(producer_id, self.end)
        for key, value in operation.records:
            self.held.append((Written(self.end, operation.timestamp_ms, key, value), producer_id))
            self.end += 1
        return self._release()

    def _release(self) -> Iterator[Written]:
        stable = self.last_stable
        while self.held and self.held[0][0].offset < stable:
            record, producer_id = self.held.popleft()
            if producer_id not in self.aborted:
                yield record
        if not self.held:
            # Each transaction has a producer of its own.
            self.aborted.clear()


class _Partition:
    def __init__(self, plan: Plan, group_ids: Sequence[str], partition: int) -> None:
        self._plan = plan
        self._log = _Log()
        self._moves = deque(plan.moves_ms(partition))
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
            due_ms = self._due[0][0] if self._due else plan.end_ms
            now_ms = min(due_ms, clean_up_ms, probe_ms, self._moves[0] if self._moves else plan.end_ms)
            if now_ms >= plan.end_ms:
                return
            if probe_ms == now_ms:
                # A prober's answers are about the time before.
                yield from self._probe(now_ms)
                probe_ms += plan.probe_interval_ms or plan.duration_ms
            elif clean_up_ms == now_ms:
                yield from self._everywhere(SimulatedGroup.clean_up, now_ms)
                clean_up_ms += plan.check_interval_ms
            elif self._moves and self._moves[0] == now_ms:
                yield from self._everywhere(SimulatedGroup.move, self._moves.popleft())
            else:
                _, place, reservation = heapq.heappop(self._due)
                if reservation == self._reserved[place]:
                    yield from self._tell(place, self._groups[place].run(now_ms))
                    self._reserve(place)

    def _everywhere(
        self, happens: Callable[[SimulatedGroup, int], Sequence[Outcome]], now_ms: int
    ) -> Iterator[Item]:
        for place, group in enumerate(self._groups):
            yield from self._tell(place, happens(group, now_ms))
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
            for text in outcome.warnings:
                yield Warned(group_id, outcome.operations[-1].timestamp_ms, text)
            for operation in outcome.operations:
                yield from self._log.write(operation)

    def _probe(self, now_ms: int) -> Iterator[Observed | Ends]:
        """Groups in a rebalance, and once more those whose rebalance is over."""
        for place in sorted({**self._rebalancing, **self._just_over}):
            group = self._groups[place]
            yield Observed(now_ms, group.group_id, group.coordinator.summary())
        self._just_over.clear()
        yield Ends(now_ms, self._log.end, self._log.last_stable)


def _group(plan: Plan, group_id: str) -> SimulatedGroup:
    # A text as seed: the same on every run, whatever Python's hash of texts is.
    numbers = random.Random(f"{plan.seed} {group_id}")  # noqa: S311 -- made to be repeated
    script = {**SCENARIOS, **VARIANTS}[plan.scenario](numbers, plan.duration_ms)
    return SimulatedGroup(group_id, script, plan.settings, BEGIN_MS, numbers)
