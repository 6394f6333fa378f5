"""What the simulated prober writes: answers about groups, their settings, and the rounds, in the order of time."""

from __future__ import annotations

import heapq
import tempfile
from array import array
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, Final

from groupreplay.codecs.consumer import ConsumerGroupMetadataKey
from groupreplay.codecs.kafka_terms import REBALANCING
from groupreplay.coordinator.requests import Error
from groupreplay.coordinator.simulation.simulation import (
    BEGIN_MS,
    BROKERS,
    GroupProbe,
    LogEnds,
    SimulationPlan,
    WrittenRecord,
)
from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.contract.probe_messages import (
    GroupAnswer,
    GroupSettingsAnswer,
    MemberAnswer,
    RoundSummary,
    encode_message,
)

PROBES_TOPIC: Final = "group-probes"
_SPILL_BYTES: Final = 32 * 1024 * 1024
_SEPARATOR: Final = b"\0"
#: The answer of a broker that loads a partition, instead of a list of groups.
_LOADING: Final = Error.COORDINATOR_LOAD_IN_PROGRESS.value


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTarget:
    """The topics that the rows are for. ``first_offsets``: of a real topic, which assigns offsets itself."""

    cluster_id: str
    topic: str = OFFSETS_TOPIC
    probes_topic: str = PROBES_TOPIC
    first_offsets: Mapping[int, int] | None = None


def group_answer(target: RowTarget, partition: int, item: GroupProbe, plan: SimulationPlan) -> GroupAnswer:
    """The answer about a group of a partition."""
    summary = item.summary
    return GroupAnswer(
        cluster_id=target.cluster_id,
        group_id=item.group_id,
        taken_ms=item.taken_ms,
        state=summary.state.value,
        broker=plan.coordinator(partition, item.taken_ms),
        protocol_type=summary.protocol_type,
        protocol=summary.protocol,
        members=tuple(
            MemberAnswer(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
            )
            for member in summary.members
        ),
        interval_ms=plan.probe_interval_ms or 0,
        unseen_ms=plan.probe_interval_ms,
        answered_ms=item.taken_ms,
    )


class SettingsAnswers:
    """The prober's answers about the settings of groups of KIP-848: these have set nothing for themselves."""

    def __init__(self, plan: SimulationPlan, target: RowTarget) -> None:
        self._interval_ms = plan.probe_interval_ms
        self._cluster_id = target.cluster_id
        self._answered: set[str] = set()

    def answer(self, record: WrittenRecord) -> GroupSettingsAnswer | None:
        """The one that follows from a record, if any: a new group is seen in the next round."""
        if self._interval_ms is None or not isinstance(record.key, ConsumerGroupMetadataKey):
            return None
        group = record.key.group
        if record.value is None:
            self._answered.discard(group)
            return None
        if group in self._answered:
            return None
        self._answered.add(group)
        return GroupSettingsAnswer(
            cluster_id=self._cluster_id,
            group_id=group,
            taken_ms=record.timestamp_ms + self._interval_ms,
            settings={},
            interval_ms=self._interval_ms,
        )


class MessageSorter:
    """Sorts messages by time, then by order of arrival; spills to files what does not fit into memory."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._runs: list[IO[bytes]] = []
        self._held: list[bytes] = []
        self._size = 0
        self._added = 0

    def add(self, taken_ms: int, key: bytes, value: bytes) -> None:
        """Add a message."""
        # Neither simulated names nor JSON contain NUL or line ends, so whole lines sort by time.
        line = _SEPARATOR.join((b"%015d%015d" % (taken_ms, self._added), key, value + b"\n"))
        self._held.append(line)
        self._added += 1
        self._size += len(line)
        if self._size >= _SPILL_BYTES:
            file = tempfile.TemporaryFile(prefix="groupreplay-answers-")  # noqa: SIM115 -- the stack closes it
            self._runs.append(self._stack.enter_context(file))
            file.writelines(sorted(self._held))
            file.seek(0)
            self._held, self._size = [], 0

    def __iter__(self) -> Iterator[tuple[int, bytes, bytes]]:
        for line in heapq.merge(*self._runs, sorted(self._held)):
            order, key, value = line.rstrip(b"\n").split(_SEPARATOR)
            yield int(order[:15]), key, value


class Rounds:
    """The rounds of the prober: the end of each partition, and the number of rebalancing groups.

    ``records``: the number of readable records of each partition.
    """

    def __init__(self, plan: SimulationPlan, target: RowTarget) -> None:
        step_ms, count = plan.probe_interval_ms, plan.partitions
        self._plan = plan
        self._target = target
        self._times = range(BEGIN_MS + step_ms, plan.end_ms, step_ms) if step_ms else range(0)
        self.records = array("q", bytes(8 * count))
        self._high = [array("q") for _ in range(count)]
        self._stable = [array("q") for _ in range(count)]
        self._rebalancing = array("q", bytes(8 * len(self._times)))

    def note_ends(self, partition: int, item: LogEnds) -> None:
        """Add the end of a partition at the time of the next round."""
        high, stable = item.high_watermark, item.last_stable
        if self._target.first_offsets is not None:
            # A real topic has neither transaction markers nor aborted records.
            high = stable = self._target.first_offsets[partition] + self.records[partition]
        self._high[partition].append(high)
        self._stable[partition].append(stable)

    def note_answer(self, item: GroupProbe) -> None:
        """Count an answer about a group."""
        self._rebalancing[self._times.index(item.taken_ms)] += item.summary.state in REBALANCING

    def messages(self) -> Iterator[tuple[int, bytes, bytes]]:
        """The summary of each round; call this when all partitions are complete."""
        for number, taken_ms in enumerate(self._times):
            away, loading = self._plan.away(taken_ms), self._plan.loading(taken_ms)
            ends = enumerate(zip(self._high, self._stable, strict=True))
            message = RoundSummary(
                cluster_id=self._target.cluster_id,
                taken_ms=taken_ms,
                # A broker that is down is not in the cluster's metadata.
                brokers={
                    broker: _LOADING if broker in loading else None
                    for broker in BROKERS
                    if broker not in away
                },
                rights="ok",
                partitions={target: (high[number], stable[number]) for target, (high, stable) in ends},
                partition_count=self._plan.partitions,
                groups=self._rebalancing[number],
                leaders={
                    target: self._plan.coordinator(target, taken_ms)
                    for target in range(self._plan.partitions)
                },
            )
            yield taken_ms, *encode_message(message)
