"""``ready --to consumer`` beside a real broker, where each group is really upgraded: it refuses what is blocked.

Members are sent request by request, because no client library writes the odd subscriptions and assignments.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from groupreplay.codecs import Assignment, TopicPartitions, encode_blob
from groupreplay.coordinator.requests import (
    Answer,
    Commit,
    ConsumerGroupHeartbeat,
    Error,
    JoinGroup,
    LeaveGroup,
    OffsetCommit,
    Protocol,
    SyncGroup,
)
from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.captures import invoke
from support.kafka.clients import make_topics
from support.model.classic_clients import owning, subscription
from support.model.raw_members import RawRequest

pytestmark = [pytest.mark.broker, pytest.mark.timeout(400)]

TOPIC = "orders"
SUBSCRIBED = subscription(TOPIC)
PLAIN = owning(TOPIC, 0)
CUSTOM = encode_blob(
    Assignment(
        version=1,
        assigned_partitions=(TopicPartitions(topic=TOPIC, partitions=(0,)),),
        user_data=b"mine",
    )
)
MAX_SIZE = 3
#: The least that the broker of the test allows is Kafka's default.
SESSION_MS = 45_000


class Kind(NamedTuple):
    """A kind of group: what each member sends, and the verdict; ``leaves``: all members leave again.

    ``native``: a member of the consumer protocol joins before anybody asks, ``commits``: no member, only a commit.
    """

    verdict: str
    assignor: str = "range"
    shares: tuple[bytes, ...] = (PLAIN,)
    metadata: bytes = SUBSCRIBED
    protocol_type: str = "consumer"
    session_ms: int = SESSION_MS
    leaves: bool = False
    native: bool = False
    commits: bool = False


KINDS = {
    "range": Kind("ready"),
    "two-members": Kind("ready", shares=(PLAIN, b"")),
    "nothing-assigned": Kind("ready", shares=(b"",)),
    "emptied": Kind("ready", leaves=True),
    "roundrobin": Kind("changes", "roundrobin"),
    "sticky": Kind("changes", "sticky"),
    "cooperative": Kind("changes", "cooperative-sticky"),
    "unknown-assignor": Kind("changes", "by-rack"),
    "short-session": Kind("changes", session_ms=10_000),
    "long-session": Kind("changes", session_ms=60_000),
    "custom-emptied": Kind("changes", "by-rack", (CUSTOM,), leaves=True),
    "streams-emptied": Kind("not_applicable", "stream", (CUSTOM,), leaves=True),
    "custom-data": Kind("blocked", "by-rack", (CUSTOM,)),
    "one-has-data": Kind("blocked", "by-rack", (PLAIN, CUSTOM)),
    "range-with-data": Kind("blocked", shares=(CUSTOM,)),
    "too-large": Kind("blocked", shares=(PLAIN, b"", b"", b"")),
    "odd-subscription": Kind("blocked", metadata=b"\x00"),
    "odd-assignment": Kind("blocked", shares=(b"\x00\x01\x7f",)),
    "streams": Kind("not_applicable", "stream", (CUSTOM,)),
    "connect": Kind("not_applicable", "default", (b"any",), b"any", "connect"),
    "connect-too-large": Kind("not_applicable", "default", (b"", b"", b"", b""), b"any", "connect"),
    "simple": Kind("not_applicable", shares=(), commits=True),
    "half-way": Kind("half_way", native=True),
    "moved": Kind("done", shares=(), native=True),
}
#: Not blocked, because nobody would move them; the broker refuses them all the same while they have members.
REFUSED_ANYWAY = {"streams", "connect", "connect-too-large"}


def joins(server: str, group: str, kind: Kind) -> list[RawRequest]:
    """All members of a group ask to join."""
    return [
        RawRequest(
            server,
            group,
            f"c{number}",
            JoinGroup(
                instance_id=f"i{number}",
                client_id=f"c{number}",
                client_host="/",
                session_timeout_ms=kind.session_ms,
                protocol_type=kind.protocol_type,
                protocols=(Protocol(kind.assignor, kind.metadata),),
            ),
        )
        for number in range(len(kind.shares))
    ]


def settles(server: str, group: str, kind: Kind, asked: list[RawRequest]) -> None:
    """The members get their assignment; some leave again."""
    joined = [request.answer() for request in asked]
    assert {answer.error for answer in joined} <= {Error.NONE}
    shares = tuple((answer.member_id, share) for answer, share in zip(joined, kind.shares, strict=True))
    for number, answer in enumerate(joined):
        if answer.member_id == answer.leader:
            sent(server, group, SyncGroup(**place(answer, number), assignments=shares))
    if kind.leaves:
        for number, answer in enumerate(joined):
            sent(server, group, LeaveGroup.of(answer.member_id, f"i{number}"))
    if kind.commits:
        sent(server, group, OffsetCommit(commits=(Commit(topic=TOPIC, partition=0, offset=5),)))
    if kind.native:
        assert upgrade(server, group) is Error.NONE


def place(answer: Answer, number: int) -> dict[str, object]:
    """The member in a request."""
    return {"member_id": answer.member_id, "instance_id": f"i{number}", "generation": answer.generation}


def sent(server: str, group: str, request: SyncGroup | LeaveGroup | OffsetCommit) -> None:
    """The broker accepts the request."""
    assert RawRequest(server, group, "c", request).answer().error is Error.NONE


def upgrade(server: str, group: str, member: str = "native-1") -> Error:
    """What the broker answers to a first member of the consumer protocol."""
    request = ConsumerGroupHeartbeat(
        member_id=member,
        member_epoch=0,
        client_id="native",
        client_host="/",
        rebalance_timeout_ms=300_000,
        topics=(TOPIC,),
        owned=frozenset(),
    )
    return RawRequest(server, group, "native", request).answer().error


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A broker on which nobody sends heartbeats and no session ends during the tests."""
    overrides = {
        "group.consumer.max.size": MAX_SIZE,
        "group.initial.rebalance.delay.ms": 3_000,
        "group.consumer.session.timeout.ms": SESSION_MS,
        "group.consumer.max.session.timeout.ms": 600_000,
    }
    with EmbeddedBroker(offsets_partitions=1, overrides=overrides) as broker:
        make_topics(broker.bootstrap_servers, {TOPIC: 1})
        yield broker.bootstrap_servers


def test_the_broker_refuses_exactly_the_blocked_groups(server: str) -> None:
    """Each verdict of 24 kinds of groups is the expected one, and a real upgrade is refused where it says blocked."""
    asked = {group: joins(server, group, kind) for group, kind in KINDS.items()}
    for group, kind in KINDS.items():
        settles(server, group, kind, asked[group])
    printed = invoke("ready", "--to", "consumer", "--bootstrap-server", server, "-o", "json")
    verdicts = {each["group_id"]: each["verdict"] for each in json.loads(printed.stdout)}
    assert verdicts == {group: kind.verdict for group, kind in KINDS.items()}
    assert printed.exit_code == 6

    refused = {group for group in KINDS if upgrade(server, group, "native-2") is not Error.NONE}
    blocked = {group for group, verdict in verdicts.items() if verdict == "blocked"}
    assert refused - REFUSED_ANYWAY == blocked
    assert refused >= REFUSED_ANYWAY
