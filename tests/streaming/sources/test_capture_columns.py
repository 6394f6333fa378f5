"""Columns of other writers become those of a capture; which files are captures, and what their paths say."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pytest

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.contract.log import ROW_SCHEMA
from groupreplay.streaming.sources.capture_columns import (
    UNSORTED_SCHEMA,
    CapturePlace,
    capture_places,
    column_layout,
    conformed,
    is_one_of,
    of_one_place,
    scalar_of,
)


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("a.parquet", {}),
        ("partition=7/part-0.snappy.parquet", {"partition": "7"}),
        ("Topic=a%2Fb/PARTITION=7/x.parquet", {"topic": "a/b", "partition": "7"}),
        (f"topics/{OFFSETS_TOPIC}/partition=3/{OFFSETS_TOPIC}+3+0000000012.snappy.parquet", "3"),
        (f"{OFFSETS_TOPIC}/{OFFSETS_TOPIC}+3+0000000012+0000000099.parquet", "3"),
        (f"{OFFSETS_TOPIC}-3-12.parquet", "3"),
        (f"partition=4/{OFFSETS_TOPIC}+3+12.parquet", "4"),
    ],
)
def test_what_a_path_says(tmp_path: Path, path: str, values: dict[str, str] | str) -> None:
    """Hive folders with escaped values, and the names of Confluent's and Aiven's sinks; a folder counts more."""
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    expected = {"topic": OFFSETS_TOPIC, "partition": values} if isinstance(values, str) else values
    assert capture_places([tmp_path]) == [CapturePlace(file, expected)]


@pytest.mark.parametrize(
    "path",
    [".a.parquet", "_temporary/0/a.parquet", "_delta_log/1.checkpoint.parquet", ".tmp/a.parquet", "a.crc"],
)
def test_what_is_no_capture(tmp_path: Path, path: str) -> None:
    """Unfinished files, and files about the data."""
    hidden, capture = tmp_path / path, tmp_path / "b.parquet"
    hidden.parent.mkdir(parents=True, exist_ok=True)
    hidden.touch()
    capture.touch()
    assert capture_places([tmp_path]) == [CapturePlace(capture)]


def test_a_hive_folder_itself(tmp_path: Path) -> None:
    """One folder of a partition can be given alone."""
    file = tmp_path / "partition=9" / "a.parquet"
    file.parent.mkdir()
    file.touch()
    assert capture_places([file.parent]) == [CapturePlace(file, {"partition": "9"})]


PLACE = CapturePlace(Path("a.parquet"))
ROW = {
    "topic": OFFSETS_TOPIC,
    "partition": 3,
    "offset": 12,
    "timestamp": 1_767_225_600_123,
    "timestampType": 0,
    "key": b"k",
    "value": b"v",
}
AT = datetime.fromtimestamp(ROW["timestamp"] / 1000, timezone.utc)  # type: ignore[operator]


def file_table(**columns: pa.Array) -> pa.Table:
    """One row with these columns instead of those of a capture."""
    own = pa.Table.from_pylist([ROW], ROW_SCHEMA)
    return pa.table({**{name: own[name] for name in own.column_names}, **columns})


@pytest.mark.parametrize(
    "columns",
    [
        {"timestamp": pa.array([AT], pa.timestamp("us", "UTC"))},
        {"timestamp": pa.array([AT.replace(tzinfo=None)], pa.timestamp("ns"))},
        {"topic": pa.array([OFFSETS_TOPIC]).dictionary_encode()},
        {"topic": pa.array([OFFSETS_TOPIC.encode()])},
        {"topic": pa.array([OFFSETS_TOPIC], pa.large_string())},
        {"partition": pa.array([3], pa.uint64()), "offset": pa.array([12], pa.int32())},
        {"key": pa.array([b"k"], pa.large_binary()), "value": pa.array([b"v"]).dictionary_encode()},
        {"key": pa.array([b"k"], pa.binary_view()), "value": pa.array([b"v"], pa.binary(1))},
        {"headers": pa.nulls(1), "more": pa.array([1.5])},
    ],
)
def test_types(columns: dict[str, pa.Array]) -> None:
    """Dictionaries, wide types, timestamps of any unit and zone; columns that a capture lacks are left out."""
    table = file_table(**columns)
    found = conformed(table, column_layout(table.schema, PLACE, {}))
    assert (found.schema, found.to_pylist()) == (ROW_SCHEMA, [ROW])
    unsorted = conformed(table, column_layout(table.schema, PLACE, {}), UNSORTED_SCHEMA)
    assert (unsorted.schema, unsorted.to_pylist()) == (UNSORTED_SCHEMA, [ROW])


def test_names() -> None:
    """Other names by a flag, in any case without; missing columns from the path; a default for two of them."""
    table = file_table().rename_columns(["t", "p", "Offset", "TIMESTAMP", "x", "Key", "body"])
    place = CapturePlace(PLACE.path, {"topic": OFFSETS_TOPIC, "partition": "3", "offset": "99"})
    layout = column_layout(table.schema, place, {"value": "body"})
    assert conformed(table, layout).to_pylist() == [ROW]
    assert layout.constants == {"topic": OFFSETS_TOPIC, "partition": 3, "timestampType": 0}


def test_no_timestamp() -> None:
    """Kafka itself stores -1 where a record has none."""
    table = file_table(timestamp=pa.nulls(1, pa.timestamp("ms")))
    assert conformed(table, column_layout(table.schema, PLACE, {})).to_pylist() == [{**ROW, "timestamp": -1}]


@pytest.mark.parametrize(
    ("columns", "renamed", "what"),
    [
        ({"key": pa.array(["k"])}, {}, "the column key has the type string"),
        ({"offset": pa.array([1.0])}, {}, "the column offset has the type double"),
        ({}, {"offset": "kafka_offset"}, "the column kafka_offset is missing"),
        ({"offset": pa.nulls(1, pa.int64())}, {}, "a row has no offset"),
    ],
)
def test_what_does_not_fit(columns: dict[str, pa.Array], renamed: dict[str, str], what: str) -> None:
    """The error has the file, the column and what to do; text cannot be the bytes of a key any more."""
    table = file_table(**columns)
    with pytest.raises(GroupReplayError) as refused:
        conformed(table, column_layout(table.schema, PLACE, renamed))
    assert (refused.value.what, refused.value.where, refused.value.exit_code) == (
        what,
        "a.parquet",
        ExitCode.DATA,
    )
    assert refused.value.fix


def test_a_name_that_no_capture_has() -> None:
    """A wrong flag, not wrong data."""
    with pytest.raises(GroupReplayError, match="a capture has no column ofset") as refused:
        column_layout(file_table().schema, PLACE, {"ofset": "x"})
    assert refused.value.exit_code is ExitCode.USAGE


def test_a_path_without_a_number() -> None:
    """Hive's name for a missing value is one."""
    schema = file_table().drop_columns(["partition"]).schema
    place = CapturePlace(PLACE.path, {"partition": "__HIVE_DEFAULT_PARTITION__"})
    with pytest.raises(GroupReplayError, match="the path has no number for the column partition"):
        column_layout(schema, place, {})


def test_values() -> None:
    """Scalars and membership without Arrow's own conversions."""
    assert scalar_of("é", pa.large_string()) == pa.scalar("é", pa.large_string())
    assert scalar_of(-1, pa.int32()) == pa.scalar(-1, pa.int32())
    column = pa.chunked_array([["a", None, "b", "c"]])
    for stored in (column, column.dictionary_encode(), pa.chunked_array([], pa.string())):
        wanted = [None if value is None else value in ("a", "c") for value in stored.to_pylist()]
        assert is_one_of(stored, ["a", "c"]).to_pylist() == wanted


def test_one_place() -> None:
    """The place of all rows is written once into each; the columns that the table has are kept."""
    table = pa.concat_tables([file_table(), file_table()]).drop_columns(["topic", "partition"])
    found = of_one_place(table, {"topic": "probes", "partition": 0})
    assert (found.schema, found.to_pylist()) == (ROW_SCHEMA, [{**ROW, "topic": "probes", "partition": 0}] * 2)
