"""The facts about committed offsets: names, fields and severities."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from groupreplay.state.events.event import (
    Assumed,
    AssumedRelease,
    Fact,
    RequestedBy,
    Severity,
    Suppressed,
)

#: `retention` is the broker's clean-up, `admin` a request to delete offsets; `unknown`: a request or the deletion of
#: the topic, which look alike in the log.
LossReason = Literal["retention", "group_deleted", "topic_deleted", "admin", "unknown"]
RewindKind = Literal["topic_recreated", "small", "other"]
Direction = Literal["forward", "backward", "unchanged", "mixed"]
SetDirection = Literal["forward", "backward", "mixed"]
ExpiryBase = Literal["commit", "emptied", "own"]
Unclear = Annotated[
    bool,
    Meta(
        description="Whether only the coordinator knows if it protects the offsets, because their topic is or was "
        "subscribed to; docs/reading.md explains when."
    ),
]
#: For events about the end of a retention.
ExpiryRule = Annotated[
    str,
    Meta(
        description="The broker's rule for the group in its state, as `describe --offsets --verbose` names it."
    ),
]
RuleBase = Annotated[
    ExpiryBase | None,
    Meta(
        description="From when on the offset with the first deadline is kept: from its `commit`, from the moment the "
        "group became Empty (`emptied`), or until its `own` expiry, for which an old client has asked."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffset:
    """A committed offset."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsExpired(Fact):
    """The broker's clean-up removed offsets at the end of their retention."""

    NAME: ClassVar[str] = "offsets.expired"
    SEVERITY: ClassVar[Severity] = Severity.ERROR
    DOC: ClassVar[str] = (
        "Committed offsets reached the end of their retention and were removed: the group begins again at "
        "the position of `auto.offset.reset`. An error for groups that matter."
    )
    partitions: Annotated[tuple[PartitionOffset, ...], Meta(description="The lost offsets.")]
    partition_count: int
    reason: LossReason
    deadline_ms: Annotated[int, Meta(description="When the broker was first allowed to remove one of them.")]
    late_ms: Annotated[
        int,
        Meta(
            description="Time from the deadline, or from the group's last record if that is later, to the removal."
        ),
    ]
    check_interval_ms: Annotated[
        int, Meta(description="Interval of the broker's clean-up; a removal much later than that is unusual.")
    ]
    rule: ExpiryRule = ""
    base: RuleBase = None
    unclear: Unclear = False
    assumed: Assumed = field(default_factory=dict)
    assumed_release: AssumedRelease = None
    matters: Annotated[
        bool,
        Meta(
            description="Whether the group matters by rules or by its history: only then an alert is raised."
        ),
    ] = True
    suppressed: Suppressed = 0

    def sameness(self) -> tuple[object, ...]:
        """The same partitions, however often they are removed."""
        return _places(self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsDeleted(Fact):
    """Offsets were removed before the end of their retention."""

    NAME: ClassVar[str] = "offsets.deleted"
    DOC: ClassVar[str] = (
        "Committed offsets were removed before the end of their retention: with their group (`group_deleted`), with "
        "their topic (`topic_deleted`), or by a request (`admin`, inferred because offsets of the topic are left). If "
        "all offsets of a topic are removed, the log does not show which of the last two it was: the event waits for "
        "three rounds of the prober, and is `unknown` if none of them finds the topic gone. A warning for groups that "
        "matter."
    )
    partitions: Annotated[tuple[PartitionOffset, ...], Meta(description="The lost offsets.")]
    partition_count: int
    reason: LossReason
    deadline_ms: Annotated[
        int | None, Meta(description="When the first of them would have expired; null for never.")
    ]
    assumed: Assumed = field(default_factory=dict)
    assumed_release: AssumedRelease = None
    suppressed: Suppressed = 0
    requested_by: RequestedBy = ()

    def sameness(self) -> tuple[object, ...]:
        """The same partitions, however often they are removed."""
        return _places(self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOffset:
    """A partition before and after the loss of its offset."""

    topic: str
    partition: int
    lost_offset: int
    new_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsReset(Fact):
    """A group that had lost offsets commits again, and from where it continues."""

    NAME: ClassVar[str] = "offsets.reset"
    DOC: ClassVar[str] = (
        "The first commits after a loss: where the group continues. `forward` may have skipped records, "
        "`backward` repeats some. A warning if the group mattered and its topic was not deleted. Beyond the bounds of "
        "`[offsets.moved]` in the rules, records that are repeated are a warning for every group, and records that are "
        "skipped an error, if the group has had a generation since the loss: a member that was there before goes on "
        "from the offset in its memory."
    )
    partitions: tuple[ResetOffset, ...]
    partition_count: int
    direction: Direction
    reason: Annotated[LossReason, Meta(description="Why the offsets had been lost.")]
    lost_ms: Annotated[int, Meta(description="When the first of them was lost.")]
    suppressed: Suppressed = 0

    def sameness(self) -> tuple[object, ...]:
        """The same partitions, however often they are lost and committed."""
        return (self.reason, *_places(self.partitions))


@dataclass(frozen=True, slots=True, kw_only=True)
class RewoundOffset:
    """A partition whose offset went back."""

    topic: str
    partition: int
    old_offset: int
    new_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRewound(Fact):
    """Offsets were committed below the ones before."""

    NAME: ClassVar[str] = "offset.rewound"
    DOC: ClassVar[str] = (
        "A member committed offsets below the ones before: their topic has another id (`topic_recreated`), they went "
        "back by at most one poll (`small`), or `other`. Without members it is `offsets.set`. With `other` it is a "
        "warning if more than `offsets.moved.most_repeated` records are read again (deploy/rules.toml)."
    )
    kind: RewindKind
    partitions: tuple[RewoundOffset, ...]
    partition_count: int
    suppressed: Suppressed = 0

    def sameness(self) -> tuple[object, ...]:
        """The same partitions, however often they are wound back."""
        return (self.kind, *_places(self.partitions))


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPartition:
    """A partition whose offset was set."""

    topic: str
    partition: int
    from_offset: Annotated[
        int | None, Meta(description="Null: no offset is known before, or compaction has removed it.")
    ]
    to_offset: int
    topic_recreated: Annotated[
        bool, Meta(description="The topic has another id than before: the two offsets cannot be compared.")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsSet(Fact):
    """Offsets were set while the group had no members."""

    NAME: ClassVar[str] = "offsets.set"
    DOC: ClassVar[str] = (
        "Offsets were committed into a group without members: by `kafka-consumer-groups.sh --reset-offsets`, through "
        "the Admin API, or by a consumer with `assign()`. Sets within 10 s of the first one are one event, with the "
        "offsets before and after all of them. A warning if the group had members before and matters, or if more than "
        "`offsets.moved.most_repeated` records are read again; an error if more than `offsets.moved.most_skipped` are "
        "not read (deploy/rules.toml). For a "
        "group that never had members, it is inferred from a commit that its own program does not make: one that "
        "goes back, or one without a leader epoch after commits with one. Sets at a steady pace are reported until the "
        "third one, which has `interval_ms`, and then again when the pace or the direction changes or the group has "
        "had members. The log does not show who set them; docs/reading.md shows how to find out."
    )
    partitions: tuple[SetPartition, ...]
    partition_count: int
    direction: Annotated[
        SetDirection | None, Meta(description="Null: no partition has an offset before that can be compared.")
    ]
    offsets_moved: Annotated[
        int | None,
        Meta(
            description="Sum of the distances in all partitions: at most so many records are skipped or repeated. "
            "Null where `direction` is null."
        ),
    ]
    interval_ms: Annotated[
        int | None,
        Meta(description="The pace of sets that are repeated; further sets at this pace are not reported."),
    ]
    requested_by: RequestedBy = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsSummary(Fact):
    """The number of expiries on one day in groups that do not matter."""

    NAME: ClassVar[str] = "offsets.summary"
    DOC: ClassVar[str] = (
        "Once a day for the whole job: the number of `offsets.expired` of groups that do not matter; no event "
        "on days without any. It is the sum of the counts in the job's heartbeats, so those after the last heartbeat "
        "of a killed job are missing."
    )
    since_ms: Annotated[int, Meta(description="Beginning of the day in UTC.")]
    until_ms: int
    expired: Annotated[
        int, Meta(description="Number of these events; each is for one group and one clean-up.")
    ]


def _places(
    partitions: Iterable[PartitionOffset | ResetOffset | RewoundOffset],
) -> tuple[tuple[str, int], ...]:
    return tuple((partition.topic, partition.partition) for partition in partitions)
