"""The classic group (Kafka's ``ClassicGroup``): members, leader, protocol, state and its legal transitions.

``members`` are in the order in which they joined; where Kafka goes through its hash map, `in_map_order` has its order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from groupreplay.codecs import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    as_written,
    subscribed_topics,
)
from groupreplay.codecs.kafka_terms import (
    CONSUMER_PROTOCOL_TYPE,
    VALID_PREVIOUS_STATES,
    Phase,
    hash_map_order,
)
from groupreplay.coordinator.java_maps import scala_map_order, scala_trie_order
from groupreplay.coordinator.requests import (
    Error,
    JoinGroup,
    OffsetCommit,
    Protocol,
    Record,
    Refused,
    StateChange,
    SyncGroup,
)

#: The newest version that any coordinator writes.
_VERSION: Final = 3
#: In a group that was loaded from a record without this time.
_NO_TIME: Final = -1


@dataclass(slots=True, kw_only=True)
class GroupMember:
    """A member; ``joining`` and ``syncing`` are its unanswered JoinGroup and SyncGroup."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[Protocol, ...]
    assignment: bytes = b""
    is_new: bool = False
    joining: JoinGroup | None = None
    syncing: SyncGroup | None = None

    @property
    def satisfied(self) -> bool:
        """Whether the member keeps its session without heartbeats; a new member that waits does not."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)

    def update(self, request: JoinGroup) -> None:
        """Take over the fields that a member may change when it rejoins."""
        self.protocols = request.protocols
        self.rebalance_timeout_ms = request.rebalance_timeout_ms
        self.session_timeout_ms = request.session_timeout_ms

    def metadata(self, protocol: str | None) -> bytes:
        """The member's metadata for a protocol; empty when it does not support the protocol."""
        for supported in self.protocols:
            if supported.name == protocol:
                return supported.metadata
        return b""


@dataclass(slots=True, kw_only=True)
class ClassicGroup:
    """One group. ``previous_state`` is Empty during the first rebalance of an empty group.

    State changes are appended to ``changes``. ``subscribed_topics`` is None when a member's subscription cannot be
    decoded or the protocol type is not ``consumer``.
    """

    group_id: str
    current_state_timestamp_ms: int
    changes: list[StateChange]
    state: Phase = Phase.EMPTY
    previous_state: Phase | None = None
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    members: dict[str, GroupMember] = field(default_factory=dict)
    #: Of the hash map of members.
    buckets: int = 16
    #: Whether it is a group of the older coordinator, which has Scala's tables.
    scala: bool = False
    #: Of its records.
    version: int = _VERSION
    static_members: dict[str, str] = field(default_factory=dict)
    pending_joins: set[str] = field(default_factory=set)
    #: Member ids, in the order in which the sync timeout removes them.
    pending_syncs: dict[str, None] = field(default_factory=dict)
    new_member_added: bool = False
    subscribed_topics: frozenset[str] | None = None

    def transition_to(self, state: Phase, now_ms: int) -> None:
        """Change the state. Raises ValueError where ``VALID_PREVIOUS_STATES`` does not allow it."""
        if self.state not in VALID_PREVIOUS_STATES[state]:
            raise ValueError(f"group {self.group_id!r} cannot go from {self.state.value} to {state.value}")
        self.changes.append(StateChange(now_ms, self.state, state, self.generation))
        self.previous_state, self.state = self.state, state
        self.current_state_timestamp_ms = now_ms

    @property
    def is_empty(self) -> bool:
        """Whether the state is Empty; there may still be pending members."""
        return self.state is Phase.EMPTY

    @property
    def may_expire(self) -> bool:
        """Whether offsets may expire: not in a rebalance nor with other members than consumers."""
        if self.protocol_type is None or self.is_empty:
            return True
        knows_topics = self.protocol_type == CONSUMER_PROTOCOL_TYPE and self.subscribed_topics is not None
        return knows_topics and self.state is Phase.STABLE

    @property
    def emptied_ms(self) -> int | None:
        """The time from which retention is counted; None for each commit's, also if it was loaded without a time."""
        since_emptied = self.protocol_type is not None and self.is_empty
        if self.current_state_timestamp_ms == _NO_TIME:
            return None
        return self.current_state_timestamp_ms if since_emptied else None

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance may begin now."""
        return self.state in VALID_PREVIOUS_STATES[Phase.PREPARING_REBALANCE]

    @property
    def rebalance_timeout_ms(self) -> int:
        """The largest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def awaiting_join(self) -> int:
        """Number of members with an unanswered JoinGroup."""
        return sum(member.joining is not None for member in self.members.values())

    @property
    def all_members_joined(self) -> bool:
        """Whether all members have joined and none is pending."""
        return self.awaiting_join == len(self.members) and not self.pending_joins

    @property
    def supported_protocols(self) -> Counter[str]:
        """Number of members that support each protocol."""
        return Counter([protocol.name for member in self.members.values() for protocol in member.protocols])

    def supports(self, protocol_type: str, protocols: Iterable[Protocol]) -> bool:
        """Whether a member with these protocols may join (``supportsProtocols``)."""
        names = [protocol.name for protocol in protocols]
        if self.state is Phase.EMPTY:
            return bool(protocol_type and names)
        supported = self.supported_protocols
        return protocol_type == self.protocol_type and any(
            supported[name] == len(self.members) for name in names
        )

    def accepts(self, member_id: str, max_size: int) -> bool:
        """Whether the group has room (``acceptJoiningMember``); a rebalance only counts members that have joined."""
        member = self.members.get(member_id)
        if self.state is Phase.PREPARING_REBALANCE:
            return (member is not None and member.joining is not None) or self.awaiting_join < max_size
        return self.state in (Phase.EMPTY, Phase.DEAD) or member is not None or len(self.members) < max_size

    def validate_member(self, member_id: str, instance_id: str | None) -> GroupMember:
        """The member. Raises ``Refused`` for one that is unknown, or fenced by another member with its instance id."""
        if instance_id is not None:
            holder = self.static_members.get(instance_id)
            if holder is None:
                raise Refused(Error.UNKNOWN_MEMBER_ID)
            if holder != member_id:
                raise Refused(Error.FENCED_INSTANCE_ID)
        if member_id not in self.members:
            raise Refused(Error.UNKNOWN_MEMBER_ID)
        return self.members[member_id]

    def validate_commit(self, request: OffsetCommit) -> None:
        """Raises ``Refused`` for offsets that may not be committed in this state (``validateOffsetCommit``)."""
        transactional = request.producer_id is not None
        if request.generation < 0 and self.state is Phase.EMPTY:
            return
        if request.generation >= 0 or request.member_id or request.instance_id is not None:
            self.validate_member(request.member_id, request.instance_id)
            if request.generation != self.generation:
                raise Refused(Error.ILLEGAL_GENERATION)
        elif not transactional and self.state is not Phase.EMPTY:
            raise Refused(Error.UNKNOWN_MEMBER_ID)
        if not transactional and self.state is Phase.COMPLETING_REBALANCE:
            raise Refused(Error.REBALANCE_IN_PROGRESS)

    def add(self, member: GroupMember, protocol_type: str) -> None:
        """Add a member. The first one becomes the leader and sets the group's protocol type."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self._put(member)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self.pending_joins.discard(member.member_id)

    def _put(self, member: GroupMember) -> None:
        self.members[member.member_id] = member
        # Scala's table grows one key before Java's.
        while len(self.members) + self.scala > self.buckets * 3 // 4:
            self.buckets *= 2

    def in_map_order(self) -> list[GroupMember]:
        """The members in the order of Kafka's hash map, which grows and does not shrink."""
        if self.scala:
            return [self.members[name] for name in scala_map_order(self.members, self.buckets)]
        return [self.members[name] for name in hash_map_order(self.members, self.buckets)]

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending member. After the leader the next member leads."""
        member = self.members.pop(member_id, None)
        if member is not None and member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next((member.member_id for member in self.in_map_order()), None)
        self.pending_joins.discard(member_id)
        self.pending_syncs.pop(member_id, None)

    def replace_static_member(self, old_id: str, new_id: str) -> GroupMember:
        """Give a static member a new member id, and move it to the end of the members."""
        old = self.members.pop(old_id)
        # The older coordinator goes on with the same object.
        is_new = old.is_new and self.scala
        new = replace(old, member_id=new_id, is_new=is_new, joining=None, syncing=None)
        self._put(new)
        assert new.instance_id is not None
        self.static_members[new.instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        return new

    def elect_joined_leader(self) -> bool:
        """Replace a leader that has not joined by a member that has; False when no member has joined."""
        leader = self.members.get(self.leader or "")
        if leader is None:
            return False
        if leader.joining is None:
            joined = (member.member_id for member in self.in_map_order() if member.joining is not None)
            chosen = next(joined, None)
            if chosen is None:
                return False
            self.leader = chosen
        return True

    def selected_protocol(self) -> str:
        """The protocol that the members would choose now (``selectProtocol``).

        Each member votes for the first of its protocols that all members support; among protocols with equal votes the
        first one in the order of Kafka's hash map wins. Raises ValueError without members or without a common protocol.
        """
        candidates = self.candidate_protocols
        if not candidates:
            raise ValueError("no protocol is supported by every member")
        votes = Counter(self.votes().values())
        names = scala_trie_order(votes) if self.scala else hash_map_order(votes)
        return max(names, key=lambda name: votes[name])

    @property
    def candidate_protocols(self) -> tuple[str, ...]:
        """The protocols that all members support (``candidateProtocols``)."""
        supported = self.supported_protocols
        return tuple(name for name, count in supported.items() if count == len(self.members))

    def votes(self) -> dict[str, str]:
        """The protocol for which each member votes."""
        candidates = self.candidate_protocols
        return {
            member.member_id: next(
                protocol.name for protocol in member.protocols if protocol.name in candidates
            )
            for member in self.members.values()
        }

    def next_generation(self, now_ms: int) -> None:
        """Start the next generation at the end of the join phase."""
        self.raise_generation()
        self.transition_to(Phase.COMPLETING_REBALANCE if self.members else Phase.EMPTY, now_ms)
        self.pending_syncs.clear()

    def raise_generation(self) -> None:
        """The first half of ``initNextGeneration``, without a change of the state."""
        self.generation += 1
        self.protocol = self.selected_protocol() if self.members else None
        self.subscribed_topics = self._subscribed_topics()

    def resume(self, protocol: str) -> None:
        """Set the protocol of a generation that the group did not start itself."""
        self.protocol = protocol
        self.subscribed_topics = self._subscribed_topics()

    def _subscribed_topics(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        topics: set[str] = set()
        for metadata in {member.metadata(self.protocol) for member in self.members.values()}:
            found = subscribed_topics(metadata)
            if not isinstance(found, tuple):
                return None
            topics.update(found)
        return frozenset(topics)

    def is_subscribed(self, topic: str) -> bool:
        """Whether offsets of the topic are protected from expiry; with unknown topics those of consumers are."""
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self.subscribed_topics

    def record(self) -> Record:
        """The group's record, with the members' assignments. Raises ValueError for members without a protocol."""
        if self.members and self.protocol is None:
            raise ValueError(f"group {self.group_id!r} has members and no protocol: Kafka does not write it")
        value = GroupMetadataValue(
            version=self.version,
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            current_state_timestamp_ms=self.current_state_timestamp_ms,
            members=tuple(self._member_record(member) for member in self.in_map_order()),
        )
        key = GroupMetadataKey(group=self.group_id)
        return key, value if self.version == _VERSION else as_written(value, self.version)

    def _member_record(self, member: GroupMember) -> MemberMetadata:
        return MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            session_timeout_ms=member.session_timeout_ms,
            subscription=member.metadata(self.protocol),
            assignment=member.assignment,
        )

    def reloaded(self, written: GroupMetadataValue | None) -> ClassicGroup:
        """The group as another broker loads it from its newest record; a rebalance in progress is not written.

        ``written`` is None for a group that only consists of offsets.
        """
        group = ClassicGroup(
            group_id=self.group_id,
            current_state_timestamp_ms=self.current_state_timestamp_ms,
            changes=self.changes,
            scala=self.scala,
            version=self.version,
        )
        if written is None:
            return group
        group.generation, group.protocol, group.leader = written.generation, written.protocol, written.leader
        group.current_state_timestamp_ms = written.current_state_timestamp_ms
        group.protocol_type = written.protocol_type or None
        for member in written.members:
            group.add(_loaded(member, written.protocol or ""), written.protocol_type)
        group.state = Phase.STABLE if group.members else Phase.EMPTY
        group.subscribed_topics = group._subscribed_topics()
        return group


def group_tombstone(group_id: str) -> Record:
    """The record that ends a classic group."""
    return GroupMetadataKey(group=group_id), None


def _loaded(record: MemberMetadata, protocol: str) -> GroupMember:
    """A member as its record has it: only with the chosen protocol, and in the oldest one with a single timeout."""
    rebalance_ms = record.rebalance_timeout_ms
    return GroupMember(
        member_id=record.member_id,
        instance_id=record.group_instance_id,
        client_id=record.client_id,
        client_host=record.client_host,
        rebalance_timeout_ms=record.session_timeout_ms if rebalance_ms == -1 else rebalance_ms,
        session_timeout_ms=record.session_timeout_ms,
        protocols=(Protocol(protocol, record.subscription),),
        assignment=record.assignment,
    )
