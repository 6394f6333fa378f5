"""The job itself: observations in, events about its own conditions out; what ``group`` is for one consumer group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from groupreplay.state.conditions.detection import Detection, JobView
from groupreplay.state.conditions.job.blind import CLOCK, JobBlind, JobBlindDetector
from groupreplay.state.conditions.registry import job_detectors
from groupreplay.state.conditions.tracker import ConditionTracker, ConditionUpdate, active_conditions
from groupreplay.state.events.event import Cause, Event, Evidence, Fact, History, Severity
from groupreplay.state.job import job_state
from groupreplay.state.job.daily_summary import add_count
from groupreplay.state.job.job_state import JobState
from groupreplay.state.job.observations import (
    HeartbeatObservation,
    JobObservation,
    LogObservation,
    ObservationPlace,
    RoundObservation,
)
from groupreplay.state.policy.context import OFFSETS_TOPIC, Context


@dataclass(slots=True)
class JobWatch:
    """The state of the job's own conditions. ``changed``: the state must be stored."""

    context: Context
    changed: bool = False
    _state: JobState = field(default_factory=JobState)

    @classmethod
    def from_snapshot(cls, context: Context, blob: bytes) -> JobWatch:
        """The inverse of ``snapshot``. Raises SnapshotError when another release wrote it."""
        return cls(context, _state=job_state.read(blob))

    def snapshot(self) -> bytes:
        """A version byte and a msgpack body."""
        return job_state.write(self._state)

    def conditions(self) -> list[dict[str, Any]]:
        """The conditions that hold, as documents show them."""
        return active_conditions(self._state.active)

    def apply(
        self, observations: Sequence[JobObservation | LogObservation], recorded_ms: int | None = None
    ) -> list[Event]:
        """Applies new observations in the order of their topic, then what the log shows; returns what changes.

        Observations from before ``emit_since_ms`` are ignored. ``recorded_ms`` is the time of this call by the job's
        clock, None for a replay, which is never late. A condition that was reported too late to be acted upon, and
        that still holds, is reported once more.
        """
        events: list[Event] = []
        last: JobObservation | None = None
        recorded = [one for one in observations if not isinstance(one, LogObservation)]
        for one in sorted(recorded, key=lambda one: (one.place.partition, one.place.offset)):
            if one.taken_ms >= self.context.emit_since_ms and self._state.accept(one):
                last = one
                self.changed = True
                events += self._apply(one, recorded_ms)
        # Afterwards: a heartbeat decides about the records that were read before it.
        for log in observations:
            if isinstance(log, LogObservation):
                events += self._apply_log(log, recorded_ms)
        if last is not None and not self._is_late(last, recorded_ms):
            ordinal = sum(_place(event) == last.place for event in events)
            events += self._events(self._tracker().repeat_late(), last, recorded_ms, ordinal)
        return events

    def _apply(self, seen: JobObservation, recorded_ms: int | None) -> list[Event]:
        if isinstance(seen, RoundObservation):
            self._state.apply_round(seen)
        view = JobView(state=self._state, newest=seen, context=self.context)
        names, found = list[str](), list[Detection]()
        for detector in job_detectors(self.context.policy.numbers):
            detections = detector.evaluate(view)
            if detections is not None:
                names.append(detector.name)
                found += detections
        events = self._events(self._tracker().update(found, names, seen.taken_ms), seen, recorded_ms)
        return events + self._summary(seen) if isinstance(seen, HeartbeatObservation) else events

    def _apply_log(self, seen: LogObservation, recorded_ms: int | None) -> list[Event]:
        """The conditions about brokers' clocks, which records begin and end; no others depend on records."""
        state = self._state
        (detector,) = (
            one for one in job_detectors(self.context.policy.numbers) if isinstance(one, JobBlindDetector)
        )
        self.changed = True
        record = state.clocks.apply_log(seen, detector.clock_ms, state.leaders)
        if record is None:
            return []
        others = {key: one for key, one in state.active.items() if not key.subject.startswith(CLOCK)}
        tracker = self._tracker()
        tracker.active = {key: one for key, one in state.active.items() if key not in others}
        updates = tracker.update(list(detector.of_clocks(state.clocks)), [JobBlind.NAME], state.heartbeat_ms)
        state.active = {**others, **tracker.active}
        place = ObservationPlace(OFFSETS_TOPIC, record.partition, record.offset)
        # The time of a heartbeat: that of the record is the one that may be wrong.
        return self._events(updates, HeartbeatObservation(state.heartbeat_ms, place, None), recorded_ms)

    def _summary(self, seen: HeartbeatObservation) -> list[Event]:
        self._state.day_total, summary = add_count(
            self._state.day_total, seen.run_id, seen.unmissed_expired, seen.taken_ms
        )
        return [] if summary is None else [_event(summary, Evidence.LOG, Severity.INFO, seen, 0)]

    def _tracker(self) -> ConditionTracker:
        return ConditionTracker(None, self._state.active, self.context.policy.runbook)

    def _is_late(self, seen: JobObservation, recorded_ms: int | None) -> bool:
        return recorded_ms is not None and recorded_ms - seen.taken_ms > self.context.catch_up_after_ms

    def _events(
        self,
        updates: Sequence[ConditionUpdate],
        seen: JobObservation,
        recorded_ms: int | None,
        ordinal: int = 0,
    ) -> list[Event]:
        events = []
        for number, one in enumerate(updates, ordinal):
            if one.key in self._state.active:
                self._state.active[one.key].late = self._is_late(seen, recorded_ms)
            events.append(_event(one.condition, one.evidence, one.severity, seen, number))
        return events


def _event(fact: Fact, evidence: Evidence, severity: Severity, seen: JobObservation, ordinal: int) -> Event:
    """An event about the job, caused by one of its own observations."""
    place = seen.place
    return Event(
        fact=fact,
        time_ms=seen.taken_ms,
        evidence=evidence,
        history=History.FULL,
        cause=Cause(
            topic=place.topic, partition=place.partition, offset=place.offset, timestamp_ms=seen.taken_ms
        ),
        ordinal=ordinal,
        severity=severity,
    )


def _place(event: Event) -> ObservationPlace | None:
    cause = event.cause
    return None if cause is None else ObservationPlace(cause.topic, cause.partition, cause.offset)
