"""What every event has: severity, evidence, history, the fact and its circumstances; and the fact that no group has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Annotated, ClassVar, Final, Literal, TypeAlias

from msgspec import Meta

from groupreplay.codecs.kafka_terms import GroupType

#: The begin of every event's type.
TYPE_PREFIX: Final = "groupreplay."


class Severity(IntEnum):
    """Severity numbers of OpenTelemetry's log data model."""

    INFO = 9
    WARN = 13
    ERROR = 17


class Evidence(str, Enum):
    """The evidence for an event: a record, an answer of the broker, a line of its own log, or an inference."""

    LOG = "log"
    PROBE = "probe"
    INFERRED = "inferred"
    BROKER_LOG = "broker_log"


class History(str, Enum):
    """Whether the group's history is known without gaps."""

    FULL = "full"
    PARTIAL = "partial"


Partitions = Annotated[
    Mapping[str, str], Meta(description='Partitions by topic, as ranges: {"orders": "0-3,7"}.')
]


SinceEarliest = Annotated[
    int | None,
    Meta(description="When it began, at the earliest: `since_ms` where that is exact; null: not known."),
]


Trigger = Annotated[
    Literal[
        "first_join",
        "member_joined",
        "member_left",
        "members_changed",
        "cooperative_followup",
        "static_member_replaced",
        "subscription_changed",
        "metadata_changed",
        "leader_rejoined",
        "unknown",
    ],
    Meta(
        description="What began it. `members_changed`: members came and went, or one was started again, and neither "
        "the log nor an answer shows what was first. `cooperative_followup`: the generation before had left partitions "
        "without an owner, as cooperative assignors do. `leader_rejoined`: only that explains a generation with the "
        "same members, subscriptions and partitions."
    ),
]


#: For events that need a number which neither the log nor a broker has given.
Assumed = Annotated[
    Mapping[str, int],
    Meta(
        description="Numbers that the event rests on and that neither a record nor a broker has given, by name "
        "(`retention_ms`): Kafka's defaults; of sessions the brokers', while nobody has asked whether the group has "
        "its own. Empty: nothing was assumed.",
        # Releases of msgspec differ in whether they state what a factory makes.
        extra_json_schema={"default": {}},
    ),
]

#: The same for the release of the brokers, which is no number.
AssumedRelease = Annotated[
    str | None,
    Meta(
        description="The releases of Kafka whose rule was applied (`3.2 or later`), because neither a broker nor the "
        "capture nor a flag has given the release, and others have another rule. Null: nothing was assumed."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Requester:
    """Who sent a request, as the authorizer of a broker logged it."""

    principal: Annotated[str, Meta(description="Such as `User:alice`.")]
    client_host: str


RequestedBy = Annotated[
    tuple[Requester, ...],
    Meta(
        description="Who sent such requests about the group, as the authorizer logged it. Several: the log does not "
        "show whose request it was. Empty without that log (`--broker-log`)."
    ),
]


LeaveReason = Literal["left", "poll_timeout", "session_timeout", "rebalance_timeout", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveCandidate:
    """One reason for which a member may have left, with its sum."""

    reason: LeaveReason
    timeout_ms: Annotated[
        int | None,
        Meta(description="The timeout that ended its membership; null for `left`, which needs none."),
    ]
    since_ms: Annotated[
        int | None,
        Meta(description="When that timeout began, at the earliest; null: no record and no answer shows it."),
    ]
    earliest_ms: Annotated[
        int | None, Meta(description="When it could end at the earliest: the sum of both; null: not known.")
    ]
    likely: Annotated[
        bool, Meta(description="Whether it usually comes true when this member left; others only can.")
    ]
    words: Annotated[str, Meta(description="The sum as a sentence.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberIdentity:
    """What identifies a member in an event."""

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneMember(MemberIdentity):
    """A member that left, and why."""

    reason: LeaveReason


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberForm(MemberIdentity):
    """A member and what it has asked for; null where the log does not have it, or it cannot be read."""

    session_timeout_ms: Annotated[
        int | None, Meta(description="Null for the newer protocols, where it is a setting of the broker.")
    ]
    rebalance_timeout_ms: int | None
    topics: Annotated[tuple[str, ...] | None, Meta(description="Its subscription.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPicture(MemberForm):
    """A member as an event shows it."""

    partitions: Partitions | None


#: How many facts of this kind were not emitted since the last one, because they repeated others (``Fact.sameness``).
Suppressed = Annotated[
    int,
    Meta(
        description="Number of events of this type that were not emitted since the last one, because the group "
        "repeated the same within a minute."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """What happened, without its circumstances (which are in ``Event``). ``SEVERITY`` is the usual one."""

    NAME: ClassVar[str]
    DOC: ClassVar[str]
    SEVERITY: ClassVar[Severity] = Severity.INFO
    ABOUT_MEMBER: ClassVar[bool] = False

    @property
    def severity(self) -> Severity:
        """The usual severity, unless a fact overrides it; an event may carry another one."""
        return self.SEVERITY

    def sameness(self) -> tuple[object, ...] | None:
        """What makes two facts of this kind the same, if clients can repeat it without end; None: they cannot.

        The same fact is emitted at most once a minute for a group; a fact with this method has a field ``suppressed``.
        """
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The record that proves an event."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A fact with its circumstances; ``envelope`` makes a CloudEvent of it.

    ``ordinal`` counts the events of one cause, also those that are switched off, so that ids do not depend
    on settings. ``group_id`` is None for records whose key cannot be read and for the job itself. ``cause`` is None
    when only time has passed. ``place`` is the group's last record (partition, offset) before the event, where the
    cause is not a record of the log. ``severity`` None is that of the fact; ``labels`` are those of the policy.
    ``setbacks`` counts how often the clock of the group's log went back before: the same moment comes again then.
    """

    fact: Fact
    group_id: str | None = None
    group_type: GroupType = GroupType.CLASSIC
    simple: bool = False
    time_ms: int
    evidence: Evidence = Evidence.LOG
    history: History = History.PARTIAL
    cause: Cause | None = None
    ordinal: int = 0
    severity: Severity | None = None
    place: tuple[int, int] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    setbacks: int = 0


def name_of(kind: str) -> str:
    """``rebalance.completed`` for the type ``groupreplay.rebalance.completed.v1``."""
    name = kind.removeprefix(TYPE_PREFIX)
    head, dot, version = name.rpartition(".")
    return head if dot and version[:1] == "v" and version[1:].isdigit() else name


#: ``removed``: retention, or somebody who deletes records, was faster than the job. ``truncated``: brokers have
#: lost the end of the log, by an election of a replica that did not have it; the log may have grown again since.
GapReason: TypeAlias = Literal["topic_recreated", "partitions_added", "removed", "truncated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadRange:
    """A partition of the offsets topic: how far it had been read, and what it holds now."""

    partition: int
    read_to: Annotated[int, Meta(description="The offset that would have been read next.")]
    log_start: Annotated[int, Meta(description="The first offset the partition holds now.")]
    log_end: Annotated[int, Meta(description="The offset that it writes next.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobGap(Fact):
    """The offsets topic is no longer the one that the job had read: the state is built anew."""

    NAME: ClassVar[str] = "job.gap"
    #: Nobody can say what was missed.
    SEVERITY: ClassVar[Severity] = Severity.ERROR
    DOC: ClassVar[str] = (
        "A part of the offsets topic is gone: removed before the job had read it, or lost by the brokers "
        "afterwards; or the topic was created again, or has more partitions. The state of every group is built "
        "anew from what the log holds. What happened in the gap is never reported, and a group that ended in it "
        "loses its document without an event."
    )
    reason: GapReason
    partitions: tuple[UnreadRange, ...]


def gap_event(gap: JobGap, at_ms: int) -> Event:
    """The gap as the job's own event; ``at_ms`` is when the state was begun anew, and names the event."""
    return Event(fact=gap, time_ms=at_ms)
