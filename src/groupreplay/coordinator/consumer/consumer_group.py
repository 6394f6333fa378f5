"""The consumer group of KIP-848 (Kafka's ``ConsumerGroup``): epochs, members, target assignments, state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, MutableMapping
from copy import copy
from dataclasses import dataclass, field, fields, replace
from typing import Final, TypeAlias

from groupreplay.codecs.kafka_terms import ConsumerPhase, MemberPhase, Phase
from groupreplay.coordinator.consumer.assignors import ASSIGNORS, AssignedMember, AssignorInput, Target
from groupreplay.coordinator.consumer.subscriptions import ResolvedRegex, group_hash, topic_hash
from groupreplay.coordinator.java_maps import TimelineMap
from groupreplay.coordinator.requests import (
    Error,
    OffsetCommit,
    Protocol,
    Refused,
    StateChange,
    TopicIdPartition,
)

#: States of a classic group with members.
_WITH_MEMBERS: Final = (Phase.STABLE, Phase.PREPARING_REBALANCE, Phase.COMPLETING_REBALANCE)
#: State -> the states before it at the end of an operation; they include the states of the classic group that a
#: consumer group replaces. Kafka has no such table: the state follows from epochs and members. A first member gets its
#: target assignment at once, which makes the group Stable, unless the assignment interval delays the assignment.
VALID_PREVIOUS: Final[Mapping[ConsumerPhase | Phase, Collection[ConsumerPhase | Phase]]] = {
    ConsumerPhase.EMPTY: {ConsumerPhase.STABLE, ConsumerPhase.ASSIGNING, ConsumerPhase.RECONCILING},
    ConsumerPhase.ASSIGNING: {ConsumerPhase.EMPTY, ConsumerPhase.STABLE, ConsumerPhase.RECONCILING},
    # Members of the classic group are at its generation; the member that upgrades it is one epoch above.
    ConsumerPhase.RECONCILING: {ConsumerPhase.STABLE, ConsumerPhase.ASSIGNING, *_WITH_MEMBERS},
    ConsumerPhase.STABLE: {
        *(ConsumerPhase.DEAD, ConsumerPhase.EMPTY, ConsumerPhase.ASSIGNING, ConsumerPhase.RECONCILING),
        Phase.EMPTY,
        # The only member was static and has rejoined with the consumer protocol.
        *_WITH_MEMBERS,
    },
    ConsumerPhase.DEAD: {ConsumerPhase.EMPTY},
    # The state of the classic group that replaces a consumer group.
    Phase.EMPTY: {ConsumerPhase.EMPTY},
    Phase.STABLE: {ConsumerPhase.STABLE, ConsumerPhase.ASSIGNING, ConsumerPhase.RECONCILING},
}
#: The epoch with which a member leaves, and the one with which a static member leaves for a while.
LEFT: Final = -1
AWAY: Final = -2
#: The epoch before the first record; the first epoch in the log is 2 (since Kafka 4.3).
_INITIAL_EPOCH: Final = 1


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of the cluster: its id, its number of partitions, and the racks of each partition's replicas."""

    topic_id: bytes
    partitions: int
    racks: tuple[tuple[str, ...], ...] = ()


#: The cluster's topics by name. The owner of the mapping may change it.
Topics: TypeAlias = Mapping[str, Topic]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicPart:
    """The session timeout and the protocols of a member that uses the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[Protocol, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """A member (``ConsumerGroupMember``); ``assigned`` and ``revoking`` have the assignment epoch by partition."""

    member_id: str
    epoch: int = 0
    previous_epoch: int = -1
    phase: MemberPhase = MemberPhase.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    #: Subscribed topic names, sorted.
    topics: tuple[str, ...] = ()
    #: "" for none; the member also reads the topics that match it.
    topic_regex: str = ""
    assignor: str | None = None
    assigned: Mapping[TopicIdPartition, int] = field(default_factory=dict)
    revoking: Mapping[TopicIdPartition, int] = field(default_factory=dict)
    classic: ClassicPart | None = None

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether the member has its whole target assignment of this epoch (``isReconciledTo``)."""
        return self.phase is MemberPhase.STABLE and self.epoch == epoch


@dataclass(slots=True, kw_only=True)
class ConsumerGroup:
    """One group. ``last_state``: its state, or that of the classic group it replaces, after the last operation."""

    group_id: str
    changes: list[StateChange]
    last_state: ConsumerPhase | Phase = ConsumerPhase.DEAD
    epoch: int = _INITIAL_EPOCH
    target_epoch: int = _INITIAL_EPOCH
    #: 0: unknown; the next assignment is not delayed.
    target_timestamp_ms: int = 0
    metadata_hash: int = 0
    #: In Kafka's order.
    members: MutableMapping[str, ConsumerMember] = field(default_factory=TimelineMap)
    #: By assignor, how many members prefer it, in Kafka's order.
    assignors: MutableMapping[str, int] = field(default_factory=TimelineMap)
    targets: dict[str, Target] = field(default_factory=dict)
    #: By regular expression, how many members subscribe with it, and its topics, in Kafka's order.
    regex_members: MutableMapping[str, int] = field(default_factory=TimelineMap)
    regexes: MutableMapping[str, ResolvedRegex] = field(default_factory=TimelineMap)
    #: The hash of the subscribed topics after the last operation, where expressions may be without topics yet.
    seen_hash: int | None = None
    #: Whether the members subscribed alike when the last of them changed; None to look at them.
    alike: bool | None = None
    #: The expressions to resolve after the operation in progress.
    to_resolve: tuple[str, ...] = ()
    #: Whether the topics have been looked up since the group was made or loaded.
    is_refreshed: bool = field(default=False, compare=False)
    #: Made of a classic group by the operation in progress, whose records are not applied yet.
    is_upgrade: bool = False
    #: Whether a target of the upgrade has a partition that its topic does not have.
    has_strays: bool = False

    def copy(self) -> ConsumerGroup:
        """The group as it is now."""
        tables = ("members", "assignors", "regex_members", "regexes", "targets")
        return replace(self, **{name: copy(getattr(self, name)) for name in tables})

    def restore(self, before: ConsumerGroup) -> None:
        """Be as this copy, of which nothing else is needed."""
        for field_ in fields(self):
            value, known = getattr(self, field_.name), getattr(before, field_.name)
            setattr(self, field_.name, value.reverted(known) if isinstance(value, TimelineMap) else known)

    @property
    def state(self) -> ConsumerPhase:
        """The state as ConsumerGroupDescribe reports it (``maybeUpdateGroupState``)."""
        if not self.members:
            return ConsumerPhase.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerPhase.ASSIGNING
        if all(member.is_reconciled_to(self.target_epoch) for member in self.members.values()):
            return ConsumerPhase.STABLE
        return ConsumerPhase.RECONCILING

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return not self.members

    def transition_to(self, state: ConsumerPhase | Phase, now_ms: int) -> None:
        """Note the state after an operation, or after the end of the group.

        Raises ValueError where ``VALID_PREVIOUS`` does not allow the change.
        """
        if state == self.last_state:
            return
        if self.last_state not in VALID_PREVIOUS[state]:
            raise ValueError(f"group {self.group_id!r} cannot go from {self.last_state} to {state}")
        self.changes.append(StateChange(now_ms, self.last_state, state, self.epoch))
        self.last_state = state

    # -- members

    def member(self, member_id: str) -> ConsumerMember:
        """The member. Raises ``Refused`` for one that is unknown."""
        if member_id not in self.members:
            raise Refused(Error.UNKNOWN_MEMBER_ID)
        return self.members[member_id]

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """The member with an instance id."""
        if instance_id is None:
            return None
        return next((member for member in self.members.values() if member.instance_id == instance_id), None)

    def validate_member(self, member_id: str, instance_id: str | None) -> ConsumerMember:
        """The member. Raises ``Refused`` for one that is unknown, or fenced by another member with its instance id."""
        if instance_id is None:
            return self.member(member_id)
        holder = self.static_member(instance_id)
        if holder is None:
            raise Refused(Error.UNKNOWN_MEMBER_ID)
        if holder.member_id != member_id:
            raise Refused(Error.FENCED_INSTANCE_ID)
        return holder

    def all_classic_but(self, *members: ConsumerMember) -> bool:
        """Whether there are other members and all of them use the classic protocol."""
        ids = {member.member_id for member in members}
        others = [member for member in self.members.values() if member.member_id not in ids]
        return bool(others) and all(other.classic is not None for other in others)

    def supports(self, protocol_type: str, protocols: Iterable[Protocol]) -> bool:
        """Whether a member of the classic protocol may join (``supportsClassicProtocols``)."""
        classic = [member.classic for member in self.members.values() if member.classic is not None]
        supported = Counter(protocol.name for member in classic for protocol in member.protocols)
        return protocol_type == "consumer" and any(
            supported[protocol.name] == len(classic) for protocol in protocols
        )

    # -- assignments

    def taken(self) -> set[TopicIdPartition]:
        """Partitions that a member owns or has not revoked yet."""
        return {
            partition
            for member in self.members.values()
            for partition in (*member.assigned, *member.revoking)
        }

    def target_of(self, member: ConsumerMember) -> Target:
        """A member's target assignment; a static member that rejoined inherits that of its instance id."""
        holder = self.static_member(member.instance_id)
        if member.instance_id is not None and holder is None:
            return frozenset()
        return self.targets.get(member.member_id if holder is None else holder.member_id, frozenset())

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """The names of the topics to which a member is subscribed, also by a resolved regular expression."""
        resolved = self.regexes.get(member.topic_regex)
        return frozenset(member.topics) | (resolved.topics if resolved else frozenset())

    def is_homogeneous(self, members: Collection[ConsumerMember], dropped: str = "") -> bool:
        """Whether these members subscribe alike (``subscriptionType``): all by the same topics or expression.

        ``dropped`` is an expression that no member has any more.
        """
        expressions = {member.topic_regex for member in members}
        resolved = [name for regex, one in self.regexes.items() if regex != dropped for name in one.topics]
        if expressions <= {""}:
            subscriptions = {member.topics for member in members}
            return len(subscriptions) <= 1 and set(resolved) <= set(*subscriptions)
        if len(expressions) > 1 or any(member.topics for member in members):
            return False
        return len(resolved) == len(set(resolved))

    def note_homogeneous(self) -> None:
        """Note whether the members subscribe alike, as Kafka does when a member changes, not an expression."""
        by_regex = self.regex_members or self.regexes
        self.alike = self.is_homogeneous(self.members.values()) if by_regex else None

    def assign(
        self,
        members: Mapping[str, ConsumerMember],
        topics: Topics,
        assignor: str,
        *,
        homogeneous: bool,
    ) -> dict[str, Target]:
        """New target assignments for these members, which are in Kafka's order."""
        partitions_of = {topic.topic_id: topic.partitions for topic in topics.values()}
        return ASSIGNORS[assignor](
            AssignorInput(
                members={
                    name: AssignedMember(
                        instance_id=member.instance_id,
                        topics=topic_ids(self.topics_of(member), topics),
                        target=self.target_of(member),
                    )
                    for name, member in members.items()
                },
                partitions=partitions_of,
                homogeneous=homogeneous,
                assigned=frozenset(partition for target in self.targets.values() for partition in target),
            )
        )

    def subscribed_hash(self, topics: Topics) -> int:
        """The hash of the subscribed topics, which is that of the group epoch unless one of them changes."""
        return metadata_hash(self.members.values(), topics, self.regexes.values())

    def has_expired(self, topics: Topics) -> bool:
        """Whether a subscribed topic has changed, or the topics were not looked up yet (``hasMetadataExpired``)."""
        seen = self.metadata_hash if self.seen_hash is None else self.seen_hash
        return not self.is_refreshed or self.subscribed_hash(topics) != seen

    def note_topics(self, topics: Topics) -> None:
        """Remember the topics of expressions, of which the group epoch may not know yet."""
        by_regex = bool(self.regex_members or self.regexes)
        self.seen_hash = self.subscribed_hash(topics) if by_regex else None

    # -- offsets

    @property
    def may_expire(self) -> bool:
        """Whether offsets may expire: in any state."""
        return True

    @property
    def emptied_ms(self) -> int | None:
        """None: retention is counted from the time of each commit."""
        return None

    def is_subscribed(self, topic: str) -> bool:
        """Whether offsets of the topic are protected from expiry."""
        by_name = any(topic in member.topics for member in self.members.values())
        return by_name or any(topic in regex.topics for regex in self.regexes.values())

    def validate_commit(self, request: OffsetCommit, topics: Topics) -> None:
        """Raises ``Refused`` for offsets that may not be committed in this state (``validateOffsetCommit``)."""
        if request.generation < 0 and not self.members:
            return
        anonymous = request.generation == -1 and not request.member_id and request.instance_id is None
        if request.producer_id is not None and anonymous:
            return
        member = self.member(request.member_id)
        if request.retention_ms is not None and member.classic is None:
            # Such a request is older than members of the consumer protocol.
            raise Refused(Error.UNSUPPORTED_VERSION)
        if request.generation == member.epoch:
            return
        stale = Error.STALE_MEMBER_EPOCH
        if member.classic is not None or request.producer_id is not None:
            stale = Error.ILLEGAL_GENERATION
        if request.generation > member.epoch:
            raise Refused(stale)
        # An older epoch is accepted for partitions that the member has owned since then (KIP-1251).
        owned = {**member.revoking, **member.assigned}
        for commit in request.commits:
            topic = topics.get(commit.topic)
            since = None if topic is None else owned.get((topic.topic_id, commit.partition))
            if since is None or request.generation < since:
                raise Refused(stale)


def topic_ids(names: Iterable[str], topics: Topics) -> frozenset[bytes]:
    """Ids of the topics that exist."""
    return frozenset(topics[name].topic_id for name in names if name in topics)


def metadata_hash(
    members: Iterable[ConsumerMember], topics: Topics, resolved: Iterable[ResolvedRegex] = ()
) -> int:
    """The hash of the existing topics to which members are subscribed, by name or by expression; 0 without any."""
    names = {name for member in members for name in member.topics}
    names.update(name for regex in resolved for name in regex.topics)
    return group_hash((name, _hash_of(name, topics[name])) for name in names if name in topics)


def _hash_of(name: str, topic: Topic) -> int:
    return topic_hash(name, topic.topic_id, topic.partitions, topic.racks)
