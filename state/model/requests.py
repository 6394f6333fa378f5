"""What is asked of a group's coordinator and what it answers, in the words of Kafka's protocol.

Knows the fields that decide something; must not know a decision. An answer may come later than its request: a
member that joins waits until the others have joined, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from groupreplay.codecs import Key, Value
from groupreplay.state.kafka_terms import ConsumerPhase, Phase

#: A partition of a topic, by the topic's id.
Place: TypeAlias = tuple[bytes, int]


class Error(str, Enum):
    """Refusals, spelled as Kafka spells them (``Errors``)."""

    NONE = "NONE"
    FENCED_INSTANCE_ID = "FENCED_INSTANCE_ID"
    FENCED_MEMBER_EPOCH = "FENCED_MEMBER_EPOCH"
    GROUP_ID_NOT_FOUND = "GROUP_ID_NOT_FOUND"
    GROUP_MAX_SIZE_REACHED = "GROUP_MAX_SIZE_REACHED"
    GROUP_SUBSCRIBED_TO_TOPIC = "GROUP_SUBSCRIBED_TO_TOPIC"
    ILLEGAL_GENERATION = "ILLEGAL_GENERATION"
    INCONSISTENT_GROUP_PROTOCOL = "INCONSISTENT_GROUP_PROTOCOL"
    INVALID_GROUP_ID = "INVALID_GROUP_ID"
    INVALID_REQUEST = "INVALID_REQUEST"
    INVALID_SESSION_TIMEOUT = "INVALID_SESSION_TIMEOUT"
    MEMBER_ID_REQUIRED = "MEMBER_ID_REQUIRED"
    NON_EMPTY_GROUP = "NON_EMPTY_GROUP"
    NOT_COORDINATOR = "NOT_COORDINATOR"
    OFFSET_METADATA_TOO_LARGE = "OFFSET_METADATA_TOO_LARGE"
    REBALANCE_IN_PROGRESS = "REBALANCE_IN_PROGRESS"
    STALE_MEMBER_EPOCH = "STALE_MEMBER_EPOCH"
    UNKNOWN_MEMBER_ID = "UNKNOWN_MEMBER_ID"
    UNKNOWN_SERVER_ERROR = "UNKNOWN_SERVER_ERROR"
    UNRELEASED_INSTANCE_ID = "UNRELEASED_INSTANCE_ID"
    UNSUPPORTED_ASSIGNOR = "UNSUPPORTED_ASSIGNOR"


class Refused(Exception):  # noqa: N818 -- it never leaves the coordinator, which answers with it
    """A request that the coordinator refuses."""

    def __init__(self, error: Error) -> None:
        super().__init__(error.value)
        self.error = error


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The broker's settings that decide about groups, with Kafka's defaults.

    ``scala``: the older coordinator, which writes nothing when a group is first asked for and no tombstone of a
    group that never had a generation; it knows classic groups only. Those named ``consumer_*`` are settings of
    consumer groups; ``migrates``: both ways between the two kinds are open.
    """

    initial_rebalance_delay_ms: int = 3_000
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2**31 - 1
    new_member_join_timeout_ms: int = 300_000
    offset_metadata_max_bytes: int = 4_096
    retention_ms: int = 7 * 24 * 3_600_000
    consumer_session_timeout_ms: int = 45_000
    consumer_assignment_interval_ms: int = 1_000
    consumer_max_size: int = 2**31 - 1
    migrates: bool = True
    scala: bool = False


@dataclass(frozen=True, slots=True)
class Protocol:
    """A protocol that a member supports; ``metadata`` is its subscription, which the coordinator only keeps."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroup:
    """``member_id`` "" for a member that has none yet.

    ``require_known_member_id`` (JoinGroup v4 and later): a dynamic member is first given its id and comes back
    with it. ``skips_assignment`` (v9 and later): a static leader that came back is told not to assign.
    """

    member_id: str = ""
    instance_id: str | None = None
    client_id: str
    client_host: str
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    protocol_type: str = "consumer"
    protocols: tuple[Protocol, ...]
    require_known_member_id: bool = True
    skips_assignment: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroup:
    """``assignments`` (member id, bytes) count from the leader only; old clients leave the protocol out."""

    member_id: str
    instance_id: str | None = None
    generation: int
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A member's sign of life."""

    member_id: str
    instance_id: str | None = None
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroup:
    """One member that goes; ``member_id`` "" with an instance id: an administrator removes a static member."""

    member_id: str = ""
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupHeartbeat:
    """A member of the consumer protocol (KIP-848) joins (epoch 0), is there, leaves (-1), or is away (-2).

    What is None or -1 has not changed since it was last told. ``owned`` are (topic id, partition). ``client_id``
    and ``client_host`` come with every request.
    """

    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int = -1
    topics: tuple[str, ...] | None = None
    assignor: str | None = None
    owned: frozenset[Place] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One offset to commit."""

    topic: str
    partition: int
    offset: int
    metadata: str = ""
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommit:
    """Offsets of a member, or (generation -1) of somebody outside the group; a generation may be a member epoch.

    ``retention_ms`` is what old clients ask for (v2 to v4). With a ``producer_id`` it is a TxnOffsetCommit.
    """

    member_id: str = ""
    instance_id: str | None = None
    generation: int = -1
    commits: tuple[Commit, ...]
    retention_ms: int | None = None
    producer_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction:
    """The marker that a transaction coordinator writes when a producer's transaction ends."""

    producer_id: int
    committed: bool


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """An administrator deletes the group."""


@dataclass(frozen=True, slots=True)
class OffsetDelete:
    """An administrator deletes committed offsets; ``partitions`` are (topic, partition)."""

    partitions: tuple[tuple[str, int], ...]


Request: TypeAlias = (
    JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | ConsumerGroupHeartbeat
    | OffsetCommit
    | EndTransaction
    | DeleteGroup
    | OffsetDelete
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to any request; what does not concern it keeps its default.

    ``members`` (member id, instance id, metadata) are told to the leader only. ``refused`` has the partitions
    of an OffsetCommit or OffsetDelete that were refused although the request was not. ``generation`` is a member
    epoch where members have one, and ``assigned`` what a consumer group's member owns, when it is told.
    """

    error: Error = Error.NONE
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    members: tuple[tuple[str, str | None, bytes], ...] = ()
    skip_assignment: bool = False
    assignment: bytes = b""
    assigned: frozenset[Place] | None = None
    refused: tuple[tuple[str, int, Error], ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer and what it answers."""

    request: Request
    answer: Answer


class Marker(str, Enum):
    """How a transaction ends in the log."""

    COMMIT = "COMMIT"
    ABORT = "ABORT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Records that the coordinator writes at once: adjacent offsets, one timestamp; value None is a tombstone.

    With a ``producer_id`` it belongs to an open transaction, or (``marker``) ends it.
    """

    timestamp_ms: int
    records: tuple[tuple[Key, Value | None], ...] = ()
    producer_id: int | None = None
    marker: Marker | None = None


@dataclass(frozen=True, slots=True)
class StateChange:
    """The truth about the group, most of which is never written: its state from this moment on.

    A change from a ``Phase`` to a ``ConsumerPhase``, or back, is a conversion; ``generation`` is a group epoch then.
    """

    at_ms: int
    before: Phase | ConsumerPhase
    after: Phase | ConsumerPhase
    generation: int

    @property
    def group_type(self) -> str:
        """What kind of group it is then."""
        return "consumer" if isinstance(self.after, ConsumerPhase) else "classic"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a request or the passing of time has brought about, each in the order in which it came."""

    replies: tuple[Reply, ...] = ()
    operations: tuple[Operation, ...] = ()
    warnings: tuple[str, ...] = ()
    changes: tuple[StateChange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOverview:
    """The group as ListGroups tells it."""

    group_id: str
    protocol_type: str
    state: Phase | ConsumerPhase


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSummary:
    """A member as DescribeGroups tells it; without metadata and assignment unless the group is Stable."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes = b""
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """The group as DescribeGroups tells it; one that nobody knows is Dead."""

    state: Phase
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[MemberSummary, ...] = ()
