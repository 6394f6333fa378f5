"""Counts of events since midnight (UTC), for the job as a whole and by group, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeVar

import msgspec

from groupreplay.state.events.event import Severity
from groupreplay.state.events.group_events import MemberLeft, RebalanceCompleted
from groupreplay.state.events.offset_events import OffsetsExpired
from groupreplay.state.output.envelope import event_type
from groupreplay.state.output.message_forms import EventHead
from groupreplay.streaming.contract.message_decoder import Integer, MessageDecoder
from groupreplay.streaming.sinks.held_conditions import Holding
from groupreplay.streaming.sinks.known_groups import group_label, shared_labels

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
    def completed_ms(self) -> int | None:
        """When the rebalance was completed that it is about; None for every other event."""
        return _milliseconds(self.time) if self.type == _COMPLETED else None


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


def _milliseconds(time: str) -> int:
    try:
        return round(datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return 0
