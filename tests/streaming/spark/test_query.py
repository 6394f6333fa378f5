"""The options of the connector.

The counters of a batch: records read from the log and messages written to the sink. Rows of ``step`` as messages of
Kafka.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock, Mock, call

import pandas as pd
import pyarrow as pa
import pytest

from groupreplay.codecs import REGISTRY
from groupreplay.state import Context
from groupreplay.state.policy.rules import GroupRule, Policy
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.contract.messages import Output, OutputRow
from groupreplay.streaming.engine.advance import AdvanceResult
from groupreplay.streaming.engine.json_messages import event_row
from groupreplay.streaming.engine.packing.key_columns import as_counts
from groupreplay.streaming.engine.packing.pack import pack
from groupreplay.streaming.engine.probe_rows import ProbeFilter, pack_probes
from groupreplay.streaming.spark import operator, query
from groupreplay.streaming.spark.operator import _UNWRITTEN, OUTPUT_SCHEMA, Job, OutputCells, _cells
from groupreplay.streaming.spark.query import (
    COUNTED_SCHEMA,
    PACKED_SCHEMA,
    PROBES_SCHEMA,
    STATE_SCHEMA,
    ReadTasks,
    TopicPlan,
    caught_up_ms,
    connection_options,
    counters,
    left_out,
    messages,
    probe_records,
    read_options,
    record_sums,
)
from support.histories.builders import CONTEXT, commit, no_offset, replay
from support.histories.raw_records import batches, random_log
from support.job.captures import CLUSTER_ID
from support.job.probes import beat, probes_batch
from support.job.spark_sessions import session_with, small_session

if TYPE_CHECKING:
    from pyspark.sql.streaming.state import GroupState


def test_a_topic_is_read_by_assignment_and_as_committed() -> None:
    """No group may be joined, no aborted transaction seen; the client's own properties go along."""
    cluster = Cluster(bootstrap_servers="b:9092", properties={"security.protocol": "SSL", "group.id": "mine"})
    options = read_options(TopicPlan(cluster=cluster, topic="t", partitions=3))
    assert json.loads(options["assign"]) == {"t": [0, 1, 2]}
    assert {name: options[name] for name in connection_options(cluster)} == {
        "kafka.bootstrap.servers": "b:9092",
        "kafka.security.protocol": "SSL",
    }
    assert options["kafka.isolation.level"] == "read_committed"
    assert options["startingOffsets"] == "earliest"
    assert not {"subscribe", "subscribePattern", "kafka.group.id"} & options.keys()


def test_a_partition_without_a_leader_is_an_error_soon() -> None:
    """After half a minute, in the driver after one try; another timeout in the client's properties counts there."""
    cluster = Cluster(bootstrap_servers="b:9092", properties={"default.api.timeout.ms": "90000"})
    names = ("kafka.default.api.timeout.ms", "fetchOffset.numRetries", "kafkaConsumer.pollTimeoutMs")
    found = [
        [read_options(TopicPlan(cluster=one, topic="t", partitions=3))[name] for name in names]
        for one in (Cluster(bootstrap_servers="b:9092"), cluster)
    ]
    assert found == [["30000", "1", "30000"], ["90000", "1", "30000"]]


@pytest.mark.parametrize(
    ("master", "cores", "tasks"),
    [
        ("local[3]", 3, 3),
        ("yarn", 2, 16),
        ("yarn", 32, 32),
        ("yarn", 99, 50),
        ("local-cluster[1,1,1]", 2, 16),
    ],
)
def test_tasks_that_read_the_log(master: str, cores: int, tasks: int) -> None:
    """One for each core; on a cluster, whose executors may come later, at least one for each partition of the state."""
    assert ReadTasks(session_with(cores, master), shuffle_partitions=16, log_partitions=50).plan() == tasks


def test_a_cluster_that_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    """More cores than reading tasks plan the query again, half a minute after the last plan; fewer ones do not."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(query.time, "monotonic", lambda: clock.now)
    tasks = ReadTasks(session_with(2), shuffle_partitions=4, log_partitions=50)
    said, planned = [], [tasks.plan()]
    for clock.now, cores in ((29, 8), (31, 4), (32, 8), (60, 2), (70, 8), (71, 12), (103, 99)):
        tasks.spark = session_with(cores)
        said.append(tasks.growth())
        planned += [tasks.plan()] if said[-1] else []
    assert planned == [4, 8, 12, 50]
    grown = "the cluster has grown, continuing with {} tasks that read the log ({} before)"
    assert said == [None, None, grown.format(8, 4), None, None, grown.format(12, 8), grown.format(50, 12)]


def test_the_first_batch_does_not_take_a_month_of_probes() -> None:
    """They are read with a limit, as the log is, whose limit a flag gives."""
    spark = MagicMock()
    plan = TopicPlan(cluster=Cluster(bootstrap_servers="b:9092"), topic="t", partitions=1)
    probe_records(spark, plan)
    options = spark.readStream.format.return_value.options.call_args.kwargs
    assert 0 < int(options["maxOffsetsPerTrigger"]) <= 1_000_000


MINUTE = 60_000
T0 = 1_700_000_000_000


@pytest.mark.spark
def test_expiries_in_groups_that_do_not_matter() -> None:
    """Expiries count where rules or history show that the group does not matter; others and documents do not."""
    topics = TopicNames()
    rows: list[OutputCells] = [
        _cells(OutputRow(Output.STATES, b"g", value), topics) for value in (b'{"severitynumber":9,}', None)
    ]
    # None: its history decides, and one commit is not enough.
    for matters in (True, False, None):
        policy = Policy(groups=(GroupRule(groups="*", matters=matters),))
        context = replace(CONTEXT, retention_ms=MINUTE, policy=policy)
        _, events = replay([commit("t", 0, 5, at=1), no_offset("t", 0, at=2 * MINUTE)], context)
        rows += [_cells(event_row(event, context, None), topics) for event in events]
    rows.append(_UNWRITTEN)
    (counted,) = small_session().createDataFrame(rows, OUTPUT_SCHEMA).agg(*counters(topics)).collect()
    expected = {
        "events": len(rows) - 3,
        "states": 2,
        "dead_letters": 0,
        "job": 0,
        "unmissed_expired": 2,
        "quarantined": 0,
        "unwritten": 1,
    }
    assert counted.asDict() == expected
    assert len(rows) > 5


@pytest.mark.spark
def test_records_by_type() -> None:
    """Every record counts once under the type that its key names; the sum is that of the chunks."""
    rows = random_log(11, 3_000)
    spark, schema = small_session(), COUNTED_SCHEMA
    packed = list(pack(batches(rows, 500)))
    assert sum(len(batch) for batch in packed) > len(packed) > 0
    frame = spark.createDataFrame(rows_of(packed), schema)
    (row,) = frame.agg(*record_sums()).collect()
    expected = Counter(type_of(key) for _, _, _, key, _ in rows)
    assert as_counts(row.asDict()) == expected
    assert len(expected) > 2


def rows_of(packed: list[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    """Batches as rows: Spark 3.5 makes no frame from a table of Arrow."""
    return [tuple(row.values()) for row in pa.Table.from_batches(packed).to_pylist()]


@pytest.mark.spark
def test_messages_that_are_left_out() -> None:
    """They are added up over the batches of a task; a task without any has no number."""
    from pyspark.sql import Row

    spark = small_session()
    topic = ProbeFilter(topic="group-probes", cluster_id=CLUSTER_ID)
    stranger, ahead = (b"g", b"{"), beat(at=T0 + 61_000, caught_up=None)
    messages = [[stranger, ahead], [stranger, beat(at=T0, caught_up=None)], [stranger]]
    packed = list(pack_probes([probes_batch(one, append_ms=T0) for one in messages], topic))
    frame = spark.createDataFrame(rows_of(packed), PROBES_SCHEMA)
    assert frame.agg(*left_out()).collect() == [Row(probes_unreadable=3, probes_misdated=1)]


def type_of(key: bytes | None) -> str:
    """The name of the type that the first two bytes of a key stand for."""
    number = int.from_bytes(key[:2], "big", signed=True) if key is not None and len(key) >= 2 else -1
    return REGISTRY[number][0].__name__.removesuffix("Key") if number in REGISTRY else "unknown"


@pytest.mark.spark
def test_every_key_receives_the_caught_up_time(tmp_path: Path) -> None:
    """A number in the batch that brings it, the watermark from the next one on; no row is ever late."""
    spark = small_session()
    for number, at_ms in enumerate((T0, None, T0 - MINUTE)):
        caught_up = None if at_ms is None else datetime.fromtimestamp(at_ms / 1000, timezone.utc)
        rows = spark.createDataFrame([(f"g:{number}".encode(), b"p", caught_up)], PACKED_SCHEMA)
        rows.coalesce(1).write.mode("append").parquet(str(tmp_path / "rows"))

    def observe(
        key: tuple[bytes], frames: Iterable[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        """Returns what the function of a key receives."""
        column = pd.concat(list(frames))["caught_up_ms"]
        seen = f"{column.dtype} {column.tolist()} {state.getCurrentWatermarkMs()}"
        yield pd.DataFrame({"key": [key[0].decode()], "seen": [seen]})

    # With timers every batch leaves one more to be done, and the query would never end.
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    query = (
        spark.readStream.schema(PACKED_SCHEMA)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(tmp_path / "rows"))
        .withWatermark("caught_up", "0 seconds")
        .select("key", "packed", caught_up_ms())
        .groupBy("key")
        .applyInPandasWithState(
            observe, "key string, seen string", STATE_SCHEMA, "append", "ProcessingTimeTimeout"
        )
        .writeStream.format("memory")
        .queryName("seen")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.conf.unset("spark.sql.streaming.noDataMicroBatches.enabled")
    found = {row.key: row.seen for row in spark.table("seen").collect()}
    assert found == {
        "g:0": f"int64 [{T0}] 0",
        "g:1": f"int64 [-1] {T0}",
        "g:2": f"int64 [{T0 - MINUTE}] {T0}",
    }
    assert [one["numInputRows"] for one in query.recentProgress][:3] == [1, 1, 1]


@pytest.mark.parametrize("off_ms", [0, 3_600_000, -3_600_000])
def test_a_machine_whose_clock_is_off(monkeypatch: pytest.MonkeyPatch, off_ms: int) -> None:
    """Deadlines and times of emission go by the corrected clock; the timer is as long as it would be otherwise."""
    called = Mock(return_value=AdvanceResult(blob=b"new", changed=True, deadline_ms=T0 + 5_000, rows=[]))
    monkeypatch.setattr(operator, "advance", called)
    state = Mock(exists=False, hasTimedOut=False)
    state.getCurrentProcessingTimeMs.return_value = T0 + off_ms
    state.getCurrentWatermarkMs.return_value = T0 - 1_000
    context = Context(cluster_id="c", clock_correction_ms=-off_ms)
    assert (
        operator.rows_of_call(b"g:g", [([b"p"], [-1])], state, Job(context=context, topics=TopicNames()))
        == []
    )
    assert called.call_args.kwargs["now_ms"] == T0 - 1_000
    assert called.call_args.kwargs["recorded_ms"] == T0
    assert state.setTimeoutDuration.call_args_list == [call(6_000)]


@pytest.mark.spark
def test_headers_become_binary_pairs() -> None:
    """In their order, in any language; a row without headers has none, a tombstone stays one."""
    headers = {"content-type": "application/cloudevents+json", "ce_subject": "grüße \u0001"}
    rows = [("t", b"k", b"v", json.dumps(headers), "x", 9), ("t", b"k", None, None, None, None)]
    event, tombstone = messages(small_session().createDataFrame(rows, OUTPUT_SCHEMA)).collect()
    assert (event.topic, bytes(event.key), bytes(event.value)) == ("t", b"k", b"v")
    assert [(one.key, bytes(one.value).decode()) for one in event.headers] == list(headers.items())
    assert (tombstone.value, tombstone.headers) == (None, None)
