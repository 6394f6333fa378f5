"""The SQLite file of one cluster's history: its schema, its one writer and its readers.

The file holds nothing that the topics do not hold, so one that cannot be used is made anew.
"""

from __future__ import annotations

import fcntl
import logging
import os
import sqlite3
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Final

from groupreplay.streaming.base.errors import GroupReplayError, unusable

log = logging.getLogger(__name__)

#: Raised with every change of the tables: a file of another version is made anew.
SCHEMA_VERSION: Final = 2
_APPLICATION_ID: Final = 0x67726F75
#: A question that takes longer is ended with an error.
QUERY_SECONDS: Final = 5.0
#: Instructions of SQLite between two looks at the clock.
_STEPS: Final = 20_000
_SIDES: Final = ("", "-wal", "-shm")

_SCHEMA: Final = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE positions (topic TEXT, partition INTEGER, next INTEGER NOT NULL, PRIMARY KEY (topic, partition))
    WITHOUT ROWID;
CREATE TABLE events (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    digest BLOB NOT NULL UNIQUE,
    time_ms INTEGER NOT NULL,
    written_ms INTEGER NOT NULL,
    name TEXT NOT NULL,
    label TEXT NOT NULL,
    severity INTEGER NOT NULL,
    body BLOB NOT NULL
);
CREATE INDEX events_by_time ON events (time_ms, position);
CREATE INDEX events_by_group ON events (label, time_ms, position);
CREATE INDEX events_by_name ON events (name, time_ms, label);
CREATE INDEX events_by_age ON events (written_ms);
CREATE TABLE spans (
    condition_id TEXT,
    label TEXT,
    name TEXT NOT NULL,
    severity INTEGER NOT NULL,
    since_ms INTEGER NOT NULL,
    until_ms INTEGER,
    changed_ms INTEGER NOT NULL,
    PRIMARY KEY (label, condition_id)
) WITHOUT ROWID;
CREATE INDEX spans_by_age ON spans (changed_ms);
CREATE TABLE groups (
    label TEXT PRIMARY KEY,
    pass INTEGER NOT NULL,
    group_id TEXT NOT NULL,
    type TEXT NOT NULL,
    state TEXT NOT NULL,
    generation INTEGER,
    members INTEGER NOT NULL,
    severity INTEGER NOT NULL,
    risk TEXT NOT NULL,
    since_ms INTEGER,
    expires_ms INTEGER,
    offsets INTEGER NOT NULL,
    searched TEXT NOT NULL,
    body BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX groups_by_risk ON groups (severity DESC, risk, label);
CREATE INDEX groups_by_expiry ON groups (expires_ms);
CREATE TABLE topics (topic TEXT, label TEXT, PRIMARY KEY (topic, label)) WITHOUT ROWID;
CREATE INDEX topics_by_group ON topics (label);
CREATE TABLE conditions (
    label TEXT,
    condition_id TEXT,
    name TEXT NOT NULL,
    severity INTEGER NOT NULL,
    since_ms INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (label, condition_id, name)
) WITHOUT ROWID;
CREATE INDEX conditions_by_severity ON conditions (severity DESC, since_ms);
CREATE TABLE commits (label TEXT PRIMARY KEY, commits INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX commits_by_count ON commits (commits DESC);
"""


class HistoryFile:
    """A file that this process alone writes; ``writer`` is for one thread only.

    Raises:
        GroupReplayError: another process writes it, or it cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = _locked(path)
        try:
            self.writer = self._opened()
        except BaseException:
            self._lock.close()
            raise

    @property
    def incarnation(self) -> str:
        """Another text after the file was made anew: positions of events begin again."""
        return str(self.writer.execute("SELECT value FROM about WHERE name = 'incarnation'").fetchone()[0])

    def close(self) -> None:
        """Ends the writer."""
        self.writer.close()
        self._lock.close()

    def rebuild(self) -> None:
        """Makes the file anew. Readers of the former one end with what they see."""
        self.writer.close()
        remove_history(self.path)
        self.writer = _made(self.path)

    @contextmanager
    def reader(self) -> Iterator[sqlite3.Connection]:
        """A read-only connection of its own, which sees one state of the file and ends long questions.

        Raises:
            sqlite3.Error: the file is being made anew, or a question took too long.
        """
        uri = f"{self.path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=QUERY_SECONDS, isolation_level=None)) as reader:
            ends = time.monotonic() + QUERY_SECONDS
            reader.set_progress_handler(lambda: time.monotonic() > ends, _STEPS)
            reader.execute("PRAGMA query_only = 1")
            reader.execute("BEGIN")
            yield reader

    def _opened(self) -> sqlite3.Connection:
        try:
            if self.path.exists() and self.path.stat().st_size:
                return _checked(self.path)
        except sqlite3.Error as error:
            log.warning("the history %s cannot be used and is made anew: %s", self.path, error)
            remove_history(self.path)
        return _made(self.path)


def _checked(path: Path) -> sqlite3.Connection:
    """The file of this version.

    Raises:
        sqlite3.Error: it is damaged, or of another version.
    """
    connection = _connected(path)
    try:
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if (application, version) != (_APPLICATION_ID, SCHEMA_VERSION):
            raise sqlite3.DatabaseError(f"it has version {version}, not {SCHEMA_VERSION}")
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError(str(verdict))
    except BaseException:
        connection.close()
        raise
    return connection


def _made(path: Path) -> sqlite3.Connection:
    connection = _connected(path)
    connection.executescript(f"BEGIN; {_SCHEMA} COMMIT;")
    connection.execute("INSERT INTO about VALUES ('incarnation', ?)", (uuid.uuid4().hex[:12],))
    connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    # Last: a file without a version was not made to its end.
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    return connection


def _connected(path: Path) -> sqlite3.Connection:
    # Made before SQLite makes it, which gives its other files the same rights.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    path.chmod(0o600)
    connection = sqlite3.connect(path, timeout=QUERY_SECONDS, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    # After a loss of power the last events may be missing; they are read again.
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA journal_size_limit = 16777216")
    connection.execute("PRAGMA trusted_schema = 0")
    return connection


def remove_history(path: Path) -> None:
    """Removes a file that nobody writes."""
    for side in _SIDES:
        Path(f"{path}{side}").unlink(missing_ok=True)


def _locked(path: Path) -> IO[bytes]:
    """A lock beside the file, because the file itself may be replaced; closing it gives it back."""
    name = Path(f"{path}.lock")
    try:
        lock = os.fdopen(os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "rb", buffering=0)
    except OSError as error:
        raise _unusable(path, error.strerror or "it cannot be opened") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise _unusable(path, "another process writes it") from None
    return lock


def _unusable(path: Path, why: str) -> GroupReplayError:
    fix = "give another --history-file (watch: --state), in a folder that exists and is writable, one for each process"
    return unusable(f"the history cannot be used, {why}", path, fix)
