"""Facts collected while one record is applied, each with its surroundings and its place in the order.

Knows causes and ordinals; must not know what the facts mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from groupreplay.state.context import OFFSETS_TOPIC, Context
from groupreplay.state.events import Cause, Event, Evidence, Fact, GroupType, History, Severity


@dataclass(slots=True)
class Report:
    """Events of one cause. Ordinals count what is switched off too, so that ids do not depend on settings."""

    group_id: str
    context: Context
    partition: int
    offset: int
    timestamp_ms: int
    events: list[Event] = field(default_factory=list)
    _ordinal: int = 0

    def say(
        self,
        fact: Fact,
        *,
        group_type: GroupType,
        simple: bool,
        history: History,
        evidence: Evidence = Evidence.LOG,
    ) -> None:
        """Add a fact that happened at the cause's own time."""
        ordinal, self._ordinal = self._ordinal, self._ordinal + 1
        if self.timestamp_ms < self.context.emit_since_ms or self._switched_off(fact):
            return
        cause = Cause(
            topic=OFFSETS_TOPIC, partition=self.partition, offset=self.offset, timestamp_ms=self.timestamp_ms
        )
        self.events.append(
            Event(
                fact=fact,
                group_id=self.group_id,
                group_type=group_type,
                simple=simple,
                time_ms=self.timestamp_ms,
                evidence=evidence,
                history=history,
                cause=cause,
                ordinal=ordinal,
            )
        )

    def _switched_off(self, fact: Fact) -> bool:
        return fact.ABOUT_MEMBER and fact.severity < Severity.WARN and not self.context.member_events
