"""What ``watch`` remembers between two processes: one SQLite file, written once for each poll.

One transaction has what a poll has changed: how far the log was read, the states, and the events that follow. So a
process that is killed goes on where the last transaction ended, and the same records give the same events again.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from groupreplay.state.events.event import JobGap
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, unusable
from groupreplay.streaming.contract.messages import MessageDecoder
from groupreplay.streaming.engine.live import KeyState, WaitingAnswer
from groupreplay.streaming.watch.kept_ends import Rounds
from groupreplay.version import __version__

log = logging.getLogger(__name__)

#: Raised with every change of the tables or of their meaning.
VERSION: Final = 4
_APPLICATION_ID: Final = 0x67725761
_ANEW: Final = "give another --state file: the state is then built anew from the log"

_SCHEMA: Final = """
CREATE TABLE about (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE read_to (partition INTEGER PRIMARY KEY, next INTEGER NOT NULL);
CREATE TABLE states (key BLOB PRIMARY KEY, state BLOB, deadline_ms INTEGER) WITHOUT ROWID;
CREATE TABLE waiting (number INTEGER PRIMARY KEY, key BLOB NOT NULL, heard_ms INTEGER NOT NULL, packed BLOB NOT NULL);
CREATE TABLE pending (number INTEGER PRIMARY KEY, event BLOB NOT NULL);
CREATE TABLE outgoing (
  outlet TEXT NOT NULL, number INTEGER NOT NULL, message BLOB NOT NULL, PRIMARY KEY (outlet, number)
) WITHOUT ROWID;
CREATE TABLE answers (group_id TEXT PRIMARY KEY, messages BLOB NOT NULL) WITHOUT ROWID;
"""
#: Added by version 2; since version 3 a round may be the memory that takes the place of those before it. Since version
#: 4 the owner's events may have another era than its topic.
_ROUNDS: Final = "CREATE TABLE IF NOT EXISTS ends (number INTEGER PRIMARY KEY, round BLOB NOT NULL)"

#: What comes from the log.
_FORGET: Final = tuple(f"DELETE FROM {table}" for table in ("read_to", "states", "waiting", "answers"))  # noqa: S608


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """The log that a file belongs to, by the id of its topic (``era``), and the first start on it: written once.

    ``gap`` is why the state was built anew then; ``event_era`` is part of the ids of events, if ``era`` is not.
    """

    cluster_id: str
    era: str
    partitions: int
    first_start_ms: int
    job_id: str
    event_era: str = ""
    gap: JobGap | None = None

    @property
    def era_of_events(self) -> str:
        """What is in the ids of events."""
        return self.event_era or self.era


_owner: Final = MessageDecoder[Owner](Owner)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The content of a file. ``read_to``: the next offset of each partition; ``next_message``: of the own messages.

    ``pending`` are events that may not have been printed, by number; ``outgoing`` messages that may not have left by an
    outlet, by its name and their number. ``answers`` are those of the prober about groups that are rebalancing,
    ``ends`` its rounds with the ends of partitions, ``incidents`` the finder of incidents. Everything from before
    ``passed_ms`` was applied.
    """

    read_to: Mapping[int, int] = field(default_factory=dict)
    next_message: int = 0
    states: Iterable[KeyState] = ()
    waiting: Sequence[WaitingAnswer] = ()
    pending: Mapping[int, bytes] = field(default_factory=dict)
    outgoing: Mapping[str, Mapping[int, bytes]] = field(default_factory=dict)
    answers: Mapping[str, bytes] = field(default_factory=dict)
    ends: Mapping[int, bytes] = field(default_factory=dict)
    incidents: bytes = b""
    passed_ms: int = 0


@dataclass(slots=True)
class Change:
    """What one poll has changed, or several of them while the disk was full. ``delivered``: events to forget.

    ``left`` are outgoing messages to forget; ``answers`` empty: the group is rebalancing no more. Rounds with ends
    before ``ends_since`` are forgotten. ``incidents`` empty: the finder is stored already.
    """

    read_to: dict[int, int] = field(default_factory=dict)
    next_message: int = 0
    states: dict[bytes, KeyState] = field(default_factory=dict)
    waiting: Sequence[WaitingAnswer] = ()
    pending: dict[int, bytes] = field(default_factory=dict)
    delivered: set[int] = field(default_factory=set)
    outgoing: dict[tuple[str, int], bytes] = field(default_factory=dict)
    left: set[tuple[str, int]] = field(default_factory=set)
    answers: dict[str, bytes] = field(default_factory=dict)
    ends: dict[int, bytes] = field(default_factory=dict)
    ends_since: int = 0
    incidents: bytes = b""
    passed_ms: int = 0

    def record(self, ends: Rounds) -> None:
        """Further rounds with ends, and which are to be forgotten."""
        self.ends.update(ends.new)
        self.ends_since = ends.since
        for number in [number for number in self.ends if number < ends.since]:
            del self.ends[number]

    def forget(self, number: int) -> None:
        """An event was delivered."""
        if self.pending.pop(number, None) is None:
            self.delivered.add(number)

    def leave(self, outlet: str, number: int) -> None:
        """A message has left by an outlet."""
        if self.outgoing.pop((outlet, number), None) is None:
            self.left.add((outlet, number))


class StateFile:
    """The file of one process; a second one is refused. ``trouble``: why nothing can be written now, or empty.

    Raises:
        GroupReplayError: it is damaged, of a later release, of another program, in use, or cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.trouble = ""
        try:
            self._db = _opened(path)
        except (sqlite3.Error, OSError) as error:
            raise _refusal(path, error) from None

    def close(self) -> None:
        """Lets another process use it."""
        self._db.close()

    def claim(self, owner: Owner) -> Owner:
        """The owner that was written at the first start; writes this one if there is none.

        Raises:
            GroupReplayError: it belongs to another cluster, or to a topic that is gone; or nothing can be written.
        """
        first = self.owner()
        if first is None:
            with self._transaction() as db:
                _note(db, "owner", msgspec.json.encode(owner))
            return owner
        if first.cluster_id != owner.cluster_id:
            raise unusable(
                f"the state is that of cluster {first.cluster_id}, this cluster is {owner.cluster_id}",
                self.path,
                "give each cluster a --state file of its own",
            )
        if (first.era, first.partitions) != (owner.era, owner.partitions):
            raise GroupReplayError(
                "the state is that of a topic that was created again, or that has more partitions since",
                where=str(self.path),
                fix=_ANEW,
                exit_code=ExitCode.DATA,
            )
        return first

    def owner(self) -> Owner | None:
        """The owner; None before the first start.

        Raises:
            GroupReplayError: the file is damaged.
        """
        text = self._about("owner")
        if text is None:
            return None
        owner = _owner.decode(text)
        if owner is None:
            raise _refusal(self.path, sqlite3.DatabaseError("it does not name its cluster"))
        return owner

    def begin_anew(self, owner: Owner) -> None:
        """Forgets what came from a log that is gone. What has not been delivered, ends and incidents stay.

        Raises:
            sqlite3.Error: nothing can be written.
        """
        with self._transaction() as db:
            for statement in _FORGET:
                db.execute(statement)
            _note(db, "owner", msgspec.json.encode(owner))

    def read_to(self) -> dict[int, int]:
        """The next offset of each partition, as it was written last."""
        return dict(self._db.execute("SELECT partition, next FROM read_to"))

    def load(self) -> Memory:
        """What was written last; ``states`` can be read once, before the next call.

        Raises:
            GroupReplayError: the file is damaged.
        """
        try:
            db = self._db
            return Memory(
                read_to=self.read_to(),
                next_message=int(self._about("next_message") or 0),
                states=[KeyState(*row) for row in db.execute("SELECT key, state, deadline_ms FROM states")],
                waiting=[
                    WaitingAnswer(*row)
                    for row in db.execute("SELECT key, heard_ms, packed FROM waiting ORDER BY number")
                ],
                pending=dict(db.execute("SELECT number, event FROM pending ORDER BY number")),
                outgoing=_by_outlet(
                    db.execute("SELECT outlet, number, message FROM outgoing ORDER BY outlet, number")
                ),
                answers=dict(db.execute("SELECT group_id, messages FROM answers")),
                ends=dict(db.execute("SELECT number, round FROM ends ORDER BY number")),
                incidents=self._about("incidents") or b"",
                passed_ms=int(self._about("passed_ms") or 0),
            )
        except sqlite3.Error as error:
            raise _refusal(self.path, error) from None

    def write(self, change: Change) -> bool:
        """Writes all of a change or nothing; whether it was written. A disk that is full ends nothing."""
        try:
            with self._transaction() as db:
                _write(db, change)
        except sqlite3.Error as error:
            if not self.trouble:
                log.warning(
                    "the state cannot be written to %s now (%s); events go on, and after a restart those since now "
                    "are repeated with the same ids",
                    self.path,
                    error,
                )
            self.trouble = str(error)
            return False
        if self.trouble:
            log.warning("the state is written to %s again", self.path)
        self.trouble = ""
        return True

    def _about(self, name: str) -> bytes | None:
        row = self._db.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
        return None if row is None else bytes(row[0])

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield self._db
            self._db.execute("COMMIT")
        except BaseException:
            # SQLite may have rolled back by itself.
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise


def _write(db: sqlite3.Connection, change: Change) -> None:
    db.executemany("INSERT OR REPLACE INTO read_to VALUES (?, ?)", change.read_to.items())
    gone = [(state.key,) for state in change.states.values() if state.blob is None]
    db.executemany("DELETE FROM states WHERE key = ?", gone)
    left = [state for state in change.states.values() if state.blob is not None]
    db.executemany("INSERT OR REPLACE INTO states VALUES (?, ?, ?)", left)
    db.execute("DELETE FROM waiting")
    db.executemany("INSERT INTO waiting (key, heard_ms, packed) VALUES (?, ?, ?)", change.waiting)
    db.executemany("DELETE FROM pending WHERE number = ?", [(number,) for number in change.delivered])
    db.executemany("INSERT OR REPLACE INTO pending VALUES (?, ?)", change.pending.items())
    db.executemany("DELETE FROM outgoing WHERE outlet = ? AND number = ?", change.left)
    rows = [(*place, message) for place, message in change.outgoing.items()]
    db.executemany("INSERT OR REPLACE INTO outgoing VALUES (?, ?, ?)", rows)
    ended = [(group_id,) for group_id, messages in change.answers.items() if not messages]
    db.executemany("DELETE FROM answers WHERE group_id = ?", ended)
    going_on = [(group_id, messages) for group_id, messages in change.answers.items() if messages]
    db.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?)", going_on)
    db.execute("DELETE FROM ends WHERE number < ?", (change.ends_since,))
    db.executemany("INSERT OR REPLACE INTO ends VALUES (?, ?)", change.ends.items())
    _note(db, "next_message", b"%d" % change.next_message)
    if change.incidents:
        _note(db, "incidents", change.incidents)
    if change.passed_ms:
        _note(db, "passed_ms", b"%d" % change.passed_ms)


def _by_outlet(rows: Iterable[tuple[str, int, bytes]]) -> Mapping[str, Mapping[int, bytes]]:
    outgoing: dict[str, dict[int, bytes]] = {}
    for outlet, number, message in rows:
        outgoing.setdefault(outlet, {})[number] = message
    return outgoing


def _note(db: sqlite3.Connection, name: str, value: bytes) -> None:
    db.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (name, value))


class _StrangeFileError(sqlite3.DatabaseError):
    """A database that this release cannot use; ``args`` are what it is and what to do."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what, fix)


def _opened(path: Path) -> sqlite3.Connection:
    # Made before SQLite makes it, which gives its other files the same rights.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    db = sqlite3.connect(path, timeout=0.0, isolation_level=None, check_same_thread=False)
    try:
        # One process holds the file from its first write to its end, however it ends.
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("PRAGMA journal_mode = WAL")
        # After a loss of power the last polls may be missing; they are read again.
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA trusted_schema = 0")
        db.execute("BEGIN EXCLUSIVE")
        _check(db)
        db.execute("COMMIT")
    except BaseException:
        db.close()
        raise
    return db


def _check(db: sqlite3.Connection) -> None:
    """A file of this version; makes the tables of an empty one."""
    version, application = (
        int(db.execute(f"PRAGMA {name}").fetchone()[0]) for name in ("user_version", "application_id")
    )
    if not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        for statement in filter(str.strip, (*_SCHEMA.split(";"), _ROUNDS)):
            db.execute(statement)
        db.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {VERSION}")
        _note(db, "release", __version__.encode())
        return
    if application != _APPLICATION_ID:
        raise _StrangeFileError("the file is the database of another program", fix=_ANEW)
    if version > VERSION:
        raise _StrangeFileError(
            f"the state has version {version}, this release reads version {VERSION}",
            fix=f"start the release that wrote it, or {_ANEW}",
        )
    (verdict,) = db.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise sqlite3.DatabaseError(str(verdict))
    if version < VERSION:
        db.execute(_ROUNDS)
        db.execute(f"PRAGMA user_version = {VERSION}")


def _refusal(path: Path, error: Exception) -> GroupReplayError:
    """What is wrong with the file, and what to do."""
    where = str(path)
    if isinstance(error, _StrangeFileError):
        what, fix = error.args
        return GroupReplayError(what, where=where, fix=fix, exit_code=ExitCode.DATA)
    if isinstance(error, OSError) or "unable to open" in str(error):
        why = error.strerror if isinstance(error, OSError) else error
        return unusable(
            f"the state cannot be kept: {why}", where, "give --state a file in a folder that is writable"
        )
    if "locked" in str(error):
        return unusable(
            "another process uses the state", where, "stop that process, or give another --state file"
        )
    return GroupReplayError(
        f"the state is damaged: {error}",
        where=where,
        fix=f"restore the file from a copy, or {_ANEW}",
        exit_code=ExitCode.DATA,
    )
