"""One call for one key in Spark: applies the rows to the state, stores it and sets the timer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import pyarrow as pa

from groupreplay.state.plausible_times import UNKNOWN_MS
from groupreplay.state.policy.context import Context
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.contract.messages import OutputRow
from groupreplay.streaming.engine.advance import AdvanceResult, advance
from groupreplay.streaming.engine.json_messages import fit_rows
from groupreplay.streaming.engine.packing.pack import pack
from groupreplay.streaming.engine.packing.record_times import Horizons

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column
    from pyspark.sql.streaming.state import GroupState

#: The column of ``pack.COUNTED_SCHEMA`` that ``pack.OUTPUT_SCHEMA`` does not have.
RECORD_COUNTS: Final = "record_counts"
#: ``pack.OUTPUT_SCHEMA``, the schema of both packed sources; the log has the counts as well.
PACKED_SCHEMA: Final = "key binary, packed binary, caught_up timestamp"
COUNTED_SCHEMA: Final = f"{PACKED_SCHEMA}, {RECORD_COUNTS} array<bigint>"
#: One column, because arrays and maps crash in some releases. It must never change: the first batch of a checkpoint
#: freezes it. The value has a version of its own.
STATE_SCHEMA: Final = "state binary"
#: The columns that a call yields. ``headers`` is a JSON object of header name to text, or null; the last two columns
#: do not reach Kafka: the query counts by them.
OUTPUT_SCHEMA: Final = (
    "topic string, key binary, value binary, headers string, event_type string, severity integer"
)
OUTPUT_COLUMNS: Final = tuple(column.split()[0] for column in OUTPUT_SCHEMA.split(", "))
#: With 3, a timer that was set when x of the backlog was read fires at 4 x of it, 16 x, and so on.
_BACKLOG_WAIT: Final = 3
#: Some rows of one key: (``packed``, ``caught_up_ms``).
Chunk = tuple[Sequence[bytes | None], Sequence[int]]
#: One row by ``OUTPUT_COLUMNS``.
OutputCells = tuple[str | None, bytes, bytes | None, str | None, str | None, int | None]
#: For a message that no topic takes: it is counted, and does not reach the sink.
_UNWRITTEN: Final[OutputCells] = (None, b"", None, None, None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The settings of the job that every call needs; sent to the workers once.

    ``started_ms``: when the query was started, by the brokers' time. ``retry_ms``: how long a timer that is due waits
    for the caught-up time before it fires again; 0: it fires in each batch. ``limits``: the largest message by the
    values of ``Output``. ``timers``: false where the operator has none (``NoTimeout``).
    """

    context: Context
    topics: TopicNames
    started_ms: int = 0
    retry_ms: int = 10_000
    limits: Mapping[str, int] = field(default_factory=dict)
    timers: bool = True


def caught_up_ms() -> Column:
    """The caught-up time as a number, -1 for none, with the metadata of a watermark column.

    PySpark converts every column for every key, and a timestamp costs more than the rest of a call. Spark passes the
    watermark only to functions whose rows have a column with this metadata.
    """
    from pyspark.sql import functions as sql

    milliseconds = sql.coalesce(sql.unix_millis("caught_up"), sql.lit(-1))
    return milliseconds.alias("caught_up_ms", metadata={"spark.watermarkDelayMs": 0})


def step(
    key: tuple[bytes], frames: Iterable[pd.DataFrame], state: GroupState, *, job: Job
) -> Iterator[pd.DataFrame]:
    """The function for ``applyInPandasWithState``: ``rows_of_call`` with frames of pandas.

    Workers with ``group_worker`` installed call ``rows_of_call`` directly.
    """
    import pandas as pd

    chunks = ((frame["packed"].tolist(), frame["caught_up_ms"].tolist()) for frame in frames)
    rows = rows_of_call(key[0], chunks, state, job)
    if rows:
        # From one array: a frame from separate columns costs several times as much, and every key has a frame.
        cells = np.empty((len(rows), len(OUTPUT_COLUMNS)), object)
        cells[:] = rows
        yield pd.DataFrame(cells, columns=list(OUTPUT_COLUMNS))


def rows_of_call(key: bytes, chunks: Iterable[Chunk], state: GroupState, job: Job) -> list[OutputCells]:
    """One call, which Spark makes for each key with data and for each timer that is due.

    PySpark keeps the timer of a call that stores nothing, and when a timer caused the call, fires it again in every
    batch: such a call must end with an update and a new timer, or with a removal.
    """
    packed: list[bytes] = []
    caught_up_ms = state.getCurrentWatermarkMs()
    for blobs, times_ms in chunks:
        packed += [blob for blob in blobs if blob is not None]
        if None in blobs:
            # The caught-up time, one batch before it becomes the watermark (see ``pack_probes``).
            caught_up_ms = max(caught_up_ms, *times_ms)
    # Durations of timers go by Spark's own clock; everything else goes by the brokers' time.
    processing_ms = state.getCurrentProcessingTimeMs() + job.context.clock_correction_ms
    now_ms = min(processing_ms, caught_up_ms)
    result = advance(
        key,
        # A row of the state without bytes is damaged: what was never stored does not exist.
        (state.get[0] or b"") if state.exists else None,
        packed,
        now_ms=now_ms,
        recorded_ms=processing_ms,
        context=job.context,
    )
    trail_ms = _trail_ms(job, processing_ms, now_ms) if job.timers else None
    _store(result, state, processing_ms, trail_ms)
    rows, unwritten = fit_rows(result.rows, job.limits, job.context)
    return [*(_cells(row, job.topics) for row in rows), *[_UNWRITTEN] * unwritten]


def _trail_ms(job: Job, processing_ms: int, now_ms: int) -> int:
    """How long after its deadline a timer fires, because the caught-up time is behind the present.

    While the query reads what was written before its start, every deadline of the past is due in every batch, for
    every group, and nothing can be done: a timer then waits ``_BACKLOG_WAIT`` times as long as the query has run. So
    the calls in vain stay fewer than the groups, and those that do work are spread over the time behind the backlog.
    """
    wait_ms = job.retry_ms
    if wait_ms and now_ms < job.started_ms:
        wait_ms = max(wait_ms, _BACKLOG_WAIT * (processing_ms - job.started_ms))
    return min(processing_ms - now_ms, wait_ms)


def _store(result: AdvanceResult, state: GroupState, processing_ms: int, trail_ms: int | None) -> None:
    """``trail_ms`` as in ``_trail_ms``, None without timers."""
    if result.removable or (result.blob is None and state.hasTimedOut):
        if state.exists:
            state.remove()
    elif result.changed or state.hasTimedOut:
        state.update((result.blob,))
        if result.deadline_ms is not None and trail_ms is not None:
            state.setTimeoutDuration(max(1, max(result.deadline_ms - processing_ms, 0) + trail_ms))


def _cells(row: OutputRow, topics: TopicNames) -> OutputCells:
    return (
        getattr(topics, row.output.value),
        row.key,
        row.value,
        _headers_text(row.headers),
        row.event_type,
        row.severity,
    )


def _headers_text(headers: tuple[tuple[str, bytes], ...]) -> str | None:
    """Headers as one JSON object, because the column of a frame must have a plain type."""
    if not headers:
        return None
    return msgspec.json.encode({name: value.decode() for name, value in headers}).decode()


#: A clock that shows an earlier time has never been set; the limit is then that of a log without heartbeats.
_LONG_AGO_MS: Final = 1_700_000_000_000


def brokers_ms(clock_correction_ms: int) -> int:
    """The time of this machine, corrected as ``Context.clock_correction_ms`` says."""
    return now_ms() + clock_correction_ms


def pack_log(batches: Iterable[pa.RecordBatch], clock_correction_ms: int) -> Iterator[pa.RecordBatch]:
    """``pack`` with the time of ``brokers_ms``."""
    at_ms = brokers_ms(clock_correction_ms)
    return pack(batches, Horizons(at_ms if at_ms >= _LONG_AGO_MS else UNKNOWN_MS))
