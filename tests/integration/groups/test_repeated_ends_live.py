"""The ends that are asked for again and again, against those that the Admin client gives for each partition."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.contract.partition_ends import PartitionEnds
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.log_ends import RepeatedEnds, read_ends, readable_topics
from groupreplay.streaming.local.broker import EmbeddedBroker
from support.kafka.clients import make_topics
from support.kafka.waiting import wait_until

pytestmark = pytest.mark.broker


def test_equal_to_the_admin_client(broker: EmbeddedBroker, unique: Callable[[str], str]) -> None:
    """Both ends and the epoch, with an open transaction, of a log that grew, and the id of a topic created anew."""
    servers, topic = broker.bootstrap_servers, unique("ends")
    make_topics(servers, {topic: 3})
    connection = Connection(Cluster(bootstrap_servers=servers))
    asker = RepeatedEnds(connection)
    places = [(topic, number) for number in range(3)]
    # The leaders of a topic that was just created may refuse for a moment.
    wait_until(lambda: len(asker.ends(places, {})) == 3)
    producer = Producer({"bootstrap.servers": servers, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=1)
    producer.flush(30)
    assert asker.topics().layouts[topic] == readable_topics(connection).layouts[topic]
    assert (
        asker.ends(places, {})
        == read_ends(connection, places)
        == {
            (topic, 0): PartitionEnds(0, 0, 0, epoch=0),
            (topic, 1): PartitionEnds(0, 1, 0, epoch=0),
            (topic, 2): PartitionEnds(0, 0, 0, epoch=0),
        }
    )
    producer.commit_transaction(30)
    # The record and the marker behind it, which the coordinator writes after its answer.
    wait_until(
        lambda: asker.ends([(topic, 1)], {(topic, 1): 0}) == {(topic, 1): PartitionEnds(0, 2, 2, epoch=0)}
    )
    first = asker.topics().layouts[topic].topic_id
    (deleted,) = connection.admin().delete_topics([topic]).values()
    deleted.result(30)
    wait_until(lambda: topic not in asker.topics().layouts)
    make_topics(servers, {topic: 3})
    wait_until(lambda: topic in asker.topics().layouts)
    again = asker.topics({topic}).layouts[topic]
    assert again == readable_topics(connection).layouts[topic]
    assert again.topic_id != first
