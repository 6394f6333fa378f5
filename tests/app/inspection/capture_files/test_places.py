"""Which files of a folder are captures, and what their paths say."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupreplay.app.inspection.capture_files.places import CapturePlace, capture_places
from groupreplay.state import OFFSETS_TOPIC


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
