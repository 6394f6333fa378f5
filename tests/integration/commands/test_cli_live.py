"""The reading commands on a real topic, held against Kafka's own tools and answers."""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
import signal
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from groupreplay.app.inspection.capture import CapturePlan, capture
from groupreplay.codecs.kafka_terms import partition_for
from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.captures import invoke, printed_by
from support.job.replays import event_name
from support.kafka.clients import commit_once, make_topics, new_consumer, open_transaction
from support.kafka.kafka_classes import java_command
from support.kafka.waiting import wait_until

pytestmark = pytest.mark.broker

TOPIC = "cli-live-orders"
#: All groups are in one partition, so that Kafka's console consumer can be told where to start and to stop.
PARTITION = 5


def in_partition(name: str) -> str:
    """A group id that lives in the partition."""
    candidates = (f"cli-live-{name}-{number}" for number in itertools.count())
    return next(group for group in candidates if partition_for(group, 8) == PARTITION)


TWO, LEFT, SIMPLE, DELETED, PAID = GROUPS = tuple(
    in_partition(name) for name in ("two", "left", "simple", "deleted", "paid")
)
OURS = set(GROUPS)


@dataclass(frozen=True)
class World:
    """A broker with groups that have come to rest, and a capture of its offsets topic."""

    server: str
    capture: Path
    admin: AdminClient


@pytest.fixture(scope="module")
def world(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Two members (one static); groups that are empty, simple, deleted, or commit in transactions."""
    server = broker.bootstrap_servers
    admin = make_topics(server, {TOPIC: 4})
    with ExitStack() as stack:

        def join(group: str, **settings: str) -> Consumer:
            consumer = new_consumer(server, group, TOPIC, heartbeat_interval_ms=500, **settings)
            return stack.enter_context(closing(consumer))

        two = [join(TWO, client_id="one"), join(TWO, group_instance_id="static-2")]
        wait_until(lambda: [one.poll(0.1) for one in two] and all(len(one.assignment()) == 2 for one in two))
        two[0].commit(offsets=[TopicPartition(TOPIC, 0, 7, "a note")], asynchronous=False)
        for group in (LEFT, DELETED):
            leaver = join(group)
            wait_until(lambda leaver=leaver: leaver.poll(0.1) or leaver.assignment())  # type: ignore[misc]
            leaver.commit(offsets=[TopicPartition(TOPIC, 1, 3)], asynchronous=False)
            leaver.close()
        wait_until(lambda: admin.delete_consumer_groups([DELETED])[DELETED].result(30) is None)
        commit_once(server, SIMPLE, TopicPartition(TOPIC, 2, 9))
        pay(server, join(PAID))
        path = tmp_path_factory.mktemp("capture") / "offsets.parquet"
        captured = invoke("capture", "--bootstrap-server", server, "-o", path)
        assert (captured.exit_code, captured.stdout) == (0, "")
        yield World(server, path, admin)


def pay(server: str, consumer: Consumer) -> None:
    """Offsets inside transactions: one committed, one aborted."""
    wait_until(lambda: consumer.poll(0.1) or consumer.assignment())
    for offset, end in ((5, Producer.commit_transaction), (6, Producer.abort_transaction)):
        end(open_transaction(server, "cli-live-tx", consumer, TopicPartition(TOPIC, 3, offset)), 30)


def sources(world: World) -> list[list[object]]:
    """The two ways to name the same records."""
    return [["--from-file", world.capture], ["--bootstrap-server", world.server]]


def kafka_prints(world: World, formatter: str) -> dict[str, list[Any]]:
    """What Kafka's console consumer prints with one of its formatters, by group, in log order.

    It reads as many records as the capture has: waiting for silence would depend on the machine's speed.
    """
    partitions = pq.read_table(world.capture, columns=["partition"])["partition"].to_pylist()
    command = java_command(
        *("org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", world.server),
        *("--topic", OFFSETS_TOPIC, "--partition", PARTITION, "--offset", "earliest"),
        *("--max-messages", partitions.count(PARTITION)),
        *("--isolation-level", "read_committed"),
        *("--formatter", f"org.apache.kafka.tools.consumer.{formatter}"),
    )
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
    return by_group(done.stdout)


def group_of(record: dict[str, Any]) -> str:
    """The group id, which Kafka's schemas spell in two ways; other tests leave groups of every kind."""
    data = record["key"]["data"]
    return str(data["group"] if "group" in data else data["groupId"])


def by_group(text: str) -> dict[str, list[Any]]:
    """The JSON records of our groups, by group; Kafka's formatters put nothing between two records."""
    found = defaultdict(list)
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        record, at = decoder.raw_decode(text, at)
        at += text[at : at + 1] == "\n"
        group = group_of(record)
        if group in OURS:
            found[group].append(record)
    return dict(found)


def decoded(world: World, source: list[object], types: set[int]) -> dict[str, list[Any]]:
    """What ``groupreplay decode`` prints of these types, by group."""
    found = by_group(printed_by("decode", *source))
    chosen = {g: [r for r in records if r["key"]["type"] in types] for g, records in found.items()}
    return {group: records for group, records in chosen.items() if records}


@pytest.mark.parametrize(
    ("formatter", "types"), [("OffsetsMessageFormatter", {0, 1}), ("GroupMetadataMessageFormatter", {2})]
)
def test_decode_prints_what_kafka_prints(world: World, formatter: str, types: set[int]) -> None:
    """Record for record the JSON of Kafka's own formatter, tombstones included, from topic and capture."""
    expected = kafka_prints(world, formatter)
    assert set(expected) == (OURS if types == {0, 1} else OURS - {SIMPLE})
    assert any(record["value"] is None for record in expected[DELETED])
    for source in sources(world):
        assert decoded(world, source, types) == expected


def test_list_agrees_with_the_broker(world: World) -> None:
    """State and type of every group are those that the broker itself answers."""
    answer = world.admin.list_consumer_groups(request_timeout=30).result(30)
    expected = {
        group.group_id: ("classic", group.state.name.title())
        for group in answer.valid
        if group.group_id in OURS
    }
    assert set(expected) == OURS - {DELETED}
    for source in sources(world):
        groups = json.loads(invoke("list", *source, "-o", "json").stdout)
        found = {one["group_id"]: (one["type"], one["state"]) for one in groups if one["group_id"] in OURS}
        assert found == expected


def test_members_and_coordinator_agree_with_the_broker(world: World) -> None:
    """Members, hosts, static ids, assignments, strategy and coordinator are those of the Admin API."""
    words = ["describe", "--bootstrap-server", world.server, "-o", "csv"]
    for group in (TWO, LEFT, PAID):
        answer = world.admin.describe_consumer_groups([group], request_timeout=30)[group].result(30)
        members = {
            (
                member.member_id,
                member.group_instance_id or "",
                member.host,
                member.client_id,
                f"{TOPIC}:{','.join(str(one.partition) for one in member.assignment.topic_partitions)}",
            )
            for member in answer.members
        }
        printed = invoke(*words, "--group", group, "--members", "--verbose").stdout
        names = ("CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "CURRENT-ASSIGNMENT")
        assert {tuple(row[name] for name in names) for row in table(printed)} == members
        (state,) = table(invoke(*words, "--group", group, "--state").stdout)
        names = ("COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS")
        assert tuple(state[name] for name in names) == (
            f"{answer.coordinator.host}:{answer.coordinator.port} ({answer.coordinator.id})",
            answer.partition_assignor,
            answer.state.name.title(),
            str(len(answer.members)),
        )


def test_offsets_agree_with_the_broker(world: World) -> None:
    """Committed offsets are those of the Admin API; what was aborted with its transaction is not there."""
    for source in sources(world):
        for group in sorted(OURS - {DELETED}):
            asked = world.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
            answer = asked[group].result(30).topic_partitions
            expected = {(at.partition, at.offset, (at.metadata or "").rstrip("\0")) for at in answer}
            (picture,) = json.loads(invoke("describe", *source, "--group", group, "-o", "json").stdout)
            found = {
                (one["partition"], one["offset"], one["metadata"].rstrip("\0")) for one in picture["offsets"]
            }
            assert found == expected
            assert expected


def table(text: str) -> list[dict[str, str]]:
    """The rows of a CSV table."""
    return list(csv.DictReader(io.StringIO(text)))


def test_capture_and_topic_replay_alike(world: World) -> None:
    """The capture carries cluster and era with it: same events, same ids, as from the live topic.

    Of a live topic it is known that nothing was written since, so time alone may bring more: those have no cause.
    """
    outputs = []
    for source in sources(world):
        more = [word for group in sorted(OURS) for word in ("--group", group)]
        result = invoke("replay", *source, *more, "-o", "jsonl", "--member-events")
        assumed = [
            line for line in result.stderr.splitlines() if not line.startswith("assumed, because the capture")
        ]
        assert (result.exit_code, assumed) == (0, [])
        events = [json.loads(line) for line in result.stdout.splitlines()]
        outputs.append([event for event in events if event["data"]["cause"] is not None])
    events = outputs[0]
    assert events == outputs[1]
    identity = Connection(Cluster(bootstrap_servers=world.server)).identify(OFFSETS_TOPIC)
    assert events[0]["id"].startswith(f"{OFFSETS_TOPIC}-{identity.era}-")
    assert {event["data"]["cluster_id"] for event in events} == {identity.cluster_id}
    told = [event_name(event) for event in events if event["data"]["group_id"] == DELETED]
    assert told == [
        "group.created",
        "rebalance.completed",
        "member.joined",
        "group.emptied",
        "member.left",
        "offsets.deleted",
        "group.deleted",
    ]


def test_no_group_of_our_own(world: World) -> None:
    """Reading the topic leaves no group behind, neither listed nor in the log."""

    def groups() -> set[str]:
        answer = world.admin.list_consumer_groups(request_timeout=30).result(30)
        return {group.group_id for group in answer.valid}

    def in_log() -> set[str]:
        lines = invoke("decode", "--bootstrap-server", world.server).stdout.splitlines()
        return {group_of(json.loads(line)) for line in lines}

    before = groups(), in_log()
    for words in (["list"], ["replay"], ["describe", "--all-groups"]):
        assert invoke(*words, "--bootstrap-server", world.server).exit_code == 0
    assert (groups(), in_log()) == before


def test_capture_can_follow(world: World, tmp_path: Path, unique: Callable[[str], str]) -> None:
    """What is committed after the backlog was copied is in the file, too, when it is followed."""
    group, followed = unique("follower"), list[int]()

    def clock() -> float:
        if not followed:
            commit_once(world.server, group, TopicPartition(TOPIC, 0, 42))
            followed.append(0)
        return 1e9 if len(followed) > 1 else 0.0

    def progress(done: int, total: int | None) -> None:
        if total is None:
            followed.append(done)

    path, cluster = tmp_path / "a.parquet", Cluster(bootstrap_servers=world.server)
    count = capture(
        CapturePlan(cluster=cluster, path=path, follow_seconds=10), progress=progress, clock=clock
    )
    assert count == followed[-1] == pq.ParquetFile(path).metadata.num_rows
    (picture,) = json.loads(invoke("describe", "--from-file", path, "--group", group, "-o", "json").stdout)
    assert [one["offset"] for one in picture["offsets"]] == [42]


def test_interrupted_following_keeps_the_file(world: World, tmp_path: Path) -> None:
    """Ctrl-C while following ends the capture; the backlog is all there."""
    calls: list[int] = []

    def clock() -> float:
        calls.append(1)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return 0.0

    path = tmp_path / "a.parquet"
    count = capture(
        CapturePlan(cluster=Cluster(bootstrap_servers=world.server), path=path, follow_seconds=60),
        clock=clock,
    )
    assert count == pq.ParquetFile(path).metadata.num_rows
    assert count >= pq.ParquetFile(world.capture).metadata.num_rows


def test_coordinator_of_a_live_cluster(world: World) -> None:
    """The partition count is the cluster's, and a wrong one is refused."""
    (row,) = json.loads(invoke("coordinator", TWO, "--bootstrap-server", world.server, "-o", "json").stdout)
    asked = world.admin.describe_consumer_groups([TWO], request_timeout=30)[TWO]
    node = asked.result(30).coordinator
    assert row["coordinator"] == f"{node.host}:{node.port} ({node.id})"
    assert row["partition"] == PARTITION
    refused = invoke("coordinator", TWO, "--bootstrap-server", world.server, "--partitions", "50")
    assert refused.exit_code == 2
