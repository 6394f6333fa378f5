"""Everything that can hold for a while, as frozen dataclasses: each fires once and resolves once.

Knows names and fields, as ``events`` does for facts; must not know how a condition is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal

from msgspec import Meta

from groupreplay.state.events.event import Fact, Partitions, Severity

Status = Literal["firing", "resolved"]
#: What a rebalance waits for: members that do not rejoin, the leader's assignment, partitions that are not
#: given up, a target assignment that is not made.
StuckReason = Literal["not_joined", "not_synced", "not_revoked", "not_assigned"]
SuspectReason = Literal["no_commit_since_start", "leader_has_not_synced", "static_member_absent"]
BlindReason = Literal[
    "hanging_transaction", "no_rights", "brokers_silent", "partition_count_changed", "dead_letters"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition(Fact):
    """What all conditions tell; its severity is that of the event, which may rise while it lasts."""

    SEVERITY: ClassVar[Severity] = Severity.WARN

    status: Annotated[Status, Meta(description="Sent again as `firing` when it gets worse.")]
    condition_id: Annotated[str, Meta(description="The same from the first event to `resolved`.")]
    since_ms: Annotated[int, Meta(description="Since when it is so, not since when it was noticed.")]
    threshold_ms: Annotated[int | None, Meta(description="How long it had to last before it was said.")]
    runbook: Annotated[str, Meta(description="What it means, what to do first, how to confirm.")]

    @property
    def severity(self) -> Severity:
        """The usual one; an event may carry another."""
        return self.SEVERITY


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """A member that others provably wait for."""

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None
    revoking: Annotated[Partitions, Meta(description="What it has not given up yet, by topic.")]
    since_ms: Annotated[int | None, Meta(description="When it was told to give it up.")]
    fenced_at_ms: Annotated[
        int | None, Meta(description="When the broker will throw it out; null when the log does not tell.")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A member that may be the one the others wait for."""

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None
    reason: SuspectReason
    last_commit_ms: Annotated[int | None, Meta(description="Newest commit of its partitions.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberCondition(Condition):
    """About one slot; the member id is that of its present or last holder."""

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceSlow(Condition):
    """A rebalance takes longer than a healthy one does."""

    NAME: ClassVar[str] = "rebalance.slow"
    DOC: ClassVar[str] = "A rebalance is in progress for longer than a session timeout and a half minute."
    rebalance_id: str | None
    state: Annotated[str, Meta(description="The group's state when it was said.")]
    elapsed_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceStuck(Condition):
    """A rebalance does not come to its end."""

    NAME: ClassVar[str] = "rebalance.stuck"
    DOC: ClassVar[str] = (
        "A rebalance is in progress for most of the rebalance timeout: the group consumes little or nothing. "
        "`wedged` says that it lasts longer than the protocol allows."
    )
    SEVERITY: ClassVar[Severity] = Severity.ERROR
    rebalance_id: str | None
    state: str
    reason: StuckReason
    blockers: Annotated[
        tuple[Blocker, ...] | None,
        Meta(description="Members that block, proven by the log; null for classic."),
    ]
    suspects: Annotated[
        tuple[Suspect, ...] | None,
        Meta(description="Classic groups only: who may block, likeliest first; an inference."),
    ]
    suspects_note: Annotated[str | None, Meta(description="Why there are no suspects.")]
    wedged: bool
    elapsed_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceSuspected(Condition):
    """Commits have stopped, and nobody asks the broker why."""

    NAME: ClassVar[str] = "rebalance.suspected"
    DOC: ClassVar[str] = "Without the prober: a group with members that used to commit has gone silent."
    SEVERITY: ClassVar[Severity] = Severity.INFO
    silent_ms: int
    usual_gap_ms: Annotated[int, Meta(description="95 % of the group's gaps between commits are shorter.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceTimeouts(MemberCondition):
    """One slot is thrown out again and again for not rejoining in time."""

    NAME: ClassVar[str] = "rebalance.timeouts"
    DOC: ClassVar[str] = "One slot was dropped at about its rebalance timeout several times in an hour."
    SEVERITY: ClassVar[Severity] = Severity.ERROR
    dropped_ms: Annotated[tuple[int, ...], Meta(description="When it was dropped.")]
    rebalance_timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceStorm(Condition):
    """The group rebalances more often than its changes explain."""

    NAME: ClassVar[str] = "rebalance.storm"
    DOC: ClassVar[str] = "More generations in ten minutes than the slots that changed can explain."
    generations: int
    slots_changed: int
    window_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberFlapping(MemberCondition):
    """One slot comes back under a new member id again and again."""

    NAME: ClassVar[str] = "member.flapping"
    DOC: ClassVar[str] = "One slot returned under a new member id several times in a quarter of an hour."
    returned_ms: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberIdle(MemberCondition):
    """A member has nothing to do."""

    NAME: ClassVar[str] = "member.idle"
    DOC: ClassVar[str] = "A member got no partition in several completed rounds and a quarter of an hour."
    SEVERITY: ClassVar[Severity] = Severity.INFO
    rounds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticConflict(Condition):
    """Two processes use one instance id."""

    NAME: ClassVar[str] = "static.conflict"
    DOC: ClassVar[str] = "An instance id went from one place to another and back: two processes have it."
    SEVERITY: ClassVar[Severity] = Severity.ERROR
    instance_id: str
    places: Annotated[tuple[str, ...], Meta(description="`client id@host` of the processes, in order.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticCrashLoop(Condition):
    """A static member starts again and again."""

    NAME: ClassVar[str] = "static.crash_loop"
    DOC: ClassVar[str] = (
        "An instance id was taken over several times in ten minutes, always at one place. Of a classic group the "
        "broker keeps the place of the first process, so two processes that throw each other out look the same."
    )
    instance_id: str
    place: str
    restarted_ms: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerSilent(MemberCondition):
    """A member commits nothing while the others do."""

    NAME: ClassVar[str] = "owner.silent"
    DOC: ClassVar[str] = "A member's partitions see no commit while those of others do."
    SEVERITY: ClassVar[Severity] = Severity.INFO
    silent_ms: int
    usual_gap_ms: int
    partitions: Partitions | None
    lag: Annotated[int | None, Meta(description="Records it has not committed; null when nobody asked.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPoison(Condition):
    """One partition does not move while the others do."""

    NAME: ClassVar[str] = "partition.poison"
    DOC: ClassVar[str] = "One partition's offset stays over several generations while others advance."
    SEVERITY: ClassVar[Severity] = Severity.INFO
    topic: str
    partition: int
    offset: int
    generations: int
    unchanged_ms: int
    lag: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsExpiring(Condition):
    """Committed offsets will be removed soon."""

    NAME: ClassVar[str] = "offsets.expiring"
    DOC: ClassVar[str] = (
        "Committed offsets reach the end of their retention soon: the group would lose its place."
    )
    partitions: Annotated[Partitions, Meta(description="Partitions concerned, by topic.")]
    partition_count: int
    deadline_ms: Annotated[int, Meta(description="When the first of them may be removed.")]
    remaining_ms: int
    matters: Annotated[bool, Meta(description="Whether the group matters by rules or by its history.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBlind(Condition):
    """The job cannot see something that it should."""

    NAME: ClassVar[str] = "job.blind"
    DOC: ClassVar[str] = "A part of the cluster is hidden from the job; what it says of those groups is old."
    SEVERITY: ClassVar[Severity] = Severity.ERROR
    what: BlindReason
    partitions: tuple[int, ...]
    brokers: tuple[int, ...]
    fix: Annotated[str | None, Meta(description="The command that helps, where there is one.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBehind(Condition):
    """The job does not keep up."""

    NAME: ClassVar[str] = "job.behind"
    DOC: ClassVar[str] = "The job is behind the end of the offsets topic for minutes."
    SEVERITY: ClassVar[Severity] = Severity.ERROR
    caught_up_ms: int | None
    lag_ms: int | None


#: Every condition, in the order of the docs.
CONDITIONS: Final[Sequence[type[Condition]]] = (
    RebalanceSlow,
    RebalanceStuck,
    RebalanceSuspected,
    RebalanceTimeouts,
    RebalanceStorm,
    MemberFlapping,
    MemberIdle,
    StaticConflict,
    StaticCrashLoop,
    OwnerSilent,
    PartitionPoison,
    OffsetsExpiring,
    JobBlind,
    JobBehind,
)
