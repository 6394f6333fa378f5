"""The job's topics at one moment: documents, the status of the job, and counts of events since midnight (UTC).

The time is an argument: this module reads no clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import msgspec

from groupreplay.streaming.contract.messages import (
    CONDITIONS_KEY,
    JOB_KEY,
    OWNER_KEY,
    STATE_KEY,
    BadRecordCounts,
    JobDocument,
    KindCount,
    MessageDecoder,
)
from groupreplay.streaming.sinks.event_topic import Repeats
from groupreplay.streaming.sinks.known_groups import (
    DAY_MS,
    EVENTS,
    CountedEvent,
    Day,
    HeldForm,
    Holding,
    KnownGroup,
    OpenIncident,
    bound,
    group_label,
    known_group,
)

#: The clocks of the machines that write may be ahead by this much.
_MOST_AHEAD_MS: Final = 60_000
#: Partitions of the offsets topic with records that could not be used; far more than it has.
_MOST_PARTITIONS: Final = 10_000


class _Held(msgspec.Struct):
    """``JobConditions``, as far as it becomes metrics."""

    conditions: list[HeldForm] = []


_job: Final = MessageDecoder[JobDocument](JobDocument)
_conditions: Final = MessageDecoder[_Held](_Held)
_bad_records: Final = MessageDecoder[BadRecordCounts](BadRecordCounts)


#: Open incidents; the job has no more.
_MOST_INCIDENTS: Final = 100


@dataclass(slots=True)
class TopicsSnapshot:
    """The three topics, message by message; ``unreadable`` counts messages that the job has not written.

    Counts start at midnight (UTC) and not with the process: they are the same after a restart and in two exporters, and
    do not depend on the retention of the events. Once a day they fall to 0, which Prometheus treats as the restart of
    a counter. Groups are known by their label (``group_label``).
    """

    groups: dict[str, KnownGroup] = field(default_factory=dict)
    job: JobDocument | None = None
    heartbeat_ms: int = 0
    job_conditions: list[Holding] = field(default_factory=list)
    bad_records: dict[bytes, list[KindCount]] = field(default_factory=dict)
    rebalanced_ms: dict[str, int] = field(default_factory=dict)
    incidents: dict[str, OpenIncident] = field(default_factory=dict)
    today: Day = field(default_factory=Day)
    unreadable: int = 0
    _repeats: Repeats = field(default_factory=Repeats)

    def take_state(self, key: bytes, value: bytes | None) -> None:
        """A message of ``group-states``."""
        if value is None:
            label = group_label(key.decode("utf-8", "replace"))
            self.groups.pop(label, None)
            self.rebalanced_ms.pop(label, None)
            return
        group = known_group(value)
        # Under the key of another group it could not be removed again.
        if group is None or group.label != group_label(key.decode("utf-8", "replace")):
            self.unreadable += 1
        else:
            self.groups[group.label] = group

    def take_job(self, key: bytes, value: bytes | None, append_ms: int | None = None) -> None:
        """A message of ``group-job``; the broker appended it at ``append_ms`` (None: the client has dated it)."""
        if value is None or key in (OWNER_KEY, STATE_KEY):
            return
        if key == JOB_KEY:
            job = _job.decode(value)
            understood = job is not None
            if job is not None:
                self.job = job
                self.heartbeat_ms = job.heartbeat_ms if append_ms is None else append_ms
        elif key == CONDITIONS_KEY:
            conditions = _conditions.decode(value)
            if conditions is not None:
                self.job_conditions = [condition.holding() for condition in conditions.conditions]
            understood = conditions is not None
        else:
            understood = self._take_bad_records(key, value)
        self.unreadable += not understood

    def _take_bad_records(self, key: bytes, value: bytes) -> bool:
        counts = _bad_records.decode(value)
        if counts is None or (key not in self.bad_records and len(self.bad_records) >= _MOST_PARTITIONS):
            return False
        self.bad_records[key] = counts.bad_records
        return True

    def take_event(self, value: bytes | None, written_ms: int, now_ms: int | None = None) -> None:
        """A message of ``group-events``, written at this time.

        A day that has not begun by ``now_ms`` begins no new count: the client that dated the message may be wrong.
        """
        event = EVENTS.decode(value)
        if event is None:
            self.unreadable += 1
            return
        is_known = now_ms is None or written_ms - now_ms <= _MOST_AHEAD_MS
        if is_known and written_ms // DAY_MS > self.today.number:
            self.today = Day(written_ms // DAY_MS)
        if self._repeats.has(event.id):
            return
        if event.data.incident_id:
            self._take_incident(event)
        group, completed_ms = event.group, event.completed_ms
        if group is not None and completed_ms is not None:
            # Also for an event that was emitted late: the metric is the time of the rebalance.
            self.rebalanced_ms[group] = max(completed_ms, self.rebalanced_ms.get(group, 0))
            bound(self.rebalanced_ms, self.groups)
        if written_ms // DAY_MS == self.today.number and not event.data.catch_up:
            self.today.count(event, self.groups)

    def _take_incident(self, event: CountedEvent) -> None:
        incident = event.incident
        self.incidents.pop(event.data.incident_id, None)
        if incident is not None:
            self.incidents[event.data.incident_id] = incident
        if len(self.incidents) > _MOST_INCIDENTS:
            del self.incidents[next(iter(self.incidents))]

    def roll(self, now_ms: int) -> None:
        """Resets the counts when a later day has begun, or when the clock was set back by more than a day."""
        if not self.today.number - 1 <= now_ms // DAY_MS <= self.today.number:
            self.today = Day(now_ms // DAY_MS)
