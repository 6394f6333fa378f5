"""Two jobs never share a checkpoint, not even with what is left of a killed one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from groupreplay.streaming.base.errors import GroupReplayError, UnwritableError
from groupreplay.streaming.spark import checkpoint as checkpoint_module
from groupreplay.streaming.spark.checkpoint import Checkpoint
from support.job.spark_sessions import small_session

pytestmark = pytest.mark.spark


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkpoint that does not exist yet; a job waits half a second for its lock."""
    monkeypatch.setattr(checkpoint_module, "LOCK_SECONDS", 0.5)
    return tmp_path / "check point"


def opened(folder: Path) -> Checkpoint:
    """The checkpoint at the folder."""
    return Checkpoint(small_session(), str(folder))


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
