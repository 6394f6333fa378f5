"""Lag on a real broker: equal to what the Admin API says, and time lag beside the times of the records themselves."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from groupreplay.app.exporter.lag_watch import EndsInTopic, LagWatch
from groupreplay.state.phrases import timestamp_ms
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.contract.partition_ends import EndsRound
from groupreplay.streaming.contract.probe_messages import encode_message
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.output_topics import ensure_topics
from groupreplay.streaming.kafka.publisher import Publisher
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.prober.ends import ends_recorder, ends_thread
from groupreplay.streaming.prober.packed_ends import EndsPacker
from support.job.captures import invoke, printed_by
from support.kafka.clients import commit_once, commit_surely, make_topics, new_consumer, produce
from support.kafka.lost_records import elect_uncleanly
from support.kafka.three_brokers import ThreeBrokers, three_brokers
from support.kafka.waiting import wait_until

pytestmark = pytest.mark.broker

INTERVAL_SECONDS = 0.5


class Recorded:
    """A prober that records ends, and the commands that read them."""

    def __init__(self, servers: str, probes: str, folder: Path) -> None:
        self.servers, self._probes, self._folder = servers, probes, folder
        self.rounds = 0
        cluster = Cluster(bootstrap_servers=servers)
        connection = Connection(cluster)
        ensure_topics(connection, TopicNames(probes=probes), only=("probes",))
        publisher = Publisher(cluster)
        recorder = ends_recorder(
            connection,
            cluster_id=connection.cluster_id(),
            clock=now_ms,
            interval_seconds=INTERVAL_SECONDS,
            left_out={probes},
        )

        def write(messages: Any) -> None:
            publisher.publish(probes, map(encode_message, messages))
            self.rounds += isinstance(messages[-1], EndsRound)

        self.thread = ends_thread(recorder, write, INTERVAL_SECONDS, EndsPacker())

    def settled(self) -> None:
        """Two more rounds were written: the second was begun after this call."""
        before = self.rounds
        wait_until(lambda: self.rounds >= before + 2)

    def captured(self) -> Path:
        """A capture of the log and of the probes, of this moment."""
        path = self._folder / f"{time.monotonic_ns()}.parquet"
        words = ("capture", "--bootstrap-server", self.servers, "--probes-topic", self._probes)
        printed_by(*words, "--output-file", path)
        return path

    def offset(self, path: Path, group: str, *words: object) -> dict[str, Any]:
        """The only offset of a group in a capture."""
        source = ("--from-file", path, "--probes-topic", self._probes)
        printed = printed_by("describe", *source, "--group", group, "-o", "json", *words)
        ((offset,),) = [document["offsets"] for document in json.loads(printed)]
        return dict(offset)


@contextmanager
def recording(broker: EmbeddedBroker | ThreeBrokers, probes: str, folder: Path) -> Iterator[Recorded]:
    """A prober in a thread of its own."""
    recorded = Recorded(broker.bootstrap_servers, probes, folder)
    recorded.thread.start(at_once=True)
    try:
        wait_until(lambda: recorded.rounds >= 1)
        yield recorded
    finally:
        recorded.thread.close()


def end_of(servers: str, topic: str) -> int:
    """The end of the only partition, as the Admin API of Kafka's tools says."""
    place = TopicPartition(topic, 0)
    admin = AdminClient({"bootstrap.servers": servers})
    answers = admin.list_offsets({place: OffsetSpec.latest()})
    return int(answers[place].result(30).offset)


def steadily(servers: str, topic: str, count: int) -> list[int]:
    """Writes so many records, one after the other; returns the time of each, which the producer has set."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
    times_ms = []
    for _ in range(count):
        times_ms.append(now_ms())
        producer.produce(topic, b"x", timestamp=times_ms[-1])
        assert producer.flush(30) == 0
        time.sleep(0.05)
    return times_ms


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_stop_of_known_length(
    broker: EmbeddedBroker, unique: Callable[[str], str], tmp_path: Path, protocol: str
) -> None:
    """A member commits and then stops while a producer goes on: both lags hold the truth of the records.

    The lag is that of the Admin API, the time lag is within two intervals of the age of the first record that was not
    consumed; an earlier moment is told as well as now, and the live cluster gives the same.
    """
    group, topic = unique("g"), unique("t")
    servers = broker.bootstrap_servers
    make_topics(servers, {topic: 1})
    with recording(broker, unique("probes"), tmp_path) as recorded:
        before_ms = steadily(servers, topic, 10)
        member = new_consumer(servers, group, topic, group_protocol=protocol, auto_offset_reset="earliest")
        try:
            seen = 0

            def has_read_all() -> bool:
                nonlocal seen
                message = member.poll(0.1)
                seen += message is not None and message.error() is None
                return seen == len(before_ms)

            wait_until(has_read_all)
            member.commit(asynchronous=False)
            recorded.settled()
            stopped_ms = now_ms()
            missed_ms = steadily(servers, topic, 40)
            recorded.settled()
            path = recorded.captured()
            offset = recorded.offset(path, group)
            live = recorded_live(recorded, group)
        finally:
            member.close()
    assert (offset["lag"], offset["log_end_offset"]) == (len(missed_ms), end_of(servers, topic))
    assert offset["lag_least"] == len(missed_ms)
    assert (live["lag"], live["lag_least"], live["lag_most"]) == (len(missed_ms),) * 3
    # A moment in the stop, for which the number of records and the age of the first one are known.
    at_ms = missed_ms[20] + 1
    past = recorded.offset(path, group, "--at", at_ms)
    assert past["lag_least"] <= 21 <= past["lag_most"]
    age_ms = at_ms - missed_ms[0]
    assert past["time_lag_least_ms"] <= age_ms <= past["time_lag_most_ms"]
    width_ms = past["time_lag_most_ms"] - past["time_lag_least_ms"]
    assert abs(past["time_lag_ms"] - age_ms) <= width_ms
    caught_up = recorded.offset(path, group, "--at", stopped_ms)
    assert (caught_up["lag_least"], caught_up["time_lag_least_ms"]) == (0, 0)


def recorded_live(recorded: Recorded, group: str) -> dict[str, Any]:
    """The only offset of a group on the live cluster."""
    words = ("describe", "--bootstrap-server", recorded.servers, "--group", group, "-o", "json")
    ((offset,),) = [document["offsets"] for document in json.loads(invoke(*words).stdout)]
    return dict(offset)


def test_an_open_transaction(broker: EmbeddedBroker, unique: Callable[[str], str], tmp_path: Path) -> None:
    """Its records count in the lag, as in Kafka's tools, and it is said that read_committed does not see them."""
    group, topic, servers = unique("g"), unique("t"), broker.bootstrap_servers
    make_topics(servers, {topic: 1})
    produce(servers, topic, [(None, b"x")] * 3)
    commit_once(servers, group, TopicPartition(topic, 0, 1))
    producer = Producer({"bootstrap.servers": servers, "transactional.id": unique("x")})
    producer.init_transactions(30)
    producer.begin_transaction()
    for _ in range(4):
        producer.produce(topic, b"y")
    assert producer.flush(30) == 0
    with recording(broker, unique("probes"), tmp_path) as recorded:
        recorded.settled()
        offset = recorded.offset(recorded.captured(), group)
        note = "behind an open transaction, unreadable with read_committed: 4 records"
        assert (offset["lag"], offset["lag_notes"]) == (6, [note])
        producer.abort_transaction(30)
        recorded.settled()
        ended = recorded.offset(recorded.captured(), group)
        # The marker of the transaction has an offset, too.
        assert (ended["lag"], ended["lag_notes"]) == (7, [])


def test_a_topic_that_is_deleted_and_created_again(
    broker: EmbeddedBroker, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """The lag at a moment of the old topic stays known; the new topic has one of its own after a commit there."""
    group, topic, servers = unique("g"), unique("t"), broker.bootstrap_servers
    admin = make_topics(servers, {topic: 1})
    produce(servers, topic, [(None, b"x")] * 9)
    commit_once(servers, group, TopicPartition(topic, 0, 5))
    with recording(broker, unique("probes"), tmp_path) as recorded:
        recorded.settled()
        old_ms = now_ms()
        recorded.settled()
        old = recorded.captured()
        admin.delete_topics([topic])[topic].result(30)
        recorded.settled()
        make_topics(servers, {topic: 1})
        produce(servers, topic, [(None, b"x")] * 20)
        commit_once(servers, group, TopicPartition(topic, 0, 2))
        recorded.settled()
        new = recorded.offset(recorded.captured(), group)
    assert recorded.offset(old, group, "--at", old_ms)["lag"] == 4
    assert (new["lag"], new["log_end_offset"], new["lag_notes"]) == (18, 20, [])


def test_a_leader_that_lacks_records(unique: Callable[[str], str], tmp_path: Path) -> None:
    """An unclean election: how many records it has cost at least, and when; a leader that lacks none is no loss."""
    group, place = unique("g"), TopicPartition(unique("t"), 0)
    with three_brokers(1, unclean_leader_election_enable="true") as cluster:
        servers = cluster.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        admin.create_topics([NewTopic(place.topic, num_partitions=1, replication_factor=2)])[
            place.topic
        ].result(30)
        produce(servers, place.topic, [(None, b"x")] * 60)
        commit_surely(servers, group, TopicPartition(place.topic, 0, 50))
        with recording(cluster, unique("probes"), tmp_path) as recorded:
            recorded.settled()
            lost_ms: list[int] = []

            def write_lost() -> None:
                produce(servers, place.topic, [(None, b"x")] * 40)
                recorded.settled()
                assert recorded.offset(recorded.captured(), group)["lag_notes"] == []
                lost_ms.append(now_ms())

            elect_uncleanly(cluster, place, write_lost=write_lost, write_more=lambda: None)
            lost_ms.append(now_ms())
            produce(servers, place.topic, [(None, b"x")] * 5)
            recorded.settled()
            offset = recorded.offset(recorded.captured(), group)
    assert (offset["lag"], offset["log_end_offset"]) == (15, 65)
    (note,) = offset["lag_notes"]
    words = re.fullmatch(
        r"at least (\d+) records were lost between (\S+) and (\S+), "
        r"when a leader was elected without them \(epoch (\d+), then (\d+)\)",
        note,
    )
    assert words is not None, note
    records, since, until, before, after = words.groups()
    assert 35 <= int(records) <= 40
    since_ms, until_ms = timestamp_ms(since), timestamp_ms(until)
    assert since_ms is not None
    assert until_ms is not None
    # The last answer of the leader of before may be older than the last moment at which it was there.
    assert since_ms < lost_ms[1]
    assert until_ms > lost_ms[0]
    assert int(before) < int(after)


def test_the_metrics_measure_what_the_brokers_return(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Committed offsets of the brokers beside recorded ends: the lag of Kafka's tools, and 0 of a group in step."""
    servers, topic = broker.bootstrap_servers, "lag-metrics"
    make_topics(servers, {topic: 1})
    produce(servers, topic, [(None, b"x")] * 9)
    commit_once(servers, "measured-behind", TopicPartition(topic, 0, 4))
    commit_once(servers, "measured-in-step", TopicPartition(topic, 0, 9))
    cluster = Cluster(bootstrap_servers=servers)
    with recording(broker, "probes-metrics", tmp_path) as recorded:
        recorded.settled()
        watch = LagWatch(cluster, EndsInTopic(cluster, cluster, "probes-metrics", now_ms), now_ms, 5_000)
        watch.measure()
        assert lags_of(watch) == {"measured-behind": 5, "measured-in-step": 0}
        # A commit that is newer than the recorded ends is in step, too.
        produce(servers, topic, [(None, b"x")] * 3)
        commit_once(servers, "measured-in-step", TopicPartition(topic, 0, 12))
        watch.measure()
        assert lags_of(watch)["measured-in-step"] == 0
        recorded.settled()
        watch.measure()
        assert lags_of(watch) == {"measured-behind": 8, "measured-in-step": 0}
        assert watch.measured.is_fresh(now_ms())


def lags_of(watch: LagWatch) -> dict[str, int | None]:
    """The lag of each group of the test."""
    return {
        group: partition.lag.records and partition.lag.records.estimate
        for group, partitions in watch.measured.groups.items()
        if group.startswith("measured-")
        for partition in partitions
    }
