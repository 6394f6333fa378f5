"""The events of one cause: facts with the circumstances under which they were found, in a fixed order.

Events that a group can repeat without end are emitted once a minute, with the number of those left out.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from typing import Final

import msgspec

from groupreplay.codecs.kafka_terms import GroupType
from groupreplay.state.events.event import Cause, Event, Evidence, Fact, History, Severity
from groupreplay.state.events.offset_events import OffsetsExpired
from groupreplay.state.policy.context import OFFSETS_TOPIC, Context
from groupreplay.state.policy.rules import Rules
from groupreplay.state.snapshot.group_snapshot import Repetitions

_INTERVAL_MS: Final = 60_000
#: Different ones in a minute, of one group: a rolling restart of static members has one for each.
_MOST: Final = 256


def without_repeat(repeats: Repetitions, fact: Fact, at_ms: int) -> Fact | None:
    """The fact, with the number of its type that were left out before it; None if it is left out itself."""
    same = fact.sameness()
    if same is None:
        return fact
    name = fact.NAME
    key = blake2b(repr((name, same)).encode("utf-8", "backslashreplace"), digest_size=8).digest()
    former_ms = repeats.emitted.get(key)
    if former_ms is None or not _is_recent(former_ms, at_ms):
        repeats.emitted = {repeat: ms for repeat, ms in repeats.emitted.items() if _is_recent(ms, at_ms)}
        former_ms = None
    if former_ms is not None or len(repeats.emitted) >= _MOST:
        repeats.suppressed[name] = repeats.suppressed.get(name, 0) + 1
        return None
    repeats.emitted[key] = at_ms
    return replace(fact, suppressed=repeats.suppressed.pop(name, 0))  # type: ignore[call-arg]


def _is_recent(former_ms: int, at_ms: int) -> bool:
    # The distance, not the difference: one record with a wrong time must not suppress the others.
    return abs(at_ms - former_ms) < _INTERVAL_MS


class Report(msgspec.Struct):
    """Events of one cause, numbered; facts that are not emitted have numbers, too: ids do not depend on settings.

    ``topic`` is where the cause is recorded, at ``partition`` and ``offset``; None when only time has passed.
    ``place`` is that of the group's own last record where the cause is another one; ``rules`` are the policy of
    the group, ``repeats`` what it has emitted lately. ``setbacks`` is that of the events. ``cause_ms`` is the time of
    the cause, where that of the events is later (None: it is the same).
    """

    group_id: str
    context: Context
    partition: int
    offset: int
    timestamp_ms: int
    topic: str | None = OFFSETS_TOPIC
    place: tuple[int, int] | None = None
    rules: Rules = msgspec.field(default_factory=Rules)
    repeats: Repetitions = msgspec.field(default_factory=Repetitions)
    setbacks: int = 0
    cause_ms: int | None = None
    events: list[Event] = []
    _ordinal: int = 0

    @property
    def is_silent(self) -> bool:
        """Whether no fact of its time is emitted: costly ones need not be made."""
        return self.rules.ignore or self.timestamp_ms < self.context.emit_since_ms

    def at(self, timestamp_ms: int) -> Report:
        """The same cause at another time; the events are shared."""
        return msgspec.structs.replace(self, timestamp_ms=timestamp_ms)

    def not_before(self, at_ms: int) -> Report:
        """The same cause, which keeps its time, with events at this time if it is later; the events are shared.

        Detectors rely on time that does not go back; a record may be slightly earlier than the one before it.
        """
        if self.timestamp_ms >= at_ms:
            return self
        cause_ms = self.timestamp_ms if self.cause_ms is None else self.cause_ms
        return msgspec.structs.replace(self, timestamp_ms=at_ms, cause_ms=cause_ms)

    def emit(
        self,
        fact: Fact,
        *,
        group_type: GroupType,
        history: History,
        simple: bool = False,
        evidence: Evidence = Evidence.LOG,
        severity: Severity | None = None,
        capped: bool = False,
    ) -> None:
        """Add a fact that happened at the time of the cause; ``capped``: its severity has the cap of its group."""
        ordinal, self._ordinal = self._ordinal, self._ordinal + 1
        if self.is_silent or self._is_switched_off(fact):
            return
        emitted = without_repeat(self.repeats, fact, self.timestamp_ms)
        if emitted is None:
            return
        severity = fact.severity if severity is None else severity
        cap = self.rules.severity_cap if capped else self._cap_of(fact)
        self.events.append(
            Event(
                fact=emitted,
                group_id=self.group_id,
                group_type=group_type,
                simple=simple,
                time_ms=self.timestamp_ms,
                evidence=evidence,
                history=history,
                cause=self._cause(),
                ordinal=ordinal,
                severity=severity if cap is None else min(cap, severity),
                place=self.place,
                labels=self.rules.labels,
                setbacks=self.setbacks,
            )
        )

    def _cap_of(self, fact: Fact) -> Severity | None:
        """A planned window caps no loss of offsets by retention: nobody plans one, and its end repairs nothing."""
        is_loss = fact.NAME == OffsetsExpired.NAME
        return self.rules.severity_cap if is_loss else self.rules.cap_at(self.timestamp_ms)

    def _cause(self) -> Cause | None:
        if self.topic is None:
            return None
        at_ms = self.timestamp_ms if self.cause_ms is None else self.cause_ms
        return Cause(topic=self.topic, partition=self.partition, offset=self.offset, timestamp_ms=at_ms)

    def _is_switched_off(self, fact: Fact) -> bool:
        return fact.ABOUT_MEMBER and fact.severity < Severity.WARN and not self.context.member_events


class DiscardingReport(Report):
    """Keeps nothing: for a record inside an operation of which only the beginning and the end are compared."""

    @property
    def is_silent(self) -> bool:
        """Always."""
        return True

    def emit(self, fact: Fact, **circumstances: object) -> None:
        """Discard the fact."""
