"""Two jobs never share a checkpoint, not even with what is left of a killed one."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from groupreplay.streaming.base.errors import GroupReplayError, UnwritableError
from groupreplay.streaming.spark import checkpoint as checkpoint_module
from groupreplay.streaming.spark.checkpoint import Checkpoint
from support.job.spark_sessions import small_session
from support.reachable import other_umask, reachable_folder

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
