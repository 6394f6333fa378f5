"""What a process leaves to the next one, and the files that are refused with what to do."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from groupreplay.state.events.event import JobGap, UnreadRange
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.engine.live import KeyState, WaitingAnswer
from groupreplay.streaming.watch.kept_ends import Rounds
from groupreplay.streaming.watch.state_file import VERSION, Change, Memory, Owner, StateFile
from support.remedies import read_remedy
from support.tools.small_disks import filled, small_disk

OWNER = Owner(cluster_id="c", era="e", partitions=50, first_start_ms=7, job_id="watch-1")
STATE = KeyState(b"g:pay", b"\x01state", 12)
WRITTEN = Change(
    read_to={3: 40},
    next_message=9,
    states={STATE.key: STATE},
    waiting=[WaitingAnswer(b"g:pay", 5, b"answer")],
    pending={1: b'{"id":"a"}', 2: b'{"id":"b"}'},
    outgoing={("webhook", 3): b"c", ("webhook", 4): b"d", ("jsonl", 5): b"e"},
    answers={"pay": b"open", "stock": b"open"},
    ends={1: b"first", 2: b"second"},
    passed_ms=77,
)


def remembered(path: Path) -> Memory:
    """The content of a file that nobody uses."""
    file = StateFile(path)
    memory = file.load()
    file.close()
    return memory


def test_what_was_written_is_read(tmp_path: Path) -> None:
    """All of it, by another process; what was delivered and what has no state any more is gone after the next poll."""
    path = tmp_path / "state.db"
    file = StateFile(path)
    assert file.claim(OWNER) == OWNER
    assert file.write(WRITTEN)
    file.close()
    assert remembered(path) == Memory(
        read_to={3: 40},
        next_message=9,
        states=[STATE],
        waiting=list(WRITTEN.waiting),
        pending={1: b'{"id":"a"}', 2: b'{"id":"b"}'},
        outgoing={"webhook": {3: b"c", 4: b"d"}, "jsonl": {5: b"e"}},
        answers={"pay": b"open", "stock": b"open"},
        ends={1: b"first", 2: b"second"},
        passed_ms=77,
    )
    file = StateFile(path)
    later = msgspec.structs.replace(OWNER, first_start_ms=99, job_id="watch-2")
    assert file.claim(later) == OWNER
    gone = KeyState(STATE.key, None, None)
    change = Change(read_to={3: 41}, next_message=10, states={gone.key: gone}, delivered={1})
    change.leave("webhook", 3)
    change.leave("jsonl", 5)
    change.answers["pay"] = b""
    change.record(Rounds({3: b"third", 4: b"fourth"}, since=2))
    change.record(Rounds({5: b"fifth"}, since=4))
    assert file.write(change)
    file.close()
    assert remembered(path) == Memory(
        read_to={3: 41},
        next_message=10,
        states=[],
        waiting=[],
        pending={2: b'{"id":"b"}'},
        outgoing={"webhook": {4: b"d"}},
        answers={"stock": b"open"},
        ends={4: b"fourth", 5: b"fifth"},
        passed_ms=77,
    )
    assert path.stat().st_mode & 0o077 == 0


def test_a_file_of_the_version_before(tmp_path: Path) -> None:
    """It is read as it is, and has room for ends from then on; a release before refuses it."""
    path = tmp_path / "state.db"
    file = StateFile(path)
    file.claim(OWNER)
    file.close()
    db = sqlite3.connect(path)
    db.execute("DROP TABLE ends")
    db.execute("PRAGMA user_version = 1")
    db.close()
    file = StateFile(path)
    assert (file.load(), file.owner()) == (Memory(states=[], waiting=[]), OWNER)
    assert file.write(Change(ends={1: b"first"}))
    file.close()
    assert remembered(path).ends == {1: b"first"}
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA user_version").fetchone() == (VERSION,)
    db.close()


def test_an_event_that_is_delivered_before_it_is_written() -> None:
    """It is never written; one that was written is deleted."""
    change = Change(pending={1: b"a", 2: b"b"})
    change.forget(1)
    change.forget(7)
    assert (change.pending, change.delivered) == ({2: b"b"}, {7})


def test_a_log_that_is_gone(tmp_path: Path) -> None:
    """What came from it is forgotten; what has not been delivered, ends and incidents stay, for the next owner."""
    path = tmp_path / "state.db"
    file = StateFile(path)
    file.claim(OWNER)
    assert file.write(replace(WRITTEN, incidents=b"finder"))
    before = file.load()
    gap = JobGap(reason="removed", partitions=(UnreadRange(partition=3, read_to=4, log_start=8, log_end=9),))
    next_owner = msgspec.structs.replace(OWNER, first_start_ms=8, event_era="e.1", gap=gap)
    file.begin_anew(next_owner)
    assert (file.owner(), next_owner.era_of_events, OWNER.era_of_events) == (next_owner, "e.1", "e")
    file.close()
    assert remembered(path) == replace(before, read_to={}, states=[], waiting=[], answers={})


def another_cluster(path: Path) -> None:
    """The cluster of the file is another one."""
    file = StateFile(path)
    try:
        file.claim(msgspec.structs.replace(OWNER, cluster_id="d"))
    finally:
        file.close()


def another_topic(path: Path) -> None:
    """The topic was created again."""
    file = StateFile(path)
    try:
        file.claim(msgspec.structs.replace(OWNER, era="f"))
    finally:
        file.close()


def later_version(path: Path) -> None:
    """A later release has written the file."""
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version = {VERSION + 1}")
    db.close()
    StateFile(path)


def other_program(path: Path) -> None:
    """The file is the database of another program."""
    db = sqlite3.connect(path)
    db.execute("PRAGMA application_id = 1")
    db.close()
    StateFile(path)


def damaged(path: Path) -> None:
    """The first page has other bytes."""
    with path.open("r+b") as file:
        file.write(b"x" * 4_096)
    StateFile(path)


def in_use(path: Path) -> None:
    """Another process has it open."""
    first = StateFile(path)
    try:
        StateFile(path)
    finally:
        first.close()


def without_folder(path: Path) -> None:
    """The folder is not there."""
    StateFile(path / "missing" / "state.db")


def content(path: Path) -> object:
    """Tables and rows; the bytes of what is no database."""
    db = sqlite3.connect(path)
    try:
        return [*db.iterdump(), *db.execute("PRAGMA user_version")]
    except sqlite3.DatabaseError:
        return path.read_bytes()
    finally:
        db.close()


OTHER_FILE = "streaming.watch.state_file: give another --state file: the state"
REFUSED = {
    another_cluster: ("streaming.watch.state_file: give each cluster a --state", ExitCode.USAGE),
    another_topic: (OTHER_FILE, ExitCode.DATA),
    later_version: ("streaming.watch.state_file: start the release that", ExitCode.DATA),
    other_program: (OTHER_FILE, ExitCode.DATA),
    damaged: ("streaming.watch.state_file: restore the file from a copy,", ExitCode.DATA),
    in_use: ("streaming.watch.state_file: stop that process, or", ExitCode.USAGE),
    without_folder: ("streaming.watch.state_file: give --state a file in a folder", ExitCode.USAGE),
}


@pytest.mark.parametrize("use", REFUSED, ids=lambda use: use.__name__)
def test_a_file_that_is_refused(use: Callable[[Path], None], tmp_path: Path) -> None:
    """The message says what to do: another file, which works; and the refused one is not changed."""
    path = tmp_path / "state.db"
    file = StateFile(path)
    file.claim(OWNER)
    file.close()
    key, exit_code = REFUSED[use]
    with pytest.raises(GroupReplayError) as refused:
        use(path)
    before = content(path)
    read_remedy(key, str(refused.value))
    assert refused.value.exit_code == exit_code
    with pytest.raises(GroupReplayError):
        use(path)
    assert content(path) == before
    other = StateFile(tmp_path / "other.db")
    assert other.claim(OWNER) == OWNER
    other.close()


def test_a_disk_that_is_full(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is written, and one warning says so; with space again all of it is written, which another one says."""
    caplog.set_level(logging.WARNING)
    with small_disk(tmp_path / "disk", 2) as disk:
        file = StateFile(disk / "state.db")
        file.claim(OWNER)
        large = replace(WRITTEN, states={b"g:x": KeyState(b"g:x", bytes(300_000), None)})
        with filled(disk):
            assert [file.write(large), file.write(large)] == [False, False]
            assert "full" in file.trouble
        assert file.write(large)
        file.close()
        assert [state.blob for state in remembered(disk / "state.db").states] == [bytes(300_000)]
    full, again = caplog.messages
    read_remedy("streaming.watch.state_file: events go on, and after", full)
    assert "written to" in again
