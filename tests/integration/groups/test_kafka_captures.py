"""Records of real brokers decode to the same values as with Kafka 4.4.0's classes, and encode to the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from groupreplay.app.inspection.records import FIELDS, with_members
from groupreplay.codecs import (
    GroupMetadataValue,
    Key,
    Value,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from groupreplay.codecs.kafka_json import to_json
from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.jobs import read_topic
from support.kafka.clients import make_topics, new_consumer, open_transaction
from support.kafka.kafka_classes import KafkaClasses
from support.kafka.waiting import wait_until

pytestmark = pytest.mark.broker

TOPIC = "busy"
PARTITIONS = 4

Record = tuple[bytes, "bytes | None"]


def read_all(servers: str) -> list[Record]:
    """Every record of the offsets topic, including those of open and aborted transactions."""
    return [(one.key or b"", one.value) for one in read_topic(servers, OFFSETS_TOPIC, "read_uncommitted")]


def member(servers: str, group: str, topics: str = TOPIC, **settings: Any) -> Consumer:
    """A subscribed consumer."""
    classic = {} if "group_protocol" in settings else {"heartbeat_interval_ms": 200}
    return new_consumer(servers, group, topics, auto_offset_reset="earliest", **classic, **settings)


def joined(*members: Consumer) -> None:
    """Polls until each consumer has partitions and together they have all partitions."""

    def settled() -> bool:
        for each in members:
            each.poll(0.05)
        owned = [{part.partition for part in each.assignment()} for each in members]
        return all(owned) and len(set().union(*owned)) == PARTITIONS

    wait_until(settled)


def commit(consumer: Consumer, offset: int) -> None:
    """Commits an offset with metadata for one assigned partition."""
    partition = consumer.assignment()[0].partition
    place = TopicPartition(TOPIC, partition, offset, "é metadata", 0)
    consumer.commit(offsets=[place], asynchronous=False)


def make_busy(servers: str, *, modern: bool) -> None:
    """Classic groups that grow, shrink, commit and are deleted; with ``modern`` also consumer groups and upgrades."""
    classic_group(servers, make_topics(servers, {TOPIC: PARTITIONS}))
    transactions(servers)
    if modern:
        consumer_group(servers)
        upgrade(servers)


def classic_group(servers: str, admin: AdminClient) -> None:
    """Two dynamic members and a static one; then the group and its offsets are deleted."""
    for group, strategy in (("eager", "range"), ("cooperative", "cooperative-sticky")):
        first = member(servers, group, partition_assignment_strategy=strategy, client_id="c-1")
        joined(first)
        static = {"group_instance_id": "static", "session_timeout_ms": 2_000}
        second = member(servers, group, partition_assignment_strategy=strategy, **static)
        joined(first, second)
        commit(first, 1)
        commit(second, 2)
        second.close()
        first.close()
    # A static member that closes stays until its session expires.
    wait_until(lambda: deleted(admin, "eager"))


def deleted(admin: AdminClient, group: str) -> bool:
    """Deletes a group and its offsets; returns False while it has members."""
    try:
        admin.delete_consumer_groups([group])[group].result()
    except KafkaException as error:
        if error.args[0].code() == KafkaError.NON_EMPTY_GROUP:
            return False
        raise
    return True


def transactions(servers: str) -> None:
    """Commits offsets in a transaction that is committed and in one that is aborted."""
    consumer = member(servers, "transactional")
    joined(consumer)
    for offset, end in ((5, Producer.commit_transaction), (9, Producer.abort_transaction)):
        end(open_transaction(servers, "codec-tests", consumer, TopicPartition(TOPIC, 0, offset)), 30)
    consumer.close()


def consumer_group(servers: str) -> None:
    """KIP-848 members that subscribe by name and by regular expression; one of them is static."""
    first = member(servers, "modern", group_protocol="consumer", client_rack="r1")
    second = member(servers, "modern", f"^{TOPIC}.*", group_protocol="consumer", group_instance_id="static")
    joined(first, second)
    commit(first, 3)
    commit(second, 4)
    first.close()
    joined(second)
    second.close()


def upgrade(servers: str) -> None:
    """A classic group is converted when a member of the consumer protocol joins, and back when it leaves."""
    classic = member(servers, "upgraded", partition_assignment_strategy="cooperative-sticky")
    joined(classic)
    modern = member(servers, "upgraded", group_protocol="consumer")
    joined(classic, modern)
    modern.close()
    joined(classic)
    classic.close()


def compare(kafka: KafkaClasses, records: Sequence[Record]) -> set[int]:
    """Asserts that each record is equal in Kafka's classes and in ours; returns the record types."""
    distinct = sorted(set(records), key=repr)
    seen = set()
    for (key_bytes, value_bytes), reading in zip(distinct, kafka.read(distinct), strict=True):
        key = decode_key(key_bytes)
        assert isinstance(key, Key), key
        value = decode_value(key, value_bytes)
        assert value is None or isinstance(value, Value), value
        assert to_json(key, value) == reading.json
        assert encode_key(key) == key_bytes
        assert (None if value is None else encode_value(value)) == value_bytes
        seen.add(key.KEY_TYPE)
    compare_members(kafka, distinct)
    return seen


def compare_members(kafka: KafkaClasses, records: Sequence[Record]) -> None:
    """Asserts that ``decode --members`` prints what Kafka's ConsumerProtocol reads."""
    raw, printed = list[tuple[str, bytes]](), list[Any]()
    for key_bytes, value_bytes in records:
        key = decode_key(key_bytes)
        assert isinstance(key, Key)
        value = decode_value(key, value_bytes)
        if isinstance(value, GroupMetadataValue):
            shown = with_members(to_json(key, value), value)["value"]["data"]["members"]
            for member, one in zip(value.members, shown, strict=True):
                raw += [(name, getattr(member, name)) for name in FIELDS]
                printed += [one[name] for name in FIELDS]
    kept = [(given, one) for given, one in zip(raw, printed, strict=True) if given[1]]
    assert len(kept) > 10
    read = kafka.blobs([given for given, _ in kept])
    assert [{name: one[name] for name in ("version", "data")} for _, one in kept] == read


@pytest.mark.parametrize(
    ("version", "overrides", "types"),
    [
        ("4.4.0", {"group.consumer.heartbeat.interval.ms": 500}, {1, 2, 3, 5, 6, 7, 8, 16}),
        pytest.param(
            "4.3.1",
            {"group.consumer.heartbeat.interval.ms": 500},
            {1, 2, 3, 5, 6, 7, 8, 16},
            marks=pytest.mark.long,
        ),
        ("3.9.1", {}, {1, 2}),
    ],
)
def test_a_busy_broker(
    kafka: KafkaClasses, version: str, overrides: dict[str, object], types: set[int]
) -> None:
    """All records of these releases are equal in 4.4.0's classes and in ours.

    They are those of classic and transactional groups, since 4.0 also those of consumer and upgraded groups.
    """
    with EmbeddedBroker(version, overrides=overrides) as broker:
        make_busy(broker.bootstrap_servers, modern=version != "3.9.1")
        records = read_all(broker.bootstrap_servers)
    assert compare(kafka, records) >= types
    assert any(value is None for _, value in records)
