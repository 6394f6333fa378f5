"""The job's topics at one moment: documents, the status of the job, and counts of events since midnight (UTC).

The time is an argument: this module reads no clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec

from groupreplay.state.events.event import Severity
from groupreplay.state.events.group_events import RebalanceCompleted
from groupreplay.state.events.offset_events import OffsetsExpired
from groupreplay.state.output.envelope import event_type
from groupreplay.streaming.contract.job_document import (
    CONDITIONS_KEY,
    JOB_KEY,
    OWNER_KEY,
    BadRecordCounts,
    JobConditions,
    JobDocument,
    KindCount,
)
from groupreplay.streaming.sinks.event_topic import Repeats

DAY_MS: Final = 86_400_000

_COMPLETED: Final = event_type(RebalanceCompleted.NAME)
_EXPIRED: Final = event_type(OffsetsExpired.NAME)


class Holding(msgspec.Struct, frozen=True):
    """An active condition of a group or of the job (``what``: why it is blind)."""

    condition: str
    severity: str
    wedged: bool = False
    what: str | None = None


class NextExpiry(msgspec.Struct):
    """When the first committed offset may be removed."""

    next_expiry_ms: int | None = None


class GroupDocument(msgspec.Struct):
    """The fields of a document in ``group-states`` that become metrics, without the members, who may be many."""

    group_id: str
    cluster_id: str = ""
    type: str = ""
    state: str = ""
    generation: int | None = None
    group_epoch: int | None = None
    since_ms: int | None = None
    member_count: int = 0
    conditions: list[Holding] = []
    labels: dict[str, str] = {}
    offsets: NextExpiry = msgspec.field(default_factory=NextExpiry)


class EventData(msgspec.Struct):
    """The fields of any event's ``data`` that are counted."""

    group_id: str | None = None
    catch_up: bool = False
    status: str | None = None
    wedged: bool = False
    partition_count: int = 1
    labels: dict[str, str] = {}


class CountedEvent(msgspec.Struct):
    """The fields of an event that are counted."""

    id: str
    type: str
    time: str
    severitynumber: int
    severitytext: str
    data: EventData

    @property
    def name(self) -> str:
        """``rebalance.completed``."""
        return self.type.removeprefix("groupreplay.").rpartition(".")[0]


@dataclass(slots=True)
class Day:
    """Counts since a midnight (UTC), of events that were emitted in time.

    ``fired``: the conditions that fired by group and condition, with the labels of the policy.
    """

    number: int = -1
    rebalances: Counter[str] = field(default_factory=Counter)
    expired: Counter[str] = field(default_factory=Counter)
    events: Counter[tuple[str, str]] = field(default_factory=Counter)
    fired: dict[tuple[str, Holding], Mapping[str, str]] = field(default_factory=dict)


_group: Final = msgspec.json.Decoder(GroupDocument)
_job: Final = msgspec.json.Decoder(JobDocument)
_conditions: Final = msgspec.json.Decoder(JobConditions)
_bad_records: Final = msgspec.json.Decoder(BadRecordCounts)
_event: Final = msgspec.json.Decoder(CountedEvent)


@dataclass(slots=True)
class TopicsSnapshot:
    """The three topics, message by message; ``unreadable`` counts messages that the job has not written.

    Counts start at midnight (UTC) and not with the process: they are the same after a restart and in two exporters, and
    do not depend on the retention of the events. Once a day they fall to 0, which Prometheus treats as the restart of
    a counter.
    """

    groups: dict[bytes, GroupDocument] = field(default_factory=dict)
    job: JobDocument | None = None
    job_conditions: list[Holding] = field(default_factory=list)
    bad_records: dict[bytes, list[KindCount]] = field(default_factory=dict)
    rebalanced_ms: dict[str, int] = field(default_factory=dict)
    today: Day = field(default_factory=Day)
    unreadable: int = 0
    _repeats: Repeats = field(default_factory=Repeats)

    def take_state(self, key: bytes, value: bytes | None) -> None:
        """A message of ``group-states``."""
        if value is None:
            deleted = self.groups.pop(key, None)
            if deleted is not None:
                self.rebalanced_ms.pop(deleted.group_id, None)
            return
        try:
            self.groups[key] = _group.decode(value)
        except msgspec.DecodeError:
            self.unreadable += 1

    def take_job(self, key: bytes, value: bytes | None) -> None:
        """A message of ``group-job``."""
        if value is None or key == OWNER_KEY:
            return
        try:
            if key == JOB_KEY:
                self.job = _job.decode(value)
            elif key == CONDITIONS_KEY:
                held = _conditions.decode(value).conditions
                self.job_conditions = msgspec.convert(held, list[Holding])
            else:
                self.bad_records[key] = _bad_records.decode(value).bad_records
        except msgspec.DecodeError:
            self.unreadable += 1

    def take_event(self, value: bytes | None, written_ms: int) -> None:
        """A message of ``group-events``, written at this time."""
        try:
            event = _event.decode(value or b"")
        except msgspec.DecodeError:
            self.unreadable += 1
            return
        self.roll(written_ms)
        if self._repeats.has(event.id):
            return
        group_id = event.data.group_id
        if group_id is not None and event.type == _COMPLETED:
            # Also for an event that was emitted late: the metric is the time of the rebalance.
            self.rebalanced_ms[group_id] = max(_milliseconds(event.time), self.rebalanced_ms.get(group_id, 0))
        if written_ms // DAY_MS == self.today.number and not event.data.catch_up:
            self._count(event, group_id)

    def _count(self, event: CountedEvent, group_id: str | None) -> None:
        today = self.today
        today.events[event.name, event.severitytext] += 1
        if group_id is None:
            return
        if event.type == _COMPLETED:
            today.rebalances[group_id] += 1
        elif event.type == _EXPIRED and event.severitynumber >= Severity.WARN:
            today.expired[group_id] += event.data.partition_count
        elif event.data.status == "firing":
            holding = Holding(event.name, event.severitytext, event.data.wedged)
            today.fired[group_id, holding] = event.data.labels

    def roll(self, now_ms: int) -> None:
        """Resets the counts when a later day has begun."""
        if now_ms // DAY_MS > self.today.number:
            self.today = Day(now_ms // DAY_MS)


def _milliseconds(time: str) -> int:
    try:
        return round(datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp() * 1000)
    except ValueError:
        return 0
