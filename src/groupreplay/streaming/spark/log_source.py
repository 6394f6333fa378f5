"""The packed offsets topic as a Python data source of Spark 4.2 and later, in place of Spark's Kafka connector.

The connector finds the partitions of an internal topic only by ``KafkaConsumer.poll(long)``, which kafka-clients 4 does
not have, and makes a row of each record, which then goes to Python. This source uses Spark's public interface alone,
and packs what it reads where it reads it. Its offsets have the connector's form, so that a checkpoint goes on with
either of them, unless some groups were read ahead of the others (``log_offsets``).

Spark starts four processes for a source, and each imports this module: what only some of them need is imported there.
"""
# ruff: noqa: N802 (the names are Spark's)

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows

from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.spark.log_offsets import (
    ActiveGroups,
    LogOffsets,
    Offsets,
    Span,
    batch_end,
    between,
    deal,
    spans,
    spans_ahead,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from groupreplay.streaming.kafka.clients import Connection
    from groupreplay.streaming.sources.fetched_log import FetchedLog

#: The source's one option. Spark hides values of options whose names contain "secret": the login is in it.
PLAN: Final = "secretPlan"

#: How long the brokers may give no answer.
_PATIENCE_SECONDS: Final = 30.0
_PAUSE_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlan:
    """What the source reads: all partitions of a topic, in ``tasks`` tasks, ``max_offsets`` a batch.

    ``servers`` and ``properties`` are those of the ``Cluster``. If there are more than ``long_log`` offsets to read,
    active groups are read ahead of the others; None: they never are.
    """

    servers: str
    properties: Mapping[str, str] = field(repr=False)
    topic: str
    partitions: int
    max_offsets: int
    tasks: int
    clock_correction_ms: int = 0
    long_log: int | None = None

    def to_option(self) -> str:
        """As the option ``PLAN``."""
        return json.dumps({**asdict(self), "properties": dict(self.properties)})

    @classmethod
    def from_option(cls, text: str) -> LogPlan:
        """The plan in an option."""
        return cls(**json.loads(text))


class LogSource(DataSource):
    """The source; ``spark.dataSource.register(LogSource)`` makes it known. Its rows are those of ``pack``."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "groupreplay-log"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The reader of a streaming query."""
        return LogReader(LogPlan.from_option(self.options[PLAN]))


class ReadTask(InputPartition):
    """What one task reads: if it ``is_ahead`` of the groups in this text (``ActiveGroups``), else of all others."""

    def __init__(self, spans: Sequence[Span], groups: str | None, *, is_ahead: bool = False) -> None:
        super().__init__((list(spans), groups, is_ahead))


class LogReader(DataSourceStreamReader):
    """Plans the batches on the driver, and reads committed records in the workers; joins no group.

    Its offsets are those of ``LogOffsets``.
    """

    def __init__(self, plan: LogPlan) -> None:
        self.plan = plan
        self._newest: Offsets | None = None
        #: None: the groups to read ahead are chosen, or never will be.
        self._long_log = plan.long_log

    @cached_property
    def _connection(self) -> Connection:
        return _connection(self.plan.servers, self.plan.properties)

    def initialOffset(self) -> dict[str, Any]:
        """The begin of the log."""
        return self._as_json(LogOffsets(self._offsets(self._connection.first_offsets)))

    def getDefaultReadLimit(self) -> ReadLimit:
        """The largest number of offsets of a batch."""
        return ReadMaxRows(self.plan.max_offsets)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch.

        Raises:
            ValueError: records that were not read yet are gone.
        """
        place = self._from_json(start)
        self._newest = ends = self._offsets(self._connection.end_offsets)
        firsts = self._offsets(self._connection.first_offsets)
        _require_whole(self.plan.topic, place.next, firsts, ends)
        if place.ahead is not None:
            _require_whole(self.plan.topic, place.ahead.offsets, firsts, ends)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return self._as_json(batch_end(self._with_active_groups(place, ends), ends, most))

    def _with_active_groups(self, place: LogOffsets, ends: Offsets) -> LogOffsets:
        """Chooses, once, the groups to read ahead, if there is much to read."""
        if self._long_log is None or place.ahead is not None or between(place.next, ends) <= self._long_log:
            return place
        from groupreplay.streaming.contract.log import no_progress
        from groupreplay.streaming.sources.topic import read_log
        from groupreplay.streaming.spark.active_groups import groups_to_read_ahead
        from groupreplay.streaming.spark.operator import brokers_ms

        self._long_log = None
        read = partial(read_log, self._connection, progress=no_progress)
        now_ms = brokers_ms(self.plan.clock_correction_ms)
        groups = groups_to_read_ahead(read, spans(place.next, ends), now_ms)
        return place if groups is None else place.with_active(groups, ends)

    def reportLatestOffset(self) -> dict[str, Any]:
        """The end of the log, for the progress of the query: Spark has just asked for that of the next batch."""
        return self._as_json(LogOffsets(self._newest or self._offsets(self._connection.end_offsets)))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a batch."""
        first, last = self._from_json(start), self._from_json(end)
        of_ahead, active = spans_ahead(first, last)
        groups = None if active is None else active.to_text()
        tasks = [ReadTask(dealt, groups, is_ahead=True) for dealt in deal(of_ahead, self.plan.tasks)]
        of_others = deal(spans(first.next, last.next), self.plan.tasks)
        return [*tasks, *(ReadTask(dealt, groups) for dealt in of_others)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of ``pack`` for the records of a task."""
        from groupreplay.streaming.contract.log import no_progress, with_units
        from groupreplay.streaming.engine.packing.pack import INPUT_COLUMNS
        from groupreplay.streaming.sources.topic import read_log
        from groupreplay.streaming.spark.active_groups import records_of, rows_of, rows_without
        from groupreplay.streaming.spark.operator import pack_log

        def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            records = (with_units(batch, INPUT_COLUMNS) for batch in batches)
            return pack_log(records, self.plan.clock_correction_ms)

        of_partitions, groups, is_ahead = partition.value
        fetched = _open_log(self.plan.servers, tuple(sorted(self.plan.properties.items())))
        batches = read_log(self._connection, of_partitions, no_progress, fetched)
        if groups is None:
            return pack(batches)
        active = ActiveGroups.from_text(groups)
        if is_ahead:
            return rows_of(active, pack(records_of(active, batches)))
        return rows_without(active, pack(batches))

    def _offsets(self, answer: Callable[[str, int], dict[int, int]]) -> dict[int, int]:
        """Of all partitions; waits for brokers that are away for a moment, as the connector does."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                return answer(self.plan.topic, self.plan.partitions)
            except GroupReplayError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_PAUSE_SECONDS)

    def _as_json(self, offsets: LogOffsets) -> dict[str, Any]:
        return offsets.to_json(self.plan.topic)

    def _from_json(self, document: Mapping[str, Any]) -> LogOffsets:
        return LogOffsets.from_json(document, self.plan.topic)


def _connection(servers: str, properties: Mapping[str, str]) -> Connection:
    from groupreplay.streaming.config.settings import Cluster
    from groupreplay.streaming.kafka.clients import Connection

    return Connection(Cluster(bootstrap_servers=servers, properties=properties))


@lru_cache(maxsize=1)
def _open_log(servers: str, properties: tuple[tuple[str, str], ...]) -> FetchedLog | None:
    """The client of this worker, for one task after the other, of any plan; None: a library is missing."""
    try:
        from groupreplay.streaming.sources.fetched_log import FetchedLog
    except ImportError:
        return None
    return FetchedLog(_connection(servers, dict(properties)))


def _require_whole(topic: str, starts: Offsets, firsts: Offsets, ends: Offsets) -> None:
    for number, start in sorted(starts.items()):
        if not firsts[number] <= start <= ends[number]:
            # Spark passes on the text alone: ``faults`` has the sentence and the remedy.
            raise ValueError(
                f"the next record of {topic}-{number}, offset {start}, is not in the log "
                f"({firsts[number]} to {ends[number]}): data may have been lost"
            )
