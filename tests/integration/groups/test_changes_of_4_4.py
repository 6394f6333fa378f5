"""What brokers of Kafka 4.4 write otherwise than those of 4.3, with the clients of each release."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from groupreplay.codecs import Key, OffsetCommitKey, OffsetCommitValue, Value, decode_key, decode_value
from groupreplay.codecs.consumer import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.jobs import read_topic
from support.kafka.clients import make_topics, new_consumer, open_transaction
from support.kafka.kafka_classes import broker_jars, compiled
from support.kafka.live_groups import ReplayedGroups
from support.kafka.waiting import wait_until

pytestmark = pytest.mark.broker

TOPIC = "orders"
#: A producer that commits an offset of partition 0 in a transaction, for a group without members.
_PRODUCER = """
import java.util.Collections;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Transaction {
    public void commit(String servers, String group, String topic, long offset) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("transactional.id", group);
        KafkaProducer producer =
            new KafkaProducer(settings, new ByteArraySerializer(), new ByteArraySerializer());
        producer.initTransactions();
        producer.beginTransaction();
        producer.sendOffsetsToTransaction(
            Collections.singletonMap(new TopicPartition(topic, 0), new OffsetAndMetadata(offset)),
            new ConsumerGroupMetadata(group));
        producer.commitTransaction();
        producer.close();
    }
}
"""


@pytest.fixture(scope="module", params=["4.3.1", "4.4.0"])
def broker(request: pytest.FixtureRequest) -> Iterator[EmbeddedBroker]:
    """A broker of each release, with the topic."""
    with EmbeddedBroker(request.param) as running:
        make_topics(running.bootstrap_servers, {TOPIC: 1})
        yield running


def records(servers: str, group: str) -> list[tuple[Key, Value | None]]:
    """The records of a group, in their order."""
    read = []
    for one in read_topic(servers, OFFSETS_TOPIC, "read_uncommitted"):
        key = decode_key(one.key or b"")
        assert isinstance(key, Key)
        value = decode_value(key, one.value)
        assert value is None or isinstance(value, Value)
        if key.group == group:
            read.append((key, value))
    return read


def test_a_commit_in_a_transaction(broker: EmbeddedBroker) -> None:
    """Since 4.4 it has the topic's id (KIP-1319), also that of a client that sends the name, as librdkafka does."""
    servers = broker.bootstrap_servers
    with compiled(broker_jars(broker.version), _PRODUCER, "Transaction") as producer:
        producer.commit(servers, "java", TOPIC, 7)
    with closing(new_consumer(servers, "librdkafka")) as consumer:
        open_transaction(servers, "t", consumer, TopicPartition(TOPIC, 0, 8)).commit_transaction(30)
    topic_id = id_of(servers, TOPIC) if broker.version >= "4.4" else bytes(16)
    offsets = {
        key.group: (value.version, value.offset, value.topic_id)
        for group in ("java", "librdkafka")
        for key, value in records(servers, group)
        if isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue)
    }
    assert offsets == {"java": (4, 7, topic_id), "librdkafka": (4, 8, topic_id)}


def id_of(servers: str, topic: str) -> bytes:
    """A topic's id by the Admin API."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    told = admin.describe_topics(TopicCollection([topic]))[topic].result(30).topic_id
    bits = (told.get_most_significant_bits(), told.get_least_significant_bits())
    return struct.pack(">qq", *bits)


def test_the_last_member_leaves(broker: EmbeddedBroker) -> None:
    """Since 4.4 an empty target of the new epoch follows, without a time; the group is Empty by either log."""
    servers = broker.bootstrap_servers
    member = new_consumer(servers, "modern", TOPIC, group_protocol="consumer")

    def assigned() -> bool:
        member.poll(0.1)
        return bool(member.assignment())

    wait_until(assigned)
    member.close()
    written = records(servers, "modern")
    (*_, raised) = (value for _, value in written if isinstance(value, ConsumerGroupMetadataValue))
    last = [(ConsumerGroupMetadataKey(group="modern"), raised)]
    if broker.version >= "4.4":
        target = ConsumerGroupTargetAssignmentMetadataValue(version=0, assignment_epoch=raised.epoch)
        last.append((ConsumerGroupTargetAssignmentMetadataKey(group="modern"), target))
    assert written[-len(last) :] == last
    replayed = ReplayedGroups(servers, ["modern"]).groups["modern"]
    assert (replayed["state"], replayed["members"]) == ("Empty", [])
