"""A consumer group of KIP-848 as its coordinator holds it (``ConsumerGroup``): epochs, members, targets.

Knows what a group is, which state follows from it and which changes of state there are; must not know when they
are made (`coordinator_consumer`) nor how they are written (`coordinator_consumer_records`).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from groupreplay.state.kafka_terms import ConsumerPhase, MemberPhase, Phase, hash_map_order
from groupreplay.state.model.assignors import ASSIGNORS, Assignable, AssignedMember, Target
from groupreplay.state.model.requests import Error, OffsetCommit, Place, Protocol, Refused, StateChange

#: State of a consumer group -> the states, of a classic group too, that an operation may find it in before.
#: Kafka has no such table, the state follows from epochs and members: a first member is assigned at once and alone,
#: so it leads to Stable, unless the group was assigned something within the assignment interval.
VALID_PREVIOUS: Final[Mapping[ConsumerPhase | Phase, frozenset[ConsumerPhase | Phase]]] = {
    ConsumerPhase.EMPTY: frozenset(
        {ConsumerPhase.STABLE, ConsumerPhase.ASSIGNING, ConsumerPhase.RECONCILING}
    ),
    ConsumerPhase.ASSIGNING: frozenset(
        {ConsumerPhase.EMPTY, ConsumerPhase.STABLE, ConsumerPhase.RECONCILING}
    ),
    ConsumerPhase.RECONCILING: frozenset(
        {
            ConsumerPhase.STABLE,
            ConsumerPhase.ASSIGNING,
            # Who was in a classic group is at its generation, a new member that converts it one above.
            Phase.STABLE,
            Phase.PREPARING_REBALANCE,
            Phase.COMPLETING_REBALANCE,
        }
    ),
    ConsumerPhase.STABLE: frozenset(
        {
            ConsumerPhase.DEAD,
            ConsumerPhase.EMPTY,
            ConsumerPhase.ASSIGNING,
            ConsumerPhase.RECONCILING,
            Phase.EMPTY,
            # Its only member was a static one, and has come back with the new protocol.
            Phase.STABLE,
            Phase.PREPARING_REBALANCE,
            Phase.COMPLETING_REBALANCE,
        }
    ),
    ConsumerPhase.DEAD: frozenset({ConsumerPhase.EMPTY}),
    # What a consumer group becomes when it is none any more.
    Phase.EMPTY: frozenset({ConsumerPhase.EMPTY}),
    Phase.STABLE: frozenset({ConsumerPhase.STABLE, ConsumerPhase.ASSIGNING, ConsumerPhase.RECONCILING}),
}
#: Epochs with which a member leaves, and is away for a while.
LEFT: Final = -1
AWAY: Final = -2
#: Before anything is written; the first one in the log is 2 (since Kafka 4.3).
_FIRST_EPOCH: Final = 1


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of the cluster."""

    topic_id: bytes
    partitions: int


#: The cluster's topics by name; whoever holds it may change it.
Topics: TypeAlias = Mapping[str, Topic]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicPart:
    """What a member told that uses the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[Protocol, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """A member (``ConsumerGroupMember``); what it has and must give up, and since which epoch it has each."""

    member_id: str
    epoch: int = 0
    previous_epoch: int = -1
    phase: MemberPhase = MemberPhase.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    #: Names in order.
    topics: tuple[str, ...] = ()
    assignor: str | None = None
    assigned: Mapping[Place, int] = field(default_factory=dict)
    revoking: Mapping[Place, int] = field(default_factory=dict)
    classic: ClassicPart | None = None

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether it has what it shall have (``isReconciledTo``)."""
        return self.phase is MemberPhase.STABLE and self.epoch == epoch


@dataclass(slots=True, kw_only=True)
class ConsumerGroup:
    """One group. ``told`` is its state, or that of the classic group it was, at the end of the last operation."""

    group_id: str
    changes: list[StateChange]
    told: ConsumerPhase | Phase = ConsumerPhase.DEAD
    epoch: int = _FIRST_EPOCH
    target_epoch: int = _FIRST_EPOCH
    #: 0: not known, and no reason to wait with the next one.
    target_timestamp_ms: int = 0
    metadata_hash: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    targets: dict[str, Target] = field(default_factory=dict)

    @property
    def state(self) -> ConsumerPhase:
        """As ConsumerGroupDescribe tells it (``maybeUpdateGroupState``)."""
        if not self.members:
            return ConsumerPhase.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerPhase.ASSIGNING
        if all(member.is_reconciled_to(self.target_epoch) for member in self.members.values()):
            return ConsumerPhase.STABLE
        return ConsumerPhase.RECONCILING

    @property
    def is_empty(self) -> bool:
        """Whether nobody is in it."""
        return not self.members

    def become(self, state: ConsumerPhase | Phase, now_ms: int) -> None:
        """An operation is over, or has ended the group.

        Raises ValueError where ``VALID_PREVIOUS`` does not allow the change.
        """
        if state == self.told:
            return
        if self.told not in VALID_PREVIOUS[state]:
            raise ValueError(f"group {self.group_id!r} cannot go from {self.told} to {state}")
        self.changes.append(StateChange(now_ms, self.told, state, self.epoch))
        self.told = state

    # -- members

    def member(self, member_id: str) -> ConsumerMember:
        """A member. Raises ``Refused`` for one that is unknown."""
        if member_id not in self.members:
            raise Refused(Error.UNKNOWN_MEMBER_ID)
        return self.members[member_id]

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """Who has an instance id."""
        if instance_id is None:
            return None
        return next((one for one in self.members.values() if one.instance_id == instance_id), None)

    def validate_member(self, member_id: str, instance_id: str | None) -> ConsumerMember:
        """The member. Raises ``Refused`` for one that is unknown, or fenced by another of its instance id."""
        if instance_id is None:
            return self.member(member_id)
        holder = self.static_member(instance_id)
        if holder is None:
            raise Refused(Error.UNKNOWN_MEMBER_ID)
        if holder.member_id != member_id:
            raise Refused(Error.FENCED_INSTANCE_ID)
        return holder

    def all_classic_but(self, member: ConsumerMember) -> bool:
        """Whether everybody else uses the classic protocol, and somebody else there is."""
        others = [one for one in self.members.values() if one.member_id != member.member_id]
        return bool(others) and all(one.classic is not None for one in others)

    def supports(self, protocol_type: str, protocols: Iterable[Protocol]) -> bool:
        """Whether somebody of the classic protocol may come in (``supportsClassicProtocols``)."""
        classic = [one.classic for one in self.members.values() if one.classic is not None]
        supported = Counter(protocol.name for one in classic for protocol in one.protocols)
        return protocol_type == "consumer" and any(supported[one.name] == len(classic) for one in protocols)

    # -- assignments

    def taken(self) -> set[Place]:
        """Partitions that a member has, or has to give up."""
        return {place for one in self.members.values() for place in (*one.assigned, *one.revoking)}

    def target_of(self, member: ConsumerMember) -> Target:
        """What a member shall have; one that has come back under its instance id inherits."""
        holder = self.static_member(member.instance_id)
        if member.instance_id is not None and holder is None:
            return frozenset()
        return self.targets.get(member.member_id if holder is None else holder.member_id, frozenset())

    def assign(self, members: Mapping[str, ConsumerMember], topics: Topics) -> dict[str, Target]:
        """New targets for these members, by the assignor that most of them prefer."""
        votes = Counter(one.assignor for one in members.values() if one.assignor is not None)
        names = hash_map_order(votes)
        chosen = max(names, key=lambda name: votes[name]) if names else next(iter(ASSIGNORS))
        known = {topic.topic_id: topic.partitions for topic in topics.values()}
        return ASSIGNORS[chosen](
            Assignable(
                members={
                    name: AssignedMember(
                        instance_id=one.instance_id,
                        topics=topic_ids(one, topics),
                        target=self.target_of(one),
                    )
                    for name, one in members.items()
                },
                partitions=known,
                alike=len({one.topics for one in members.values()}) <= 1,
                assigned=frozenset(place for target in self.targets.values() for place in target),
            )
        )

    # -- offsets

    @property
    def may_expire(self) -> bool:
        """Offsets may go in any state."""
        return True

    @property
    def emptied_ms(self) -> int | None:
        """Retention counts from each commit."""
        return None

    def is_subscribed(self, topic: str) -> bool:
        """Whether offsets of the topic must stay."""
        return any(topic in member.topics for member in self.members.values())

    def validate_commit(self, request: OffsetCommit, topics: Topics) -> None:
        """Raises ``Refused`` for offsets that may not be committed now (``validateOffsetCommit``)."""
        if request.generation < 0 and not self.members:
            return
        anonymous = request.generation < 0 and not request.member_id and request.instance_id is None
        if request.producer_id is not None and anonymous:
            return
        member = self.member(request.member_id)
        if request.generation == member.epoch:
            return
        stale = Error.STALE_MEMBER_EPOCH if member.classic is None else Error.ILLEGAL_GENERATION
        if request.generation > member.epoch:
            raise Refused(stale)
        # An older epoch will do for what the member has had since then (KIP-1251).
        held = {**member.revoking, **member.assigned}
        for one in request.commits:
            topic = topics.get(one.topic)
            since = None if topic is None else held.get((topic.topic_id, one.partition))
            if since is None or request.generation < since:
                raise Refused(stale)


def topic_ids(member: ConsumerMember, topics: Topics) -> frozenset[bytes]:
    """The topics of its subscription that there are."""
    return frozenset(topics[name].topic_id for name in member.topics if name in topics)


def metadata_hash(members: Iterable[ConsumerMember], topics: Topics) -> int:
    """A number that changes with the topics that members are subscribed to; 0 where there are none.

    Kafka's is another one (XXH3): of either only its changing says something.
    """
    names = {name for member in members for name in member.topics if name in topics}
    if not names:
        return 0
    digest = hashlib.blake2b(digest_size=8)
    for name in sorted(names):
        digest.update(f"{name} {topics[name].topic_id.hex()} {topics[name].partitions};".encode())
    return int.from_bytes(digest.digest(), "big", signed=True)
