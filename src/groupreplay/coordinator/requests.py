"""Requests to a group's coordinator, its answers and results, with the field names of Kafka's protocol.

Only fields that influence a decision are modelled. An answer may come later than its request: a JoinGroup is answered
when all members have joined.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from msgspec import Struct

from groupreplay.codecs import PROTOCOL_VERSIONS, Key, Value, written_version
from groupreplay.codecs.kafka_terms import ConsumerPhase, Phase
from groupreplay.coordinator.trace_entries import AnyEntry

#: (topic id, partition)
TopicIdPartition: TypeAlias = tuple[bytes, int]
#: A key and its value; None is a tombstone.
Record: TypeAlias = tuple[Key, Value | None]
#: The values of ``group.consumer.migration.policy``.
MIGRATION_POLICIES: Final = ("disabled", "downgrade", "upgrade", "bidirectional")


class Error(str, Enum):
    """Error names of Kafka (``Errors``)."""

    NONE = "NONE"
    COORDINATOR_LOAD_IN_PROGRESS = "COORDINATOR_LOAD_IN_PROGRESS"
    COORDINATOR_NOT_AVAILABLE = "COORDINATOR_NOT_AVAILABLE"
    FENCED_INSTANCE_ID = "FENCED_INSTANCE_ID"
    FENCED_MEMBER_EPOCH = "FENCED_MEMBER_EPOCH"
    GROUP_ID_NOT_FOUND = "GROUP_ID_NOT_FOUND"
    GROUP_MAX_SIZE_REACHED = "GROUP_MAX_SIZE_REACHED"
    GROUP_SUBSCRIBED_TO_TOPIC = "GROUP_SUBSCRIBED_TO_TOPIC"
    ILLEGAL_GENERATION = "ILLEGAL_GENERATION"
    INCONSISTENT_GROUP_PROTOCOL = "INCONSISTENT_GROUP_PROTOCOL"
    INVALID_COMMIT_OFFSET_SIZE = "INVALID_COMMIT_OFFSET_SIZE"
    INVALID_GROUP_ID = "INVALID_GROUP_ID"
    INVALID_REGULAR_EXPRESSION = "INVALID_REGULAR_EXPRESSION"
    INVALID_REQUEST = "INVALID_REQUEST"
    INVALID_SESSION_TIMEOUT = "INVALID_SESSION_TIMEOUT"
    KAFKA_STORAGE_ERROR = "KAFKA_STORAGE_ERROR"
    MEMBER_ID_REQUIRED = "MEMBER_ID_REQUIRED"
    MESSAGE_TOO_LARGE = "MESSAGE_TOO_LARGE"
    NON_EMPTY_GROUP = "NON_EMPTY_GROUP"
    NOT_COORDINATOR = "NOT_COORDINATOR"
    NOT_ENOUGH_REPLICAS = "NOT_ENOUGH_REPLICAS"
    NOT_LEADER_OR_FOLLOWER = "NOT_LEADER_OR_FOLLOWER"
    OFFSET_METADATA_TOO_LARGE = "OFFSET_METADATA_TOO_LARGE"
    REBALANCE_IN_PROGRESS = "REBALANCE_IN_PROGRESS"
    STALE_MEMBER_EPOCH = "STALE_MEMBER_EPOCH"
    UNKNOWN_MEMBER_ID = "UNKNOWN_MEMBER_ID"
    UNKNOWN_SERVER_ERROR = "UNKNOWN_SERVER_ERROR"
    UNKNOWN_TOPIC_OR_PARTITION = "UNKNOWN_TOPIC_OR_PARTITION"
    UNRELEASED_INSTANCE_ID = "UNRELEASED_INSTANCE_ID"
    UNSUPPORTED_ASSIGNOR = "UNSUPPORTED_ASSIGNOR"
    UNSUPPORTED_VERSION = "UNSUPPORTED_VERSION"


#: With these answers a client stays a member. It finds the coordinator again, if it has to, and repeats the request.
RETRIABLE: Final = (
    Error.NOT_COORDINATOR,
    Error.COORDINATOR_LOAD_IN_PROGRESS,
    Error.COORDINATOR_NOT_AVAILABLE,
)


class PartitionState(str, Enum):
    """What a broker does for the groups of a partition of the offsets topic (``CoordinatorRuntime``)."""

    CLOSED = "closed"
    LOADING = "loading"
    ACTIVE = "active"


class Refused(Exception):  # noqa: N818 -- the coordinator turns it into an answer, so no caller sees it
    """The coordinator refuses a request with an error."""

    def __init__(self, error: Error) -> None:
        super().__init__(error.value)
        self.error = error


class Thrown(Refused):
    """Kafka throws in the middle of an operation: nothing of it is applied."""

    def __init__(self) -> None:
        super().__init__(Error.UNKNOWN_SERVER_ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The broker's settings for groups, with Kafka's defaults.

    ``scala``: the older coordinator, which has classic groups only. It writes no record at the first JoinGroup and no
    tombstone for a group that never had a generation. The ``consumer_*`` settings apply to consumer groups.
    ``consumer_assignors``: the first one is for members that do not choose. ``migration_policy``: one of
    ``MIGRATION_POLICIES``. ``inter_broker_protocol_version``: the older coordinator writes records by it.
    ``since_4_4``: the newer coordinator as of Kafka 4.4 instead of 4.3.
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
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    consumer_regex_refresh_interval_ms: int = 600_000
    migration_policy: str = "bidirectional"
    scala: bool = False
    since_4_4: bool = False
    inter_broker_protocol_version: str = PROTOCOL_VERSIONS[-1]

    def written_version(self, message: type[Value]) -> int:
        """The version in which records of this message are written."""
        return written_version(message, self.inter_broker_protocol_version if self.scala else "4.1")

    @property
    def upgrades(self) -> bool:
        """Whether a classic group with members may become a consumer group."""
        return self.migration_policy in ("upgrade", "bidirectional")

    @property
    def downgrades(self) -> bool:
        """Whether a consumer group with members may become a classic group."""
        return self.migration_policy in ("downgrade", "bidirectional")


class Protocol(Struct, frozen=True):
    """A protocol that a member supports; ``metadata`` is the member's subscription, in bytes."""

    name: str
    metadata: bytes


class JoinGroup(Struct, frozen=True, kw_only=True):
    """A member joins or rejoins; ``member_id`` is "" for a new member.

    ``require_known_member_id`` (JoinGroup v4 and later): a dynamic member first gets an id and joins again with it.
    ``skips_assignment`` (v9 and later): the answer tells a static leader that rejoined not to assign.
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


class SyncGroup(Struct, frozen=True, kw_only=True):
    """A member asks for its assignment; ``assignments`` (member id, bytes) are read from the leader only.

    Old clients do not send the protocol.
    """

    member_id: str
    instance_id: str | None = None
    generation: int
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


class ClassicHeartbeat(Struct, frozen=True, kw_only=True):
    """Kafka's Heartbeat request: a classic member is alive."""

    member_id: str
    instance_id: str | None = None
    generation: int


class LeavingMember(Struct, frozen=True, kw_only=True):
    """Who leaves; with ``member_id`` "" and an instance id an administrator removes a static member."""

    member_id: str = ""
    instance_id: str | None = None


class LeaveGroup(Struct, frozen=True, kw_only=True):
    """Members leave: one by itself, or (v3 and later) several that an administrator removes in one request."""

    members: tuple[LeavingMember, ...]

    @classmethod
    def of(cls, member_id: str = "", instance_id: str | None = None) -> LeaveGroup:
        """The request of a single member."""
        return cls(members=(LeavingMember(member_id=member_id, instance_id=instance_id),))

    @property
    def member_id(self) -> str:
        """The member id, several with commas, as Kafka logs them."""
        return ", ".join(member.member_id for member in self.members)

    @property
    def instance_id(self) -> str | None:
        """The same of instance ids; None without any."""
        return ", ".join(member.instance_id for member in self.members if member.instance_id) or None


class ConsumerGroupHeartbeat(Struct, frozen=True, kw_only=True):
    """A member of the consumer protocol (KIP-848): epoch 0 joins, -1 leaves, -2 leaves for a while.

    A field that is None or -1 has not changed since the last request. ``topic_regex`` subscribes to the topics that
    match it, beside ``topics``; "" ends that.
    """

    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int = -1
    topics: tuple[str, ...] | None = None
    topic_regex: str | None = None
    assignor: str | None = None
    owned: frozenset[TopicIdPartition] | None = None


class Commit(Struct, frozen=True, kw_only=True):
    """An offset to commit for one partition."""

    topic: str
    partition: int
    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetCommit(Struct, frozen=True, kw_only=True):
    """Offsets of a member, or (generation -1) of a client outside the group; ``generation`` may be a member epoch.

    Old clients (v2 to v4) send ``retention_ms``. With a ``producer_id`` the request is a TxnOffsetCommit.
    """

    member_id: str = ""
    instance_id: str | None = None
    generation: int = -1
    commits: tuple[Commit, ...]
    retention_ms: int | None = None
    producer_id: int | None = None


class EndTransaction(Struct, frozen=True, kw_only=True):
    """The transaction coordinator ends a producer's transaction."""

    producer_id: int
    committed: bool


class DeleteGroup(Struct, frozen=True):
    """An administrator deletes the group."""


class OffsetDelete(Struct, frozen=True):
    """An administrator deletes committed offsets; ``partitions`` are (topic, partition)."""

    partitions: tuple[tuple[str, int], ...]


Request: TypeAlias = (
    JoinGroup
    | SyncGroup
    | ClassicHeartbeat
    | LeaveGroup
    | ConsumerGroupHeartbeat
    | OffsetCommit
    | EndTransaction
    | DeleteGroup
    | OffsetDelete
)


class Answer(Struct, frozen=True, kw_only=True):
    """The answer to any request; fields that the request's type does not use keep their defaults.

    ``members`` (member id, instance id, metadata) are only sent to the leader. ``refused`` has the partitions
    that an OffsetCommit or OffsetDelete refuses while it accepts others. ``generation`` is a member epoch for members
    of the consumer protocol; ``assigned`` is such a member's assignment, None where the answer has none. ``left`` has
    the error of each member of a LeaveGroup, and ``error`` is then the first of them (``LeaveGroupResponse.error``).
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
    assigned: frozenset[TopicIdPartition] | None = None
    refused: tuple[tuple[str, int, Error], ...] = ()
    left: tuple[Error, ...] = ()

    @classmethod
    def of_leaving(cls, left: Iterable[Error]) -> Answer:
        """The answer to a LeaveGroup, from the error of each member."""
        errors = tuple(left)
        return cls(
            error=next((error for error in errors if error is not Error.NONE), Error.NONE), left=errors
        )


class AppendFailed(Exception):  # noqa: N818 -- as above
    """Records were not written. ``answer``: what Kafka has answered before it wrote them; None for an error."""

    def __init__(self, error: Error, answer: Answer | None = None) -> None:
        super().__init__(error.value)
        self.error = error
        self.answer = answer


class Reply(Struct, frozen=True):
    """An answer with its request."""

    request: Request
    answer: Answer


class Marker(str, Enum):
    """The control record at the end of a transaction."""

    COMMIT = "COMMIT"
    ABORT = "ABORT"


class Operation(Struct, frozen=True, kw_only=True):
    """Records that the coordinator writes as one batch: adjacent offsets, one timestamp; value None is a tombstone.

    With a ``producer_id`` they belong to an open transaction; with a ``marker`` the operation ends it.
    """

    timestamp_ms: int
    records: tuple[Record, ...] = ()
    producer_id: int | None = None
    marker: Marker | None = None


class StateChange(Struct, frozen=True):
    """A change of the group's state; most of them are never written to the log.

    Between a ``Phase`` and a ``ConsumerPhase`` it is a conversion; ``generation`` is a group epoch after the latter.
    """

    at_ms: int
    before: Phase | ConsumerPhase
    after: Phase | ConsumerPhase
    generation: int

    @property
    def group_type(self) -> str:
        """The type of the group after the change."""
        return "consumer" if isinstance(self.after, ConsumerPhase) else "classic"


class Outcome(Struct, frozen=True):
    """The results of a request or of the passing of time, each in the order of occurrence."""

    replies: tuple[Reply, ...] = ()
    operations: tuple[Operation, ...] = ()
    warnings: tuple[str, ...] = ()
    changes: tuple[StateChange, ...] = ()
    trace: tuple[AnyEntry, ...] = ()
