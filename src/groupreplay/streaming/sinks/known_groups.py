"""What the job's topics tell of groups: their last documents, their active conditions, and events by day."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec

from groupreplay.state.conditions.registry import kind_named
from groupreplay.state.events.event import Severity
from groupreplay.state.events.group_events import MemberLeft, RebalanceCompleted
from groupreplay.state.events.incident_events import IncidentOpened
from groupreplay.state.events.offset_events import OffsetsExpired
from groupreplay.state.output.envelope import event_type
from groupreplay.state.phrases import safe_text, timestamp_ms
from groupreplay.streaming.contract.messages import EventHead, GroupHead, Integer, MessageDecoder

#: Characters of ``Holding.who`` and of ``Holding.runbook``: a label must not fill a page.
_LIMIT: Final = 300
#: Groups of one incident that are counted.
_MOST_GROUPS: Final = 200


class Holding(msgspec.Struct, frozen=True, gc=False):
    """An active condition of a group or of the job (``what``: why it is blind).

    ``condition_id`` (empty: not known) is the same from its begin to its end, and it began at ``since_ms``. ``who`` are
    its blockers or suspects, or its subject, for people; ``runbook`` is the address of its section. An INFO has none of
    these, nor has one of a group that does not matter: nobody is told of it, and any number of groups may have one.
    """

    condition: str
    severity: str
    wedged: bool = False
    what: str | None = None
    condition_id: str = ""
    since_ms: Integer | None = None
    who: str = ""
    runbook: str = ""


class HeldForm(msgspec.Struct):
    """The fields of a condition in a document that become metrics. Those of ``Any`` differ between conditions."""

    condition: str
    severity: str
    wedged: bool = False
    matters: bool = True
    what: str | None = None
    condition_id: str = ""
    since_ms: Integer | None = None
    runbook: str = ""
    blockers: Any = None
    suspects: Any = None
    places: Any = None
    member_id: Any = None
    client_id: Any = None
    client_host: Any = None
    instance_id: Any = None
    topic: Any = None
    partition: Any = None
    producer_id: Any = None
    producer_epoch: Any = None

    def holding(self) -> Holding:
        """The condition, in bounded size."""
        if self.severity == "INFO" or not self.matters:
            return Holding(self.condition, self.severity, self.wedged, self.what)
        return Holding(
            condition=self.condition,
            severity=self.severity,
            wedged=self.wedged,
            what=self.what,
            condition_id=safe_text(self.condition_id, _LIMIT),
            since_ms=self.since_ms,
            who=_who(self.condition, msgspec.structs.asdict(self)),
            runbook=safe_text(self.runbook, _LIMIT),
        )


def _who(name: str, data: Mapping[str, Any]) -> str:
    """Blockers, suspects, or the one member or partition that it is about; empty when it is the whole group."""
    try:
        text = kind_named(name).who(data)
    except Exception:  # others may write to the topic; which one depends on the value
        return ""
    return safe_text(text, _LIMIT) if len(text) > _LIMIT else text


#: Sets of labels and conditions that many groups share; far more than a policy has.
_SHARED: Final = 4_096
_SEVERITIES: Final = ("ERROR", "WARN")


class _GroupDocument(GroupHead, kw_only=True):
    """The fields of a document that become metrics."""

    conditions: list[HeldForm] = msgspec.field(default_factory=list)


class KnownGroup(msgspec.Struct, frozen=True, gc=False):
    """A group; ``label`` is its id as metrics show it, ``generation`` the group epoch of a newer kind of group."""

    label: str
    cluster_id: str
    type: str
    state: str
    generation: Integer | None
    since_ms: Integer | None
    member_count: Integer
    next_expiry_ms: Integer | None
    conditions: tuple[Holding, ...]
    labels: Mapping[str, str]

    @property
    def worst(self) -> str | None:
        """The highest severity of its conditions; None without one."""
        if not self.conditions:
            return None
        severities = {condition.severity for condition in self.conditions}
        return next((severity for severity in _SEVERITIES if severity in severities), "INFO")


_decoder: Final = MessageDecoder[_GroupDocument](_GroupDocument)


def group_label(group_id: str) -> str:
    """The id itself, so that series can be joined with those of other exporters.

    An id that is empty, very long or has control characters is made safe, with a hash of the whole id at its end.
    """
    shown = safe_text(group_id)
    if shown == group_id and shown:
        return shown
    return f"{shown}#{hashlib.sha256(group_id.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def known_group(value: bytes) -> KnownGroup | None:
    """The group of a document; None when the value is no document."""
    document = _decoder.decode(value)
    if document is None:
        return None
    return KnownGroup(
        label=group_label(document.group_id),
        cluster_id=sys.intern(document.cluster_id),
        type=sys.intern(document.type),
        state=sys.intern(document.state),
        generation=document.epoch,
        since_ms=document.since_ms,
        member_count=document.member_count,
        next_expiry_ms=document.offsets.next_expiry_ms,
        conditions=_conditions(tuple(condition.holding() for condition in document.conditions)),
        labels=shared_labels(document.labels),
    )


def shared_labels(labels: Mapping[str, str]) -> Mapping[str, str]:
    """The same labels, as one object for all groups that have them."""
    return _labels(tuple(labels.items()))


@lru_cache(_SHARED)
def _labels(items: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return dict(items)


@lru_cache(_SHARED)
def _conditions(conditions: tuple[Holding, ...]) -> tuple[Holding, ...]:
    return conditions


DAY_MS: Final = 86_400_000
#: Groups that are counted one by one. When there are more, half of them are forgotten, first those that are gone.
MOST_COUNTED: Final = 200_000
#: Names of events, with their severity: far more than this release has. The rest is counted as ``other``.
_MOST_NAMES: Final = 200
_OTHER: Final = "other"

_COMPLETED: Final = event_type(RebalanceCompleted.NAME)
_EXPIRED: Final = event_type(OffsetsExpired.NAME)
_LEFT: Final = event_type(MemberLeft.NAME)
_Value = TypeVar("_Value")


class _EventData(msgspec.Struct):
    """The fields of any event's ``data`` that are counted."""

    group_id: str | None = None
    catch_up: bool = False
    status: str | None = None
    wedged: bool = False
    matters: bool = True
    partition_count: Integer = 1
    labels: dict[str, str] = {}
    incident_id: str = ""
    since_ms: int | None = None
    groups: list[str] = []
    text: str = ""
    first: str = ""
    runbook: str = ""


class OpenIncident(msgspec.Struct, frozen=True):
    """An incident across groups that is not over, as it was told last; groups by their label."""

    severity: str
    since_ms: int
    groups: frozenset[str]
    text: str
    first: str
    runbook: str


class CountedEvent(EventHead):
    """The fields of an event that are counted."""

    data: _EventData

    @property
    def name(self) -> str:
        """``rebalance.completed``."""
        return self.type.removeprefix("groupreplay.").rpartition(".")[0]

    @property
    def group(self) -> str | None:
        """The label of the group that it is about."""
        return None if self.data.group_id is None else group_label(self.data.group_id)

    @property
    def incident(self) -> OpenIncident | None:
        """The incident that it tells of; None when that is over, or the event is another one."""
        data = self.data
        if self.name != IncidentOpened.NAME:
            return None
        texts = (safe_text(text, _LIMIT) for text in (data.text, data.first, data.runbook))
        groups = frozenset(map(group_label, data.groups[:_MOST_GROUPS]))
        return OpenIncident(self.severitytext, data.since_ms or 0, groups, *texts)

    @property
    def completed_ms(self) -> int | None:
        """When the rebalance was completed that it is about, 0 for a text that is no time; None: another event."""
        return (timestamp_ms(self.time) or 0) if self.type == _COMPLETED else None


EVENTS: Final = MessageDecoder[CountedEvent](CountedEvent)


@dataclass(slots=True)
class Day:
    """Counts since a midnight (UTC), of events that were emitted in time; groups by their label.

    ``lost``: members that left and that nobody had planned to.

    ``fired``: the conditions that fired by group and condition, with the labels of the policy. ``forgotten`` is the
    number of groups whose counts were dropped because there were too many.
    """

    number: int = -1
    rebalances: Counter[str] = field(default_factory=Counter)
    expired: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    events: Counter[tuple[str, str]] = field(default_factory=Counter)
    fired: dict[str, dict[Holding, Mapping[str, str]]] = field(default_factory=dict)
    forgotten: int = 0

    def count(self, event: CountedEvent, known: Collection[str]) -> None:
        """Counts an event; ``known`` are the groups that exist."""
        kind = (event.name, event.severitytext)
        self.events[kind if kind in self.events or len(self.events) < _MOST_NAMES else (_OTHER, _OTHER)] += 1
        group = event.group
        if group is None:
            return
        if event.type == _COMPLETED:
            self.rebalances[group] += 1
            self.forgotten += bound(self.rebalances, known)
        elif event.type == _EXPIRED and event.data.matters and event.severitynumber > Severity.INFO:
            self.expired[group] += event.data.partition_count
            self.forgotten += bound(self.expired, known)
        elif event.type == _LEFT and event.severitynumber >= Severity.WARN:
            self.lost[group] += 1
            self.forgotten += bound(self.lost, known)
        elif event.data.status == "firing":
            fired = self.fired.setdefault(group, {})
            if len(fired) < _MOST_NAMES:
                holding = Holding(event.name, event.severitytext, event.data.wedged)
                fired[holding] = shared_labels(event.data.labels)
            self.forgotten += bound(self.fired, known)


def bound(by_group: dict[str, _Value], known: Collection[str], most: int = MOST_COUNTED) -> int:
    """Drops half of the groups when there are too many, first those that are gone; returns how many."""
    if len(by_group) <= most:
        return 0
    dropped = [group for group in by_group if group not in known][: most // 2]
    dropped += [group for group in by_group if group in known][: most // 2 - len(dropped)]
    for group in dropped:
        del by_group[group]
    return len(dropped)
