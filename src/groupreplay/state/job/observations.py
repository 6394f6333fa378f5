"""Observations about the job itself, as its topics record them, and what they prove about clocks that are off.

The driver measures its own clock. The coordinators date the records of the log, and a heartbeat proves when the log
had which end: a record behind that end was written later than the heartbeat, a record before it earlier. A record that
is read late is therefore not mistaken for one of a slow clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta


class ObservationPlace(msgspec.Struct, frozen=True, array_like=True):
    """Where an observation is recorded."""

    topic: str
    partition: int
    offset: int


#: Groups that are named of one transaction.
MOST_GROUPS: Final = 20
_Number: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


class OpenTransaction(msgspec.Struct, frozen=True, array_like=True):
    """The transaction that holds back the last stable offset of a partition of the offsets topic: its first record.

    ``groups``: the first ``MOST_GROUPS`` of those whose commits wait in it.
    """

    partition: _Number
    producer_id: _Number
    producer_epoch: _Number
    first_offset: _Number
    groups: Annotated[tuple[str, ...], Meta(max_length=MOST_GROUPS)] = ()


class RoundObservation(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """One round of the prober.

    ``brokers``: error by broker id, None for brokers that answered. ``partitions``: high watermark and last stable
    offset of those that answered. ``partition_count`` None: no broker returned it. ``leaders``: broker by partition.
    ``transactions``: those that hold back a last stable offset, as far as they were read.
    """

    taken_ms: int
    place: ObservationPlace
    brokers: dict[int, str | None]
    rights: str
    partitions: dict[int, tuple[int, int]]
    partition_count: int | None
    leaders: dict[int, int] = {}
    transactions: tuple[OpenTransaction, ...] = ()


class HeartbeatObservation(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """One heartbeat of the job: at ``taken_ms`` everything written before ``caught_up_ms`` was applied.

    ``unmissed_expired`` is the number of events that the run has counted for the daily summary: offsets that expired
    in groups that do not matter. ``dead_letters`` is the number of records that the run could not read,
    ``quarantined`` the number of groups that it has set aside; it tries those of another ``release`` again, and
    with ``retries`` all.

    ``append_ms`` is when the broker appended the message (None: unknown). ``clock_off_ms`` is by how much the driver's
    clock was ahead of the brokers' before it was corrected (None: unknown). ``high_watermarks`` are the ends of the
    log's partitions, in this ``era`` of the topic, read after ``taken_ms``.

    ``unanswered`` are the partitions of the log whose end no broker returned. ``query_stopped_ms``: since when no query
    has read the log (None: it is read), for the reason ``query_error``. ``told_to``: the driver has published the
    events of all observations below this offset of the topic itself.
    """

    taken_ms: int
    place: ObservationPlace
    caught_up_ms: int | None
    run_id: str = ""
    unmissed_expired: int = 0
    dead_letters: int = 0
    quarantined: int = 0
    release: str = ""
    retries: bool = False
    append_ms: int | None = None
    clock_off_ms: int | None = None
    era: str = ""
    high_watermarks: dict[int, int] = {}
    unanswered: tuple[int, ...] = ()
    query_stopped_ms: int | None = None
    query_error: str = ""
    told_to: int = 0


class LogRecord(msgspec.Struct, frozen=True, array_like=True):
    """A record of the offsets topic: its place and its timestamp."""

    partition: int
    offset: int
    timestamp_ms: int


class LogObservation(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The last record of each Kafka partition in one chunk of the log."""

    records: tuple[LogRecord, ...]


#: Observations that the job's topic records.
JobObservation: TypeAlias = RoundObservation | HeartbeatObservation


#: Heartbeats that are remembered. While the job keeps up it needs two; more are for a replay, which is given all
#: heartbeats before the log.
_MOST_ENDS: Final = 8
#: No cluster has more partitions of one topic; a forged heartbeat may name any number.
_MOST_PARTITIONS: Final = 10_000
#: A record may be dated anything; JSON has exact numbers up to here.
_MOST_OFF_MS: Final = 1 << 53


class LogEnd(msgspec.Struct, frozen=True, array_like=True):
    """The high watermarks of the log's partitions, read after ``at_ms``."""

    at_ms: int
    high_watermarks: dict[int, int]


class PartitionClock(msgspec.Struct, frozen=True, array_like=True):
    """A record that its coordinator has dated wrongly: ahead by ``off_ms``, or behind if that is negative.

    ``broker`` led the partition then (None: unknown). The record was written before ``before_ms`` (None: unknown).
    """

    off_ms: int
    offset: int
    since_ms: int
    broker: int | None = None
    before_ms: int | None = None


class Clocks(msgspec.Struct, array_like=True):
    """What is known about clocks. ``wrong`` has the partitions whose last record was dated wrongly."""

    era: str = ""
    ends: tuple[LogEnd, ...] = ()
    records: dict[int, LogRecord] = {}
    wrong: dict[int, PartitionClock] = {}
    driver_off_ms: int | None = None
    driver_since_ms: int | None = None

    def apply_heartbeat(self, seen: HeartbeatObservation, limit_ms: int, leaders: Mapping[int, int]) -> None:
        """Remembers what the heartbeat proves; a clock is wrong if it is off by more than ``limit_ms``."""
        self._apply_driver(seen, limit_ms)
        if seen.era != self.era:
            # Another life of the topic: its offsets have nothing to do with the former ones.
            self.era, self.ends, self.records, self.wrong = seen.era, (), {}, {}
        if 0 < len(seen.high_watermarks) <= _MOST_PARTITIONS:
            self._remember_end(LogEnd(seen.taken_ms, seen.high_watermarks))
            for partition, record in self.records.items():
                self._judge(partition, record, limit_ms, leaders)

    def apply_log(self, seen: LogObservation, limit_ms: int, leaders: Mapping[int, int]) -> LogRecord | None:
        """Compares new records with the heartbeats; returns one that has changed what is known."""
        changed = None
        for record in seen.records:
            former = self.records.get(record.partition)
            if former is None or record.offset > former.offset:
                self.records[record.partition] = record
                before = self._wrong_partitions()
                self._judge(record.partition, record, limit_ms, leaders)
                changed = changed if before == self._wrong_partitions() else record
        return changed

    def _wrong_partitions(self) -> set[tuple[int, int | None]]:
        return {(partition, clock.broker) for partition, clock in self.wrong.items()}

    def _apply_driver(self, seen: HeartbeatObservation, limit_ms: int) -> None:
        off_ms = seen.clock_off_ms
        if off_ms is None and seen.append_ms is not None:
            # From a release that measures nothing.
            off_ms = seen.taken_ms - seen.append_ms
        is_wrong = off_ms is not None and abs(off_ms) > limit_ms
        self.driver_off_ms = off_ms
        self.driver_since_ms = (self.driver_since_ms or seen.taken_ms) if is_wrong else None

    def _remember_end(self, end: LogEnd) -> None:
        kept = []
        for former in self.ends:
            # A partition whose end went back was cut: its former ends are those of other records.
            uncut = {
                number: high
                for number, high in former.high_watermarks.items()
                if high <= end.high_watermarks.get(number, high)
            }
            kept.append(LogEnd(former.at_ms, uncut))
        if len(kept) >= _MOST_ENDS:
            kept = [*kept[:-1:2], kept[-1]]
        self.ends = (*kept, end)

    def _judge(self, partition: int, record: LogRecord, limit_ms: int, leaders: Mapping[int, int]) -> None:
        ends = [(end.at_ms, end.high_watermarks.get(partition)) for end in self.ends]
        after_ms = max((at for at, high in ends if high is not None and record.offset >= high), default=None)
        before_ms = min((at for at, high in ends if high is not None and record.offset < high), default=None)
        off_ms = 0
        if before_ms is not None and record.timestamp_ms - before_ms > limit_ms:
            off_ms = record.timestamp_ms - before_ms
        elif after_ms is not None and after_ms - record.timestamp_ms > limit_ms:
            off_ms = record.timestamp_ms - after_ms
        former = self.wrong.get(partition)
        if off_ms:
            since_ms = self.ends[-1].at_ms if former is None else former.since_ms
            off_ms = max(-_MOST_OFF_MS, min(off_ms, _MOST_OFF_MS))
            broker = leaders.get(partition)
            self.wrong[partition] = PartitionClock(off_ms, record.offset, since_ms, broker, before_ms)
        elif former is not None and (before_ms is not None or former.off_ms < 0):
            # Only an end behind the record proves that it is not ahead.
            del self.wrong[partition]
        if not off_ms and None not in (before_ms, after_ms):
            self._forgive(leaders.get(partition), after_ms or 0)

    def _forgive(self, broker: int | None, after_ms: int) -> None:
        """A broker dates records rightly after this time: so do its partitions that nobody writes to any more."""
        for partition, clock in list(self.wrong.items()):
            if (
                broker is not None
                and clock.broker == broker
                and (clock.before_ms or after_ms + 1) <= after_ms
            ):
                del self.wrong[partition]
