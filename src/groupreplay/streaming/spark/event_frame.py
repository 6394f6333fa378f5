"""The events of a frame with records of ``__consumer_offsets``, for those who write them where they like.

The functions are those of the job and of ``replay``: the same records give the same events with the same ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from groupreplay.state.plausible_times import LATEST_MS
from groupreplay.state.policy.context import OFFSETS_TOPIC, Context
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.base.errors import unusable
from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.contract.messages import Output
from groupreplay.streaming.engine.advance import advance
from groupreplay.streaming.engine.packing import pack as packing
from groupreplay.streaming.engine.wire import (
    BAD_RECORDS_TAG,
    GROUP_TAG,
    HEARTBEAT_TAG,
    JOB_TAG,
    packed_groups,
    unpack_bad_records,
)
from groupreplay.streaming.spark.operator import (
    COUNTED_SCHEMA,
    OUTPUT_SCHEMA,
    RECORD_COUNTS,
    STATE_SCHEMA,
    Job,
    caught_up_ms,
    pack_log,
    step,
)

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column, DataFrame

#: The columns of the result. ``topic``, ``partition`` and ``offset`` are those of the record that caused the event,
#: null for an event that time has caused; ``document`` is the CloudEvent, as in the topic of events.
EVENT_SCHEMA: Final = (
    "event_id string, time timestamp, type string, severity string, severity_number int, group_id string, "
    "topic string, partition int, offset bigint, document string"
)
_DOCUMENT: Final = (
    "id string, time timestamp, type string, severitytext string, severitynumber int, "
    "data struct<group_id: string, cause: struct<topic: string, partition: int, offset: bigint>>"
)
_NEEDED: Final = ("partition", "offset", "timestamp", "key", "value")
_TOPICS: Final = TopicNames()


def event_frame(frame: DataFrame, context: Context, late_by: str | None = None) -> DataFrame:
    """The events of a batch or streaming frame with the columns of Spark's Kafka source, in ``EVENT_SCHEMA``.

    A batch is a whole log: its end is the time of its last record, as in ``replay``. In a stream the time of a group is
    that of its own records; with ``late_by`` (a duration as Spark writes it) it is also that of the newest record of
    all groups, less this duration.

    Raises:
        GroupReplayError: a column is missing or has another type, or ``late_by`` does not fit.
    """
    records = _records(frame)
    if not frame.isStreaming:
        if late_by is not None:
            raise unusable("late_by applies to a stream", "a batch frame", "leave it out: a batch has an end")
        return _events(_of_batch(records, context))
    return _events(_of_stream(records, context, late_by))


def _records(frame: DataFrame) -> DataFrame:
    """The columns that ``pack`` reads, of the offsets topic alone if the frame has several."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import BinaryType, IntegralType, TimestampType

    types = {field.name: field.dataType for field in frame.schema.fields}
    missing = [name for name in _NEEDED if name not in types]
    if missing:
        raise unusable(
            f"the frame has no column {', '.join(missing)}",
            f"columns {', '.join(types)}",
            "give a frame with the columns of Spark's Kafka source",
        )
    for name in ("key", "value"):
        if not isinstance(types[name], BinaryType):
            fix = "leave key and value as the Kafka source has them: bytes that are no text"
            raise unusable(f"the column is {types[name].simpleString()}, not binary", name, fix)
    if isinstance(types["timestamp"], TimestampType):
        at_ms = sql.unix_millis("timestamp")
    elif isinstance(types["timestamp"], IntegralType):
        at_ms = sql.col("timestamp").cast("bigint")
    else:
        fix = "give timestamps as the Kafka source has them, or milliseconds since 1970"
        raise unusable(f"the column is {types['timestamp'].simpleString()}", "timestamp", fix)
    rows = frame.where(sql.col("topic") == OFFSETS_TOPIC) if "topic" in types else frame
    return rows.select(
        sql.col("partition").cast("int").alias("partition"),
        sql.col("offset").cast("bigint").alias("offset"),
        at_ms.alias("timestamp_ms"),
        "key",
        "value",
    )


def _of_stream(records: DataFrame, context: Context, late_by: str | None) -> DataFrame:
    from pyspark.sql import functions as sql
    from pyspark.sql.streaming.state import GroupStateTimeout

    # Without a time that passes for all groups no timer would ever do anything, and each would fire in every batch.
    timers = late_by is not None
    timeout = GroupStateTimeout.ProcessingTimeTimeout if timers else GroupStateTimeout.NoTimeout
    job = Job(context=context, topics=_TOPICS, timers=timers)
    return (
        records.mapInArrow(partial(pack_stream, timed=timers), COUNTED_SCHEMA)
        .drop(RECORD_COUNTS)
        .where(_is_no_job_row())
        .withWatermark("caught_up", late_by or "0 seconds")
        .select("key", "packed", caught_up_ms())
        .groupBy("key")
        .applyInPandasWithState(partial(step, job=job), OUTPUT_SCHEMA, STATE_SCHEMA, "append", timeout)
        .where(sql.col("topic") == getattr(_TOPICS, Output.EVENTS.value))
        .select("value")
    )


def pack_stream(batches: Iterable[pa.RecordBatch], *, timed: bool) -> Iterator[pa.RecordBatch]:
    """``pack_log``; ``timed`` adds a row with the time of the newest record, which becomes the watermark.

    A record that is dated after now does not count.
    """
    latest_ms, limit_ms = 0, now_ms()

    def noting() -> Iterator[pa.RecordBatch]:
        nonlocal latest_ms
        for batch in batches:
            times = batch.column("timestamp_ms")
            latest_ms = max(latest_ms, pc.max(times.filter(pc.less_equal(times, limit_ms))).as_py() or 0)
            yield batch

    yield from pack_log(noting(), clock_correction_ms=0)
    if timed and latest_ms:
        columns = [[HEARTBEAT_TAG], [None], [1_000 * latest_ms], [None]]
        arrays = [
            pa.array(values, field.type)
            for values, field in zip(columns, packing.COUNTED_SCHEMA, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=packing.COUNTED_SCHEMA)


def _of_batch(records: DataFrame, context: Context) -> DataFrame:
    from pyspark.sql import functions as sql

    can_be = sql.col("timestamp_ms").between(0, LATEST_MS)
    end = records.agg(sql.max(sql.when(can_be, sql.col("timestamp_ms"))).alias("end_ms"))
    return (
        # Files have the records in any order, and a partition in several tasks.
        records.repartition("partition")
        .sortWithinPartitions("partition", "offset")
        .mapInArrow(packing.pack, COUNTED_SCHEMA)
        .where(_is_no_job_row())
        .select("key", "packed")
        .crossJoin(sql.broadcast(end))
        .groupBy("key")
        # Of a partial, Spark 4 looks for type hints, and warns that there are none.
        .applyInPandas(lambda key, frame: replay_key(key, frame, context=context), "value binary")
    )


def _is_no_job_row() -> Column:
    """The state of the job itself follows from heartbeats, which a frame of records does not have."""
    from pyspark.sql import functions as sql

    return sql.col("key") != sql.lit(JOB_TAG)


def replay_key(key: tuple[bytes], frame: pd.DataFrame, *, context: Context) -> pd.DataFrame:
    """The function for ``applyInPandas``: all that happened to one key, with the end of the log; as ``Replay``.

    ``frame`` has the columns ``packed`` and ``end_ms``, the result the column ``value`` with the events.
    """
    import pandas as pd

    end_ms = frame["end_ms"].iloc[0]
    packed = frame["packed"].tolist()
    events = list(events_of_key(bytes(key[0]), packed, context, 0 if pd.isna(end_ms) else int(end_ms)))
    return pd.DataFrame({"value": pd.Series(events, dtype=object)})


def events_of_key(key: bytes, packed: Sequence[bytes], context: Context, end_ms: int) -> Iterator[bytes]:
    """The events of one key in all that ``pack`` has made of it, in any order; ``end_ms`` is the end of the log."""
    blob: bytes | None = None
    deadline_ms: int | None = None
    for call, now in [*((one, 0) for one in _in_log_order(key, packed)), (None, end_ms + 1)]:
        if call is None and (deadline_ms is None or deadline_ms > now):
            return
        result = advance(
            key, blob, [] if call is None else [call], now_ms=now, recorded_ms=None, context=context
        )
        blob, deadline_ms = None if result.removable else result.blob, result.deadline_ms
        for row in result.rows:
            if row.output is Output.EVENTS and row.value is not None:
                yield row.value


def _in_log_order(key: bytes, packed: Sequence[bytes]) -> list[bytes]:
    if key.startswith(GROUP_TAG):
        places = [(group.partition, group.seen_to) for group in packed_groups(packed)]
    elif key.startswith(BAD_RECORDS_TAG):
        places = [(0, unpack_bad_records([one])[0].record.offset) for one in packed]
    else:
        return list(packed)
    return [packed[number] for number in sorted(range(len(packed)), key=places.__getitem__)]


def _events(values: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sql

    document = sql.col("value").cast("string")
    event = values.select(sql.from_json(document, _DOCUMENT).alias("event"), document.alias("document"))
    return event.select(
        sql.col("event.id").alias("event_id"),
        "event.time",
        "event.type",
        sql.col("event.severitytext").alias("severity"),
        sql.col("event.severitynumber").alias("severity_number"),
        "event.data.group_id",
        "event.data.cause.topic",
        "event.data.cause.partition",
        "event.data.cause.offset",
        "document",
    )
