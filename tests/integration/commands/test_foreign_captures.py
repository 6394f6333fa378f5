"""Captures that other programs wrote: each gives the records of our own capture of the same topic."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import TopicPartition
from pyspark.sql import DataFrame
from pyspark.sql.functions import rand

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.local.jars import jar_paths
from support.job.captures import invoke, printed_by
from support.job.spark_sessions import small_session
from support.kafka.clients import commit_once, make_topics

pytestmark = [pytest.mark.broker, pytest.mark.spark]

TOPIC = "foreign-captures"
#: Spark's source numbers the types of timestamps, too, and can hold headers.
SPARK_COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]


@pytest.fixture(scope="module")
def own(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our capture of a topic with commits of thirty groups."""
    make_topics(broker.bootstrap_servers, {TOPIC: 4})
    for number in range(30):
        for offset in (1, 2):
            commit_once(
                broker.bootstrap_servers, f"foreign-{number}", TopicPartition(TOPIC, number % 4, offset)
            )
    path = tmp_path_factory.mktemp("own") / "own.parquet"
    printed_by("capture", "--bootstrap-server", broker.bootstrap_servers, "-o", path)
    return path


@pytest.fixture(scope="module")
def frame(broker: EmbeddedBroker, own: Path) -> DataFrame:
    """The same records as Spark's Kafka source gives them, rows in no order."""
    table = pq.read_table(own, columns=["partition", "offset"]).to_pydict()
    ends: dict[str, int] = {}
    for partition, offset in zip(table["partition"], table["offset"], strict=True):
        ends[str(partition)] = max(ends.get(str(partition), 0), offset + 1)
    bounds = str({OFFSETS_TOPIC: ends}).replace("'", '"')
    assert jar_paths("spark-connector")
    partitions = ",".join(ends)
    source = small_session().read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    source = source.option("assign", f'{{"{OFFSETS_TOPIC}":[{partitions}]}}').option("endingOffsets", bounds)
    source = source.option("includeHeaders", "true").option("kafka.isolation.level", "read_committed")
    return source.load().select(*SPARK_COLUMNS).orderBy(rand(seed=1))


def decoded(*flags: object) -> str:
    """All records with their places, as the command prints them."""
    return printed_by("decode", "--with-position", *flags)


def one_file(frame: DataFrame, folder: Path) -> list[object]:
    """All partitions in one file, as Spark's source has the columns."""
    frame.coalesce(1).write.parquet(str(folder / "one"))
    return ["--from-file", folder / "one"]


def hive_folders(frame: DataFrame, folder: Path) -> list[object]:
    """Topic and partition are in the names of folders only."""
    frame.write.partitionBy("topic", "partition").parquet(str(folder / "hive"))
    return ["--from-file", folder / "hive"]


def old_timestamps(frame: DataFrame, folder: Path) -> list[object]:
    """Before 3.0 Spark wrote timestamps of 96 bits, and it still can."""
    frame.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    try:
        frame.write.option("compression", "gzip").parquet(str(folder / "old"))
    finally:
        frame.sparkSession.conf.unset("spark.sql.parquet.outputTimestampType")
    return ["--from-file", folder / "old"]


def duckdb_rows(frame: DataFrame, folder: Path) -> list[object]:
    """DuckDB's own types, of Spark's file."""
    (_, source) = one_file(frame, folder)
    duckdb.sql(
        f"COPY (SELECT *, 1 AS more FROM '{source}/*.parquet' ORDER BY hash(key)) TO '{folder}/duck.parquet' "
        "(FORMAT parquet, ROW_GROUP_SIZE 2048)"
    )
    return ["--from-file", folder / "duck.parquet"]


def connect_files(frame: DataFrame, folder: Path) -> list[object]:
    """The layout of Confluent's sinks; the columns have the names that InsertField and HoistField were given."""
    (_, source) = one_file(frame, folder)
    table = pq.read_table(source)
    for number in set(table["partition"].to_pylist()):
        rows = table.filter(pa.compute.equal(table["partition"], number))
        place = folder / "topics" / OFFSETS_TOPIC / f"partition={number}"
        place.mkdir(parents=True)
        written = pa.table(
            {
                "kafka_offset": rows["offset"],
                "kafka_time": rows["timestamp"].cast(pa.timestamp("ms", "UTC"), safe=False),
                "kafka_key": rows["key"],
                "body": rows["value"].cast(pa.large_binary()),
            }
        )
        pq.write_table(written, place / f"{OFFSETS_TOPIC}+{number}+0000000000.snappy.parquet")
    names = {"offset": "kafka_offset", "timestamp": "kafka_time", "key": "kafka_key", "value": "body"}
    return [
        "--from-file",
        folder / "topics",
        *(part for pair in names.items() for part in ("--column", "=".join(pair))),
    ]


@pytest.mark.parametrize("write", [one_file, hive_folders, old_timestamps, duckdb_rows, connect_files])
def test_the_same_records(
    own: Path, frame: DataFrame, tmp_path: Path, write: Callable[[DataFrame, Path], list[object]]
) -> None:
    """Every record once, with its place and time, whatever the order of rows, the types and the folders."""
    flags = write(frame, tmp_path)
    assert decoded(*flags) == decoded("--from-file", own)
    events = [
        invoke("replay", *source, "-o", "jsonl", "--complete-since", "0")
        for source in (["--from-file", own], flags)
    ]
    assert [result.exit_code for result in events] == [0, 0]
    assert "the capture does not say: committed offsets are kept for 7 days" in events[1].stderr
    assert events[0].stdout.count("\n") == events[1].stdout.count("\n")
