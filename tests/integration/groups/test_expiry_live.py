"""Expiry and deletion of offsets on a real broker: predicted deadlines are compared with tombstones.

The broker's retention is set in whole minutes, so one long test covers all groups that expire by it. Offsets with a
retention of their own, and deletions, take seconds.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition

from groupreplay.codecs.kafka_terms import partition_for
from groupreplay.coordinator.requests import Commit, Error, OffsetCommit, OffsetDelete
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.sources.capture_context import decoded_context
from support.job.captures import invoke
from support.job.replays import Json, event_name, replayed_log
from support.kafka.clients import make_topics, new_consumer, open_transaction
from support.kafka.waiting import wait_until
from support.model.raw_members import RawRequest

pytestmark = pytest.mark.broker

CHECK_MS = 2_000
#: A tombstone is written within the check interval after the deadline; the rest allows for a slow machine.
LATEST_MS = CHECK_MS + 5_000
PARTITIONS = 8
TOPICS = ("a", "b", "c")

Place = tuple[str, str, int]


class Clients:
    """Clients of one broker whose retention is one minute, checked every two seconds."""

    def __init__(self, server: str) -> None:
        self.server = server
        self.admin = make_topics(server, dict.fromkeys(TOPICS, 2))
        self.alive: list[Consumer] = []

    def member(self, group: str, *topics: str, **more: object) -> Consumer:
        """A member to which all partitions of these topics are assigned."""
        member = new_consumer(self.server, group, *topics, **more)
        self.until(member, lambda: len(member.assignment()) == 2 * len(topics))
        return member

    def until(self, consumer: Consumer, condition: Callable[[], object]) -> None:
        """Polls one consumer until the condition holds."""
        wait_until(lambda: (consumer.poll(0.1), condition())[1])

    def commit(self, consumer: Consumer, *topics: str, offset: int = 5) -> None:
        """Commits an offset for both partitions of these topics."""
        places = [TopicPartition(topic, number, offset) for topic in topics for number in (0, 1)]
        for place in consumer.commit(offsets=places, asynchronous=False):
            assert place.error is None

    def simple(self, group: str, *topics: str) -> None:
        """Commits without group membership."""
        with closing(new_consumer(self.server, group)) as client:
            self.commit(client, *topics)

    def emptied(self, group: str, *topics: str, **more: object) -> None:
        """Commits as a member, which then leaves."""
        member = self.member(group, *topics, **more)
        self.commit(member, *topics)
        member.close()

    def poll_until(self, condition: Callable[[], object], seconds: float) -> None:
        """Polls the running consumers until the condition holds, so that they stay members."""
        wait_until(lambda: ([one.poll(0) for one in self.alive], condition())[1], seconds, pause=0.5)

    def predicted(self) -> dict[Place, int | None]:
        """The expiry time of each offset, as replayed from the log."""
        _, replay = replayed_log(self.server)
        return {
            (group.group_id, offset["topic"], offset["partition"]): offset["expires_at_ms"]
            for group in replay.groups()
            for offset in group.describe()["offsets"]
        }

    def losses(self) -> dict[str, list[Json]]:
        """The data of the events about expired and deleted offsets, by group."""
        lost: dict[str, list[Json]] = {}
        names = Connection(Cluster(bootstrap_servers=self.server)).topic_names()
        for event in replayed_log(self.server, topic_names=names)[0]:
            if event_name(event) in ("offsets.expired", "offsets.deleted"):
                lost.setdefault(event["data"]["group_id"], []).append(event["data"])
        return lost


@pytest.fixture(scope="module")
def world() -> Iterator[Clients]:
    """The clients of a broker, which are closed at the end."""
    overrides = {"offsets.retention.minutes": 1, "offsets.retention.check.interval.ms": CHECK_MS}
    with EmbeddedBroker(offsets_partitions=PARTITIONS, overrides=overrides) as broker:
        made = Clients(broker.bootstrap_servers)
        yield made
        for consumer in made.alive:
            consumer.close()


def reasons(losses: list[Json]) -> list[tuple[str, list[Place]]]:
    """Reason and partitions of each event."""
    return [
        (one["reason"], [(one["group_id"], at["topic"], at["partition"]) for at in one["partitions"]])
        for one in losses
    ]


def places(group: str, *topics: str) -> list[Place]:
    """Both partitions of these topics."""
    return [(group, topic, number) for topic in topics for number in (0, 1)]


def check(world: Clients, predicted: dict[Place, int | None], wanted: list[Place]) -> None:
    """Asserts that each of these offsets expired at or soon after its predicted deadline."""
    late: dict[Place, int | None] = dict.fromkeys(wanted)
    for losses in world.losses().values():
        for one in losses:
            for at in one["partitions"]:
                place = (one["group_id"], at["topic"], at["partition"])
                if place in late and one["reason"] == "retention":
                    late[place] = one["cause"]["timestamp_ms"] - (predicted[place] or 0)
    assert all(after is not None and 0 <= after <= LATEST_MS for after in late.values()), late


def test_own_retention_and_deletions(world: Clients, tmp_path: Path) -> None:
    """A retention in the commit request is honoured; deletions of a group, offsets or a topic are no expiry."""
    for group in ("gone-group", "gone-offsets"):
        world.simple(group, "a", "b")
    world.simple("gone-topic", "b", "c")
    commits = tuple(Commit(topic="a", partition=number, offset=5 + number) for number in range(2))
    own = OffsetCommit(commits=commits, retention_ms=4_000)
    assert RawRequest(world.server, "own", "raw", own).answer().error is Error.NONE
    predicted = world.predicted()
    assert all(predicted[place] is not None for place in places("own", "a"))

    world.admin.delete_consumer_groups(["gone-group"])["gone-group"].result(30)
    deletion = OffsetDelete((("a", 0), ("a", 1)))
    assert RawRequest(world.server, "gone-offsets", "raw", deletion).answer().error is Error.NONE
    world.admin.delete_topics(["c"])["c"].result(30)
    wait_until(lambda: len(world.losses()) == 4, pause=0.5)

    losses = world.losses()
    assert reasons(losses["gone-group"]) == [("group_deleted", places("gone-group", "a", "b"))]
    # Both remove all offsets of a topic, and nobody has asked the brokers for it (``test_deletions_live.py``).
    assert reasons(losses["gone-offsets"]) == [("unknown", places("gone-offsets", "a"))]
    assert reasons(losses["gone-topic"]) == [("unknown", places("gone-topic", "c"))]
    check(world, predicted, places("own", "a"))
    same_in_a_capture(world, tmp_path)


def same_in_a_capture(world: Clients, folder: Path) -> None:
    """A capture has the brokers' retention: what is read from it is what is read from the live topic."""
    # A group whose offsets are still there.
    world.simple("in-a-capture", "a")
    capture, words = folder / "a.parquet", ("-o", "jsonl", "--complete-since", "0")
    live = ("--bootstrap-server", world.server)

    def captured_between_equal_reads() -> bool:
        before = invoke("replay", *live, *words).stdout
        assert invoke("capture", *live, "-o", capture, "--force").exit_code == 0
        return before == invoke("replay", *live, *words).stdout

    wait_until(captured_between_equal_reads)
    context = decoded_context(pq.ParquetFile(capture).metadata.metadata)
    assert context is not None
    assert (context.retention_ms, context.check_interval_ms, context.partitions) == (
        60_000,
        CHECK_MS,
        PARTITIONS,
    )
    assert context.topic_settings["cleanup.policy"] == "compact"
    at_ms = context.complete_ms
    for command in (
        ("replay", *words, "--until", at_ms),
        ("list", "--expiring", "1h", "-o", "json", "--at", at_ms),
        ("describe", "--all-groups", "--offsets", "-o", "json", "--at", at_ms),
        ("describe", "--all-groups", "--history", "-o", "json"),
    ):
        results = [invoke(*command, *source) for source in (live, ("--from-file", capture))]
        assert [result.exit_code for result in results] == [0, 0], results
        assert results[0].stdout == results[1].stdout, command
        assert results[0].stdout.strip() not in ("", "[]")
    reports = []
    for number, source in enumerate((live, ("--from-file", capture))):
        path = capture.with_name(f"report-{number}.json")
        words_of_one = ("report", "--group", "in-a-capture", "--until", at_ms, "-o", path)
        assert invoke(*words_of_one, *source).exit_code == 0
        reports.append({**json.loads(path.read_text(encoding="utf-8")), "source": None})
    assert reports[0] == reports[1]
    # Nothing assumed but the prober, where rebalances are shown.
    assert invoke("list", "--expiring", "1h", "--from-file", capture).stderr == ""


@pytest.mark.long
def test_a_minute_of_retention(world: Clients, tmp_path: Path) -> None:
    """Groups of all kinds expire at the same time; an open transaction delays one in a partition of its own."""
    begun = time.monotonic()
    world.emptied("classic", "a")
    world.emptied("admin-set", "a")
    world.simple("simple", "a")
    world.emptied("modern-empty", "a", group_protocol="consumer")
    for group, protocol in (("classic-let-go", "classic"), ("modern-let-go", "consumer")):
        member = world.member(group, "a", "b", group_protocol=protocol)
        world.commit(member, "a", "b")
        member.subscribe(["a"])
        world.until(member, lambda member=member: len(member.assignment()) == 2)  # type: ignore[misc]
        world.alive.append(member)
    groups = ("classic", "admin-set", "simple", "modern-empty", "classic-let-go", "modern-let-go")
    mine = {partition_for(group, PARTITIONS) for group in groups}
    held = next(
        name for name in (f"held-{n}" for n in range(99)) if partition_for(name, PARTITIONS) not in mine
    )
    world.simple(held, "a")
    predicted_held = world.predicted()

    # With the default of 60 s the broker might abort the transaction before the last deadline.
    patient = {"transaction.timeout.ms": 300_000}
    with closing(new_consumer(world.server, held)) as client:
        producer = open_transaction(world.server, "t", client, TopicPartition("a", 0, 9), **patient)

    world.poll_until(lambda: time.monotonic() - begun > 20, 60)
    later = ConsumerGroupTopicPartitions("admin-set", [TopicPartition("b", 0, 3)])
    world.admin.alter_consumer_group_offsets([later])["admin-set"].result(30)
    predicted = {**world.predicted(), **{place: predicted_held[place] for place in places(held, "a")}}
    # Retention starts when the group became empty, not when an administrator set the offset.
    assert predicted["admin-set", "b", 0] == predicted["admin-set", "a", 0]
    for group in ("classic-let-go", "modern-let-go"):
        assert [predicted[place] for place in places(group, "a")] == [None, None]

    wanted = [
        *(
            place
            for group in ("classic", "admin-set", "simple", "modern-empty")
            for place in places(group, "a")
        ),
        ("admin-set", "b", 0),
        *places("classic-let-go", "b"),
        *places("modern-let-go", "b"),
    ]
    last_ms = max(predicted[place] or 0 for place in [*wanted, *places(held, "a")])
    world.poll_until(lambda: time.time() * 1000 > last_ms + LATEST_MS, 120)
    check(world, predicted, wanted)
    assert held not in world.losses()
    producer.abort_transaction(30)
    world.poll_until(lambda: len(reasons(world.losses().get(held, []))) == 2, 60)
    check(world, predicted, places(held, "a")[1:])
    first, second = reasons(world.losses()[held])
    assert (first, second) == (("retention", places(held, "a")[1:]), ("retention", places(held, "a")[:1]))
    for group in ("classic-let-go", "modern-let-go"):
        assert reasons(world.losses()[group]) == [("retention", places(group, "b"))]
    assert "retention" in invoke("replay", "--bootstrap-server", world.server, "--group", "classic").stdout
    same_in_a_capture(world, tmp_path)
