"""Timelines and reports of a real broker: owners as its Admin API gives them, of all kinds of groups."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import ConfigResource

from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.captures import printed_by
from support.kafka.clients import make_topics, new_consumer, set_configs
from support.kafka.waiting import wait_until
from support.pictures.report_pages import PageParts

pytestmark = pytest.mark.broker


def owned(members: dict[str, Consumer], topic: str) -> dict[int, str]:
    """Partition -> the client id of the consumer that has it."""
    return {
        one.partition: name
        for name, member in members.items()
        for one in member.assignment()
        if one.topic == topic
    }


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_owners_of_real_groups(
    broker: EmbeddedBroker, unique: Callable[[str], str], tmp_path: Path, protocol: str
) -> None:
    """Two consumers share four partitions, then one leaves: the owners are those that the clients know.

    Each member has a lane; each commit is counted; the page and the SVG are made from the live topic.
    """
    server, topic, group = broker.bootstrap_servers, unique("t"), unique("g")
    make_topics(server, {topic: 4})
    # Every step of a rebalance waits for a heartbeat.
    quick = {"consumer.heartbeat.interval.ms": 1_000}
    set_configs(server, ConfigResource.Type.GROUP, [group], quick)
    settings = {"group_protocol": protocol, "auto_offset_reset": "earliest"}
    with ExitStack() as stack:
        members = {
            name: new_consumer(server, group, topic, client_id=name, **settings) for name in ("a", "b")
        }
        for member in members.values():
            stack.callback(member.close)

        def polled(wanted: dict[str, Consumer]) -> dict[int, str]:
            for member in wanted.values():
                member.poll(0.1)
            return owned(wanted, topic)

        wait_until(lambda: len(polled(members)) == 4 and set(polled(members).values()) == {"a", "b"})
        both = owned(members, topic)
        for name, member in members.items():
            places = [TopicPartition(topic, one, 3) for one, owner in both.items() if owner == name]
            member.commit(offsets=places, asynchronous=False)
        members["b"].close()
        left = {"a": members["a"]}
        wait_until(lambda: len(polled(left)) == 4)

        page, picture, data = (tmp_path / f"live{kind}" for kind in (".html", ".svg", ".json"))
        for path in (page, picture, data):
            printed_by("report", "--bootstrap-server", server, "--group", group, "-o", path)
    document = json.loads(data.read_text(encoding="utf-8"))
    names = [lane["name"] for lane in document["slots"]]
    (found,) = document["topics"]
    spans = {row["partition"]: [names[span[2]] for span in row["owners"]] for row in found["partitions"]}
    assert names == ["a", "b"]
    assert {number: owners[-1] for number, owners in spans.items()} == dict.fromkeys(range(4), "a")
    assert all(both[number] in owners for number, owners in spans.items())
    assert (found["topic"], sum(found["commits"]), document["group_type"]) == (topic, 4, protocol)
    assert [lane["tenures"][-1]["until_ms"] is None for lane in document["slots"]] == [True, False]
    assert document["source"]["digest"] is None
    assert server not in page.read_text(encoding="utf-8")
    assert len(PageParts(page.read_text(encoding="utf-8")).sources) == 4
    assert picture.read_text(encoding="utf-8").startswith("<svg ")
