"""Reading the job's topics."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.sinks.sink_reader import SinkReader

pytestmark = pytest.mark.broker
DEADLINE_SECONDS = 30.0


def test_reads_what_the_job_wrote(broker: EmbeddedBroker, unique: Callable[[str], str]) -> None:
    """Repeats of an event are dropped, documents are kept by group until their tombstone, heartbeats move on.

    The reader leaves no group behind.
    """
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    names = TopicNames(
        events=unique("events"),
        states=unique("states"),
        dead_letters=unique("letters"),
        job=unique("job"),
        probes=unique("probes"),
    )
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    groups_before = {found.group_id for found in admin.list_consumer_groups().result(10).valid}
    with SinkReader(broker.bootstrap_servers, names) as reader:
        assert not reader.find_topics()
        wanted = [
            NewTopic(name, 1, replication_factor=1) for name in (names.events, names.states, names.probes)
        ]
        for answer in admin.create_topics(wanted).values():
            answer.result(10)
        assert _soon(reader.find_topics)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for number in (1, 2, 1, 3):
            producer.produce(names.events, json.dumps({"id": f"e{number}"}).encode(), b"g")
        for group, document in (("kept", {"state": "Empty"}), ("gone", {}), ("kept", {"state": "Stable"})):
            producer.produce(names.states, json.dumps(document).encode(), group.encode())
        producer.produce(names.states, None, b"gone")
        for value in ({"caught_up_ms": 5}, {"other": 1}, {"caught_up_ms": 9}, {"caught_up_ms": 7}):
            producer.produce(names.probes, json.dumps(value).encode(), b"\0heartbeat")
        producer.flush(10)
        found = []

        def all_there() -> bool:
            found.extend(reader.events(0.2))
            return len(found) >= 3 and reader.caught_up_ms == 9 and list(reader.documents) == ["kept"]

        assert _soon(all_there)
        assert found == [{"id": "e1"}, {"id": "e2"}, {"id": "e3"}]
        assert reader.documents == {"kept": {"state": "Stable"}}
    groups_after = {found.group_id for found in admin.list_consumer_groups().result(10).valid}
    assert groups_after - groups_before == set()


def _soon(condition: Callable[[], object]) -> bool:
    end = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
