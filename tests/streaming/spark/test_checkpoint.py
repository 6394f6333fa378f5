"""Whose a checkpoint is, and that two jobs never share one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from groupreplay.state.events.event import JobGap, UnreadRange
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, UnreachableError, UnwritableError
from groupreplay.streaming.contract.log import EpochEnd, IncidentState, LogMarks, PartitionMark, RecordMark
from groupreplay.streaming.run.document_sync import DocumentTopics, SyncRecord
from groupreplay.streaming.run.identity import Identity, decode_identity
from groupreplay.streaming.spark import checkpoint as checkpoint_module
from groupreplay.streaming.spark import checkpoint_files
from groupreplay.streaming.spark.checkpoint import Checkpoint, local_folder
from groupreplay.streaming.spark.log_offsets import ActiveGroups, LogOffsets
from groupreplay.version import __version__
from support.job.spark_notes import spark_files
from support.job.spark_sessions import small_session
from support.remedies import read_remedy

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
    assert opened(folder).is_plain
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
        "taken_over_ms": None,
    }


@pytest.mark.parametrize(
    ("location", "words"),
    [
        (
            "nosuch://b/cp",
            'org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "nosuch"',
        ),
        ("hdfs:/cp", "java.io.IOException: Incomplete HDFS URI, no host: hdfs:/cp"),
        ("hdfs://no.host.invalid/cp", "java.net.UnknownHostException: no.host.invalid"),
    ],
)
def test_a_file_system_that_cannot_be_used(location: str, words: str, folder: Path) -> None:
    """Java's words are in the message: the JVM, which has them, ends before the error is printed."""
    with pytest.raises(GroupReplayError) as refused:
        Checkpoint(small_session(), location)
    error = refused.value
    read_remedy("streaming.spark.checkpoint_files: for a class that is not found add the jars", str(error))
    assert (error.what, error.where, error.exit_code) == (
        f"the file system of the checkpoint cannot be used: {words}",
        location,
        ExitCode.USAGE,
    )
    # The address is corrected.
    assert not opened(folder).started()


def test_a_file_system_that_does_not_answer() -> None:
    """A checkpoint on other machines that cannot be read is no damaged one: the failure may pass."""
    # Nobody listens on port 1. Hadoop's client would otherwise try for many minutes.
    once = {"ipc.client.connect.max.retries": "0", "dfs.client.retry.policy.enabled": "false"}
    for name, value in once.items():
        small_session().sparkContext._jsc.hadoopConfiguration().set(name, value)
    away = Checkpoint(small_session(), "hdfs://127.0.0.1:1/groupreplay")
    assert not away.is_lockable
    for ask in (away.started, away.known, away.last_batch, away.latest):
        with pytest.raises(UnreachableError) as failed:
            ask()
        assert failed.value.what.startswith("the checkpoint cannot be read: ")
        assert failed.value.where == "hdfs://127.0.0.1:1/groupreplay"
        assert failed.value.exit_code == ExitCode.CONNECTION


def test_a_folder_that_can_be_written(folder: Path) -> None:
    """The try leaves nothing behind."""
    with opened(folder).locked():
        before = sorted(folder.iterdir())
        assert opened(folder).unwritable() is None
        assert sorted(folder.iterdir()) == before


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """The error names the folder, and is one that a job which has run before waits for."""
    (tmp_path / "file").write_bytes(b"")
    checkpoint = opened(tmp_path / "file" / "checkpoint")
    assert (checkpoint.unwritable() or "").startswith("the checkpoint cannot be written: ")
    with (
        pytest.raises(UnwritableError, match=r"cannot be written: .*file/checkpoint") as caught,
        checkpoint.locked(),
    ):
        pass
    assert caught.value.exit_code is ExitCode.USAGE


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("/cp/.groupreplay-1 (Read-only file system)", "Read-only file system"),
        ("java.io.IOException: No space left on device", "No space left on device"),
        ("Mkdirs failed", "Mkdirs failed"),
    ],
)
def test_the_reason_of_the_system(message: str, reason: str) -> None:
    """Without the name of a file that exists for a moment only."""
    assert checkpoint_files._reason(message) == reason


def test_folders_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they hold can be seen without Spark; all other file systems, and defaults that are others, only with it."""
    monkeypatch.setattr(checkpoint_module, "jvm_runs_already", lambda: False)
    default = {"spark.hadoop.fs.defaultFS": "hdfs://n"}
    found = [
        local_folder(*arguments)
        for arguments in (
            ("/cp", {}),
            ("cp/a", {}),
            ("file:///cp", default),
            ("file:/cp", {}),
            ("hdfs:///cp", {}),
            ("s3a://bucket/cp", {}),
            ("/cp", default),
        )
    ]
    assert found == [Path("/cp"), Path("cp/a"), Path("/cp"), Path("/cp"), None, None, None]
    monkeypatch.setattr(checkpoint_module, "jvm_runs_already", lambda: True)
    assert local_folder("/cp", {}) is None


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"cluster_id": "other"}, "belongs to another cluster"),
        ({"probes": "c/other"}, "reads its heartbeats elsewhere"),
    ],
)
def test_a_foreign_checkpoint_is_refused(folder: Path, change: dict[str, Any], what: str) -> None:
    """Offsets of one topic mean nothing in another: the job does not start, and prints what to do."""
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


@pytest.mark.parametrize(("place", "content"), [("offsets/9", "v1"), ("commits/9", None)])
def test_a_checkpoint_that_is_not_whole_is_refused(folder: Path, place: str, content: str | None) -> None:
    """With the file, and the ways out."""
    opened(folder).claim(WANTED)
    spark_files(folder, planned=(8, 9, 10), finished=(8, 9))
    assert opened(folder).claim(WANTED)
    (folder / place).unlink() if content is None else (folder / place).write_text(content)
    with pytest.raises(GroupReplayError, match="damaged") as caught:
        opened(folder).claim(WANTED)
    assert str(caught.value.where).endswith(place)
    assert caught.value.exit_code == ExitCode.DATA
    assert "backup" in str(caught.value.fix)


def test_a_damaged_identity_is_refused(folder: Path) -> None:
    """Half a file is an error with a remedy, not a new checkpoint."""
    folder.mkdir()
    (folder / "groupreplay.json").write_text('{"cluster_id": "c"')
    with pytest.raises(GroupReplayError, match="cannot be read"):
        opened(folder).claim(WANTED)


def test_an_identity_with_a_flipped_bit_is_refused(folder: Path) -> None:
    """Another digit is good JSON: Hadoop's checksum beside the file tells, and the error names the file."""
    opened(folder).claim(WANTED)
    file = folder / "groupreplay.json"
    file.write_bytes(file.read_bytes().replace(b'"partitions":50', b'"partitions":51'))
    with pytest.raises(GroupReplayError, match="identity cannot be read: Checksum error") as caught:
        opened(folder).claim(WANTED)
    assert (caught.value.exit_code, caught.value.where) == (ExitCode.DATA, f"file:{file}")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            b'{"format": 99, "version": "9.1\\u001b[2J", "cluster": 5}',
            "has format 99, this release reads format 1",
        ),
        (b'{"format": 2}', "has format 2, this release reads format 1"),
        (b'{"format": "x"}', "cannot be read"),
        (b'{"cluster_id": "\xff"}', "cannot be read"),
        (b'{"x":' + b"[" * 100_000, "cannot be read"),
        (b"null", "cannot be read"),
    ],
)
def test_the_identity_of_a_later_release_is_refused(text: bytes, what: str) -> None:
    """Whatever its other fields are; the error names the release that made it. Damaged bytes are refused as damaged."""
    with pytest.raises(GroupReplayError, match=what) as caught:
        decode_identity(text, "/checkpoint/groupreplay.json")
    assert (caught.value.exit_code, caught.value.where) == (ExitCode.DATA, "/checkpoint/groupreplay.json")
    assert str(caught.value.fix).isprintable()
    assert "9.1" not in str(text) or "run the release that made it (9.1" in str(caught.value.fix)


def test_a_checkpoint_of_an_earlier_release(folder: Path) -> None:
    """It has no gap, and its events are named after the topic."""
    folder.mkdir()
    changes = {"first_start_ms": 9, "job_id": "j", "version": "0.1.0"}
    old = {**msgspec.to_builtins(WANTED), **changes}
    del old["gap"], old["event_era"]
    (folder / "groupreplay.json").write_text(json.dumps(old))
    assert opened(folder).claim(WANTED) == msgspec.structs.replace(WANTED, **changes, event_era="e")


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


def test_the_state_is_begun_anew_after_another_job(folder: Path) -> None:
    """With the job's own id and the other's events; a later gap gives events a number that neither has used."""
    root = opened(folder)
    first = root.claim(WANTED)
    now = msgspec.structs.replace(WANTED, first_start_ms=50, event_era="e.4", taken_over_ms=60)
    place = root.begin_after_other(first, now)
    assert (place.location, root.latest().location) == (f"{root.location}/anew-1",) * 2
    assert root.latest().claim(WANTED) == msgspec.structs.replace(now, job_id=first.job_id)
    assert (place.started(), place.last_batch()) == (False, -1)
    spark_files(folder / "anew-1", planned=(3, 4), finished=(3,))
    assert (place.started(), place.last_batch(), root.last_batch()) == (True, 3, -1)
    assert root.begin_anew(now, GAP, WANTED).claim(WANTED).event_era == "e.5"


def test_how_far_the_log_was_read(folder: Path) -> None:
    """By Spark's own notes: a batch that was planned and not finished is not read, but will be, as it was planned."""
    root = opened(folder)
    assert (root.read_to(), root.planned_to()) == ({}, {})
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
    assert (root.read_to(), root.planned_to()) == ({0: 9, 1: 7}, {0: 10, 1: 7})
    assert not root.is_ahead()
    ahead = LogOffsets({0: 10}).with_active(ActiveGroups.of([b"g"]), {0: 20}).to_json("__consumer_offsets")
    (folder / "offsets" / "11").write_text("\n".join([*lines[:2], json.dumps(ahead), lines[3]]))
    assert (root.is_ahead(), root.planned_to()) == (True, {0: 10})


def test_what_is_known_about_the_topics(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It changes, and each checkpoint inside has its own; a torn file is as good as none."""
    root = opened(folder)
    assert (root.known(), root.synced(), root.is_lockable) == (None, None, True)
    identity = root.claim(WANTED)
    assert (root.known(), root.synced()) == (identity, None)
    topics = DocumentTopics(states="s", states_id="1", job="j", job_id="2")
    for record in (SyncRecord(topics=topics, unchecked={0: 5}), SyncRecord(topics=topics)):
        root.note_synced(record)
        assert opened(folder).synced() == record
    assert root.begin_anew(identity, GAP, WANTED).synced() is None
    file = folder / "groupreplay-topics.json"
    file.write_bytes(file.read_bytes()[:20])
    (folder / ".groupreplay-topics.json.crc").unlink()
    assert opened(folder).synced() is None
    file.write_bytes(b"")
    assert opened(folder).synced() is None
    assert len(caplog.records) == 2


def test_finder_of_incidents(folder: Path) -> None:
    """It is read as it was written last, whatever its bytes are."""
    root = opened(folder)
    root.claim(WANTED)
    assert root.incidents() is None
    state = IncidentState(finder=bytes(range(256)), read_to={"group-events": {0: 7}}, round_ms=5)
    root.note_incidents(state)
    assert opened(folder).incidents() == state


def test_what_was_seen_of_the_log(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is written over and over, and each checkpoint inside has its own; a torn file is as good as none."""
    root = opened(folder)
    identity = root.claim(WANTED)
    assert root.log_marks() is None
    record = RecordMark(4, "d")
    for marks in (
        LogMarks("e", {0: PartitionMark(EpochEnd(5, 2), record), 7: PartitionMark(EpochEnd(0, 0))}),
        LogMarks("e", {0: PartitionMark(EpochEnd(6), record)}),
    ):
        root.note_log_marks(marks)
        assert opened(folder).log_marks() == marks
    assert root.begin_anew(identity, GAP, WANTED).log_marks() is None
    file = folder / "groupreplay-log.json"
    for torn in (file.read_bytes()[:20], b"", b'{"era":"e","partitions":{"0":7}}'):
        file.write_bytes(torn)
        (folder / ".groupreplay-log.json.crc").unlink(missing_ok=True)
        assert opened(folder).log_marks() is None
    assert len(caplog.records) == 3
    file.unlink()
    file.mkdir()
    (file / "in the way").touch()
    with pytest.raises(UnwritableError, match="the checkpoint cannot be written: "):
        root.note_log_marks(LogMarks("e", {}))
