"""Offsets set by Kafka's own tool and by the Admin API: every way is one event with the offsets of the broker."""

from __future__ import annotations

import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from groupreplay.state.replay.offset_sets import OCCASION_MS
from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.replays import Json, named, replayed_log
from support.kafka.clients import commit_once, make_topics, new_consumer, produce
from support.kafka.kafka_classes import java_command
from support.kafka.waiting import wait_until

pytestmark = pytest.mark.broker

TOPIC = "set-live"
RECORDS, READ = 10, 4
TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
#: Options of the tool, the offset that each partition has after it, and the direction.
WAYS = {
    "to-latest": (["--to-latest"], RECORDS, "forward"),
    "to-earliest": (["--to-earliest"], 0, "backward"),
    "shift-by": (["--shift-by", "3"], READ + 3, "forward"),
    "to-datetime": (["--to-datetime", "2020-01-01T00:00:00.000"], 0, "backward"),
    "from-file": (["--from-file", "{plan}"], 7, "forward"),
}


def left_by_members(server: str, group: str, protocol: str) -> None:
    """A group whose only member has committed offset 4 of both partitions, and has left."""
    with closing(new_consumer(server, group, TOPIC, group_protocol=protocol)) as member:
        wait_until(lambda: (member.poll(0.1), len(member.assignment()) == 2)[1])
        member.commit(offsets=both(READ), asynchronous=False)


def both(offset: int) -> list[TopicPartition]:
    """This offset of both partitions."""
    return [TopicPartition(TOPIC, number, offset) for number in (0, 1)]


def committed(server: str, group: str) -> dict[int, int]:
    """The offsets that the broker has."""
    with closing(new_consumer(server, group)) as client:
        return {one.partition: one.offset for one in client.committed(both(-1001), timeout=30)}


def reset(server: str, group: str, *options: str) -> None:
    """``kafka-consumer-groups.sh --reset-offsets --execute``."""
    words = ("--bootstrap-server", server, "--group", group, "--reset-offsets", "--execute", *options)
    if "--from-file" not in options:
        words += ("--topic", TOPIC)
    done = subprocess.run(java_command(TOOL, *words), capture_output=True, text=True, check=True, timeout=240)
    assert TOPIC in done.stdout, done.stdout + done.stderr


@pytest.fixture(scope="module")
def server(broker: EmbeddedBroker) -> str:
    """A broker with the topic: two partitions of ten records."""
    address = broker.bootstrap_servers
    make_topics(address, {TOPIC: 2})
    for number in (0, 1):
        produce(address, TOPIC, [(None, b"x")] * RECORDS, number)
    return address


def commit_while_reading(client: Consumer, place: TopicPartition) -> None:
    """Reads a partition with ``assign()`` to its end, and commits after each record."""
    client.assign([place])
    read, deadline = place.offset, time.monotonic() + 60
    while read < RECORDS:
        assert time.monotonic() < deadline, f"no record arrives at {read}"
        message = client.poll(1.0)
        if message is not None and message.error() is None:
            client.commit(message=message, asynchronous=False)
            read += 1


def set_every_way(server: str, folder: Path) -> None:
    """Each option of the tool, and the Admin API, in groups of both protocols."""
    plan = folder / "plan.csv"
    plan.write_text("".join(f"{TOPIC},{number},7\n" for number in (0, 1)))
    for number, (way, (options, _, _)) in enumerate(WAYS.items()):
        left_by_members(server, way, ("classic", "consumer")[number % 2])
        reset(server, way, *(one.format(plan=plan) for one in options))
    left_by_members(server, "admin-api", "classic")
    place = ConsumerGroupTopicPartitions("admin-api", both(2))
    # The client must live until it has its answer.
    admin = AdminClient({"bootstrap.servers": server})
    admin.alter_consumer_group_offsets([place])["admin-api"].result(30)


def commit_without_a_set(server: str) -> None:
    """Members that commit, go back and leave; a consumer with ``assign()`` in a group of its own."""
    with closing(new_consumer(server, "members", TOPIC)) as member:
        wait_until(lambda: (member.poll(0.1), len(member.assignment()) == 2)[1])
        member.commit(offsets=both(READ), asynchronous=False)
        member.commit(offsets=both(READ + 2), asynchronous=False)
    with closing(new_consumer(server, "assigned")) as client:
        commit_while_reading(client, TopicPartition(TOPIC, 0, 0))


def take_over(server: str) -> None:
    """A consumer with ``assign()`` commits into a group that members have left."""
    left_by_members(server, "taken-over", "classic")
    with closing(new_consumer(server, "taken-over")) as client:
        commit_while_reading(client, TopicPartition(TOPIC, 1, READ))


@pytest.fixture(scope="module")
def events_of(server: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Json]]:
    """What is said of sets in each group, once the last occasion is over in the log; they share the wait for that."""
    set_every_way(server, tmp_path_factory.mktemp("plan"))
    commit_without_a_set(server)
    take_over(server)
    time.sleep(OCCASION_MS / 1_000)
    commit_once(server, "set-clock", TopicPartition(TOPIC, 0, int(time.time())))
    events, _ = replayed_log(server, complete_since_ms=0)
    groups = [*WAYS, "admin-api", "members", "assigned", "taken-over"]
    assert [one for group in groups for one in named(events, "offset.rewound", group)] == []
    return {group: [one["data"] for one in named(events, "offsets.set", group)] for group in groups}


def expected(before: int, after: int) -> list[Json]:
    """The partitions of the event."""
    return [
        {
            "topic": TOPIC,
            "partition": number,
            "from_offset": before,
            "to_offset": after,
            "topic_recreated": False,
        }
        for number in (0, 1)
    ]


def test_every_way_to_set_offsets(server: str, events_of: dict[str, list[Json]]) -> None:
    """Each option of the tool, and the Admin API, in groups of both protocols: one event, both partitions in it."""
    ways = {
        **{way: (offset, direction) for way, (_, offset, direction) in WAYS.items()},
        "admin-api": (2, "backward"),
    }
    for way, (offset, direction) in ways.items():
        (event,) = events_of[way]
        assert committed(server, way) == dict.fromkeys((0, 1), offset)
        assert event["partitions"] == expected(READ, offset)
        moved = 2 * abs(offset - READ)
        assert (event["direction"], event["offsets_moved"], event["evidence"]) == (direction, moved, "log")


def test_what_is_no_set(events_of: dict[str, list[Json]]) -> None:
    """Members that commit, go back and leave; a consumer with ``assign()`` in a group of its own."""
    assert (events_of["members"], events_of["assigned"]) == ([], [])


def test_assign_under_the_same_group_id(events_of: dict[str, list[Json]]) -> None:
    """It commits into the group that members have left: one event, however often it commits."""
    (event,) = events_of["taken-over"]
    (place,) = event["partitions"]
    assert (place["partition"], place["from_offset"], event["direction"]) == (1, READ, "forward")
