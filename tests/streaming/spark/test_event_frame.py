"""The events of a frame: in a batch and in a stream they are those of ``replay``."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from groupreplay import Event, decode, replay, simulate
from groupreplay.api.sources import open_log
from groupreplay.state import Context
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.engine.packing.pack import INPUT_COLUMNS, pack
from groupreplay.streaming.engine.wire import HEARTBEAT_TAG, JOB_TAG
from groupreplay.streaming.spark import event_frame as event_frame_module
from groupreplay.streaming.spark.event_frame import EVENT_SCHEMA, event_frame, events_of_key, pack_stream
from support.histories.raw_records import batches, commit, log
from support.job.spark_sessions import small_session

#: As the Kafka source declares them.
CONNECTOR = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int"
)
_SECONDS = 120.0
NOW_MS = 1_800_000_000_000


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Groups that get stuck; the records of one end before that, so that only time causes the event."""
    folder = tmp_path_factory.mktemp("frames")
    whole = folder / "whole.parquet"
    simulate("stuck", whole, groups=4, seconds=900, seed=3, probe_interval=0)
    begin = next(event for event in replay(whole) if event.data["cause"] is None)
    assert begin.group is not None
    later = pa.array(
        [
            record["timestamp"] >= begin.time_ms and record["key"]["data"]["group"] == begin.group
            for record in decode(whole, with_position=True)
        ]
    )
    table = pq.read_table(whole)
    pq.write_table(table.filter(pc.invert(later)), folder / "cut.parquet")
    return folder / "cut.parquet"


@pytest.fixture(scope="module")
def expected(capture: Path) -> list[Event]:
    """What ``replay`` finds."""
    return list(replay(capture))


@pytest.fixture(scope="module")
def context(capture: Path) -> Context:
    """With what the capture says about its brokers."""
    return open_log(capture, None, None).context


def connector_rows(capture: Path) -> pa.Table:
    """A capture in the types of the Kafka source."""
    table = pq.read_table(capture)
    at = table.schema.get_field_index("timestamp")
    stamps = table["timestamp"].cast(pa.timestamp("ms", "UTC"))
    return table.set_column(at, "timestamp", stamps).replace_schema_metadata(None)


def files(folder: Path, table: pa.Table, count: int) -> Path:
    """The rows in so many files, in the order of time."""
    folder.mkdir()
    ordered = table.sort_by([("timestamp", "ascending"), ("partition", "ascending"), ("offset", "ascending")])
    size = -(-ordered.num_rows // count)
    for number in range(count):
        file = folder / f"{number:03d}.parquet"
        pq.write_table(ordered.slice(number * size, size), file)
        # Spark reads files in the order of these times.
        os.utime(file, (1_700_000_000 + number,) * 2)
    return folder


def by_id(rows: list[Any]) -> dict[str, str]:
    """Id -> document, of a frame whose ids are unique."""
    found = {row.event_id: row.document for row in rows}
    assert len(found) == len(rows)
    return found


def wait_for(is_done: Callable[[], bool]) -> None:
    """Until the deadline."""
    deadline = time.monotonic() + _SECONDS
    while not is_done():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_the_order_of_rows_and_chunks_does_not_matter(
    capture: Path, expected: list[Event], context: Context
) -> None:
    """All that was packed of one key, in any order, gives the events of ``replay``; the shuffle keeps no order."""
    table = pq.read_table(capture).sort_by([("partition", "ascending"), ("offset", "ascending")])
    table = table.select(["partition", "offset", "timestamp", "key", "value"])
    table = table.rename_columns(list(INPUT_COLUMNS))
    packed: dict[bytes, list[bytes]] = {}
    for batch in table.to_batches(max_chunksize=40):
        for rows in pack([batch]):
            for row in rows.to_pylist():
                packed.setdefault(row["key"], []).append(row["packed"])
    assert packed.pop(JOB_TAG)
    assert max(map(len, packed.values())) > 3
    end_ms = pc.max(table["timestamp_ms"]).as_py()
    events = [event for key in packed for event in events_of_key(key, packed[key][::-1], context, end_ms)]
    assert sorted(events) == sorted(event.json for event in expected)


@pytest.mark.spark
def test_a_batch_has_the_events_of_replay(
    capture: Path, expected: list[Event], context: Context, tmp_path: Path
) -> None:
    """To the byte, also from files with the records in another order, in a table with the declared columns."""
    spark = small_session()
    table = connector_rows(capture)
    folder = files(tmp_path / "rows", table.take(pa.array(reversed(range(table.num_rows)))), 3)
    result = event_frame(spark.read.schema(CONNECTOR).parquet(str(folder)), context)
    assert result.schema.simpleString() == spark.createDataFrame([], EVENT_SCHEMA).schema.simpleString()
    target = str(tmp_path / "events")
    result.write.parquet(target)
    rows = spark.read.parquet(target).collect()
    assert by_id(rows) == {event.id: event.json.decode() for event in expected}
    heads = {row.event_id: (row.type, row.severity, row.group_id) for row in rows}
    assert heads == {event.id: (event.type, event.severity, event.group) for event in expected}
    causes = {row.event_id: (row.topic, row.partition, row.offset) for row in rows}
    assert causes == {
        event.id: tuple((event.data["cause"] or {}).get(name) for name in ("topic", "partition", "offset"))
        for event in expected
    }


@pytest.mark.spark
def test_a_capture_is_a_frame(capture: Path, expected: list[Event], context: Context) -> None:
    """With times in milliseconds, as captures have them."""
    rows = event_frame(small_session().read.parquet(str(capture)), context).collect()
    assert by_id(rows) == {event.id: event.json.decode() for event in expected}


@pytest.fixture
def streamed(capture: Path, tmp_path: Path) -> Iterator[Any]:
    """A streaming frame of the capture in four batches; every query is stopped."""
    spark = small_session()
    folder = files(tmp_path / "rows", connector_rows(capture), 4)
    yield spark.readStream.schema(CONNECTOR).option("maxFilesPerTrigger", 1).parquet(str(folder))
    for query in spark.streams.active:
        query.stop()


@pytest.mark.spark
def test_a_stream_has_the_events_that_records_cause(
    streamed: Any, capture: Path, expected: list[Event], context: Context, tmp_path: Path
) -> None:
    """With the same ids; those that only time causes behind the last record of their group are missing, no others."""
    query = (
        event_frame(streamed, context)
        .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .toTable("frame_events", format="parquet", path=str(tmp_path / "table"))
    )
    assert query.awaitTermination(int(_SECONDS))
    spark = small_session()
    ids = set(by_id(spark.table("frame_events").collect()))
    spark.sql("DROP TABLE frame_events")
    missing = [event for event in expected if event.id not in ids]
    assert ids < {event.id for event in expected}
    assert [event for event in missing if event.data["cause"] is not None] == []
    last_ms = {
        record["key"]["data"]["group"]: record["timestamp"] for record in decode(capture, with_position=True)
    }
    assert [event for event in missing if event.time_ms <= last_ms[str(event.group)]] == []


@pytest.mark.spark
def test_time_passes_with_the_newest_record(
    streamed: Any, expected: list[Event], context: Context, tmp_path: Path
) -> None:
    """With ``late_by`` a stream has every event of ``replay``, but for those of the last moment."""
    query = (
        event_frame(streamed, context, "0 seconds")
        .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="1 second")
        .format("memory")
        .queryName("late_events")
        .start()
    )
    spark = small_session()
    wanted = {event.id for event in expected}
    wait_for(lambda: {row.event_id for row in spark.table("late_events").collect()} >= wanted)
    query.stop()
    assert set(by_id(spark.table("late_events").collect())) == wanted


@pytest.mark.parametrize(
    ("schema", "what"),
    [
        ("key binary, value binary, partition int", "the frame has no column offset, timestamp"),
        (CONNECTOR.replace("value binary", "value string"), "the column is string, not binary"),
        (CONNECTOR.replace("timestamp timestamp", "timestamp string"), "the column is string"),
    ],
)
@pytest.mark.spark
def test_other_frames_are_refused(schema: str, what: str) -> None:
    """Before anything runs, with the column that does not fit."""
    with pytest.raises(GroupReplayError) as error:
        event_frame(small_session().createDataFrame([], schema), Context(cluster_id="c"))
    assert error.value.what == what
    assert error.value.where
    assert error.value.fix


@pytest.mark.spark
def test_a_batch_is_not_late() -> None:
    """``late_by`` has no meaning there, and is refused."""
    frame = small_session().createDataFrame([], CONNECTOR)
    with pytest.raises(GroupReplayError, match="late_by applies to a stream"):
        event_frame(frame, Context(cluster_id="c"), "1 minute")


@pytest.mark.parametrize(("timed", "latest_ms"), [(True, [NOW_MS - 5]), (False, [])])
def test_the_newest_record_is_the_time_of_a_stream(
    monkeypatch: pytest.MonkeyPatch, timed: bool, latest_ms: list[int]
) -> None:
    """In a row of its own, if it is asked for; a record that is dated after now does not count."""
    monkeypatch.setattr(event_frame_module, "now_ms", lambda: NOW_MS)
    rows = log([commit("g"), commit("g"), commit("g")])
    stamped = [
        row._replace(timestamp_ms=at_ms)
        for row, at_ms in zip(rows, (NOW_MS - 9, NOW_MS - 5, NOW_MS + 1), strict=True)
    ]
    packed = [row for batch in pack_stream(batches(stamped), timed=timed) for row in batch.to_pylist()]
    times = [row["caught_up"].timestamp() * 1_000 for row in packed if row["key"] == HEARTBEAT_TAG]
    assert times == latest_ms
    assert b"g:g" in {row["key"] for row in packed}
