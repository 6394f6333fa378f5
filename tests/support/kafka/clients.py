"""Clients with the settings that most tests need."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from groupreplay.app.demo.scenario import create_topics
from support.kafka.waiting import wait_until


def make_topics(servers: str, topics: Mapping[str, int]) -> AdminClient:
    """Creates missing topics, by name and number of partitions; returns the client."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    create_topics(admin, topics)
    # The broker answers before its own metadata has them.
    wait_until(lambda: topics.keys() <= admin.list_topics(timeout=10).topics.keys())
    return admin


def set_configs(
    servers: str, kind: ConfigResource.Type, names: Iterable[str], values: Mapping[str, object]
) -> None:
    """Sets the same values for all these groups or topics."""
    entries = [
        ConfigEntry(name, str(value), incremental_operation=AlterConfigOpType.SET)
        for name, value in values.items()
    ]
    resources = [ConfigResource(kind, name, incremental_configs=entries) for name in names]
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    for result in admin.incremental_alter_configs(resources).values():
        result.result(30)


def new_consumer(servers: str, group: str, *topics: str, **settings: Any) -> Consumer:
    """A consumer without automatic commits, subscribed to these topics; ``_`` in names of settings stands for a dot."""
    made = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "enable.auto.commit": False,
            "log_level": 0,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )
    if topics:
        made.subscribe(list(topics))
    return made


def poll_all(consumers: Sequence[Consumer], seconds: float) -> None:
    """Polls them in turn for about this long, each at least once."""
    deadline = time.monotonic() + seconds
    while True:
        for consumer in consumers:
            consumer.poll(0)
        if time.monotonic() >= deadline:
            return
        time.sleep(0.01)


def close_all(consumers: Iterable[Consumer], seconds: float) -> bool:
    """Closes them in parallel; whether all are closed by then: librdkafka may hang in close() during a rebalance."""
    closing = [threading.Thread(target=one.close, daemon=True) for one in consumers]
    for thread in closing:
        thread.start()
    deadline = time.monotonic() + seconds
    for thread in closing:
        thread.join(max(0.0, deadline - time.monotonic()))
    return not any(thread.is_alive() for thread in closing)


def commit_once(servers: str, group: str, *places: TopicPartition) -> None:
    """Creates a group without members by committing offsets; without places, one of the topic ``orders``."""
    with closing(new_consumer(servers, group)) as consumer:
        consumer.commit(offsets=list(places) or [TopicPartition("orders", 0, 1)], asynchronous=False)


def commit_surely(servers: str, group: str, *places: TopicPartition) -> None:
    """The same on several brokers: the coordinator may just be moving, or not know a new topic yet."""

    def committed() -> bool:
        try:
            commit_once(servers, group, *places)
        except KafkaException:
            return False
        return True

    wait_until(committed)


def produce(
    servers: str, topic: str, messages: Iterable[tuple[bytes | None, bytes]], partition: int = -1
) -> None:
    """Writes keys and values in their order; without a partition the client chooses one."""
    # Without it, a batch that is refused by a new leader is sent again behind its successor.
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 0})
    for key, value in messages:
        producer.produce(topic, value, key, partition)
    assert producer.flush(60) == 0


def open_transaction(
    servers: str, name: str, member: Consumer, place: TopicPartition, **settings: Any
) -> Producer:
    """A producer with an open transaction, in which an offset of the consumer's group is committed."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": name, "log_level": 0, **settings})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.send_offsets_to_transaction([place], member.consumer_group_metadata(), 30)
    return producer
