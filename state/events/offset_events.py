"""What can be said of committed offsets, as frozen dataclasses like those of ``events``.

Knows names and fields; must not know how a loss is found or told from another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from groupreplay.state.events.event import Fact

#: `retention` is the broker's clean-up; `admin` somebody who deleted offsets, or nobody that the log tells of.
LossReason = Literal["retention", "group_deleted", "topic_deleted", "admin"]
RewindKind = Literal["topic_recreated", "admin_while_empty", "small", "other"]
Direction = Literal["forward", "backward", "unchanged", "mixed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffset:
    """A committed offset."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsExpired(Fact):
    """The broker's clean-up took offsets whose time had come."""

    NAME: ClassVar[str] = "offsets.expired"
    DOC: ClassVar[str] = (
        "Committed offsets reached the end of their retention and were removed: the group begins again where "
        "`auto.offset.reset` says. A warning for groups that matter."
    )
    partitions: Annotated[tuple[PartitionOffset, ...], Meta(description="What was lost, and where it was.")]
    partition_count: int
    reason: LossReason
    deadline_ms: Annotated[int, Meta(description="When the first of them might be removed.")]
    late_ms: Annotated[
        int,
        Meta(description="From there, or from the group's last record if that is later, to the removal."),
    ]
    check_interval_ms: Annotated[
        int, Meta(description="The broker looks for such offsets so often; much later than that is unusual.")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsDeleted(Fact):
    """Offsets were removed before their time."""

    NAME: ClassVar[str] = "offsets.deleted"
    DOC: ClassVar[str] = (
        "Committed offsets were removed though their retention was not over: with their group, with their "
        "topic, or by somebody. A warning for groups that matter."
    )
    partitions: Annotated[tuple[PartitionOffset, ...], Meta(description="What was lost, and where it was.")]
    partition_count: int
    reason: LossReason
    deadline_ms: Annotated[
        int | None, Meta(description="When the first of them would have expired; null for never.")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOffset:
    """A partition before its loss and after."""

    topic: str
    partition: int
    lost_offset: int
    new_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsReset(Fact):
    """A group that had lost offsets commits again."""

    NAME: ClassVar[str] = "offsets.reset"
    DOC: ClassVar[str] = (
        "The first commits after a loss: from where the group goes on. `forward` may have skipped records, "
        "`backward` repeats some. A warning if the group mattered and its topic was not deleted."
    )
    partitions: tuple[ResetOffset, ...]
    partition_count: int
    direction: Direction
    reason: Annotated[LossReason, Meta(description="Why they had been lost.")]
    lost_ms: Annotated[int, Meta(description="When the first of them had been lost.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RewoundOffset:
    """A partition before and after going back."""

    topic: str
    partition: int
    old_offset: int
    new_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRewound(Fact):
    """Commits below the ones before."""

    NAME: ClassVar[str] = "offset.rewound"
    DOC: ClassVar[str] = (
        "Offsets went back: their topic has another id (`topic_recreated`), nobody was in the group "
        "(`admin_while_empty`), it is no more than one poll (`small`), or `other`."
    )
    kind: RewindKind
    partitions: tuple[RewoundOffset, ...]
    partition_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsSummary(Fact):
    """What the clean-up took on one day from groups that nobody misses."""

    NAME: ClassVar[str] = "offsets.summary"
    DOC: ClassVar[str] = (
        "Once a day and for the whole job: how many `offsets.expired` there were of groups that do not matter. "
        "None on days without any. The sum is made from the counts in the job's heartbeats, so what a killed "
        "job had not counted yet is missing."
    )
    since_ms: Annotated[int, Meta(description="Beginning of the day, in UTC.")]
    until_ms: int
    expired: Annotated[int, Meta(description="Events of that day, each of one group and one clean-up.")]
