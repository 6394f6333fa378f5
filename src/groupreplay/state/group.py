"""One consumer group: observations in, events out. Every driver uses this class.

Time is an argument; the module reads no clock. One broker operation writes records with adjacent offsets and one
timestamp. It is applied only when its end is known, because a state inside it (a group that does not exist for
the length of a conversion) never existed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from groupreplay.codecs.kafka_terms import GroupType
from groupreplay.state import clock_setback, due_work
from groupreplay.state.conditions.agenda import Agenda, group_detectors, turns
from groupreplay.state.conditions.detection import RECORD, Dependency, GroupView
from groupreplay.state.conditions.tracker import ConditionTracker, ConditionUpdate
from groupreplay.state.due_work import Due, next_besides_conditions, next_due
from groupreplay.state.events.event import Event, History
from groupreplay.state.output.document import UNKNOWN_DIGEST, Deleted, describe, next_document
from groupreplay.state.policy.context import Context
from groupreplay.state.replay import group_summary, offset_losses, offset_sets, probing, slot_history
from groupreplay.state.replay.operation import apply_operation
from groupreplay.state.replay.report import Report
from groupreplay.state.replay.simple_groups import apply_commit, apply_nothing_left
from groupreplay.state.snapshot import group_snapshot
from groupreplay.state.snapshot.commits_between import CommitsBetween
from groupreplay.state.snapshot.group_snapshot import GroupSnapshot, LogPosition
from groupreplay.state.snapshot.observations import CommitRun, GroupRecord, Observations, Probe
from groupreplay.state.snapshot.offsets import Offsets


class Group:
    """The state of one group. Not thread-safe; every call makes its own."""

    def __init__(self, group_id: str, context: Context, snapshot: GroupSnapshot | None = None) -> None:
        self.group_id = group_id
        self.changed = False
        self._given_context = context
        self._rules = context.policy.of(group_id)
        self._detectors = group_detectors(self._rules)
        self._agenda = Agenda(self._detectors)
        #: What is being applied, for whoever catches an exception; None before the first item.
        self.applying: CommitRun | GroupRecord | None = None
        self._recorded_ms: int | None = None
        #: The run of commits whose moments are passed.
        self._between: CommitsBetween | None = None
        #: The pending records that this call has read.
        self._read: list[GroupRecord] = []
        # Each call makes a group: an empty snapshot and table are not made when there is a stored one.
        self._snapshot = snapshot or GroupSnapshot(LogPosition(era=context.era))
        self._context = replace(context, complete_since_ms=None) if self._snapshot.log.begun_anew else context
        stored = self._snapshot.offsets
        self._offsets = Offsets() if stored is None else Offsets.from_snapshot(stored)

    @classmethod
    def from_snapshot(cls, group_id: str, context: Context, blob: bytes) -> Group:
        """The group of a snapshot. Raises ``SnapshotError`` for one that this release cannot read."""
        group = cls(group_id, context, group_snapshot.read(blob))
        log = group._snapshot.log
        if log.era != context.era:
            # The topic was created again: its offsets start at 0, below ``last_offset``.
            log.era, log.last_offset, log.pending = context.era, -1, []
            group.changed = True
        return group

    def lacks(self, read_to: int) -> bool:
        """Whether it has begun anew, and knows no record that is not among those below this offset."""
        return self._snapshot.log.begun_anew and self._snapshot.log.last_offset < read_to

    def snapshot(self) -> bytes:
        """The state as bytes for ``from_snapshot``: about 40 bytes for each partition with an offset."""
        self._snapshot.offsets = self._offsets.snapshot() if len(self._offsets) else None
        self._snapshot.log.begun_anew &= self._snapshot.group.history is not History.FULL
        return group_snapshot.write(self._snapshot)

    @property
    def gone(self) -> bool:
        """Whether the group does not exist and nothing of it must be kept."""
        kept = self._snapshot.document_digest, self._snapshot.probes.waiting
        return self._snapshot.is_over(len(self._offsets)) and not any(kept)

    def apply(self, observations: Observations, now_ms: int, recorded_ms: int | None = None) -> list[Event]:
        """Apply observations in log order, each after the work that was due before it, then the work due by ``now_ms``.

        Records that were applied before in the same era are ignored, so that a batch may be replayed. Up to
        ``now_ms`` the whole log is known to be applied; ``recorded_ms`` is the time of this call by the job's
        clock, None for a replay, which is never late.
        """
        events, self._recorded_ms = list[Event](), recorded_ms
        self.changed |= probing.hold(self._snapshot.probes, observations.probes)
        items = observations.items
        # Most calls have a single run, for which the key of the sort would cost time.
        for item in sorted(items, key=lambda item: item.first_offset) if len(items) > 1 else items:
            self.applying = item
            self._agenda.note_item()
            if item.last_offset > self._snapshot.log.last_offset:
                events += self._apply_item(item, observations.caught_up_ms)
        if self._snapshot.log.pending and observations.seen_to > self._snapshot.log.pending[-1].offset:
            events += self._complete_operation()
        events += self.expire(now_ms, recorded_ms)
        probing.limit(self._snapshot.probes)
        return events

    def _apply_item(self, item: CommitRun | GroupRecord, caught_up_ms: int) -> list[Event]:
        log, events = self._snapshot.log, list[Event]()
        if item.first_ms < 0:
            item = item.dated(log.last_timestamp_ms if log.last_timestamp_ms >= 0 else max(0, caught_up_ms))
        # A run that was applied in part begins before the last record.
        if item.first_offset > log.last_offset and clock_setback.is_setback(log, item.first_ms):
            events += self._set_clock_back(item.first_ms)
        due_work.expect_end_of_past(self._snapshot, item.first_ms, self._context.emit_since_ms)
        events += self._do_due(item.first_ms)
        return events + (self._apply_run(item) if isinstance(item, CommitRun) else self._apply_record(item))

    def _set_clock_back(self, at_ms: int) -> list[Event]:
        """Complete what is open at the time before, then forget that time."""
        events = self._complete_operation()
        events += offset_sets.report_all(self._snapshot, self._report_here)
        clock_setback.set_back(self._snapshot, self._offsets, at_ms)
        self._agenda.note_all()
        self.changed = True
        return events

    def expire(self, now_ms: int, recorded_ms: int | None = None) -> list[Event]:
        """Do the work that is due by ``now_ms``; ``recorded_ms`` as for ``apply``."""
        self._recorded_ms = recorded_ms
        events = self._do_due(now_ms)
        caught_up = recorded_ms is not None and recorded_ms - now_ms <= self._context.catch_up_after_ms
        if caught_up and any(one.late for one in self._snapshot.conditions.active.values()):
            events += self._emit_updates(self._tracker(now_ms).repeat_late(), self._timer_report(now_ms))
        if now_ms < self._context.emit_since_ms:
            self.changed |= due_work.skip_end_of_past(
                self.group_id, self._snapshot, self._offsets, self._context, self._detectors
            )
        return events

    def next_deadline_ms(self) -> int | None:
        """When ``expire`` must be called although nothing was read; None for never."""
        due = next_due(self._snapshot, self._offsets, self._context)
        late = any(one.late for one in self._snapshot.conditions.active.values())
        return self._snapshot.log.clock_ms if late else due and due[0]

    def _do_due(self, until_ms: int) -> list[Event]:
        """Do everything that is due by ``until_ms``, in the order of time."""
        events: list[Event] = []
        while (due := next_due(self._snapshot, self._offsets, self._context)) and due[0] <= until_ms:
            at_ms, kind = due
            if kind is Due.CONDITIONS:
                if self._agenda.evaluations_left <= 0 and at_ms < until_ms:
                    self._snapshot.conditions.next_evaluation_ms = until_ms
                    continue
                other = next_besides_conditions(self._snapshot, self._offsets, self._context)
                # Other work of a moment is done before its evaluation.
                last_ms = until_ms if other is None else min(until_ms, other[0] - 1)
                at_ms = self._agenda.evaluation_ms(at_ms, last_ms)
            if kind is not Due.OPERATION:  # It takes place when its last record was written.
                self._advance_clock(at_ms)
            events += self._do(at_ms, kind)
            self._forget_if_over()
        return events

    def _do(self, at_ms: int, kind: Due) -> list[Event]:
        match kind:
            case Due.OPERATION:
                return self._complete_operation()
            case Due.PROBE:
                return self._apply_probe()
            case Due.OFFSET_CHANGES:
                self.changed = True
                return offset_sets.report_over(self._snapshot, at_ms, self._report_here)
            case Due.OLD_LOSSES:
                offset_losses.forget_before(self._snapshot, at_ms)
                self._agenda.note((Dependency.OFFSETS,))
                self.changed = True
                return []
            case Due.NOTHING_LEFT:
                return self._delete_without_tombstone(at_ms)
            case Due.CONDITIONS:
                return self._evaluate(self._timer_report(at_ms))

    def _report_here(self, offset: int, timestamp_ms: int) -> Report:
        return self._report(self._snapshot.log.partition, offset, timestamp_ms)

    def _delete_without_tombstone(self, at_ms: int) -> list[Event]:
        log = self._snapshot.log
        report = self._report(log.partition, log.last_offset, at_ms, cause_ms=log.last_timestamp_ms)
        if not group_summary.is_significant(self._snapshot, self._rules, at_ms):
            self._snapshot.losses.lost = ()
        apply_nothing_left(self._snapshot, report)
        self._agenda.note(RECORD)
        self.changed = True
        return report.events + self._evaluate(self._timer_report(at_ms))

    def _advance_clock(self, at_ms: int) -> None:
        """Advance to this time; a slightly earlier record does not set the clock back."""
        if at_ms > self._snapshot.log.clock_ms:
            self._snapshot.log.clock_ms = at_ms
            self.changed = True

    def _apply_probe(self) -> list[Event]:
        snapshot = self._snapshot
        probe = probing.next_probe(snapshot.probes)
        self.changed = True
        if not isinstance(probe, Probe):
            self._agenda.note((Dependency.PROBES,))
            events = probing.apply_notice(snapshot, probe, self._report_here)
            return events + self._evaluate(self._timer_report(probe.heard_ms))
        offset = snapshot.group.record_offset
        place = (snapshot.log.partition, offset) if offset >= 0 else (-1, -1)
        report = self._report(probe.partition, probe.offset, probe.taken_ms, topic=probe.topic, place=place)
        began = probing.rebalance_begin(snapshot)
        probing.apply_probe(snapshot, probe, report, has_offsets=len(self._offsets) > 0)
        slot_history.learn_probe(snapshot, probe.taken_ms)
        if changed := probing.rebalance_begin(snapshot) != began:
            self._agenda.note((*RECORD, Dependency.PROBES))
        # Most answers show what is known.
        if changed or due_work.is_due_with_probe(snapshot.conditions, probe, self._detectors.on_commits):
            self._evaluate(report.at(probe.heard_ms))
        return report.events

    def _apply_run(self, run: CommitRun) -> list[Event]:
        extent, events, group = run.extent, self._complete_operation(), self._snapshot.group
        report = self._report(run.partition, extent.first_offset, extent.first_ms)
        turned = group.group_type is GroupType.CLASSIC and apply_commit(group, report)
        self._agenda.note(RECORD if turned else (Dependency.COMMITS,))
        group_summary.note_record(self._snapshot.activity, report.timestamp_ms)
        moments = turns(self._detectors.turning, self._view(extent.first_ms), run)
        is_split = due_work.is_evaluated_inside(self._snapshot, extent, moments)
        before = self._offsets.copy() if is_split else None
        applied = offset_sets.apply_commits(self._snapshot, self._offsets, run, self._context)
        group_summary.note_commits(self._snapshot.activity, extent.commits, len(self._offsets))
        events += report.events + self._resume(run)
        before_ms, conditions = self._snapshot.log.last_timestamp_ms, self._snapshot.conditions
        self._note_position(run.partition, extent.last_offset, extent.last_ms)
        # Work that became due between these commits is done before their effect on conditions.
        events += self._do_due_inside(run, before, moments)
        conditions.after_commits = due_work.is_due_after_commits(
            conditions, extent, before_ms, self._detectors.on_commits, nearer=applied.nearer or turned
        )
        if conditions.after_commits:
            self._evaluate(self._report(run.partition, extent.last_offset, extent.last_ms), is_open=True)
        if moments and moments[-1] == extent.last_ms:
            self._evaluate_at(extent.last_ms + 1)
        return events

    def _do_due_inside(self, run: CommitRun, before: Offsets | None, moments: Sequence[int]) -> list[Event]:
        """Do what is due up to the end of a run; what commits of these moments change is due when they have passed."""
        self._between = None if before is None else CommitsBetween(run, before, self._offsets)
        events, last_ms = list[Event](), run.extent.last_ms
        for at_ms in (one for one in moments if one < last_ms):
            events += self._do_due(at_ms)
            self._evaluate_at(at_ms + 1)
        events += self._do_due(last_ms)
        self._between = None
        self._advance_clock(last_ms)
        self._agenda.note((Dependency.COMMITS,))  # what was evaluated inside the run has not seen its end
        return events

    def _evaluate_at(self, at_ms: int) -> None:
        """Conditions are evaluated then at the latest, as after commits."""
        conditions = self._snapshot.conditions
        conditions.next_evaluation_ms = min(conditions.next_evaluation_ms or at_ms, at_ms)
        self._agenda.note((Dependency.COMMITS,))
        self.changed = True

    def _view(self, now_ms: int) -> GroupView:
        offsets = self._offsets if self._between is None else self._between.at(now_ms)
        return GroupView(self.group_id, self._snapshot, offsets, self._context, now_ms)

    def _resume(self, run: CommitRun) -> list[Event]:
        """Resolve the conditions that any commit ends: at the first one, wherever the run ends."""
        ended = {key.kind for key in self._snapshot.conditions.active} & self._detectors.on_any_commit
        first = run.partition, run.first_offset, run.first_ms
        return self._evaluate(self._report(*first), ended) if ended else []

    def _apply_record(self, record: GroupRecord) -> list[Event]:
        pending = self._snapshot.log.pending
        continues = bool(pending) and record.continues(pending[-1].offset, pending[-1].timestamp_ms)
        events = [] if continues else self._complete_operation()
        self._snapshot.log.pending.append(group_snapshot.pend(record))
        self._read.append(record)
        group_summary.note_record(self._snapshot.activity, record.timestamp_ms)
        self._note_position(record.partition, record.offset, record.timestamp_ms)
        self._advance_clock(record.timestamp_ms)
        if record.ends_operation:
            events += self._complete_operation()
        return events

    def _note_position(self, partition: int, offset: int, timestamp_ms: int) -> None:
        self.changed, log = True, self._snapshot.log
        log.partition, log.last_offset, log.last_timestamp_ms = partition, offset, timestamp_ms

    def _report(self, partition: int, offset: int, timestamp_ms: int, **circumstances: Any) -> Report:
        known: dict[str, Any] = {"rules": self._rules, "repeats": self._snapshot.repeats, **circumstances}
        return Report(self.group_id, self._context, partition, offset, timestamp_ms, **known)

    def _report_of(self, record: GroupRecord) -> Report:
        return self._report(record.partition, record.offset, record.timestamp_ms)

    def _timer_report(self, at_ms: int) -> Report:
        """A report whose only cause is time."""
        snapshot = self._snapshot
        # Not the last commit: commits are read in runs, and the batches decide where a run ends.
        place = (snapshot.log.partition, snapshot.group.record_offset)
        return self._report(*place, at_ms, topic=None, place=place, setbacks=snapshot.log.setbacks)

    def _complete_operation(self) -> list[Event]:
        """Apply the open operation, whose end is known."""
        log = self._snapshot.log
        if not log.pending:
            return []
        records = group_snapshot.pending_records(log, self._read)
        log.pending, self._read = [], []
        self._agenda.note(RECORD)
        self.changed = True
        events = apply_operation(self._snapshot, self._offsets, records, self._report_of)
        self._agenda.learn(self._snapshot, records[-1].timestamp_ms)
        events += self._evaluate(self._report_of(records[-1]))
        self._forget_if_over()
        return events

    def _forget_if_over(self) -> None:
        """Keep nothing of a group that is over, as if this call ended here: a driver keeps no state of it then."""
        if self._snapshot.is_over(len(self._offsets)):
            self._snapshot = group_snapshot.after(self._snapshot)
            self._context = self._given_context
            self._agenda.note_all()

    def _evaluate(
        self, report: Report, only: Collection[str] | None = None, *, is_open: bool = False
    ) -> list[Event]:
        """Evaluate all detectors, or those with these names, at the time of the report, and emit what changed.

        ``is_open``: more commits of this moment may follow, so what changed is found again when it has passed.
        """
        conditions, report = self._snapshot.conditions, report.not_before(self._snapshot.log.clock_ms)
        now_ms = report.timestamp_ms
        if now_ms < self._context.emit_since_ms:
            # Nothing is emitted before that time; conditions that hold then are emitted then.
            conditions.next_evaluation_ms = self._context.emit_since_ms
            return []
        detections, evaluated = self._agenda.evaluate(self._view(now_ms), only)
        planned = self._rules.open_windows(now_ms) if detections or conditions.active else None
        times = [self._agenda.next_ms(), None if only is None else conditions.next_evaluation_ms]
        # A condition that outlasts the window gets its own severity then.
        times.append(None if planned is None else planned.closes_ms)
        next_ms = min((at_ms for at_ms in times if at_ms is not None), default=None)
        conditions.next_evaluation_ms = None if next_ms is None else max(next_ms, now_ms + 1)
        if not detections and not conditions.active:
            return []
        tracker, names = self._tracker(now_ms), {detector.name for detector in evaluated}
        if not is_open:
            return self._emit_updates(tracker.update(detections, names, now_ms), report)
        tracker.active = {**conditions.active}
        if tracker.update(detections, names, now_ms):
            self._agenda.note_all()
            conditions.next_evaluation_ms = now_ms + 1
        return []

    def _tracker(self, now_ms: int) -> ConditionTracker:
        return ConditionTracker(
            *(self.group_id, self._snapshot.conditions.active, self._context.policy.runbook),
            *(self._rules.cap_at(now_ms), self._rules.labels.get("runbook"), self._context.redaction),
        )

    def _emit_updates(self, updates: Sequence[ConditionUpdate], report: Report) -> list[Event]:
        group, active, before = self._snapshot.group, self._snapshot.conditions.active, len(report.events)
        self.changed |= bool(updates)
        behind_ms = 0 if self._recorded_ms is None else self._recorded_ms - report.timestamp_ms
        for update in updates:
            report.emit(
                update.condition,
                group_type=group.group_type,
                history=group.history,
                simple=group.simple,
                evidence=update.evidence,
                severity=update.severity,
                capped=True,
            )
            if update.key in active:
                active[update.key].late = behind_ms > self._context.catch_up_after_ms
        return report.events[before:]

    def describe(self) -> dict[str, Any]:
        """The group as ``describe`` shows it, with every committed offset."""
        return describe(self.group_id, self._snapshot, self._offsets, self._context)

    def note_topic(self, *, in_topic: bool) -> None:
        """The topic holds a document of this group with unknown content, or none: ``take_document`` corrects it."""
        self._snapshot.document_digest = UNKNOWN_DIGEST if in_topic else b""
        self.changed = True

    def take_document(self) -> dict[str, Any] | Deleted | None:
        """The document for ``group-states``, if it differs from the one that was taken last; else None."""
        before = self._snapshot.document_digest
        taken = next_document(self.group_id, self._snapshot, self._offsets, self._context, self._rules)
        self.changed |= self._snapshot.document_digest != before
        return taken
