"""Whose a checkpoint is, and that two jobs never share one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from spark_sessions import small_session

from groupreplay import __version__
from groupreplay.streaming import checkpoint as checkpoint_module
from groupreplay.streaming.checkpoint import Checkpoint, Identity
from groupreplay.streaming.errors import ExitCode, GroupReplayError

pytestmark = pytest.mark.spark

WANTED = Identity(cluster_id="c", era="e", partitions=50, probes="c/group-probes", first_start_ms=1_000)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint that does not exist yet."""
    return tmp_path / "check point"


def opened(folder: Path) -> Checkpoint:
    """The checkpoint at the folder."""
    return Checkpoint(small_session(), str(folder))


def test_the_first_start_is_remembered(folder: Path) -> None:
    """A new checkpoint gets a job id; later starts find the first one's time and id."""
    with opened(folder).locked():
        first = opened(folder).claim(WANTED)
    assert first == msgspec.structs.replace(WANTED, job_id=first.job_id)
    assert first.job_id
    later = msgspec.structs.replace(WANTED, first_start_ms=2_000)
    assert opened(folder).claim(later) == first
    assert json.loads((folder / "groupreplay.json").read_text()) == {
        "cluster_id": "c",
        "era": "e",
        "partitions": 50,
        "probes": "c/group-probes",
        "first_start_ms": 1_000,
        "job_id": first.job_id,
        "version": __version__,
        "format": 1,
    }


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"cluster_id": "other"}, "belongs to another cluster"),
        ({"era": "other"}, "earlier life of the offsets topic"),
        ({"partitions": 60}, "another number of partitions"),
        ({"probes": "c/other"}, "reads its heartbeats elsewhere"),
    ],
)
def test_a_foreign_checkpoint_is_refused(folder: Path, change: dict[str, Any], what: str) -> None:
    """Offsets of one topic mean nothing in another: the job does not start, and says what to do."""
    with opened(folder).locked():
        opened(folder).claim(WANTED)
    with pytest.raises(GroupReplayError, match=what) as caught:
        opened(folder).claim(msgspec.structs.replace(WANTED, **change))
    assert caught.value.exit_code == ExitCode.USAGE
    assert caught.value.fix


def test_a_checkpoint_of_another_program_is_refused(folder: Path) -> None:
    """Spark's files without ours belong to somebody else's query."""
    (folder / "offsets").mkdir(parents=True)
    with pytest.raises(GroupReplayError, match="not made by groupreplay"):
        opened(folder).claim(WANTED)


def test_a_checkpoint_without_its_metadata_is_refused(folder: Path) -> None:
    """Spark would start from nothing under a new query id, and say nothing."""
    with opened(folder).locked():
        opened(folder).claim(WANTED)
    (folder / "offsets").mkdir()
    with pytest.raises(GroupReplayError, match="lost its metadata"):
        opened(folder).claim(WANTED)


def test_a_damaged_identity_is_refused(folder: Path) -> None:
    """Half a file is an error with a remedy, not a new checkpoint."""
    folder.mkdir()
    (folder / "groupreplay.json").write_text('{"cluster_id": "c"')
    with pytest.raises(GroupReplayError, match="cannot be read"):
        opened(folder).claim(WANTED)


def test_a_second_job_in_this_jvm_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock holds inside one JVM, too, and is free again afterwards."""
    monkeypatch.setattr(checkpoint_module, "_LOCK_SECONDS", 0.5)
    refused = pytest.raises(GroupReplayError, match="another job is using")
    with opened(folder).locked(), refused, opened(folder).locked():
        pass
    with opened(folder).locked():
        pass


def test_a_second_process_is_refused_and_told_the_owner(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names who holds the checkpoint; a lock of a process that has ended is waited for."""
    monkeypatch.setattr(checkpoint_module, "_LOCK_SECONDS", 0.5)
    folder.mkdir()
    (folder / "groupreplay.lock").write_text("host h, process 1\n")
    holder = """
import fcntl, sys
file = open(sys.argv[1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX)
print(flush=True)
input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", holder, str(folder / "groupreplay.lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(GroupReplayError, match="host h, process 1"), opened(folder).locked():
            pass
        other.kill()
    with opened(folder).locked():
        pass
