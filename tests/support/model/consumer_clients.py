"""Clients of the coordinator model: KIP-848 members, and classic members of the same group."""

from __future__ import annotations

from dataclasses import dataclass, field

from groupreplay.codecs import Subscription, TopicPartitions, encode_blob
from groupreplay.coordinator.consumer.consumer_group import AWAY, LEFT, ConsumerGroup, ConsumerMember, Topic
from groupreplay.coordinator.requests import (
    Answer,
    ClassicHeartbeat,
    ConsumerGroupHeartbeat,
    Error,
    Protocol,
    SyncGroup,
    TopicIdPartition,
)
from support.model.classic_clients import Clients, joining

TOPIC_IDS = {"t": bytes(range(1, 17)), "u": bytes(range(2, 18))}


def topics() -> dict[str, Topic]:
    """Topic t has three partitions, topic u two."""
    return {"t": Topic(TOPIC_IDS["t"], 3), "u": Topic(TOPIC_IDS["u"], 2)}


@dataclass
class Believed:
    """The state of a member as its client knows it."""

    epoch: int = 0
    instance_id: str | None = None
    owned: frozenset[TopicIdPartition] = frozenset()


@dataclass
class ConsumerClients(Clients):
    """KIP-848 members by id, each with the content of its last answer."""

    topics: dict[str, Topic] = field(default_factory=topics)
    believed: dict[str, Believed] = field(default_factory=dict)

    @property
    def consumers(self) -> ConsumerGroup:
        """The coordinator's consumer group, which must exist."""
        assert isinstance(self.coordinator.group, ConsumerGroup)
        return self.coordinator.group

    def written(self, since: int) -> list[tuple[int, str, bool]]:
        """Records from this position on: type, member id, whether the record has a value."""
        return [
            (raw.key.KEY_TYPE, getattr(raw.key, "member_id", ""), raw.value is not None)
            for raw in self.log[since:]
        ]

    def member(self, member_id: str) -> ConsumerMember:
        """The coordinator's state of a member."""
        return self.consumers.members[member_id]

    def enter(self, member_id: str, *topics: str, instance_id: str | None = None, **fields: object) -> Answer:
        """The heartbeat with which a member joins."""
        self.believed[member_id] = Believed(instance_id=instance_id)
        fields.setdefault("rebalance_timeout_ms", 30_000)
        return self.beat(member_id, topics=topics or ("t",), owned=frozenset(), **fields)

    def beat(self, member_id: str, **fields: object) -> Answer:
        """A member's heartbeat, by default with its epoch and its partitions."""
        mine = self.believed.setdefault(member_id, Believed())
        fields.setdefault("member_epoch", mine.epoch)
        fields.setdefault("owned", mine.owned)
        fields.setdefault("client_id", f"client-{mine.instance_id or member_id}")
        fields.setdefault("client_host", "/10.0.0.1")
        fields.setdefault("instance_id", mine.instance_id)
        answer = self.ask(ConsumerGroupHeartbeat(member_id=member_id, **fields))  # type: ignore[arg-type]
        assert answer is not None
        if answer.error is Error.NONE:
            mine.epoch = answer.generation
            mine.owned = mine.owned if answer.assigned is None else answer.assigned
        return answer

    def depart(self, member_id: str, epoch: int = LEFT) -> str:
        """A member leaves, with epoch -2 for a while."""
        return self.beat(member_id, member_epoch=epoch, owned=None).error.value

    def away(self, member_id: str) -> str:
        """A static member leaves for a while."""
        return self.depart(member_id, AWAY)

    def settle_all(self) -> None:
        """All members do what the coordinator requests, until nothing is left to do."""
        for _ in range(5):
            self.wait(1_000)
            group = self.coordinator.group
            if not isinstance(group, ConsumerGroup):
                return
            for member_id, member in list(group.members.items()):
                if member_id not in group.members or member.epoch == AWAY:
                    continue
                if member.classic is None:
                    self.beat(member_id)
                else:
                    self.follow(member_id)

    # -- members of the classic protocol in a consumer group

    def follow(self, member_id: str) -> None:
        """A heartbeat, and a rejoin if the answer requests it."""
        member = self.member(member_id)
        beat = ClassicHeartbeat(member_id=member_id, instance_id=member.instance_id, generation=member.epoch)
        if self.error(beat) == Error.REBALANCE_IN_PROGRESS.value:
            self.rejoin_mixed(member_id)
            self.sync_mixed(member_id)

    def rejoin_mixed(self, member_id: str, *topics: str) -> Answer | None:
        """A classic member rejoins and owns its assignment."""
        member = self.member(member_id)
        return self.ask(
            joining(
                member.client_id,
                member_id,
                instance_id=member.instance_id,
                protocols=(Protocol("range", self._owning(member, topics or member.topics)),),
                session_timeout_ms=member.classic.session_timeout_ms if member.classic else 45_000,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
            )
        )

    def _owning(self, member: ConsumerMember, topics: tuple[str, ...]) -> bytes:
        owned = [
            TopicPartitions(
                topic=name,
                partitions=tuple(sorted(place[1] for place in member.assigned if place[0] == topic.topic_id)),
            )
            for name, topic in self.topics.items()
        ]
        return encode_blob(Subscription(version=1, topics=topics, owned_partitions=tuple(owned)))

    def sync_mixed(self, member_id: str) -> Answer | None:
        """A classic member requests its assignment."""
        group = self.coordinator.group
        if not isinstance(group, ConsumerGroup) or member_id not in group.members:
            return None
        member = group.members[member_id]
        return self.ask(
            SyncGroup(member_id=member_id, instance_id=member.instance_id, generation=member.epoch)
        )
