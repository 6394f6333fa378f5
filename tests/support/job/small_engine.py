"""An engine without a JVM: it reads topics, packs and applies them in this process, and writes what it is told to."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from groupreplay.state.events.event import JobGap
from groupreplay.state.policy.context import OFFSETS_TOPIC, Context
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.config.settings import RunSettings
from groupreplay.streaming.contract.log import IncidentState, LogMarks, with_units
from groupreplay.streaming.contract.messages import OutputRow
from groupreplay.streaming.engine.advance import advance
from groupreplay.streaming.engine.packing.pack import INPUT_COLUMNS, packed_rows
from groupreplay.streaming.engine.packing.record_times import Horizons
from groupreplay.streaming.engine.probe_rows import pack_probes
from groupreplay.streaming.engine.wire import HEARTBEAT_TAG
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.publisher import Publisher
from groupreplay.streaming.kafka.topic_reader import read_messages
from groupreplay.streaming.run.document_sync import SyncRecord
from groupreplay.streaming.run.identity import Identity
from groupreplay.streaming.run.interface import Batch

if TYPE_CHECKING:
    from groupreplay.streaming.run.job_run import JobRun


@dataclass
class MemoryStore:
    """A ``Store`` that ends with the process."""

    location: str = "memory"
    identity: Identity | None = None
    marks: LogMarks | None = None
    record: SyncRecord | None = None
    finder: IncidentState | None = None
    offsets: dict[int, int] = field(default_factory=dict)
    batch: int = -1

    def unwritable(self) -> str | None:
        return None

    def latest(self) -> MemoryStore:
        return self

    def known(self) -> Identity | None:
        return self.identity

    def claim(self, identity: Identity) -> Identity:
        if self.identity is None:
            self.identity = msgspec.structs.replace(identity, job_id="small", event_era=identity.era)
        return self.identity

    def begin_anew(self, former: Identity, gap: JobGap, now: Identity) -> MemoryStore:
        raise NotImplementedError

    def begin_after_other(self, former: Identity, now: Identity) -> MemoryStore:
        raise NotImplementedError

    def started(self) -> bool:
        return self.batch >= 0

    def last_batch(self) -> int:
        return self.batch

    def read_to(self) -> Mapping[int, int]:
        return self.offsets

    def planned_to(self) -> Mapping[int, int]:
        return self.offsets

    def log_marks(self) -> LogMarks | None:
        return self.marks

    def note_log_marks(self, marks: LogMarks) -> None:
        self.marks = marks

    def synced(self) -> SyncRecord | None:
        return self.record

    def note_synced(self, record: SyncRecord) -> None:
        self.record = record

    def incidents(self) -> IncidentState | None:
        return self.finder

    def note_incidents(self, state: IncidentState) -> None:
        self.finder = state


@dataclass
class SmallEngine:
    """An ``Engine`` whose states are lost with it."""

    settings: RunSettings
    store: MemoryStore
    partitions: int
    batches: list[Batch] = field(default_factory=list)
    _blobs: dict[bytes, bytes | None] = field(default_factory=dict)
    _deadlines: dict[bytes, int] = field(default_factory=dict)
    _watermark_ms: int = -1

    def progress(self, after: int | None) -> Sequence[Batch]:
        """See ``Engine.progress``."""
        return self.batches[0 if after is None else after + 1 :]

    def tasks_ended(self) -> tuple[int, int] | None:
        """It has no tasks."""

    def run(self, run: JobRun) -> None:
        """See ``Engine.run``."""
        run.report.query_started()
        context = run.begin()
        run.started()
        while not run.stop.wait(0.05):
            ended = run.must_end()
            if ended is not None:
                raise ended
            self._batch(run, context)
            if run.has_ended():
                run.stop.make()

    def _batch(self, run: JobRun, context: Context) -> None:
        begun_ms, begun = now_ms(), time.monotonic()
        log, log_to = self._new(OFFSETS_TOPIC, self.partitions)
        probes, probes_to = self._new(self.settings.topics.probes, 1)
        packed = {key: list[bytes]() for key, at_ms in self._deadlines.items() if at_ms <= self._watermark_ms}
        for key, row in _packed_log(log, Horizons(begun_ms)):
            packed.setdefault(key, []).append(row)
        caught_up_ms = -1
        for answers in pack_probes(probes, run.probe_filter):
            for key, row, moment, *_ in zip(*answers.to_pydict().values(), strict=True):
                if key == HEARTBEAT_TAG and moment is not None:
                    caught_up_ms = max(caught_up_ms, round(1_000 * moment.timestamp()))
                elif row is not None:
                    packed.setdefault(key, []).append(row)
        counts = self._apply(packed, context)
        self.store.offsets, self.store.batch = log_to, len(self.batches)
        self.batches.append(
            Batch(
                number=len(self.batches),
                started_ms=begun_ms,
                seconds=time.monotonic() - begun,
                records=sum(one.num_rows for one in log),
                read_to={OFFSETS_TOPIC: log_to, self.settings.topics.probes: probes_to},
                counts=counts,
                groups=len(self._blobs),
                evaluated_to_ms=self._watermark_ms,
                caught_up_ms=caught_up_ms,
            )
        )
        self._watermark_ms = max(self._watermark_ms, caught_up_ms)

    def _new(self, topic: str, partitions: int) -> tuple[list[pa.RecordBatch], dict[int, int]]:
        """What was written since the last batch, and up to where."""
        connection = Connection(self.settings.source)
        ends = connection.end_offsets(topic, partitions)
        read = self.batches[-1].read(topic) if self.batches else connection.first_offsets(topic, partitions)
        return list(read_messages(connection, topic, read, ends)), dict(ends)

    def _apply(self, packed: Mapping[bytes, list[bytes]], context: Context) -> dict[str, int]:
        counts: dict[str, int] = {}
        publisher = Publisher(self.settings.sink_cluster)
        for key, rows in packed.items():
            result = advance(
                key,
                self._blobs.get(key),
                rows,
                now_ms=max(self._watermark_ms, 0),
                recorded_ms=now_ms(),
                context=context,
            )
            self._blobs[key] = result.blob
            if result.deadline_ms is not None:
                self._deadlines[key] = result.deadline_ms
            else:
                self._deadlines.pop(key, None)
            for row in result.rows:
                self._write(publisher, row)
                counts[row.output.value] = counts.get(row.output.value, 0) + 1
        return counts

    def _write(self, publisher: Publisher, row: OutputRow) -> None:
        topic = getattr(self.settings.topics, row.output.value)
        publisher.publish_row(topic, row)


def _packed_log(batches: Sequence[pa.RecordBatch], horizons: Horizons) -> Iterator[tuple[bytes, bytes]]:
    for rows in packed_rows((with_units(batch, INPUT_COLUMNS) for batch in batches), horizons):
        yield from zip(rows.keys, rows.packed, strict=True)
