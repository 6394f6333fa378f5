"""Follows the leaders of the log while the job runs, and remembers in the checkpoint what the log was.

An unclean leader election cuts the end of the log, which then grows again: no offset shows that the state has
records that are gone. The ends that the heartbeat takes have the epoch of each leader. When one changes, the log is
compared with what was seen of it. The marks stay in the checkpoint, so the next start compares, too.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from groupreplay.state.events.event import GapReason, JobGap, UnreadRange
from groupreplay.state.policy.context import OFFSETS_TOPIC
from groupreplay.streaming.base.background import Background
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.contract.log import EpochEnd, LogMarks, PartitionMark, RecordMark, continues
from groupreplay.streaming.kafka.log_check import cut_partitions, present_ends

if TYPE_CHECKING:
    from groupreplay.streaming.kafka.clients import Connection
    from groupreplay.streaming.kafka.topic_identity import TopicIdentity

log = logging.getLogger(__name__)


class ReadLog(Protocol):
    """The log that a run has read: its number of partitions, and the id of the topic."""

    @property
    def partitions(self) -> int:
        """How many."""

    @property
    def era(self) -> str:
        """The id."""


_WHAT: Final[Mapping[GapReason, str]] = {
    "topic_recreated": "the offsets topic is another one",
    "partitions_added": "groups have moved to other partitions",
    "removed": "a part of the log was deleted before it was read",
    "truncated": "records that the log once had at its end are gone",
}


class LogLostError(GroupReplayError):
    """The log is no longer the one that was read; ``gap`` has the offsets."""

    def __init__(self, gap: JobGap, topic: TopicIdentity) -> None:
        numbers = ", ".join(str(one.partition) for one in gap.partitions[:5])
        super().__init__(
            f"{_WHAT[gap.reason]} ({gap.reason.replace('_', ' ')})",
            where=f"{OFFSETS_TOPIC}, partitions {numbers}{' …' if len(gap.partitions) > 5 else ''}",
            fix="start again: the state is built anew from what the log holds",
            exit_code=ExitCode.DATA,
        )
        self.gap = gap
        self.topic = topic


def lost_log(
    read: Mapping[int, int],
    identity: ReadLog,
    connection: Connection,
    *,
    planned: Mapping[int, int] | None = None,
    marks: LogMarks | None = None,
) -> LogLostError | None:
    """The part of the log that is gone; None: the log is the one that was read.

    ``read`` is the next offset of each partition, ``planned`` the one after the batch that was begun last, ``marks``
    is what was seen of the log before.

    Raises:
        GroupReplayError: the cluster does not answer, or does not have the topic at this moment.
    """
    topic = connection.identify(OFFSETS_TOPIC)
    starts = connection.first_offsets(OFFSETS_TOPIC, topic.partitions)
    known = marks.partitions if marks is not None and marks.era == topic.era else {}
    ends = present_ends(connection, OFFSETS_TOPIC, topic.partitions, known)
    ranges = {
        number: UnreadRange(
            partition=number, read_to=read.get(number, 0), log_start=start, log_end=ends[number].offset
        )
        for number, start in sorted(starts.items())
        if number in ends
    }
    same_count = topic.partitions == identity.partitions
    gap = _gap(ranges, read, planned or {}, same_topic=topic.era == identity.era, same_count=same_count)
    if gap is None and known:
        cut = sorted(cut_partitions(connection, OFFSETS_TOPIC, known, ends))
        if cut:
            gap = JobGap(reason="truncated", partitions=tuple(ranges[number] for number in cut))
    return None if gap is None else LogLostError(gap, topic)


def _gap(
    ranges: Mapping[int, UnreadRange],
    read: Mapping[int, int],
    planned: Mapping[int, int],
    *,
    same_topic: bool,
    same_count: bool,
) -> JobGap | None:
    """The first reason that applies, with its partitions."""
    found: dict[GapReason, list[UnreadRange]] = {
        "topic_recreated": [] if same_topic else list(ranges.values()),
        "partitions_added": [] if same_count else list(ranges.values()),
        "truncated": [
            one
            for one in ranges.values()
            # Spark reads a batch again exactly as it was planned, and could never finish this one.
            if one.log_end < max(one.read_to, planned.get(one.partition, 0))
        ],
        "removed": [one for one in ranges.values() if one.partition in read and one.log_start > one.read_to],
    }
    for reason, partitions in found.items():
        if partitions:
            return JobGap(reason=reason, partitions=tuple(partitions))
    return None


def is_same_topic(read: ReadLog, connection: Connection) -> bool:
    """Whether the topic has the id and the number of partitions that it had.

    Raises:
        GroupReplayError: no broker answers, or the topic is not there now.
    """
    return connection.topic_id(OFFSETS_TOPIC) == (read.era, read.partitions)


_WRITE_SECONDS: Final = 10.0
_RECORD_SECONDS: Final = 60.0
_ID_SECONDS: Final = 10.0
_TICK_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 5.0


@dataclass(slots=True, kw_only=True)
class LogWatch:
    """The marks of a running job. ``note`` is called by the heartbeat's thread, ``tick`` by one of its own.

    ``era`` is the topic's id, and ``is_same`` whether the topic has it still, and its partitions: one that was created
    again grows, and its ends may be above the marks. ``lost`` compares the log with ``marks()`` and returns the error;
    ``last_records`` returns the last record below these ends; ``load`` and ``store`` are the checkpoint's.
    All of them raise if there is no answer now.
    """

    era: str
    is_same: Callable[[], bool]
    lost: Callable[[], LogLostError | None]
    last_records: Callable[[Mapping[int, int]], Mapping[int, RecordMark]]
    load: Callable[[], LogMarks | None]
    store: Callable[[LogMarks], None]
    seconds: Callable[[], float] = time.monotonic
    _marks: dict[int, PartitionMark] = field(default_factory=dict, init=False)
    #: Ends that do not prove by themselves that they continue the log.
    _unproven: dict[int, EpochEnd] = field(default_factory=dict, init=False)
    #: The ends below which the records of the marks were looked for.
    _looked: dict[int, int] = field(default_factory=dict, init=False)
    _found: LogLostError | None = field(default=None, init=False)
    _stored: LogMarks | None = field(default=None, init=False)
    _unwritten: bool = field(default=False, init=False)
    _next_write: float = field(default=-math.inf, init=False)
    _next_records: float = field(default=-math.inf, init=False)
    _next_id: float = field(default=-math.inf, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        known = self.load()
        # The topic was created again: its new id says so.
        if known is not None and known.era == self.era:
            self._marks, self._stored = dict(known.partitions), known

    def background(self) -> Background:
        """The thread that calls ``tick``, and in the end writes the marks a last time."""
        return Background(
            name="log-watch",
            tick=self.tick,
            pause_seconds=_TICK_SECONDS,
            retry_seconds=2 * _TICK_SECONDS,
            longest_seconds=_LONGEST_PAUSE_SECONDS,
            failing="cannot compare the log with what was read for now",
            at_end=self._write_last,
        )

    def _write_last(self, is_failing: bool) -> None:
        # First as they are: an answer may take longer than the process lives. Brokers that are away are not waited for.
        self.write()
        if not is_failing:
            self.look_for_records()
            self.write()

    def marks(self) -> LogMarks:
        """What is known of the log."""
        with self._lock:
            return LogMarks(self.era, dict(sorted(self._marks.items())))

    def found(self) -> LogLostError | None:
        """Why the state must be built anew; None as long as the log is the one that was read."""
        return self._found

    def note(self, ends: Mapping[int, EpochEnd]) -> dict[int, int]:
        """Takes the present ends of all partitions; returns their offsets."""
        with self._lock:
            for number, end in ends.items():
                mark = self._marks.get(number)
                if mark is None or continues(mark, end):
                    self._marks[number] = PartitionMark(end, mark.record if mark is not None else None)
                    self._unproven.pop(number, None)
                else:
                    self._unproven[number] = end
        return {number: end.offset for number, end in ends.items()}

    def tick(self) -> None:
        """Compares the log if a leader or the topic has changed; takes last records and writes marks when due."""
        if self._found is not None:
            return
        with self._lock:
            unproven = dict(self._unproven)
        if unproven:
            self._prove(unproven)
        elif self.seconds() >= self._next_records:
            self._next_records = self.seconds() + _RECORD_SECONDS
            self.look_for_records()
        if self.seconds() >= self._next_write:
            self.write()
        if self._found is None and self.seconds() >= self._next_id:
            self._next_id = self.seconds() + _ID_SECONDS
            self._found = None if self.is_same() else self.lost()

    def _prove(self, ends: Mapping[int, EpochEnd]) -> None:
        self._found = self.lost()
        if self._found is not None:
            # The marks stay: if the process ends before the state is built anew, the next start finds it again.
            return
        with self._lock:
            for number, end in ends.items():
                self._marks[number] = PartitionMark(end, self._marks[number].record)
                if self._unproven.get(number) == end:
                    del self._unproven[number]
        self.write()

    def look_for_records(self) -> None:
        """Takes the last record of each partition that has grown since the last time."""
        marks = self.marks().partitions
        grown = {n: mark.end.offset for n, mark in marks.items() if self._looked.get(n) != mark.end.offset}
        if any(marks[number].end.epoch is None for number in grown):
            # Only the record shows a cut here: compare it before another one takes its place.
            self._found = self.lost()
        if not grown or self._found is not None:
            return
        records = self.last_records(grown)
        self._looked.update(grown)
        with self._lock:
            for number, record in records.items():
                self._marks[number] = PartitionMark(self._marks[number].end, record)

    def write(self) -> None:
        """Writes the marks to the checkpoint if they have changed; a disk that is full or read-only ends nothing."""
        self._next_write = self.seconds() + _WRITE_SECONDS
        marks = self.marks()
        if marks == self._stored or self._found is not None:
            return
        try:
            self.store(marks)
        except Exception as error:  # whatever it is, the next attempt may succeed
            if not self._unwritten:
                # One warning for each fault of the disk.
                log.warning("cannot write what was seen of the log, trying again: %s", error)
            self._unwritten = True
        else:
            self._stored, self._unwritten = marks, False
