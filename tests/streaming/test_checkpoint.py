"""Whose a checkpoint is, and that two jobs never share one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from spark_sessions import small_session

from groupreplay import __version__
from groupreplay.state.job_events import JobGap, UnreadRange
from groupreplay.streaming import checkpoint as checkpoint_module
from groupreplay.streaming.checkpoint import Checkpoint, Identity
from groupreplay.streaming.errors import ExitCode, GroupReplayError

pytestmark = pytest.mark.spark

GAP = JobGap(
    reason="removed", partitions=(UnreadRange(partition=3, read_to=900, log_start=950, log_end=960),)
)
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
    assert first == msgspec.structs.replace(WANTED, job_id=first.job_id, event_era="e")
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
        "gap": None,
        "event_era": "e",
    }


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"cluster_id": "other"}, "belongs to another cluster"),
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


def spark_files(folder: Path, *, planned: Sequence[int], finished: Sequence[int]) -> None:
    """What Spark leaves behind these batches."""
    offsets = 'v1\n{"batchWatermarkMs":0}\n{"__consumer_offsets":{"0":1}}\n-'
    for name, numbers, text in (("offsets", planned, offsets), ("commits", finished, 'v1\n{"nextBatch":0}')):
        (folder / name).mkdir()
        for number in numbers:
            (folder / name / str(number)).write_text(text)
    (folder / "state").mkdir()
    (folder / "metadata").write_text('{"id":"x"}')


@pytest.mark.parametrize(
    ("planned", "finished"), [((), ()), ((0,), ()), ((7, 8), (7, 8)), ((7, 8, 9), (7, 8))]
)
def test_a_whole_checkpoint(folder: Path, planned: Sequence[int], finished: Sequence[int]) -> None:
    """Before, in and after a batch, wherever the job was killed."""
    first = opened(folder).claim(WANTED)
    spark_files(folder, planned=planned, finished=finished)
    assert opened(folder).claim(WANTED) == first


@pytest.mark.parametrize(
    ("planned", "finished", "place"),
    [
        ((), (3,), "offsets/3"),
        ((1, 2), (1, 2, 3), "offsets/3"),
        ((1, 2, 3), (1,), "commits/2"),
        ((1, 2), (), "commits/1"),
    ],
)
def test_a_checkpoint_without_the_files_of_a_batch(
    folder: Path, planned: Sequence[int], finished: Sequence[int], place: str
) -> None:
    """Spark would go back, or begin again from nothing, in silence."""
    opened(folder).claim(WANTED)
    spark_files(folder, planned=planned, finished=finished)
    with pytest.raises(GroupReplayError, match="is missing") as caught:
        opened(folder).claim(WANTED)
    assert (caught.value.exit_code, str(caught.value.where).endswith(place)) == (ExitCode.DATA, True)
    assert "backup" in str(caught.value.fix)


@pytest.mark.parametrize("content", ["", "v1\n", 'v1\n{"a', '{"a'])
@pytest.mark.parametrize("place", ["metadata", "offsets/8", "offsets/9", "commits/8"])
def test_a_checkpoint_with_half_a_file(folder: Path, place: str, content: str) -> None:
    """As a power cut leaves it: the file is named, which Spark would not do."""
    opened(folder).claim(WANTED)
    spark_files(folder, planned=(7, 8, 9), finished=(7, 8))
    (folder / place).write_text(content)
    with pytest.raises(GroupReplayError, match="damaged") as caught:
        opened(folder).claim(WANTED)
    assert (caught.value.exit_code, str(caught.value.where).endswith(place)) == (ExitCode.DATA, True)


def test_a_checkpoint_without_its_state(folder: Path) -> None:
    """All groups would be unknown to a job that goes on in the middle of the log."""
    opened(folder).claim(WANTED)
    spark_files(folder, planned=(7, 8), finished=(7, 8))
    (folder / "state").rmdir()
    with pytest.raises(GroupReplayError, match="the state is missing"):
        opened(folder).claim(WANTED)


def test_a_damaged_identity_is_refused(folder: Path) -> None:
    """Half a file is an error with a remedy, not a new checkpoint."""
    folder.mkdir()
    (folder / "groupreplay.json").write_text('{"cluster_id": "c"')
    with pytest.raises(GroupReplayError, match="cannot be read"):
        opened(folder).claim(WANTED)


def test_a_checkpoint_of_an_earlier_release(folder: Path) -> None:
    """It has no gap, and its events are named after the topic."""
    folder.mkdir()
    old = {
        "cluster_id": "c",
        "era": "e",
        "partitions": 50,
        "probes": "c/group-probes",
        "first_start_ms": 9,
        "job_id": "j",
        "version": "0.1.0",
        "format": 1,
    }
    (folder / "groupreplay.json").write_text(json.dumps(old))
    assert opened(folder).claim(WANTED) == msgspec.structs.replace(
        WANTED, first_start_ms=9, job_id="j", version="0.1.0", event_era="e"
    )


def test_the_state_is_begun_anew_inside(folder: Path) -> None:
    """Each time in another folder, with the job's id and what was lost; the same topic's offsets may come again."""
    root = opened(folder)
    with root.locked():
        first = root.claim(WANTED)
        assert root.latest() is root
        for number, (era, event_era) in enumerate([("e", "e.1"), ("f", "f"), ("f", "f.3")], 1):
            known = root.latest().claim(WANTED)
            now = msgspec.structs.replace(WANTED, era=era, first_start_ms=2_000 + number)
            root.begin_anew(known, GAP, now)
            assert root.latest().location == f"{root.location}/anew-{number}"
            assert root.latest().claim(now) == msgspec.structs.replace(
                now, job_id=first.job_id, gap=GAP, event_era=event_era
            )
            assert not root.latest().started()
        assert opened(folder).claim(WANTED) == first


def test_how_far_the_log_was_read(folder: Path) -> None:
    """By Spark's own notes: a batch that was planned and not finished does not count."""
    root = opened(folder)
    assert root.read_to() == {}
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    for number in (8, 9, 10):
        lines = [
            "v1",
            '{"batchWatermarkMs":0}',
            f'{{"__consumer_offsets":{{"0":{number},"1":7}}}}',
            '{"p":{"0":1}}',
        ]
        (folder / "offsets" / str(number)).write_text("\n".join(lines))
    assert root.read_to() == {}
    for number in (8, 9):
        (folder / "commits" / str(number)).write_text("v1\n{}")
    assert root.read_to() == {0: 9, 1: 7}


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
