"""One consumer group: observations in, events out; the contract every driver uses.

Knows the order of the log, operations that are still open, and what is remembered between calls; must not
know clocks (time is an argument), bytes, Spark or topics. One broker operation writes records with adjacent
offsets and one timestamp: it is applied only when its end has been seen, because a state inside it (a group
that is gone for the length of a conversion) never existed.
"""

from __future__ import annotations

from typing import Any, Final

from groupreplay.codecs import GroupMetadataKey, GroupMetadataValue, LegacyOffsetCommitKey, OffsetCommitKey
from groupreplay.state import classic, operations, saved
from groupreplay.state.context import Context
from groupreplay.state.document import DELETED, Deleted, describe, digest, group_document
from groupreplay.state.events import Event, GroupType
from groupreplay.state.observations import CommitRun, GroupRecord, Observations
from groupreplay.state.offsets import Offsets
from groupreplay.state.phases import Phase
from groupreplay.state.report import Report
from groupreplay.state.saved import Saved

_COMMIT_KEYS: Final = (OffsetCommitKey, LegacyOffsetCommitKey)


class Group:
    """The state of one group. Not thread-safe; make one per group and call."""

    def __init__(self, group_id: str, context: Context) -> None:
        self.group_id = group_id
        self.changed = False
        self._context = context
        self._saved = Saved(era=context.era)
        self._offsets = Offsets()

    @classmethod
    def from_snapshot(cls, group_id: str, context: Context, blob: bytes) -> Group:
        """The group as it was. Raises ``SnapshotError`` for a version this release cannot read."""
        group = cls(group_id, context)
        group._saved = saved.read(blob)
        if group._saved.offsets is not None:
            group._offsets = Offsets.from_snapshot(group._saved.offsets)
        if group._saved.era != context.era:
            # Another life of the topic: its offsets start again, the old guard would swallow them.
            group._saved.era, group._saved.last_offset, group._saved.pending = context.era, -1, ()
            group.changed = True
        return group

    def snapshot(self) -> bytes:
        """What ``from_snapshot`` takes back: a version byte and about 40 bytes a partition."""
        self._saved.offsets = self._offsets.snapshot() if len(self._offsets) else None
        return saved.write(self._saved)

    @property
    def gone(self) -> bool:
        """Nothing is left to remember."""
        state = self._saved
        return (
            state.phase is Phase.DEAD and not len(self._offsets) and not state.pending and not state.document
        )

    def apply(self, observations: Observations, now_ms: int) -> list[Event]:
        """Apply what was read, in log order, then serve the deadlines at or below ``now_ms``.

        What was applied before in the same era is ignored, so that a batch may be replayed. ``now_ms`` is
        the moment up to which the whole log is known to be applied.
        """
        events: list[Event] = []
        for item in sorted(observations.items, key=lambda item: item.first_offset):
            if isinstance(item, CommitRun):
                events += self._apply_run(item)
            elif item.offset > self._saved.last_offset:
                events += self._apply_record(item)
        if self._saved.pending and observations.seen_to > self._saved.pending[-1].offset:
            events += self._close()
        return events + self.expire(now_ms)

    def expire(self, now_ms: int) -> list[Event]:
        """Serve the deadlines at or below ``now_ms``."""
        deadline_ms = self.next_deadline_ms()
        return self._close() if deadline_ms is not None and deadline_ms <= now_ms else []

    def next_deadline_ms(self) -> int | None:
        """When the group wants to be called although nothing was read; None for never.

        An open operation is complete once the log is known past its timestamp.
        """
        pending = self._saved.pending
        return pending[-1].timestamp_ms + 1 if pending else None

    def _apply_run(self, run: CommitRun) -> list[Event]:
        fresh = run.rows["log_offset"] > self._saved.last_offset
        if not fresh.any():
            return []
        events = self._close()
        first = run.rows[run.rows["first_log_offset"].argmin()]
        report = self._report(run.partition, int(first["first_log_offset"]), int(first["first_timestamp_ms"]))
        if self._saved.group_type is GroupType.CLASSIC:
            classic.apply_commit(self._saved, report)
        self._offsets.apply(run)
        last = run.rows[run.rows["log_offset"].argmax()]
        self._advance(run.partition, int(last["log_offset"]), int(last["timestamp_ms"]))
        return events + report.events

    def _apply_record(self, record: GroupRecord) -> list[Event]:
        pending = self._saved.pending
        continues = (
            bool(pending)
            and record.timestamp_ms == pending[-1].timestamp_ms
            and record.offset == pending[-1].offset + 1
        )
        events = [] if continues else self._close()
        self._saved.pending += (saved.pend(record),)
        self._advance(record.partition, record.offset, record.timestamp_ms)
        if isinstance(record.key, GroupMetadataKey) and record.value is not None:
            # A classic record is a full picture: nothing in its operation can come behind it.
            events += self._close()
        return events

    def _advance(self, partition: int, offset: int, timestamp_ms: int) -> None:
        self.changed = True
        self._saved.partition = partition
        self._saved.last_offset = offset
        self._saved.last_timestamp_ms = timestamp_ms

    def _report(self, partition: int, offset: int, timestamp_ms: int) -> Report:
        return Report(self.group_id, self._context, partition, offset, timestamp_ms)

    def _close(self) -> list[Event]:
        """Apply the operation whose end has been seen."""
        if not self._saved.pending:
            return []
        pending, self._saved.pending = self._saved.pending, ()
        self.changed = True
        records = [saved.unpend(one, self._saved.partition) for one in pending]
        keys = [record.key for record in records]
        others = [record for record in records if not isinstance(record.key, _COMMIT_KEYS)]
        events = self._apply_closed(others) if others else []
        self._offsets.remove((key.topic, key.partition) for key in keys if isinstance(key, _COMMIT_KEYS))
        return events

    def _apply_closed(self, records: list[GroupRecord]) -> list[Event]:
        last = records[-1]
        if operations.is_modern(self._saved, records):
            report = self._report(last.partition, last.offset, last.timestamp_ms)
            operations.apply(self._saved, records, self._offsets, report)
            return report.events
        events: list[Event] = []
        for record in records:
            report = self._report(record.partition, record.offset, record.timestamp_ms)
            if isinstance(record.value, GroupMetadataValue):
                classic.apply_value(self._saved, record.value, self._offsets, report)
            else:
                classic.apply_tombstone(self._saved, report)
            events += report.events
        return events

    def describe(self) -> dict[str, Any]:
        """The one picture of the group (docs/design.md), with every committed offset."""
        return describe(self.group_id, self._saved, self._offsets, self._context)

    def take_document(self) -> dict[str, Any] | Deleted | None:
        """What ``group-states`` should hold now, if it differs from what was taken last; else None."""
        if self._saved.phase is Phase.DEAD:
            known, self._saved.document = self._saved.document, b""
            self.changed |= bool(known)
            return DELETED if known else None
        document = group_document(self.group_id, self._saved, self._offsets, self._context)
        mark = digest(document)
        if mark == self._saved.document:
            return None
        self._saved.document = mark
        self.changed = True
        return document
