"""The packed offsets topic as a Python data source of Spark 4.2 and later, in place of Spark's Kafka connector.

The connector finds the partitions of an internal topic only by ``KafkaConsumer.poll(long)``, which kafka-clients 4 does
not have, and makes a row of each record, which then goes to Python. This source uses Spark's public interface alone,
and packs what it reads where it reads it. Its offsets have the connector's form, so that a checkpoint goes on with
either of them.

Spark starts four processes for a source, and each imports this module: what only some of them need is imported there.
"""
# ruff: noqa: N802 (the names are Spark's)

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows

from groupreplay.streaming.base.errors import GroupReplayError

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

Offsets = Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlan:
    """What the source reads: all partitions of a topic, in ``tasks`` tasks, ``max_offsets`` a batch.

    ``servers`` and ``properties`` are those of the ``Cluster``.
    """

    servers: str
    properties: Mapping[str, str] = field(repr=False)
    topic: str
    partitions: int
    max_offsets: int
    tasks: int
    clock_correction_ms: int = 0

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


class Spans(InputPartition):
    """What one task reads: ``(partition, first offset, offset behind the last)`` for each of its partitions."""

    def __init__(self, spans: Sequence[tuple[int, int, int]]) -> None:
        super().__init__(list(spans))


class LogReader(DataSourceStreamReader):
    """Plans the batches on the driver, and reads committed records in the workers; joins no group.

    Offsets are ``{TOPIC: {"0": 17, …}}``: the next one of each partition.
    """

    def __init__(self, plan: LogPlan) -> None:
        self.plan = plan
        self._newest: dict[int, int] | None = None

    @cached_property
    def _connection(self) -> Connection:
        return _connection(self.plan.servers, self.plan.properties)

    def initialOffset(self) -> dict[str, Any]:
        """The begin of the log."""
        return self._as_json(self._offsets(self._connection.first_offsets))

    def getDefaultReadLimit(self) -> ReadLimit:
        """The largest number of offsets of a batch."""
        return ReadMaxRows(self.plan.max_offsets)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch.

        Raises:
            ValueError: records that were not read yet are gone.
        """
        starts = _from_json(start)
        self._newest = ends = self._offsets(self._connection.end_offsets)
        _require_whole(self.plan.topic, starts, self._offsets(self._connection.first_offsets), ends)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return self._as_json(ends if most is None else bounded(starts, ends, most))

    def reportLatestOffset(self) -> dict[str, Any]:
        """The end of the log, for the progress of the query: Spark has just asked for that of the next batch."""
        return self._as_json(self._newest or self._offsets(self._connection.end_offsets))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a batch."""
        starts = _from_json(start)
        spans = [(number, starts.get(number, 0), at) for number, at in _from_json(end).items()]
        return [
            Spans(dealt) for dealt in deal([each for each in spans if each[1] < each[2]], self.plan.tasks)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of ``pack`` for the records of a task."""
        from groupreplay.streaming.contract.log import no_progress, with_units
        from groupreplay.streaming.engine.packing.pack import INPUT_COLUMNS
        from groupreplay.streaming.sources.topic import read_log
        from groupreplay.streaming.spark.operator import pack_log

        fetched = _open_log(self.plan.servers, tuple(sorted(self.plan.properties.items())))
        batches = read_log(self._connection, partition.value, no_progress, fetched)
        records = (with_units(batch, INPUT_COLUMNS) for batch in batches)
        return pack_log(records, self.plan.clock_correction_ms)

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

    def _as_json(self, offsets: Offsets) -> dict[str, Any]:
        return {self.plan.topic: {str(number): at for number, at in sorted(offsets.items())}}


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


def bounded(starts: Offsets, ends: Offsets, most: int) -> dict[int, int]:
    """The ends of a batch of about ``most`` offsets: each partition gives the same share of what it has left."""
    left = {number: end - starts.get(number, 0) for number, end in ends.items()}
    total = sum(left.values())
    if total <= most:
        return dict(ends)
    # At least one offset of each, so that none is forgotten.
    return {
        number: end if left[number] <= 0 else end - left[number] + max(1, left[number] * most // total)
        for number, end in ends.items()
    }


def deal(spans: Sequence[tuple[int, int, int]], tasks: int) -> list[list[tuple[int, int, int]]]:
    """The spans in as many lists, or fewer, that have about the same number of offsets: the longest are dealt first."""
    hands: list[list[tuple[int, int, int]]] = [[] for _ in range(min(tasks, len(spans)))]
    sizes = [0] * len(hands)
    for span in sorted(spans, key=lambda each: each[1] - each[2]):
        smallest = sizes.index(min(sizes))
        hands[smallest].append(span)
        sizes[smallest] += span[2] - span[1]
    return hands


def _require_whole(topic: str, starts: Offsets, firsts: Offsets, ends: Offsets) -> None:
    for number, start in sorted(starts.items()):
        if not firsts[number] <= start <= ends[number]:
            # Spark passes on the text alone: ``faults`` has the sentence and the remedy.
            raise ValueError(
                f"the next record of {topic}-{number}, offset {start}, is not in the log "
                f"({firsts[number]} to {ends[number]}): data may have been lost"
            )


def _from_json(document: Mapping[str, Any]) -> dict[int, int]:
    (offsets,) = document.values()
    return {int(number): int(at) for number, at in offsets.items()}
