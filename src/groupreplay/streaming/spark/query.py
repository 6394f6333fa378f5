"""The query: the packed log and the packed probes, grouped by key, one call of ``step`` for each group."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from groupreplay.state.events.event import Severity
from groupreplay.state.events.group_events import GroupQuarantined
from groupreplay.state.events.offset_events import OffsetsExpired
from groupreplay.state.output.envelope import event_type
from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.contract.output import Output
from groupreplay.streaming.engine.packing.key_columns import summed
from groupreplay.streaming.engine.probe_rows import COUNTS, ProbeFilter, pack_probes
from groupreplay.streaming.spark.log_task import pack_log
from groupreplay.streaming.spark.operator import OUTPUT_SCHEMA, Job, step
from groupreplay.streaming.spark.source import TopicPlan, log_records, probe_records

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: The column of ``pack.COUNTED_SCHEMA`` that ``pack.OUTPUT_SCHEMA`` does not have.
RECORD_COUNTS: Final = "record_counts"
#: ``pack.OUTPUT_SCHEMA``, the schema of both packed sources; the log has the counts as well.
PACKED_SCHEMA: Final = "key binary, packed binary, caught_up timestamp"
COUNTED_SCHEMA: Final = f"{PACKED_SCHEMA}, {RECORD_COUNTS} array<bigint>"
PROBES_SCHEMA: Final = ", ".join([PACKED_SCHEMA, *(f"{name} bigint" for name in COUNTS)])
#: One column, because arrays and maps crash in some releases. It must never change: the first batch of a checkpoint
#: freezes it. The value has a version of its own.
STATE_SCHEMA: Final = "state binary"
#: Names of the counters in the progress of a batch: of the records read, of the probes left out and of the messages
#: written.
OBSERVED_READ: Final = "read"
OBSERVED_PROBES: Final = "probes"
OBSERVED: Final = "written"
#: The counter of events about offsets that expired in groups that do not matter.
UNMISSED: Final = "unmissed_expired"
#: The counter of groups that were set aside.
QUARANTINED: Final = "quarantined"
#: The counter of messages that were too large for their topic, and whose dead letter was, too.
UNWRITTEN: Final = "unwritten"


def output_rows(
    spark: SparkSession,
    *,
    log: TopicPlan,
    probes: TopicPlan,
    probe_filter: ProbeFilter,
    job: Job,
    max_offsets_per_trigger: int,
) -> DataFrame:
    """The rows that the job writes. The order of the two sources is part of every checkpoint."""
    from pyspark.sql.streaming.state import GroupStateTimeout

    return (
        log_records(spark, log, max_offsets_per_trigger)
        # Fifty tasks would start Python fifty times; here each task packs several partitions in turn.
        .coalesce(spark.sparkContext.defaultParallelism)
        .mapInArrow(partial(pack_log, clock_correction_ms=job.context.clock_correction_ms), COUNTED_SCHEMA)
        .observe(OBSERVED_READ, *summed(RECORD_COUNTS))
        .drop(RECORD_COUNTS)
        .unionByName(
            # One task, so that one call sees all messages of a batch.
            probe_records(spark, probes)
            .coalesce(1)
            .mapInArrow(partial(pack_probes, probe_filter=probe_filter), PROBES_SCHEMA)
            .observe(OBSERVED_PROBES, *left_out())
            .drop(*COUNTS)
        )
        # No row is late with this kind of timeout; the watermark only carries the caught-up time to every group.
        .withWatermark("caught_up", "0 seconds")
        .select("key", "packed", caught_up_ms())
        .groupBy("key")
        .applyInPandasWithState(
            partial(step, job=job),
            OUTPUT_SCHEMA,
            STATE_SCHEMA,
            "append",
            GroupStateTimeout.ProcessingTimeTimeout,
        )
    )


def caught_up_ms() -> Column:
    """The caught-up time as a number, -1 for none, with the metadata of a watermark column.

    PySpark converts every column for every key, and a timestamp costs more than the rest of a call. Spark passes the
    watermark only to functions whose rows have a column with this metadata.
    """
    from pyspark.sql import functions as sql

    milliseconds = sql.coalesce(sql.unix_millis("caught_up"), sql.lit(-1))
    return milliseconds.alias("caught_up_ms", metadata={"spark.watermarkDelayMs": 0})


def left_out() -> list[Column]:
    """Messages of the topic of probes that are not used, by reason."""
    from pyspark.sql import functions as sql

    return [sql.sum(sql.col(name)).alias(name) for name in COUNTS]


def counters(topics: TopicNames) -> list[Column]:
    """Rows of each topic, expiries in groups that do not matter, groups set aside, and rows without a topic."""
    from pyspark.sql import functions as sql

    expired = sql.col("event_type") == event_type(OffsetsExpired.NAME)
    # Evaluated for expiries alone: the message is parsed for it.
    is_missed = sql.get_json_object(sql.col("value").cast("string"), "$.data.matters")
    unmissed = expired & ((sql.col("severity") == Severity.INFO.value) | (is_missed == "false"))
    counts = [
        sql.count_if(sql.col("topic") == getattr(topics, output.value)).alias(output.value)
        for output in Output
    ]
    quarantined = sql.col("event_type") == event_type(GroupQuarantined.NAME)
    return [
        *counts,
        sql.count_if(unmissed).alias(UNMISSED),
        sql.count_if(quarantined).alias(QUARANTINED),
        sql.count_if(sql.col("topic").isNull()).alias(UNWRITTEN),
    ]
