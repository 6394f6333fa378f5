"""Writes the history of one cluster: events once each, the groups' documents, and how far the topics were read.

All of it is called by one thread, the one that reads the topics. The time is an argument.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from groupreplay.app.serve.history.file import HistoryFile
from groupreplay.app.serve.history.rows import CommitCounts, HistoryEvent, HistoryGroup, event_row, group_row
from groupreplay.state.phrases import counted
from groupreplay.streaming.sinks.known_groups import group_label

log = logging.getLogger(__name__)

#: Between two searches for what is too old or too much.
_TIDY_MS: Final = 60_000
#: A part of the events that is removed when the file is too large.
_SHARE: Final = 10
#: Clocks of writers may be ahead by this much; later events count as written now.
_AHEAD_MS: Final = 60_000

_Row = TypeVar("_Row", HistoryEvent, HistoryGroup)


@dataclass(frozen=True, slots=True)
class TopicMessage:
    """A message of ``group-events`` (``is_event``) or ``group-states``."""

    is_event: bool
    partition: int
    offset: int
    key: bytes
    value: bytes | None
    written_ms: int


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event that was stored for the first time; ``value`` is the message."""

    position: int
    row: HistoryEvent
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What the history keeps: events of this age at most, and a file of this size at most."""

    age_ms: int
    size_bytes: int


class HistoryWriter:
    """The writer of one cluster's file. ``on_events`` is called after events have become visible to readers."""

    def __init__(
        self, file: HistoryFile, bounds: Bounds, on_events: Callable[[str, Sequence[NewEvent]], None]
    ) -> None:
        self.file = file
        self.bounds = bounds
        #: Messages that are no events and no documents.
        self.unreadable = 0
        #: Why nothing can be stored at this moment; empty when it can.
        self.trouble = ""
        self._on_events = on_events
        self._pass = 0
        self._tidied_ms = 0
        self._lock = threading.Lock()
        self._counts: CommitCounts | None = None
        self._incarnation = file.incarnation

    def begin(self, topic_ids: Mapping[str, str]) -> dict[tuple[str, int], int]:
        """Reading begins, from topics with these ids; returns the next offset by topic and partition.

        Another id is another topic: what is known of the former one is dropped.
        """
        topics = ",".join(f"{name}={topic_id}" for name, topic_id in sorted(topic_ids.items()))
        db = self.file.writer
        about = dict(db.execute("SELECT name, value FROM about").fetchall())
        if about.get("topics") not in (None, topics):
            log.warning("the topics of the history were made anew: it begins again")
            self.file.rebuild()
            db, about = self.file.writer, {}
        self._incarnation = self.file.incarnation
        self._pass = int(about.get("pass", 0)) + 1
        db.executemany(
            "INSERT OR REPLACE INTO about VALUES (?, ?)", [("topics", topics), ("pass", str(self._pass))]
        )
        self.trouble = ""
        return {
            (topic, number): following
            for topic, number, following in db.execute("SELECT topic, partition, next FROM positions")
        }

    def take(self, topic: str, messages: Sequence[TopicMessage], now_ms: int) -> None:
        """Stores messages of the topics, all or none; ``topic`` is the name of the topic of events.

        Does not raise when the file cannot be written: ``trouble`` says so, and reading has to begin again.
        """
        if self.trouble or not (messages or self._counts):
            return
        try:
            self._store(topic, messages, now_ms)
        except sqlite3.DatabaseError as error:
            self.trouble = str(error)
            log.warning("the history %s cannot be written now: %s", self.file.path, error)
            self._recover(error)

    def complete(self) -> None:
        """The topics were read to their ends: groups without a document in this pass are gone."""
        if self.trouble:
            return
        db = self.file.writer
        gone = [label for (label,) in db.execute("SELECT label FROM groups WHERE pass < ?", (self._pass,))]
        with _transaction(db):
            for label in gone:
                _drop_group(db, label)

    def offer_counts(self, counts: CommitCounts) -> None:
        """Numbers of commits by group, from another thread; stored with the next messages."""
        with self._lock:
            self._counts = counts

    def _store(self, topic: str, messages: Sequence[TopicMessage], now_ms: int) -> None:
        db = self.file.writer
        new: list[NewEvent] = []
        following: dict[int, int] = {}
        with _transaction(db):
            for message in messages:
                if message.is_event:
                    following[message.partition] = message.offset + 1
                    new += self._take_event(db, message, now_ms)
                else:
                    self._take_document(db, message)
            db.executemany(
                "INSERT OR REPLACE INTO positions VALUES (?, ?, ?)",
                [(topic, number, offset) for number, offset in following.items()],
            )
            self._store_counts(db)
            if abs(now_ms - self._tidied_ms) >= _TIDY_MS:
                self._tidied_ms = now_ms
                self._tidy(db, now_ms)
        if new:
            self._on_events(self._incarnation, new)

    def _take_event(self, db: sqlite3.Connection, message: TopicMessage, now_ms: int) -> Iterable[NewEvent]:
        row = _row_or_none(lambda: event_row(message.value), message)
        if row is None:
            self.unreadable += 1
            return ()
        written_ms = min(message.written_ms, now_ms + _AHEAD_MS)
        if written_ms < now_ms - self.bounds.age_ms:
            return ()
        done = db.execute(
            "INSERT OR IGNORE INTO events (digest, time_ms, written_ms, name, label, severity, body) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (row.digest, row.time_ms, written_ms, row.name, row.label, row.severity, row.body),
        )
        if not done.rowcount:
            return ()
        if row.condition_id or row.trouble:
            _take_span(db, row, written_ms)
        assert message.value is not None
        return [NewEvent(int(done.lastrowid or 0), row, message.value)]

    def _take_document(self, db: sqlite3.Connection, message: TopicMessage) -> None:
        if message.value is None:
            _drop_group(db, group_label(message.key.decode("utf-8", "replace")))
            return
        value = message.value
        row = _row_or_none(lambda: group_row(message.key, value), message)
        if row is None:
            self.unreadable += 1
            return
        _put_group(db, row, self._pass)

    def _store_counts(self, db: sqlite3.Connection) -> None:
        with self._lock:
            counts, self._counts = self._counts, None
        if counts is not None:
            db.execute("DELETE FROM commits")
            db.executemany("INSERT INTO commits VALUES (?, ?)", counts.commits.items())
            about = msgspec.json.encode(msgspec.structs.replace(counts, commits={}))
            db.execute("INSERT OR REPLACE INTO about VALUES ('commits', ?)", (about,))

    def _tidy(self, db: sqlite3.Connection, now_ms: int) -> None:
        """Removes what is too old, and the oldest events while the file is too large."""
        oldest_ms = now_ms - self.bounds.age_ms
        db.execute("DELETE FROM events WHERE written_ms < ?", (oldest_ms,))
        db.execute("DELETE FROM spans WHERE changed_ms < ?", (oldest_ms,))
        if used_bytes(db) > self.bounds.size_bytes:
            self._shorten(db)

    def _shorten(self, db: sqlite3.Connection) -> None:
        """Removes a tenth of the events, the oldest ones; documents of groups stay, whatever their size."""
        (count,) = db.execute("SELECT count(*) FROM events").fetchone()
        if not count:
            return
        least = max(count // _SHARE, 1)
        removed = counted(least, "event")
        log.warning("removed the oldest %s of the history %s, which is too large", removed, self.file.path)
        oldest = "SELECT position FROM events ORDER BY written_ms LIMIT ?"
        db.execute(f"DELETE FROM events WHERE position IN ({oldest})", (least,))  # noqa: S608 - text of this function
        (first_ms,) = db.execute("SELECT min(written_ms) FROM events").fetchone()
        db.execute("DELETE FROM spans WHERE changed_ms < ?", (first_ms,))
        # At the next message again, if that was not enough.
        self._tidied_ms = 0

    def _recover(self, error: sqlite3.DatabaseError) -> None:
        """A damaged file is made anew; a full disk may have room again later."""
        if isinstance(error, sqlite3.OperationalError):
            return
        try:
            self.file.rebuild()
        except (sqlite3.Error, OSError) as again:
            log.warning("the history %s cannot be made anew: %s", self.file.path, again)


def used_bytes(db: sqlite3.Connection) -> int:
    """The bytes of the file that hold something."""
    pages, free, size = (
        db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _row_or_none(make: Callable[[], _Row | None], message: TopicMessage) -> _Row | None:
    try:
        return make()
    except Exception:  # one message must not make the reader start over, for ever
        log.warning("a message at offset %d is not used", message.offset, exc_info=True)
        return None


def _take_span(db: sqlite3.Connection, row: HistoryEvent, written_ms: int) -> None:
    """A condition that began, got worse or ended, whose events may come in any order; or the moment of a trouble."""
    is_moment = not row.condition_id
    until_ms = row.time_ms if row.resolved or is_moment else None
    since_ms = row.time_ms if is_moment else row.since_ms
    db.execute(
        "INSERT INTO spans VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (label, condition_id) DO UPDATE SET "
        "severity = max(severity, excluded.severity), since_ms = min(since_ms, excluded.since_ms), "
        "until_ms = coalesce(excluded.until_ms, until_ms), changed_ms = max(changed_ms, excluded.changed_ms)",
        (
            row.condition_id or row.digest.hex(),
            row.label,
            row.name,
            row.severity,
            since_ms,
            until_ms,
            written_ms,
        ),
    )


def _put_group(db: sqlite3.Connection, row: HistoryGroup, number: int) -> None:
    _drop_group(db, row.label)
    db.execute(
        "INSERT INTO groups VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (row.label, number, *row[1:-2]),
    )
    db.executemany("INSERT INTO topics VALUES (?, ?)", [(topic, row.label) for topic in row.topics])
    db.executemany(
        "INSERT OR REPLACE INTO conditions VALUES (?, ?, ?, ?, ?, ?)",
        [(row.label, *condition) for condition in row.conditions],
    )


def _drop_group(db: sqlite3.Connection, label: str) -> None:
    for table in ("groups", "topics", "conditions"):
        db.execute(f"DELETE FROM {table} WHERE label = ?", (label,))  # noqa: S608 - names of this function
