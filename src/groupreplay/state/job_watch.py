"""The job itself: observations in, events about its own conditions out; what ``group`` is for one consumer group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec.structs import replace

from groupreplay.state.conditions.detection import Dependency, Detection, JobView
from groupreplay.state.conditions.job_blind import COORDINATOR_CLOCK, JobBlind, JobBlindDetector
from groupreplay.state.conditions.registry import job_detectors
from groupreplay.state.conditions.tracker import ConditionTracker, ConditionUpdate, active_conditions
from groupreplay.state.events.event import Cause, Event, Evidence, Fact, History, Severity
from groupreplay.state.job import job_state
from groupreplay.state.job.job_state import JobState, add_count
from groupreplay.state.job.observations import (
    Clocks,
    HeartbeatObservation,
    JobObservation,
    LogObservation,
    ObservationPlace,
    RoundObservation,
)
from groupreplay.state.policy.context import OFFSETS_TOPIC, Context
from groupreplay.state.snapshot.group_snapshot import ConditionKey

#: The first ordinals of conditions that are repeated, and of those that only the query can report: the ids of the
#: others must not depend on either.
_REPEAT_ORDINAL: Final = 1_000
_LOG_ORDINAL: Final = 2_000


@dataclass(slots=True)
class JobWatch:
    """The state of the job's own conditions. ``changed``: the state must be stored.

    Two of them apply the same topic: the query's, and the driver's, which publishes while the query stands still. The
    ids and fields of their events are equal, however the topic is cut into calls. The driver has no records of the log:
    without ``sees_log`` the conditions about coordinators' clocks neither begin nor end.
    """

    context: Context
    changed: bool = False
    sees_log: bool = True
    _state: JobState = field(default_factory=JobState)

    @classmethod
    def from_snapshot(cls, context: Context, blob: bytes, *, sees_log: bool = True) -> JobWatch:
        """The inverse of ``snapshot``. Raises SnapshotError when another release wrote it."""
        return cls(context, sees_log=sees_log, _state=job_state.read(blob))

    def snapshot(self) -> bytes:
        """A version byte and a msgpack body."""
        return job_state.write(self._state)

    def snapshot_for_driver(self) -> bytes:
        """The same without what only records of the log need: it is a message, and that part can be large."""
        clocks = self._state.clocks
        kept = Clocks(driver_off_ms=clocks.driver_off_ms, driver_since_ms=clocks.driver_since_ms)
        return job_state.write(replace(self._state, leaders={}, clocks=kept))

    @property
    def read_to(self) -> dict[int, int]:
        """The last offset of each partition of the topic whose observation was applied."""
        return dict(self._state.offsets)

    @property
    def heartbeat_ms(self) -> int:
        """The time of the last heartbeat; -1 before the first."""
        return self._state.heartbeat_ms

    def conditions(self) -> list[dict[str, Any]]:
        """The conditions that hold, as documents show them."""
        return active_conditions(self._state.active)

    def apply(
        self, observations: Sequence[JobObservation | LogObservation], recorded_ms: int | None = None
    ) -> list[Event]:
        """Applies new observations in the order of their topic, then what the log shows; returns what changes.

        Observations from before ``own_since_ms`` are ignored. ``recorded_ms`` is the time of this call by the job's
        clock, None for a replay, which is never late. A condition that was reported too late to be acted upon, and
        that still holds, is reported once more.
        """
        events: list[Event] = []
        last: JobObservation | None = None
        recorded = [
            observation for observation in observations if not isinstance(observation, LogObservation)
        ]
        recorded.sort(key=lambda observation: (observation.place.partition, observation.place.offset))
        self._note_told(recorded)
        for one in recorded:
            if one.taken_ms >= self.context.own_since_ms and self._state.accept(one):
                last = one
                self.changed = True
                events += self._apply(one, recorded_ms)
        # Afterwards: a heartbeat decides about the records that were read before it.
        for log in observations:
            if isinstance(log, LogObservation):
                events += self._apply_log(log, recorded_ms)
        if last is not None and not self._is_late(last, recorded_ms):
            events += self._repeat_late(last, recorded_ms)
        return events

    def _note_told(self, recorded: Sequence[JobObservation]) -> None:
        """What the driver has told in time need not be told again, although this call may be late."""
        if self._state.note_told(recorded):
            for key, active in self._state.active.items():
                active.late = active.late and _is_of_log(key)

    def _apply(self, seen: JobObservation, recorded_ms: int | None) -> list[Event]:
        change = Dependency.HEARTBEATS
        if isinstance(seen, RoundObservation):
            change = Dependency.PROBER_ROUNDS
            self._state.apply_round(seen)
        view = JobView(state=self._state, newest=seen, context=self.context)
        detectors = job_detectors(self.context.policy.thresholds)
        concerned = [detector for detector in detectors if change in detector.DEPENDS_ON]
        names = [detector.name for detector in concerned]
        detections = [detection for detector in concerned for detection in detector.evaluate(view)]
        events = self._update(detections, names, seen, recorded_ms, of_log=False)
        if self.sees_log:
            events += self._update(detections, names, seen, recorded_ms, of_log=True, ordinal=_LOG_ORDINAL)
        return events + self._summary(seen) if isinstance(seen, HeartbeatObservation) else events

    def _update(
        self,
        detections: Sequence[Detection],
        names: Sequence[str],
        seen: JobObservation,
        recorded_ms: int | None,
        *,
        of_log: bool,
        ordinal: int = 0,
    ) -> list[Event]:
        """Reports what begins and ends of one of the two kinds of conditions; the other one stays as it is."""
        state = self._state
        mine = {key: active for key, active in state.active.items() if _is_of_log(key) == of_log}
        tracker = ConditionTracker(None, mine, self.context.policy.runbook)
        updates = tracker.update(
            [detection for detection in detections if _is_of_log(detection.key) == of_log],
            names,
            seen.taken_ms,
        )
        others = {key: active for key, active in state.active.items() if _is_of_log(key) != of_log}
        state.active = {**tracker.active, **others}
        return self._events(list(enumerate(updates, ordinal)), seen, recorded_ms)

    def _apply_log(self, seen: LogObservation, recorded_ms: int | None) -> list[Event]:
        """The conditions about coordinators' clocks, which records begin and end; no others depend on records."""
        state = self._state
        (detector,) = (
            detector
            for detector in job_detectors(self.context.policy.thresholds)
            if isinstance(detector, JobBlindDetector)
        )
        self.changed = True
        record = state.clocks.apply_log(seen, detector.clock_ms, state.leaders)
        if record is None:
            return []
        place = ObservationPlace(OFFSETS_TOPIC, record.partition, record.offset)
        # The time of a heartbeat: that of the record is the one that may be wrong.
        at = HeartbeatObservation(state.heartbeat_ms, place, None)
        detections = list(detector.of_clocks(state.clocks))
        return self._update(detections, [JobBlind.NAME], at, recorded_ms, of_log=True)

    def _repeat_late(self, last: JobObservation, recorded_ms: int | None) -> list[Event]:
        """The ordinal is that of the condition, not a running number: the driver may repeat others than the query."""
        tracker = ConditionTracker(None, self._state.active, self.context.policy.runbook)
        ordinals = {key: number for number, key in enumerate(sorted(self._state.active, key=_repeat_order))}
        repeated = [(_REPEAT_ORDINAL + ordinals[update.key], update) for update in tracker.repeat_late()]
        return self._events(repeated, last, recorded_ms)

    def _summary(self, seen: HeartbeatObservation) -> list[Event]:
        self._state.day_total, summary = add_count(
            self._state.day_total, seen.run_id, seen.unmissed_expired, seen.taken_ms
        )
        return [] if summary is None else [_event(summary, Evidence.LOG, Severity.INFO, seen, 0)]

    def _is_late(self, seen: JobObservation, recorded_ms: int | None) -> bool:
        return recorded_ms is not None and recorded_ms - seen.taken_ms > self.context.catch_up_after_ms

    def _events(
        self,
        updates: Sequence[tuple[int, ConditionUpdate]],
        seen: JobObservation,
        recorded_ms: int | None,
    ) -> list[Event]:
        """The events, each with its ordinal."""
        is_late = self._is_late(seen, recorded_ms)
        is_told = seen.place.offset < self._state.told_to
        events = []
        for ordinal, update in updates:
            if update.key in self._state.active:
                self._state.active[update.key].late = is_late and (_is_of_log(update.key) or not is_told)
            events.append(_event(update.condition, update.evidence, update.severity, seen, ordinal))
        return events


def _is_of_log(key: ConditionKey) -> bool:
    """Whether a condition depends on records of the log: only the query has them."""
    return key.subject.startswith(COORDINATOR_CLOCK)


def _repeat_order(key: ConditionKey) -> tuple[bool, ConditionKey]:
    return _is_of_log(key), key


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
