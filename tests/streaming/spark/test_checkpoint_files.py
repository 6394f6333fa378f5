"""Whether Spark's files go together, wherever a job was killed and whatever a disk has lost.

Two jobs never share a checkpoint, not even with what is left of a killed one.
"""

from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from groupreplay.streaming.base.errors import GroupReplayError, UnwritableError
from groupreplay.streaming.spark import checkpoint as checkpoint_module
from groupreplay.streaming.spark.checkpoint_files import damage, has_driver, has_run, holder_of, in_folder
from groupreplay.streaming.spark.query import offsets_in, state_partitions_in
from streaming.spark.test_checkpoint import opened
from support.job.spark_notes import spark_files
from support.reachable import other_umask, reachable_folder


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
{"batchWatermarkMs":0,"conf":{"a":"b:{c","spark.sql.shuffle.partitions":"16"}}
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
    assert (state_partitions_in(VERSION_2.splitlines()), state_partitions_in([])) == (16, None)


pytestmark = pytest.mark.spark


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkpoint that does not exist yet; a job waits half a second for its lock."""
    monkeypatch.setattr(checkpoint_module, "LOCK_SECONDS", 0.5)
    return tmp_path / "check point"


def test_a_lock_that_is_waited_for(folder: Path) -> None:
    """A standby tries it again and again, and changes nothing before it has it."""
    with opened(folder).lock() as first, opened(folder).lock() as second:
        assert first.take()
        assert first.take()
        written = (folder / "groupreplay.lock").read_text()
        assert (second.take(), second.owner()) == (False, written.strip())
        assert (folder / "groupreplay.lock").read_text() == written
    with opened(folder).lock() as third:
        assert third.take()


def test_modes(folder: Path) -> None:
    """A new folder is for its owner alone, without those above it, and so are locks, which every reader could hold."""
    with other_umask(0o002), opened(folder / "inside").locked():
        modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in [folder, *folder.rglob("*")]}
    assert modes.pop("inside") == 0o700
    assert modes.pop("check point") == 0o775
    assert {name: mode for name, mode in modes.items() if name.endswith(".lock")} == {
        "groupreplay.lock": 0o600,
        "groupreplay-driver.lock": 0o600,
    }


def test_locks_of_an_earlier_release(folder: Path) -> None:
    """They get the new mode, and the folder keeps its own."""
    folder.mkdir(0o755)
    for name in ("groupreplay.lock", "groupreplay-driver.lock"):
        (folder / name).touch(0o644)
    with opened(folder).locked():
        assert {stat.S_IMODE(file.stat().st_mode) for file in folder.glob("*.lock")} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755


@pytest.mark.parametrize(
    ("mode", "who"),
    [(0o755, None), (0o775, "every user of its group"), (0o777, "every user of this machine")],
)
def test_a_folder_into_which_others_can_write(
    mode: int, who: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning with the mode and the remedy."""
    with reachable_folder() as outside:
        folder = outside / "checkpoint"
        folder.mkdir()
        folder.chmod(mode)
        with opened(folder).lock():
            pass
        warning = (
            f"{who} can write into the checkpoint {folder} (mode 0{mode:o}) and so decide what the job does: "
            f"chmod -R go-rwx {folder}"
        )
        assert caplog.messages == ([] if who is None else [warning])


def test_a_second_job_in_this_jvm_is_refused(folder: Path) -> None:
    """The lock holds inside one JVM, too, and is free again afterwards."""
    refused = pytest.raises(GroupReplayError, match="another job is using")
    with opened(folder).locked(), refused, opened(folder).locked():
        pass
    with opened(folder).locked():
        pass


@pytest.mark.parametrize(
    ("file", "lock"),
    [("groupreplay.lock", "lockf"), ("groupreplay-driver.lock", "flock")],
    ids=["a JVM without its driver", "a driver without its JVM"],
)
def test_what_is_left_of_another_job_keeps_this_one_out(folder: Path, file: str, lock: str) -> None:
    """The message names who holds the checkpoint; a lock of a process that has ended is waited for."""
    folder.mkdir()
    (folder / "groupreplay.lock").write_text("host h, process 1\n")
    code = f"import fcntl, sys; fcntl.{lock}(file := open(sys.argv[1], 'a'), fcntl.LOCK_EX); print(flush=True); input()"
    command = [sys.executable, "-c", code, str(folder / file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(GroupReplayError, match="host h, process 1"), opened(folder).locked():
            pass
        other.kill()
    with opened(folder).locked():
        pass


def test_locks_that_cannot_be_opened(folder: Path) -> None:
    """Nobody is known to hold them, as on a disk that is read-only for a while."""
    for name in ("groupreplay.lock", "groupreplay-driver.lock"):
        (folder / name).mkdir(parents=True)
    assert (holder_of(folder), has_driver(folder)) == (None, False)


@pytest.mark.parametrize("file", ["groupreplay.lock", "groupreplay-driver.lock"])
def test_a_lock_that_cannot_be_made(folder: Path, file: str) -> None:
    """The error names the folder and the system's reason; the job waits for its end as for that of a full disk."""
    (folder / file).mkdir(parents=True)
    with (
        pytest.raises(UnwritableError, match="cannot be written: Is a directory") as failed,
        opened(folder).lock(),
    ):
        pass
    assert str(folder) in str(failed.value.where)
