"""The simulated groups of one partition of the offsets topic: their records, their state changes and probes of them.

All records of a group are in one partition, so each partition is simulated alone: 100 000 groups in 50 partitions need
the memory of 2 000.
"""

from __future__ import annotations

import heapq
import random
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

from msgspec import Struct

from groupreplay.codecs import Key, Value, uuid_text
from groupreplay.codecs.kafka_terms import DEFAULT_PARTITIONS, REBALANCING, partition_for
from groupreplay.coordinator.coordinator_state import DescribedGroup
from groupreplay.coordinator.requests import (
    Error,
    Marker,
    Operation,
    Outcome,
    Settings,
    StateChange,
)
from groupreplay.coordinator.simulation.consumer import topic_id
from groupreplay.coordinator.simulation.scenario import Scenario
from groupreplay.coordinator.simulation.script import Script
from groupreplay.coordinator.simulation.settings_table import BROKER_SETTINGS, SettingValue, fields_of
from groupreplay.coordinator.simulation.simulated_group import SimulatedGroup
from groupreplay.coordinator.trace_entries import AnyEntry

#: The ids of the brokers; the leader of partition n is ``BROKERS[n % len(BROKERS)]``.
BROKERS: Final = (1, 2, 3)
#: The begin of every simulation, 2026-01-01T00:00:00Z. It is fixed, so that equal seeds give equal simulations.
BEGIN_MS: Final = 1_767_225_600_000

#: Something that happens to the coordinator of all groups of a partition.
Fault: TypeAlias = Callable[[SimulatedGroup, int], Sequence[Outcome]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationPlan:
    """The parameters of a simulation. ``probe_interval_ms`` None: without a prober.

    If the scenario restarts the brokers one after another, the groups of a partition move to another coordinator while
    its leader is down, and back afterwards. ``traced``: with the steps of the coordinator. ``made`` makes a group: a
    class beside the default has clients that no setting describes. Where a list of faults is returned, they are those
    of one partition, in the order of time.
    """

    scenario: Scenario
    groups: int
    duration_ms: int
    seed: int
    partitions: int = DEFAULT_PARTITIONS
    check_interval_ms: int = 600_000
    probe_interval_ms: int | None = 10_000
    settings: Settings = field(default_factory=Settings)
    traced: bool = False
    made: Callable[[str, Script, Settings, int, random.Random], SimulatedGroup] = SimulatedGroup

    @classmethod
    def of(
        cls, scenario: Scenario, broker: Mapping[str, SettingValue], *, scala: bool = False, **fields: Any
    ) -> SimulationPlan:
        """The plan of a scenario with these settings of the brokers, by Kafka's names."""
        fields_set = fields_of(BROKER_SETTINGS, broker)
        own = {
            name: fields_set.pop(name) for name in ("partitions", "check_interval_ms") if name in fields_set
        }
        return cls(scenario=scenario, settings=Settings(**fields_set, scala=scala), **own, **fields)

    @property
    def end_ms(self) -> int:
        """The end of the simulation, exclusive."""
        return BEGIN_MS + self.duration_ms

    def restarts_ms(self, broker: int) -> range:
        """The times at which a broker goes down."""
        restarts = self.scenario.restarts
        if restarts is None:
            return range(0)
        first_ms = restarts.first_ms + BROKERS.index(broker) * restarts.pace_ms
        return range(BEGIN_MS + first_ms, self.end_ms, restarts.every_ms)

    @property
    def _down_ms(self) -> int:
        """How long a broker is down in a restart."""
        restarts = self.scenario.restarts
        return 0 if restarts is None else restarts.down_ms

    def away(self, now_ms: int) -> frozenset[int]:
        """The brokers that are down."""
        return frozenset(broker for broker in BROKERS if self._restarted(broker, now_ms, self._down_ms))

    def coordinator(self, partition: int, now_ms: int) -> int:
        """The broker that leads a partition; the next broker while the usual leader is down."""
        place = partition % len(BROKERS)
        moved = self._restarted(BROKERS[place], now_ms, 2 * self._down_ms)
        return BROKERS[(place + moved) % len(BROKERS)]

    def _restarted(self, broker: int, now_ms: int, within_ms: int) -> bool:
        times = self.restarts_ms(broker)
        place = bisect_right(times, now_ms)
        return bool(place) and now_ms - times[place - 1] < within_ms

    def moves_ms(self, partition: int) -> list[int]:
        """The times at which the coordinator of a partition's groups moves: away from the leader, and back."""
        leader = BROKERS[partition % len(BROKERS)]
        return [at_ms + late_ms for at_ms in self.restarts_ms(leader) for late_ms in (0, 2 * self._down_ms)]

    @property
    def _move_ms(self) -> tuple[int, int]:
        """How long a move lasts: without a coordinator, and with one that loads."""
        restarts = self.scenario.restarts
        return (0, 0) if restarts is None else (restarts.election_ms, restarts.loading_ms)

    def loading(self, now_ms: int) -> frozenset[int]:
        """The brokers that load partitions now; such a broker does not list its groups."""
        election_ms, loading_ms = self._move_ms
        partitions: set[int] = set()
        for place in range(len(BROKERS)):
            moves = self.moves_ms(place)
            last = bisect_right(moves, now_ms)
            if last and election_ms <= now_ms - moves[last - 1] < election_ms + loading_ms:
                partitions.add(self.coordinator(place, now_ms))
        return frozenset(partitions)

    def faults(self, partition: int) -> list[tuple[int, Fault]]:
        """What happens to the coordinator of a partition."""
        election_ms, loading_ms = self._move_ms
        faults: list[tuple[int, Fault]] = []
        for at_ms in self.moves_ms(partition):
            if not election_ms + loading_ms:
                faults.append((at_ms, SimulatedGroup.move))
                continue
            faults.append((at_ms, SimulatedGroup.unload))
            faults.append((at_ms + election_ms, SimulatedGroup.begin_loading))
            faults.append((at_ms + election_ms + loading_ms, SimulatedGroup.load))
        failed = self.scenario.failed_appends
        if failed is not None:
            error, last_ms = Error(failed.error), failed.last_ms
            for at_ms in range(BEGIN_MS + failed.first_ms, self.end_ms, failed.every_ms):
                faults.append((at_ms, partial(_fail_appends, error)))
                faults.append((at_ms + last_ms, partial(_fail_appends, None)))
        return sorted(faults, key=lambda fault: fault[0])

    def topic_names(self) -> dict[str, str]:
        """Topic names by id, for scenarios with consumer groups, whose records have topic ids."""
        if not self.scenario.uses_consumer_groups:
            return {}
        names = (f"{self.scenario.name}-{number:06d}-input" for number in range(self.groups))
        return {uuid_text(topic_id(name)): name for name in names}

    def group_ids(self) -> list[list[str]]:
        """The group ids of each partition."""
        placed: list[list[str]] = [[] for _ in range(self.partitions)]
        for number in range(self.groups):
            group_id = f"{self.scenario.name}-{number:06d}"
            placed[partition_for(group_id, self.partitions)].append(group_id)
        return placed


class WrittenRecord(Struct, frozen=True):
    """A record of the partition, as soon as a reader of committed records can read it."""

    offset: int
    timestamp_ms: int
    key: Key
    value: Value | None


class GroupTransition(Struct, frozen=True):
    """A group's state changed, with or without a record of the change."""

    group_id: str
    change: StateChange


class CoordinatorWarning(Struct, frozen=True):
    """A warning that the coordinator logs."""

    group_id: str
    at_ms: int
    text: str


class LogEnds(Struct, frozen=True):
    """The end offsets of the partition at the time of a probe: high watermark and last stable offset."""

    taken_ms: int
    high_watermark: int
    last_stable: int


class GroupProbe(Struct, frozen=True):
    """The coordinator's answer to a prober about a group."""

    taken_ms: int
    group_id: str
    summary: DescribedGroup


SimulationItem: TypeAlias = (
    WrittenRecord | GroupTransition | CoordinatorWarning | LogEnds | GroupProbe | AnyEntry
)


def simulate(plan: SimulationPlan, group_ids: Sequence[str], partition: int = 0) -> Iterator[SimulationItem]:
    """Everything that happens to the groups of one partition, ordered by time; offsets start at 0.

    Records come in the order of their offsets. The end of an open transaction releases the records behind its begin.
    """
    return _Partition(plan, group_ids, partition).run()


@dataclass(slots=True)
class _Log:
    """The partition as a reader of committed records sees it: it ends at the first open transaction."""

    end: int = 0
    #: Producer id -> the first offset of its open transaction.
    open: dict[int, int] = field(default_factory=dict)
    #: The records behind the last stable offset, each with the producer id of its transaction.
    held: deque[tuple[WrittenRecord, int | None]] = field(default_factory=deque)
    aborted: set[int] = field(default_factory=set)

    @property
    def last_stable(self) -> int:
        """The first offset that a reader of committed records cannot read yet."""
        return min(self.open.values(), default=self.end)

    def write(self, operation: Operation) -> Iterable[WrittenRecord]:
        """Write an operation; returns the records that become readable."""
        producer_id = operation.producer_id
        if producer_id is None and not self.open and not self.held:
            begin, self.end = self.end, self.end + len(operation.records)
            return [
                WrittenRecord(offset, operation.timestamp_ms, key, value)
                for offset, (key, value) in enumerate(operation.records, begin)
            ]
        if operation.marker is not None and producer_id is not None:
            self.end += 1  # the marker is a record of its own
            self.open.pop(producer_id, None)
            if operation.marker is Marker.ABORT:
                self.aborted.add(producer_id)
            return self._release()
        if producer_id is not None:
            self.open.setdefault(producer_id, self.end)
        for key, value in operation.records:
            self.held.append((WrittenRecord(self.end, operation.timestamp_ms, key, value), producer_id))
            self.end += 1
        return self._release()

    def _release(self) -> Iterator[WrittenRecord]:
        stable = self.last_stable
        while self.held and self.held[0][0].offset < stable:
            record, producer_id = self.held.popleft()
            if producer_id not in self.aborted:
                yield record
        if not self.held:
            # No producer id is used for two transactions.
            self.aborted.clear()


class _Partition:
    def __init__(self, plan: SimulationPlan, group_ids: Sequence[str], partition: int) -> None:
        self._plan = plan
        self._log = _Log()
        self._partition = partition
        self._faults = deque(plan.faults(partition))
        self._groups = [_group(plan, group_id) for group_id in group_ids]
        #: (time, index of the group, number of the entry); an entry with an older number is stale.
        self._due: list[tuple[int, int, int]] = []
        self._newest_entry = [0] * len(self._groups)
        self._rebalancing: dict[int, None] = {}
        self._just_over: dict[int, None] = {}
        for index in range(len(self._groups)):
            self._schedule(index)

    def run(self) -> Iterator[SimulationItem]:
        plan = self._plan
        clean_up_ms = BEGIN_MS + plan.check_interval_ms
        probe_ms = plan.end_ms if plan.probe_interval_ms is None else BEGIN_MS + plan.probe_interval_ms
        while True:
            fault_ms = self._faults[0][0] if self._faults else plan.end_ms
            now_ms = min(clean_up_ms, probe_ms, fault_ms, plan.end_ms)
            yield from self._run_groups(now_ms)
            if now_ms == plan.end_ms:
                return
            if probe_ms == now_ms:
                # A probe sees the state before the other events of the same time.
                yield from self._probe(now_ms)
                probe_ms += plan.probe_interval_ms or plan.duration_ms
            elif clean_up_ms == now_ms:
                yield from self._everywhere(SimulatedGroup.clean_up, now_ms)
                clean_up_ms += plan.check_interval_ms
            else:
                yield from self._everywhere(self._faults.popleft()[1], now_ms)

    def _run_groups(self, until_ms: int) -> Iterator[SimulationItem]:
        """Run what is due in the groups before this time."""
        due = self._due
        while due and due[0][0] < until_ms:
            now_ms, index, entry = heapq.heappop(due)
            if entry == self._newest_entry[index]:
                yield from self._items(index, self._groups[index].run(now_ms))
                self._schedule(index)

    def _everywhere(
        self, event: Callable[[SimulatedGroup, int], Sequence[Outcome]], now_ms: int
    ) -> Iterator[SimulationItem]:
        for index, group in enumerate(self._groups):
            yield from self._items(index, event(group, now_ms))
            self._schedule(index)

    def _schedule(self, index: int) -> None:
        next_ms = self._groups[index].next_ms()
        self._newest_entry[index] += 1
        if next_ms is not None:
            heapq.heappush(self._due, (next_ms, index, self._newest_entry[index]))

    def _items(self, index: int, outcomes: Sequence[Outcome]) -> list[SimulationItem]:
        group_id = self._groups[index].group_id
        items: list[SimulationItem] = []
        for outcome in outcomes:
            items += outcome.trace
            for change in outcome.changes:
                if change.after in REBALANCING:
                    self._rebalancing[index] = None
                elif self._rebalancing.pop(index, self) is None:
                    self._just_over[index] = None
                items.append(GroupTransition(group_id, change))
            for text in outcome.warnings:
                items.append(CoordinatorWarning(group_id, outcome.operations[-1].timestamp_ms, text))
            for operation in outcome.operations:
                items += self._log.write(operation)
        return items

    def _probe(self, now_ms: int) -> Iterator[GroupProbe | LogEnds]:
        """Probe the groups in a rebalance, and once more the groups whose rebalance has ended.

        A broker that loads does not list its groups.
        """
        if self._plan.coordinator(self._partition, now_ms) not in self._plan.loading(now_ms):
            for index in sorted({**self._rebalancing, **self._just_over}):
                group = self._groups[index]
                summary = group.coordinator.summary()
                if summary.error is Error.NONE:
                    yield GroupProbe(now_ms, group.group_id, summary)
                    self._just_over.pop(index, None)
        yield LogEnds(now_ms, self._log.end, self._log.last_stable)


def _fail_appends(error: Error | None, group: SimulatedGroup, now_ms: int) -> Sequence[Outcome]:
    return group.fail_appends(error, now_ms)


def _group(plan: SimulationPlan, group_id: str) -> SimulatedGroup:
    # A string as seed does not depend on Python's randomized hashes.
    numbers = random.Random(f"{plan.seed} {group_id}")  # noqa: S311 -- made to be repeated
    script = plan.scenario.draw(numbers, plan.duration_ms)
    group = plan.made(group_id, script, plan.settings, BEGIN_MS, numbers)
    group.coordinator.trace.on = plan.traced
    return group
