"""Whether Spark's files go together, wherever a job was killed and whatever a disk has lost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from groupreplay.streaming.spark.checkpoint_files import damage, has_run, in_folder
from groupreplay.streaming.spark.source import offsets_in
from support.job.spark_notes import spark_files


@pytest.mark.parametrize(
    ("planned", "finished"), [((), ()), ((0,), ()), ((7, 8), (7, 8)), ((7, 8, 9), (7, 8))]
)
def test_a_whole_checkpoint(tmp_path: Path, planned: Sequence[int], finished: Sequence[int]) -> None:
    """Before, in and after a batch, wherever the job was killed."""
    spark_files(tmp_path, planned=planned, finished=finished)
    assert (has_run(in_folder(tmp_path)), damage(in_folder(tmp_path))) == (True, None)


def test_before_the_first_start(tmp_path: Path) -> None:
    """An empty folder is no damage, and neither is one with the metadata alone: Spark writes it first."""
    assert (has_run(in_folder(tmp_path)), damage(in_folder(tmp_path))) == (False, None)
    (tmp_path / "metadata").write_text('{"id":"x"}')
    assert (has_run(in_folder(tmp_path)), damage(in_folder(tmp_path))) == (False, None)


@pytest.mark.parametrize(
    ("planned", "finished", "place"),
    [
        ((), (3,), "offsets/3"),
        ((1, 2), (1, 2, 3), "offsets/3"),
        ((1, 2, 3), (1,), "commits/2"),
        ((1, 2), (), "commits/1"),
    ],
)
def test_files_of_a_batch_are_missing(
    tmp_path: Path, planned: Sequence[int], finished: Sequence[int], place: str
) -> None:
    """Spark would go back, or begin again from nothing, in silence."""
    spark_files(tmp_path, planned=planned, finished=finished)
    assert damage(in_folder(tmp_path)) == ("the checkpoint is damaged: this is missing", place)


@pytest.mark.parametrize("content", ["", "v1\n", 'v1\n{"a', '{"a'])
@pytest.mark.parametrize("place", ["metadata", "offsets/8", "offsets/9", "commits/8"])
def test_half_a_file(tmp_path: Path, place: str, content: str) -> None:
    """As a power cut leaves it: the file is named, which Spark would not do."""
    spark_files(tmp_path, planned=(7, 8, 9), finished=(7, 8))
    (tmp_path / place).write_text(content)
    found = damage(in_folder(tmp_path))
    assert found is not None
    assert found.name == place


def test_without_the_state(tmp_path: Path) -> None:
    """All groups would be unknown to a job that goes on in the middle of the log."""
    spark_files(tmp_path, planned=(7, 8), finished=(7, 8))
    (tmp_path / "state").rmdir()
    assert damage(in_folder(tmp_path)) == ("the checkpoint is damaged: this is missing", "state")


#: As Spark 4.2 writes it with ``spark.sql.streaming.offsetLog.formatVersion=2``; the sources have no order.
VERSION_2 = """\
v2
{"batchWatermarkMs":0,"conf":{"a":"b:{c"}}
1:{"group-probes":{"0":5}}
0:{"__consumer_offsets":{"1":7}}
"""


def test_offset_logs_of_version_2(tmp_path: Path) -> None:
    """The number before each source is no damage; a hyphen is a source that was not read yet; half a one is found."""
    spark_files(tmp_path, planned=(7, 8), finished=(7,))
    for content, name in (
        (VERSION_2, None),
        (VERSION_2.replace('{"group-probes":{"0":5}}', "-"), None),
        (VERSION_2[:-4], "offsets/8"),
    ):
        (tmp_path / "offsets" / "8").write_text(content)
        found = damage(in_folder(tmp_path))
        assert (found.name if found else None) == name
    assert offsets_in(VERSION_2.splitlines()) == {1: 7}
