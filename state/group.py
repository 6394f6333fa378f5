"""One consumer group: observations in, events out; the contract every driver uses.

Knows the order of the log, operations that are still open, and what is remembered between calls; must not
know clocks (time is an argument), bytes, Spark or topics. One broker operation writes records with adjacent
offsets and one timestamp: it is applied only when its end has been seen, because a state inside it (a group
that is gone for the length of a conversion) never existed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from groupreplay.codecs import GroupMetadataKey, GroupMetadataValue, LegacyOffsetCommitKey, OffsetCommitKey
from groupreplay.state.conditions.tracker import ConditionTracker, ConditionUpdate, GroupView
from groupreplay.state.events.event import Event
from groupreplay.state.kafka_terms import GroupType, Phase
from groupreplay.state.output.document import DELETED, Deleted, describe, digest, group_document
from groupreplay.state.policy.context import Context
from groupreplay.state.replay import classic, group_activity, losses, modern_diff
from groupreplay.state.replay.probing import apply_probe
from groupreplay.state.replay.report import Report
from groupreplay.state.replay.slot_history import learn, learn_probe
from groupreplay.state.snapshot import storage
from groupreplay.state.snapshot.group_snapshot import GroupSnapshot
from groupreplay.state.snapshot.log_position import LogPosition
from groupreplay.state.snapshot.observations import CommitRun, GroupRecord, Observations, Probe
from groupreplay.state.snapshot.offsets import Offsets

_COMMIT_KEYS: Final = (OffsetCommitKey, LegacyOffsetCommitKey)
#: Records whose tombstone ends a group: classic, consumer, share, streams.
_GROUP_KEY_TYPES: Final = (2, 3, 11, 17)
#: Probes held while the log is read; a rebalance that is asked about for an hour has fewer.
_MOST_PROBES: Final = 400
_MINUTE_MS: Final = 60_000


class Group:
    """The state of one group. Not thread-safe; make one per group and call."""

    def __init__(self, group_id: str, context: Context) -> None:
        self.group_id = group_id
        self.changed = False
        self._context = context
        self._rules = context.policy.of(group_id)
        self._recorded_ms: int | None = None
        self._snapshot = GroupSnapshot(LogPosition(era=context.era))
        self._offsets = Offsets()

    @classmethod
    def from_snapshot(cls, group_id: str, context: Context, blob: bytes) -> Group:
        """The group as it was. Raises ``SnapshotError`` for a version this release cannot read."""
        group = cls(group_id, context)
        group._snapshot = storage.read(blob)
        if group._snapshot.offsets is not None:
            group._offsets = Offsets.from_snapshot(group._snapshot.offsets)
        if group._snapshot.log.era != context.era:
            # Another life of the topic: its offsets start again, the old guard would swallow them.
            group._snapshot.log.era, group._snapshot.log.last_offset, group._snapshot.log.pending = (
                context.era,
                -1,
                (),
            )
            group.changed = True
        return group

    def snapshot(self) -> bytes:
        """What ``from_snapshot`` takes back: a version byte and about 40 bytes a partition."""
        self._snapshot.offsets = self._offsets.snapshot() if len(self._offsets) else None
        return storage.write(self._snapshot)

    @property
    def gone(self) -> bool:
        """Nothing is left to remember."""
        snapshot = self._snapshot
        waiting = (snapshot.log.pending, snapshot.probes.waiting, snapshot.losses.changes)
        kept = (
            snapshot.document_digest,
            snapshot.group.in_progress,
            snapshot.conditions.active,
            snapshot.losses.lost,
        )
        return snapshot.group.phase is Phase.DEAD and not len(self._offsets) and not any((*waiting, *kept))

    def apply(self, observations: Observations, now_ms: int, recorded_ms: int | None = None) -> list[Event]:
        """Apply what was read, in log order, each after what was due before it, then what is due by ``now_ms``.

        What was applied before in the same era is ignored, so that a batch may be replayed. ``now_ms`` is
        the moment up to which the whole log is known to be applied; ``recorded_ms`` the time of this call by
        the job's clock, None for a replay, which is never late.
        """
        events: list[Event] = []
        self._recorded_ms = recorded_ms
        self._hold(observations.probes)
        items = observations.items
        # Most calls are given one run only, and to ask it for its place costs something.
        for item in sorted(items, key=lambda item: item.first_offset) if len(items) > 1 else items:
            if isinstance(item, CommitRun):
                events += self._apply_run(item)
            elif item.offset > self._snapshot.log.last_offset:
                events += self._serve(item.timestamp_ms)
                events += self._apply_record(item)
        if self._snapshot.log.pending and observations.seen_to > self._snapshot.log.pending[-1].offset:
            events += self._close()
        events += self.expire(now_ms, recorded_ms)
        self._thin()
        return events

    def expire(self, now_ms: int, recorded_ms: int | None = None) -> list[Event]:
        """Serve what is due by ``now_ms``; ``recorded_ms`` as for ``apply``."""
        self._recorded_ms = recorded_ms
        events = self._serve(now_ms)
        caught_up = recorded_ms is not None and recorded_ms - now_ms <= self._context.catch_up_after_ms
        if caught_up and any(one.late for one in self._snapshot.conditions.active.values()):
            events += self._say(self._alarms().again(), self._timer(now_ms))
        return events

    def next_deadline_ms(self) -> int | None:
        """When the group wants to be called although nothing was read; None for never."""
        due = self._due()
        late = any(one.late for one in self._snapshot.conditions.active.values())
        return self._snapshot.log.clock_ms if late else due and due[0]

    def _due(self) -> tuple[int, Callable[[int], list[Event]]] | None:
        """What is due next, and when: an open operation ends, a probe's time has come, detectors look again.

        An open operation is complete once the log is known past its timestamp.
        """
        snapshot = self._snapshot
        due: list[tuple[int, Callable[[int], list[Event]]]] = []
        if snapshot.log.pending:
            due.append((snapshot.log.pending[-1].timestamp_ms + 1, lambda _: self._close()))
        if snapshot.probes.waiting:
            due.append((snapshot.probes.waiting[0].taken_ms, lambda _: self._apply_probe()))
        if snapshot.losses.changes:
            over_ms = min(one.timestamp_ms for one in snapshot.losses.changes) + 1
            due.append((over_ms, self._say_changes))
        if snapshot.losses.lost:
            due.append((min(one.at_ms for one in snapshot.losses.lost) + losses.MEMORY_MS, self._forget))
        if snapshot.conditions.next_evaluation_ms is not None:
            due.append((snapshot.conditions.next_evaluation_ms, lambda at_ms: self._look(self._timer(at_ms))))
        return min(due, key=lambda one: one[0], default=None)

    def _serve(self, until_ms: int) -> list[Event]:
        """Everything that is due by ``until_ms``, in the order of time."""
        events: list[Event] = []
        while (due := self._due()) is not None and due[0] <= until_ms:
            self._pass(due[0])
            events += due[1](due[0])
        return events

    def _forget(self, at_ms: int) -> list[Event]:
        losses.forget_before(self._snapshot, at_ms)
        self.changed = True
        return []

    def _say_changes(self, at_ms: int) -> list[Event]:
        """Commits before this moment that were more than progress; their requests are complete."""
        snapshot, events = self._snapshot, list[Event]()
        over = [one for one in snapshot.losses.changes if one.timestamp_ms < at_ms]
        snapshot.losses.changes = tuple(one for one in snapshot.losses.changes if one.timestamp_ms >= at_ms)
        for same in losses.occasions(over):
            report = self._report(snapshot.log.partition, same[0].log_offset, same[0].timestamp_ms)
            losses.report_changes(snapshot, same, report)
            events += report.events
        self.changed = True
        return events

    def _pass(self, at_ms: int) -> None:
        """Time never goes back, whatever a coordinator's clock did."""
        if at_ms > self._snapshot.log.clock_ms:
            self._snapshot.log.clock_ms = at_ms
            self.changed = True

    def _hold(self, probes: Sequence[Probe]) -> None:
        """Probes wait until everything is applied that was written before they were taken."""
        snapshot = self._snapshot
        fresh = [probe for probe in probes if probe.taken_ms > snapshot.probes.applied_ms]
        if fresh:
            held = sorted(
                {*snapshot.probes.waiting, *fresh}, key=lambda probe: (probe.taken_ms, probe.offset)
            )
            snapshot.probes.waiting = tuple(held)
            self.changed = True

    def _thin(self) -> None:
        """What still waits at the end of a call is kept in the state, which must not grow without end."""
        held = self._snapshot.probes.waiting
        if len(held) > _MOST_PROBES:
            first, *others = _thinned(held)
            # The first tells when a rebalance began, the last ones how it stands.
            self._snapshot.probes.waiting = (first, *others[-_MOST_PROBES:])

    def _apply_probe(self) -> list[Event]:
        snapshot = self._snapshot
        probe, snapshot.probes.waiting = snapshot.probes.waiting[0], snapshot.probes.waiting[1:]
        snapshot.probes.applied_ms = max(snapshot.probes.applied_ms, probe.taken_ms)
        self.changed = True
        report = replace(
            self._report(probe.partition, probe.offset, probe.taken_ms),
            topic=probe.topic,
            place=(snapshot.log.partition, snapshot.group.record_offset),
        )
        snapshot.probes.interval_ms = probe.interval_ms
        apply_probe(snapshot, probe, report, has_offsets=len(self._offsets) > 0)
        learn_probe(snapshot, probe.taken_ms)
        self._look(report)
        return report.events

    def _apply_run(self, run: CommitRun) -> list[Event]:
        extent = run.extent
        if extent.last_offset <= self._snapshot.log.last_offset:
            return []
        events = self._serve(extent.first_ms) + self._close()
        report = self._report(run.partition, extent.first_offset, extent.first_ms)
        if self._snapshot.group.group_type is GroupType.CLASSIC:
            classic.apply_commit(self._snapshot.group, report)
        self._born(report.timestamp_ms)
        applied = self._offsets.apply(run, self._snapshot.group.epoch)
        group_activity.note_commits(self._snapshot.activity, extent.commits, len(self._offsets))
        if applied.fallen or len(run.decreases) or self._snapshot.losses.lost:
            self._snapshot.losses.changes += tuple(losses.changes(self._snapshot, run, applied))
        minute = self._snapshot.log.last_timestamp_ms // _MINUTE_MS
        self._advance(run.partition, extent.last_offset, extent.last_ms)
        # What became due while these commits were made comes before what they end.
        events += report.events + self._serve(extent.last_ms)
        # SlotHistory come with commits, and nobody is called for each of them.
        unforeseen = (
            minute != self._snapshot.log.last_timestamp_ms // _MINUTE_MS or applied.grown or extent.expires
        )
        if unforeseen or self._snapshot.conditions.next_evaluation_ms is None or self._listening():
            events += self._look(self._report(run.partition, extent.last_offset, extent.last_ms))
        return events

    def _listening(self) -> bool:
        """Whether a commit may end something that was said."""
        firing = {key.partition(" ")[0] for key in self._snapshot.conditions.active}
        return any(one.ON_COMMITS and one.NAME in firing for one in self._rules.detectors)

    def _apply_record(self, record: GroupRecord) -> list[Event]:
        pending = self._snapshot.log.pending
        continues = (
            bool(pending)
            and record.timestamp_ms == pending[-1].timestamp_ms
            and record.offset == pending[-1].offset + 1
        )
        events = [] if continues else self._close()
        self._snapshot.log.pending += (storage.pend(record),)
        self._born(record.timestamp_ms)
        self._advance(record.partition, record.offset, record.timestamp_ms)
        if isinstance(record.key, GroupMetadataKey) and record.value is not None:
            # A classic record is a full picture: nothing in its operation can come behind it.
            events += self._close()
        return events

    def _born(self, at_ms: int) -> None:
        if self._snapshot.activity.born_ms < 0:
            self._snapshot.activity.born_ms = at_ms

    def _advance(self, partition: int, offset: int, timestamp_ms: int) -> None:
        self.changed = True
        self._snapshot.log.partition = partition
        self._snapshot.log.last_offset = offset
        self._snapshot.log.last_timestamp_ms = timestamp_ms
        self._pass(timestamp_ms)

    def _report(self, partition: int, offset: int, timestamp_ms: int) -> Report:
        return Report(self.group_id, self._context, partition, offset, timestamp_ms, rules=self._rules)

    def _timer(self, at_ms: int) -> Report:
        """A report whose cause is that time has passed."""
        snapshot = self._snapshot
        # Commits are read in runs: which of them were made before this moment depends on the cut into batches.
        place = (snapshot.log.partition, snapshot.group.record_offset)
        return replace(self._report(*place, at_ms), topic=None, place=place)

    def _close(self) -> list[Event]:
        """Apply the operation whose end has been seen."""
        if not self._snapshot.log.pending:
            return []
        pending, self._snapshot.log.pending = self._snapshot.log.pending, ()
        self.changed = True
        records = [storage.unpend(one, self._snapshot.log.partition) for one in pending]
        gone = [one.key for one in records if isinstance(one.key, _COMMIT_KEYS)]
        others = [record for record in records if not isinstance(record.key, _COMMIT_KEYS)]
        events = self._lose(gone, records) if gone else []
        if others:
            events += self._apply_closed(others)
            group_activity.note_members(self._snapshot)
        last = records[-1]
        return events + self._look(self._report(last.partition, last.offset, last.timestamp_ms))

    def _lose(
        self, gone: Sequence[OffsetCommitKey | LegacyOffsetCommitKey], records: list[GroupRecord]
    ) -> list[Event]:
        """Offset tombstones come before the group's own in an operation."""
        snapshot, first = self._snapshot, records[0]
        named = [(key.topic, key.partition) for key in gone]
        report = self._report(first.partition, first.offset, first.timestamp_ms)
        ended = any(record.value is None and record.key.KEY_TYPE in _GROUP_KEY_TYPES for record in records)
        missed = group_activity.matters(snapshot, self._rules, first.timestamp_ms)
        losses.report_tombstones(snapshot, self._offsets, named, ended, report)
        self._offsets.remove(named)
        if ended and not missed:
            # Groups that come and go by the thousand must not be remembered.
            snapshot.losses.lost = ()
        return report.events

    def _apply_closed(self, records: list[GroupRecord]) -> list[Event]:
        last = records[-1]
        if modern_diff.is_modern(self._snapshot, records):
            report = self._report(last.partition, last.offset, last.timestamp_ms)
            modern_diff.apply(self._snapshot, records, self._offsets, report)
            learn(self._snapshot, report)
            return report.events
        events: list[Event] = []
        for record in records:
            report = self._report(record.partition, record.offset, record.timestamp_ms)
            if isinstance(record.value, GroupMetadataValue):
                classic.apply_value(self._snapshot, record.value, self._offsets, report)
            else:
                classic.apply_tombstone(self._snapshot, report)
            learn(self._snapshot, report)
            events += report.events
        return events

    def _look(self, report: Report) -> list[Event]:
        """Ask the detectors what holds at the time of the report, and say what is new."""
        snapshot, gate_ms = self._snapshot, self._context.emit_since_ms
        if report.timestamp_ms < gate_ms:
            # Of the time before nothing is said; what still holds then is said then.
            snapshot.conditions.next_evaluation_ms = gate_ms
            return []
        view = GroupView(
            group_id=self.group_id,
            snapshot=snapshot,
            offsets=self._offsets,
            context=self._context,
            now_ms=report.timestamp_ms,
        )
        outlooks = [one.evaluate(view) for one in self._rules.detectors]
        times = [one.next_ms for one in outlooks if one.next_ms is not None]
        snapshot.conditions.next_evaluation_ms = max(min(times), report.timestamp_ms + 1) if times else None
        names = [one.NAME for one in self._rules.detectors]
        raised = [one for outlook in outlooks for one in outlook.raised]
        return (
            self._say(self._alarms().take(raised, names, report.timestamp_ms), report)
            if raised or snapshot.conditions.active
            else []
        )

    def _alarms(self) -> ConditionTracker:
        return ConditionTracker(
            self.group_id,
            self._snapshot.conditions.active,
            self._context.policy.runbook,
            self._rules.severity_cap,
            self._rules.labels.get("runbook"),
        )

    def _say(self, said: Sequence[ConditionUpdate], report: Report) -> list[Event]:
        snapshot, heard = self._snapshot, len(report.events)
        self.changed |= bool(said)
        late = (
            self._recorded_ms is not None
            and self._recorded_ms - report.timestamp_ms > self._context.catch_up_after_ms
        )
        for one in said:
            report.say(
                one.condition,
                group_type=snapshot.group.group_type,
                simple=snapshot.group.simple,
                history=snapshot.group.history,
                evidence=one.evidence,
                severity=one.severity,
            )
            if one.key in snapshot.conditions.active:
                snapshot.conditions.active[one.key].late = late
        return report.events[heard:]

    def describe(self) -> dict[str, Any]:
        """The one picture of the group (docs/design.md), with every committed offset."""
        return describe(self.group_id, self._snapshot, self._offsets, self._context)

    def take_document(self) -> dict[str, Any] | Deleted | None:
        """What ``group-states`` should hold now, if it differs from what was taken last; else None."""
        if self._snapshot.group.phase is Phase.DEAD or self._rules.ignore:
            known, self._snapshot.document_digest = self._snapshot.document_digest, b""
            self.changed |= bool(known)
            return DELETED if known else None
        document = group_document(
            self.group_id, self._snapshot, self._offsets, self._context, self._rules.labels
        )
        mark = digest(document)
        if mark == self._snapshot.document_digest:
            return None
        self._snapshot.document_digest = mark
        self.changed = True
        return document


def _thinned(probes: Sequence[Probe]) -> list[Probe]:
    """Of answers that say the same, one after the other, the first and the last: a replay is given them all."""
    says = [(probe.state, probe.members) for probe in probes]
    return [
        probe
        for place, probe in enumerate(probes)
        if says[place - 1 : place] != says[place : place + 1]
        or says[place : place + 1] != says[place + 1 : place + 2]
    ]
