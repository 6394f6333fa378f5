"""Static members of a classic group, request by request: nobody sends heartbeats, and offsets have their own expiry."""

from __future__ import annotations

from dataclasses import dataclass, replace

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from groupreplay.coordinator.requests import (
    Answer,
    Commit,
    Error,
    JoinGroup,
    OffsetCommit,
    Protocol,
    SyncGroup,
)
from support.model.classic_clients import subscription
from support.model.raw_members import RawRequest

#: Longer than any test.
_SESSION_MS = 600_000


@dataclass
class RawStaticMember:
    """A static member of a group; each start has another member id, and its end leaves no trace."""

    server: str
    group: str
    instance_id: str
    answer: Answer | None = None

    def joining(self, *topics: str) -> RawRequest:
        """Asks to join with this subscription; the answer may have to wait for others."""
        request = JoinGroup(
            instance_id=self.instance_id,
            client_id="raw",
            client_host="/",
            session_timeout_ms=_SESSION_MS,
            rebalance_timeout_ms=_SESSION_MS,
            protocols=(Protocol("range", subscription(*topics)),),
        )
        return RawRequest(self.server, self.group, "raw", request)

    def start(self, *topics: str) -> RawStaticMember:
        """The member after a start with this subscription."""
        return self.joined(self.joining(*topics))

    def joined(self, asked: RawRequest) -> RawStaticMember:
        """The member that the answer makes."""
        answer = asked.answer()
        assert answer.error is Error.NONE
        return replace(self, answer=answer)

    @property
    def place(self) -> tuple[str, int]:
        """Member id and generation."""
        assert self.answer is not None
        assert self.answer.generation is not None
        return self.answer.member_id, self.answer.generation

    def sync(self) -> None:
        """Ends the rebalance, as the leader; nothing is assigned."""
        member_id, generation = self.place
        request = SyncGroup(
            member_id=member_id,
            instance_id=self.instance_id,
            generation=generation,
            assignments=((member_id, b""),),
        )
        assert RawRequest(self.server, self.group, "raw", request).answer().error is Error.NONE

    def commit(self, *topics: str, kept_ms: int) -> None:
        """Commits an offset of partition 0 of each topic, subscribed or not, to be kept for this time."""
        member_id, generation = self.place
        commit_kept(self.server, self.group, *topics, kept_ms=kept_ms, member=(member_id, generation))


def commit_kept(
    server: str, group: str, *topics: str, kept_ms: int, member: tuple[str, int] = ("", -1)
) -> None:
    """Commits an offset of partition 0 of each topic, to be kept for this time; as a member or without any."""
    commits = tuple(Commit(topic=topic, partition=0, offset=5) for topic in topics)
    request = OffsetCommit(member_id=member[0], generation=member[1], commits=commits, retention_ms=kept_ms)
    assert RawRequest(server, group, "raw", request).answer().error is Error.NONE


def committed_topics(server: str, group: str) -> set[str]:
    """The topics of which the broker has an offset of the group."""
    admin = AdminClient({"bootstrap.servers": server, "log_level": 0})
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(30)
    return {at.topic for at in asked.topic_partitions if at.offset >= 0}
