"""The file of the history: private, of one writer, and made anew when it cannot be used."""

from __future__ import annotations

import logging
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from groupreplay.app.serve.history.file import HistoryFile, remove_history
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError


def test_rights(tmp_path: Path) -> None:
    """Nobody else can read it or what SQLite writes beside it; a file that was open to others is closed."""
    path = tmp_path / "history.db"
    path.touch(0o666)
    file = HistoryFile(path)
    file.writer.execute("INSERT INTO about VALUES ('a', 'b')")
    modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in tmp_path.iterdir()}
    assert modes == dict.fromkeys(
        ["history.db", "history.db-wal", "history.db-shm", "history.db.lock"], 0o600
    )
    file.close()


def test_one_writer(tmp_path: Path) -> None:
    """A second one is refused with a clear error, as long as the first one lives."""
    path = tmp_path / "history.db"
    first = HistoryFile(path)
    with pytest.raises(GroupReplayError, match="another process writes it") as caught:
        HistoryFile(path)
    assert caught.value.exit_code == ExitCode.USAGE
    first.close()
    HistoryFile(path).close()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """Names the file and what to do."""
    with pytest.raises(GroupReplayError, match="--history-file"):
        HistoryFile(tmp_path / "none" / "history.db")


def _garbage(path: Path) -> None:
    path.write_bytes(b"no database" * 1_000)


def _damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4_096:] = b"\xff" * (len(content) - 4_096)
    path.write_bytes(content)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5_000])


def _age(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA user_version = 999")


def _another(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE events (mine)")


@pytest.mark.parametrize("harm", [_garbage, _damage, _cut, _age, _another])
def test_a_file_that_cannot_be_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, harm: Callable[[Path], None]
) -> None:
    """Damaged, cut off, of another release or another program: it is made anew, and the log says so."""
    path = tmp_path / "history.db"
    file = HistoryFile(path)
    incarnation = file.incarnation
    file.close()
    harm(path)
    with caplog.at_level(logging.WARNING):
        file = HistoryFile(path)
    assert "cannot be used and is made anew" in caplog.text
    assert file.incarnation != incarnation
    with file.reader() as reader:
        assert reader.execute("SELECT count(*) FROM events").fetchone() == (0,)
    file.close()


def test_a_file_that_stays(tmp_path: Path) -> None:
    """It is the same after a restart."""
    path = tmp_path / "history.db"
    file = HistoryFile(path)
    incarnation = file.incarnation
    file.close()
    again = HistoryFile(path)
    assert again.incarnation == incarnation
    again.close()


def test_readers_cannot_write(tmp_path: Path) -> None:
    """Whatever the question is."""
    file = HistoryFile(tmp_path / "history.db")
    with file.reader() as reader, pytest.raises(sqlite3.OperationalError):
        reader.execute("DELETE FROM events")
    file.close()


def test_a_history_that_nobody_writes_is_removed(tmp_path: Path) -> None:
    """With what SQLite has left beside it; a second removal does nothing."""
    path = tmp_path / "state.db-history"
    file = HistoryFile(path)
    file.writer.execute("INSERT INTO about VALUES ('a', 'b')")
    file.close()
    for _ in range(2):
        remove_history(path)
    assert {one.name for one in tmp_path.iterdir()} <= {"state.db-history.lock"}
