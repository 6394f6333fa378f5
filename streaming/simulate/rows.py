"""A simulation as rows: the records of the offsets topic partition by partition, then what a prober has written.

Knows records, messages of the prober and lines of the truth as bytes; must not know where they go
(`simulation_file`, `simulation_topic`) nor what a group does.
"""

from __future__ import annotations

import heapq
import json
import tempfile
from array import array
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import IO, Any, Final, TextIO, TypeAlias

from groupreplay.codecs import encode_key, encode_value
from groupreplay.state import OFFSETS_TOPIC
from groupreplay.state.kafka_terms import REBALANCING
from groupreplay.state.simulation.simulation import (
    BEGIN_MS,
    BROKERS,
    Ends,
    Happened,
    Observed,
    Plan,
    Warned,
    Written,
    simulate,
)
from groupreplay.streaming.contract.probe_messages import (
    GroupAnswer,
    MemberAnswer,
    RoundSummary,
    encode_message,
)
from groupreplay.streaming.kafka.topic_reader import ProgressCallback

PROBES_TOPIC: Final = "group-probes"
_SPILL_BYTES: Final = 32 * 1024 * 1024
_SEPARATOR: Final = b"\0"
#: Topic, partition, offset, timestamp, timestamp type, key, value.
Row: TypeAlias = tuple[str, int, int, int, int, bytes, "bytes | None"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a simulation is to be read. ``first_offsets``: of a real topic, which counts its records itself."""

    cluster_id: str
    topic: str = OFFSETS_TOPIC
    probes_topic: str = PROBES_TOPIC
    first_offsets: Mapping[int, int] | None = None


def simulated_rows(plan: Plan, place: Place, truth: TextIO, progress: ProgressCallback) -> Iterator[Row]:
    """All rows; the truth is written meanwhile.

    Records of a partition come in their order, one partition after the other. What the prober has written is one
    partition of its own topic, by time: each round's answers, and its summary behind them.
    """
    with ExitStack() as stack:
        answers = _Sorted(stack)
        rounds = _Rounds(plan, place)
        done = 0
        for partition, group_ids in enumerate(plan.group_ids()):
            for item in simulate(plan, group_ids, partition):
                if isinstance(item, Written):
                    rounds.records[partition] += 1
                    yield _record(place, partition, item)
                elif isinstance(item, Observed):
                    rounds.note_answer(item)
                    answers.add(item.taken_ms, *encode_message(_answer(place, partition, item, plan)))
                elif isinstance(item, Ends):
                    rounds.note_ends(partition, item)
                else:
                    truth.write(_line(item) + "\n")
            done += len(group_ids)
            progress(done, plan.groups)
        messages = heapq.merge(answers, rounds.messages(), key=lambda message: message[0])
        for offset, (taken_ms, key, value) in enumerate(messages):
            yield place.probes_topic, 0, offset, taken_ms, 0, key, value


def _record(place: Place, partition: int, item: Written) -> Row:
    value = None if item.value is None else encode_value(item.value)
    return place.topic, partition, item.offset, item.timestamp_ms, 0, encode_key(item.key), value


def _answer(place: Place, partition: int, item: Observed, plan: Plan) -> GroupAnswer:
    summary = item.summary
    return GroupAnswer(
        cluster_id=place.cluster_id,
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
    )


def _line(item: Happened | Warned) -> str:
    fields: dict[str, Any]
    if isinstance(item, Warned):
        fields = {"time_ms": item.at_ms, "group_id": item.group_id, "warning": item.text}
    else:
        change = item.change
        fields = {
            "time_ms": change.at_ms,
            "group_id": item.group_id,
            "type": change.group_type,
            "before": change.before.value,
            "after": change.after.value,
            "generation": change.generation,
        }
    return json.dumps(fields)


class _Sorted:
    """Messages by time, and by the order in which they came; what is too much for memory waits in files."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._runs: list[IO[bytes]] = []
        self._held: list[bytes] = []
        self._size = 0
        self._added = 0

    def add(self, taken_ms: int, key: bytes, value: bytes) -> None:
        """One more message."""
        # Neither simulated names nor JSON have raw NUL or line ends, so whole lines sort as their times do.
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


@dataclass(slots=True)
class _Rounds:
    """The rounds of the prober: where each partition ended then, and how many groups were in a rebalance."""

    plan: Plan
    place: Place
    #: Records of each partition that can be read.
    records: array[int] = field(init=False)
    _times: range = field(init=False)
    _high: list[array[int]] = field(init=False)
    _stable: list[array[int]] = field(init=False)
    _rebalancing: array[int] = field(init=False)

    def __post_init__(self) -> None:
        step_ms, count = self.plan.probe_interval_ms, self.plan.partitions
        self._times = range(BEGIN_MS + step_ms, self.plan.end_ms, step_ms) if step_ms else range(0)
        self.records = array("q", bytes(8 * count))
        self._high = [array("q") for _ in range(count)]
        self._stable = [array("q") for _ in range(count)]
        self._rebalancing = array("q", bytes(8 * len(self._times)))

    def note_ends(self, partition: int, item: Ends) -> None:
        """Where the partition ended when the next round was taken."""
        high, stable = item.high_watermark, item.last_stable
        if self.place.first_offsets is not None:
            # A real topic has neither the markers nor what was aborted.
            high = stable = self.place.first_offsets[partition] + self.records[partition]
        self._high[partition].append(high)
        self._stable[partition].append(stable)

    def note_answer(self, item: Observed) -> None:
        """An answer about a group."""
        self._rebalancing[self._times.index(item.taken_ms)] += item.summary.state in REBALANCING

    def messages(self) -> Iterator[tuple[int, bytes, bytes]]:
        """A summary of each round, when all partitions are complete."""
        for number, taken_ms in enumerate(self._times):
            away = self.plan.away(taken_ms)
            ends = enumerate(zip(self._high, self._stable, strict=True))
            message = RoundSummary(
                cluster_id=self.place.cluster_id,
                taken_ms=taken_ms,
                # One that is away is not among those that the cluster names.
                brokers={broker: None for broker in BROKERS if broker not in away},
                rights="ok",
                partitions={place: (high[number], stable[number]) for place, (high, stable) in ends},
                partition_count=self.plan.partitions,
                groups=self._rebalancing[number],
            )
            yield taken_ms, *encode_message(message)
