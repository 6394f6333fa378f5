"""Every event there is: the facts, then the conditions. Docs, schemas and tests are made from these tuples."""

from __future__ import annotations

from typing import Final

from groupreplay.state.conditions.registry import CONDITIONS
from groupreplay.state.events import group_events, offset_events
from groupreplay.state.events.event import Fact
from groupreplay.state.events.job_events import JobGap

#: Every fact, in the order of the docs.
FACTS: Final[tuple[type[Fact], ...]] = (
    group_events.GroupCreated,
    group_events.GroupEmptied,
    group_events.GroupDeleted,
    group_events.GroupConverted,
    group_events.RebalanceStarted,
    group_events.RebalanceCompleted,
    group_events.MemberLeft,
    group_events.MemberJoined,
    group_events.MemberUpdated,
    group_events.StaticReplaced,
    offset_events.OffsetsExpired,
    offset_events.OffsetsDeleted,
    offset_events.OffsetsReset,
    offset_events.OffsetsSet,
    offset_events.OffsetRewound,
    offset_events.OffsetsSummary,
    JobGap,
    group_events.RecordMalformed,
    group_events.RecordSkipped,
    group_events.GroupQuarantined,
)
#: In the order of the docs.
EVENTS: Final[tuple[type[Fact], ...]] = (*FACTS, *CONDITIONS)
