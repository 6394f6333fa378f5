"""The facts about groups: names, fields and severities, from which docs/events.md and the JSON Schemas are generated.

Times are integer milliseconds since 1970; a field is null where the log does not show it, never a guess.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, TypeAlias

from msgspec import Meta

from groupreplay.codecs.kafka_terms import GroupType
from groupreplay.state.events.event import (
    Assumed,
    Fact,
    GoneMember,
    LeaveCandidate,
    LeaveReason,
    MemberForm,
    MemberIdentity,
    MemberPicture,
    RequestedBy,
    Severity,
    SinceEarliest,
    Suppressed,
    Trigger,
)

#: Whose state: that of a group, of the conditions of the job, of the counts of bad records.
QuarantinedState: TypeAlias = Literal["group", "job", "bad_records"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCreated(Fact):
    """A group appeared."""

    NAME: ClassVar[str] = "group.created"
    DOC: ClassVar[str] = (
        "The group's first record: generation 0 or 1, or the first commit of a group without members."
    )
    generation: Annotated[int | None, Meta(description="Generation; null for a simple group.")]
    since_ms: Annotated[int, Meta(description="When the group appeared.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEmptied(Fact):
    """The last member left."""

    NAME: ClassVar[str] = "group.emptied"
    DOC: ClassVar[str] = "A record without members after one with members: the group is Empty."
    generation: int
    since_ms: Annotated[int, Meta(description="When the group became Empty, by the coordinator's clock.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDeleted(Fact):
    """The group was deleted."""

    NAME: ClassVar[str] = "group.deleted"
    DOC: ClassVar[str] = (
        "The group's tombstone, with no record of another kind of group in its operation. For a simple group it is "
        "also inferred: its last offset was removed, and after two clean-ups of the broker "
        "(`offsets.retention.check.interval.ms`) there is no tombstone. The older coordinator, the default before "
        "Kafka 4.0, writes none."
    )
    generation: int | None
    since_ms: Annotated[int, Meta(description="When the group was deleted.")]
    assumed: Assumed = field(default_factory=dict)
    requested_by: RequestedBy = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConverted(Fact):
    """The group continues with another protocol."""

    NAME: ClassVar[str] = "group.converted"
    DOC: ClassVar[str] = (
        "One operation ended the group as one kind and began it as another; its offsets stay, "
        "and its members, unless it was empty."
    )
    from_type: GroupType
    to_type: GroupType
    generation: Annotated[int | None, Meta(description="Generation or group epoch after the conversion.")]
    since_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceStarted(Fact):
    """A KIP-848, share or streams group got a new epoch and has to reconcile its members."""

    NAME: ClassVar[str] = "rebalance.started"
    DOC: ClassVar[str] = (
        "The group epoch rose: members must be reconciled. Of a classic group the log shows a rebalance only when it "
        "is over, so the event needs the prober, which does not see a rebalance that ends before it asks."
    )
    rebalance_id: Annotated[
        str, Meta(description="Position of the record that began it, or of the last record before.")
    ]
    generation: Annotated[int | None, Meta(description="The new group epoch; null for classic groups.")]
    trigger: Trigger
    since_ms: Annotated[
        int, Meta(description="When it began, at the latest: the time of the record or of the answer.")
    ]
    since_ms_earliest: SinceEarliest


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceCompleted(Fact):
    """A new generation has its assignment: members, who joined and left, trigger, durations."""

    NAME: ClassVar[str] = "rebalance.completed"
    DOC: ClassVar[str] = (
        "The rebalance is over: the leader's assignment of a new generation was written, or every member "
        "of a group of a newer kind has its target assignment."
    )
    rebalance_id: Annotated[
        str,
        Meta(
            description="Id of the rebalance: position of the record that began it, or of the last record before."
        ),
    ]
    generation: int
    previous_generation: int | None
    skipped_generations: Annotated[
        int | None, Meta(description="Join phases that completed without an assignment being written.")
    ]
    protocol_type: str | None
    protocol: str | None
    previous_protocol: Annotated[
        str | None, Meta(description="That of the generation before; null for the newer kinds.")
    ]
    leader: str | None
    previous_leader: Annotated[str | None, Meta(description="Member id; null for the newer kinds.")]
    rebalance_timeout_ms: Annotated[
        int | None,
        Meta(
            description="How long the coordinator waits for members to rejoin: the largest of the members'. Null for "
            "the newer kinds, where each member has its own."
        ),
    ]
    rebalance_timeout_member: Annotated[str | None, Meta(description="Id of the member that asked for it.")]
    members: tuple[MemberPicture, ...]
    member_count: int
    joined: Annotated[tuple[str, ...] | None, Meta(description="Member ids in new slots.")]
    left: Annotated[
        tuple[str, ...] | None, Meta(description="Former member ids of slots that do not exist any more.")
    ]
    kept: Annotated[tuple[str, ...] | None, Meta(description="Member ids in slots that were there before.")]
    gone: Annotated[
        tuple[GoneMember, ...],
        Meta(description="The first 20 of those in `left`, and why; each has an event `member.left`, too."),
    ]
    trigger: Trigger
    sync_ms: Annotated[
        int | None, Meta(description="From the end of the join phase to the leader's assignment.")
    ]
    join_ms_min: Annotated[
        int | None,
        Meta(
            description="Length of the join phase, at least. Only the prober's answers or a broker's log show it: null "
            "where they do not show this join phase, or cannot distinguish it from another one."
        ),
    ]
    join_ms_max: Annotated[
        int | None,
        Meta(
            description="Length of the join phase, at most: by the round before the first answer that shows it."
        ),
    ]
    duration_ms: Annotated[
        int | None, Meta(description="Exact length; null for classic groups without a broker's log.")
    ]
    duration_upper_bound_ms: Annotated[
        int | None, Meta(description="From the group's previous record to the end of the join phase.")
    ]
    silent_ms: Annotated[
        int | None,
        Meta(
            description="How much of that was without a commit: from the group's last commit to the end of the join "
            "phase. Null without a bound or a commit."
        ),
    ]
    partitions_moved: Annotated[
        int | None, Meta(description="Partitions whose owner differs from their last known owner.")
    ]
    partitions_unassigned: Annotated[
        int | None, Meta(description="Partitions of subscribed topics with a former owner and none now.")
    ]
    assumed: Assumed = field(default_factory=dict)
    logged: Annotated[
        tuple[str, ...],
        Meta(
            description="Why each of its join phases began, or its epochs rose, in the words of the coordinator's own "
            "log; the first began the rebalance. Empty without that log (`--broker-log`)."
        ),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberFact(Fact, MemberIdentity):
    """A fact about a member, as it was last known."""

    ABOUT_MEMBER: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberLeft(MemberFact):
    """A member left the group, or was removed; the likely reason."""

    NAME: ClassVar[str] = "member.left"
    DOC: ClassVar[str] = (
        "A slot of the former generation does not exist any more. The reason is what the recorded times leave: "
        "`candidates` has the sums, and `evidence` says whether it is proven (`log`) or inferred."
    )
    reason: Annotated[
        LeaveReason,
        Meta(
            description="`left`: LeaveGroup, from the member on purpose or from an administrator. `poll_timeout`: its "
            "client gave up, because the application did not poll for `max.poll.interval.ms`. `session_timeout`: the "
            "coordinator got no heartbeat for so long. `rebalance_timeout`: it did not rejoin, or did not revoke its "
            "partitions, in time."
        ),
    ]
    elapsed_ms: Annotated[
        int | None,
        Meta(
            description="Time since the member's last sign of life: the group's record before, or a later commit of "
            "one of its partitions. Up to the end of the join phase, or for the newer kinds to the record that "
            "removes it."
        ),
    ]
    candidates: Annotated[
        tuple[LeaveCandidate, ...],
        Meta(
            description="Every reason that the recorded times do not exclude, likeliest first, each with its sum. The "
            "stated reason is the first one; if it is the only one, it is proven."
        ),
    ] = field(default_factory=tuple)
    assumed: Assumed = field(default_factory=dict)
    unplanned: Annotated[
        bool,
        Meta(
            description="The broker removed it, or its client gave up, and it looks like no deployment: no other "
            "member stopped about when it fell silent, and the group has fewer members than before. Of a static member "
            "of a newer kind of group a record shows whether it was closed, which is no such departure; of one of a "
            "classic group none does."
        ),
    ] = False

    @property
    def severity(self) -> Severity:
        """WARN if nobody planned it."""
        return Severity.WARN if self.unplanned else Severity.INFO


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberJoined(MemberFact):
    """A member joined in a new slot."""

    NAME: ClassVar[str] = "member.joined"
    DOC: ClassVar[str] = "A slot of the new generation was not in the former one."


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberUpdated(MemberFact):
    """A member changed: host, client id, timeouts or subscription."""

    NAME: ClassVar[str] = "member.updated"
    DOC: ClassVar[str] = "Same slot, other member id, client id, host, timeouts or subscription."
    changed: Annotated[tuple[str, ...], Meta(description="Names of the fields that differ.")]
    old: Annotated[MemberForm, Meta(description="The member before.")]
    new: Annotated[MemberForm, Meta(description="The member now.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticReplaced(Fact):
    """The process of a static member was started again, usually without a rebalance."""

    NAME: ClassVar[str] = "static.replaced"
    DOC: ClassVar[str] = "A static instance id has a new member id: its process was restarted."
    instance_id: str
    old_member_id: str
    new_member_id: str
    old_host: str
    new_host: str
    rebalanced: Annotated[bool, Meta(description="It came back in a rebalance.")] = False
    suppressed: Suppressed = 0

    def sameness(self) -> tuple[object, ...]:
        """The same instance id: two processes with one id replace each other without end."""
        return (self.instance_id,)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFact(Fact):
    """A record of the offsets topic that could not be used, or not as it is."""

    #: It may hide a change.
    SEVERITY: ClassVar[Severity] = Severity.WARN
    topic: str
    partition: int
    offset: int
    key_type: int | None
    version: int | None
    field: str | None
    byte_position: int | None
    reason: str
    suppressed: Annotated[
        int, Meta(description="Number of further records of this kind, without an event of their own.")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordMalformed(RecordFact):
    """Bytes that do not follow their schema, or a time that cannot be."""

    NAME: ClassVar[str] = "record.malformed"
    DOC: ClassVar[str] = (
        "Bytes that do not follow their schema: the record is in the dead letters. Or a value that cannot be: it was "
        "left out (an assigned partition below zero), or replaced (a time that is more than a day after the record had "
        "been read, after the year 2100, or below zero; `reason` begins with `timestamp`), and the rest of the record "
        "was applied."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSkipped(RecordFact):
    """A type or version that this release cannot read."""

    NAME: ClassVar[str] = "record.skipped"
    DOC: ClassVar[str] = "A record type or version that this release cannot read; it is counted and ignored."


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupQuarantined(Fact):
    """The job cannot process a group's records because of a defect, and has set the group aside."""

    NAME: ClassVar[str] = "group.quarantined"
    #: Nothing is reported about the group any more.
    SEVERITY: ClassVar[Severity] = Severity.ERROR
    DOC: ClassVar[str] = (
        "Processing the group's records raised an exception, which is a defect of groupreplay. The group is set "
        "aside: its records of this batch are in the dead letters, and later ones are counted only. All other "
        "groups are processed as before. The job tries the group again, from an empty state, after a start with "
        "another release or with `--retry-quarantined`. For the job's own state, and for the counts of bad "
        "records, `group_id` is null."
    )
    what: Annotated[QuarantinedState, Meta(description="Whose state was set aside.")]
    error: Annotated[str, Meta(description="The class of the exception; never text of a record.")]
    raised_in: Annotated[str, Meta(description="Module, line and function that raised it.")]
    partition: Annotated[
        int | None, Meta(description="Partition of the record being applied; null: unknown.")
    ]
    offset: Annotated[int | None, Meta(description="Offset of that record.")]
    records: Annotated[int, Meta(description="Records of this batch that went to the dead letters.")]
    release: Annotated[str, Meta(description="The release of groupreplay that failed.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStateDamaged(Fact):
    """The stored state of a group cannot be read by any release, and begins anew."""

    NAME: ClassVar[str] = "group.state_damaged"
    #: A disk that has damaged one state may damage more.
    SEVERITY: ClassVar[Severity] = Severity.ERROR
    DOC: ClassVar[str] = (
        "The bytes of the group's state in the checkpoint are damaged. The group's next records begin a new state, "
        "and its history is partial. Within seconds the job gives the group what the log still holds of its members "
        "and offsets, if that fits into a message and names are not redacted. Conditions that were active are "
        "perhaps not resolved by an event. All other groups are processed as before. For the job's own state, "
        "and for the counts of bad records, `group_id` is null."
    )
    what: Annotated[QuarantinedState, Meta(description="Whose state was damaged.")]
    damage: Annotated[str, Meta(description="What is wrong with its bytes.")]
