"""Every event there is: the facts, then the conditions. Docs, schemas and tests are made from these tuples."""

from __future__ import annotations

from typing import Final

from groupreplay.state.conditions.registry import CONDITIONS
from groupreplay.state.events.event import Fact
from groupreplay.state.events.group_events import (
    GroupConverted,
    GroupCreated,
    GroupDeleted,
    GroupEmptied,
    GroupQuarantined,
    MemberJoined,
    MemberLeft,
    MemberUpdated,
    RebalanceCompleted,
    RebalanceStarted,
    RecordMalformed,
    RecordSkipped,
    StaticReplaced,
)
from groupreplay.state.events.job_events import JobGap
from groupreplay.state.events.offset_events import (
    OffsetRewound,
    OffsetsDeleted,
    OffsetsExpired,
    OffsetsReset,
    OffsetsSummary,
)

#: Every fact, in the order of the docs.
FACTS: Final[tuple[type[Fact], ...]] = (
    GroupCreated,
    GroupEmptied,
    GroupDeleted,
    GroupConverted,
    RebalanceStarted,
    RebalanceCompleted,
    MemberLeft,
    MemberJoined,
    MemberUpdated,
    StaticReplaced,
    OffsetsExpired,
    OffsetsDeleted,
    OffsetsReset,
    OffsetRewound,
    OffsetsSummary,
    JobGap,
    RecordMalformed,
    RecordSkipped,
    GroupQuarantined,
)
#: In the order of the docs.
EVENTS: Final[tuple[type[Fact], ...]] = (*FACTS, *CONDITIONS)
