"""What a broker answers about a log that was read, before and after it has lost the log's end.

The ends of a topic whose partitions do not all answer; the client is a fake.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import (
    OFFSET_INVALID,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.contract.log import EpochEnd, PartitionMark, RecordMark, record_digest
from groupreplay.streaming.kafka import log_check
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.log_check import LogEnds, cut_partitions, last_records, present_ends
from support.kafka.blank_brokers import blank_broker
from support.kafka.clients import make_topics, produce
from support.kafka.lost_records import cut_log, log_size

TOPIC = "log"
CUT, WHOLE, EMPTY, MARKERS = range(4)


class Leaders:
    """A cluster of one partition whose leader is another one with each answer."""

    def __init__(self, *answers: EpochEnd) -> None:
        self.answers = list(answers)
        self.forgotten = 0

    def log_ends(self, topic: str, partitions: int) -> dict[int, EpochEnd]:
        assert (topic, partitions) == (TOPIC, 1)
        return {0: self.answers.pop(0)}

    def forget_admin(self) -> None:
        self.forgotten += 1


@pytest.mark.parametrize(
    ("patience", "answers", "left"),
    [
        (60, [EpochEnd(8, 4), EpochEnd(9, 4), EpochEnd(12, 5), EpochEnd(13, 5)], 1),
        (60, [EpochEnd(12, 6), EpochEnd(12, 6)], 1),
        (60, [EpochEnd(12), EpochEnd(12, 6)], 1),
        (0, [EpochEnd(8, 4), EpochEnd(9, 4)], 1),
    ],
)
def test_a_leader_that_was_replaced(
    patience: float, answers: list[EpochEnd], left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may not know it yet, and its log may be shorter: it is asked again, and believed only if it stays."""
    monkeypatch.setattr(log_check, "_EARLIER_SECONDS", patience)
    monkeypatch.setattr(log_check, "_EARLIER_PAUSE_SECONDS", 0.001)
    cluster = Leaders(*answers)
    marks = {0: PartitionMark(EpochEnd(10, 5)), 7: PartitionMark(EpochEnd(1, 9))}
    found = present_ends(cast(Connection, cluster), TOPIC, 1, marks)
    assert (found, len(cluster.answers)) == ({0: answers[-1 - left]}, left)
    assert cluster.forgotten == len(answers) - 1 - left


def test_a_client_that_did_not_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer that knows the leader does not ask for the epoch: others are opened, and one answer is enough."""
    asked: list[list[tuple[int, int, int]]] = []

    def first_messages(_: object, __: str, places: list[TopicPartition]) -> dict[int, Message]:
        asked.append([(place.partition, place.offset, place.leader_epoch) for place in places])
        ended = "Partition log truncation detected at offset 9 (leader epoch 3): broker end offset is 5"
        error = KafkaError(KafkaError._AUTO_OFFSET_RESET, ended)
        return {
            place.partition: Message(error=error if (len(asked), place.partition) == (3, 1) else None)
            for place in places
        }

    monkeypatch.setattr(log_check, "_first_messages", first_messages)
    ends = {0: EpochEnd(8, 2), 1: EpochEnd(9, 3)}
    held = log_check._epochs_hold(cast(Connection, None), TOPIC, ends)
    assert held == {0: True, 1: False}
    assert asked == [[(0, 8, 2), (1, 9, 3)]] * 3 + [[(0, 8, 2)]] * 2


def records(first: int, count: int) -> list[tuple[bytes, bytes]]:
    """Keys and values."""
    return [(b"k%d" % number, b"v%d" % number) for number in range(first, first + count)]


def marks_of(server: str) -> dict[int, PartitionMark]:
    """The marks of all partitions, as a job takes them."""
    connection = Connection(Cluster(bootstrap_servers=server))
    ends = connection.log_ends(TOPIC, 4)
    found = last_records(connection, TOPIC, {number: end.offset for number, end in ends.items()})
    return {number: PartitionMark(end, found.get(number)) for number, end in ends.items()}


def cut_since(server: str, marks: Mapping[int, PartitionMark]) -> frozenset[int]:
    """The partitions that were cut, by what the broker answers now."""
    connection = Connection(Cluster(bootstrap_servers=server))
    return cut_partitions(connection, TOPIC, marks, connection.log_ends(TOPIC, 4))


def write_transactions(server: str) -> None:
    """One that is committed, one that is aborted: their markers are the last offsets."""
    producer = Producer({"bootstrap.servers": server, "transactional.id": "t", "log_level": 0})
    producer.init_transactions(30)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(TOPIC, b"in transaction", b"k", MARKERS)
        producer.flush(30)
        end(30)


@pytest.mark.broker
def test_a_log_that_lost_its_end() -> None:
    """The epoch shows it and so does the record, whether the log has grown again or not; other partitions are whole."""
    with blank_broker() as broker:
        server, place = broker.bootstrap_servers, TopicPartition(TOPIC, CUT)
        make_topics(server, {TOPIC: 4})
        write_transactions(server)
        for partition in (CUT, WHOLE):
            produce(server, TOPIC, records(0, 10), partition)
        size = log_size(broker, place)
        first = marks_of(server)
        produce(server, TOPIC, records(10, 5), CUT)
        marks = marks_of(server)
        assert (first[CUT].end, marks[CUT].end, marks[EMPTY]) == (
            EpochEnd(10, 0),
            EpochEnd(15, 0),
            PartitionMark(EpochEnd(0, 0)),
        )
        # The marker of the committed one, and the aborted record with its marker, are behind it.
        assert (marks[MARKERS].end.offset, marks[MARKERS].record and marks[MARKERS].record.offset) == (4, 0)
        assert marks[WHOLE].record is not None
        assert cut_since(server, marks) == set()
        cut_log(broker, place, size)
        without_epochs = {
            number: PartitionMark(EpochEnd(mark.end.offset), mark.record) for number, mark in marks.items()
        }
        for known in (marks, without_epochs):
            assert cut_since(server, known) == {CUT}
        produce(server, TOPIC, records(100, 20), CUT)
        assert cut_since(server, first) == set()
        only_epochs = {number: PartitionMark(mark.end) for number, mark in marks.items()}
        for known in (marks, without_epochs, only_epochs):
            assert cut_since(server, known) == {CUT}
        # Seen under a leader that this log has never had: only the record can be compared.
        restored = {CUT: PartitionMark(EpochEnd(15, 99), marks[CUT].record)}
        assert cut_since(server, restored) == {CUT}
        assert cut_since(server, {CUT: PartitionMark(EpochEnd(15, 99), first[CUT].record)}) == set()
        assert marks_of(server)[CUT].record == last_of(server, 29)


def last_of(server: str, offset: int) -> RecordMark:
    """What a plain consumer reads there."""
    consumer = Connection(Cluster(bootstrap_servers=server)).consumer()
    consumer.assign([TopicPartition(TOPIC, CUT, offset)])
    message = consumer.poll(30)
    assert message is not None
    assert message.error() is None
    consumer.close()
    return RecordMark(message.offset(), record_digest(message.key(), message.value(), message.timestamp()[1]))


TIMED_OUT = KafkaException(KafkaError(KafkaError._TIMED_OUT))


class Admin:
    """A cluster with leaders and, by partition, an offset or an error; without leaders no broker answers."""

    def __init__(self, leaders: Mapping[int, int], answers: Mapping[int, Any]) -> None:
        self.leaders = leaders
        self.answers = answers
        self.asked: list[tuple[list[int], IsolationLevel]] = []

    def list_topics(self, topic: str, *, timeout: float) -> Any:
        """Metadata of the topic."""
        assert timeout <= 5
        if not self.leaders:
            raise TIMED_OUT
        partitions = {number: SimpleNamespace(leader=leader) for number, leader in self.leaders.items()}
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions=partitions)})

    def list_offsets(
        self, wanted: Mapping[TopicPartition, Any], *, isolation_level: IsolationLevel, request_timeout: float
    ) -> Mapping[TopicPartition, Future[Any]]:
        """The ends of these partitions."""
        assert request_timeout <= 5
        self.asked.append(([one.partition for one in wanted], isolation_level))
        futures: dict[TopicPartition, Future[Any]] = {}
        for one in wanted:
            futures[one] = Future()
            answer = self.answers[one.partition]
            if isinstance(answer, Exception):
                futures[one].set_exception(answer)
            else:
                futures[one].set_result(SimpleNamespace(offset=answer, leader_epoch=3))
        return futures

    def poll(self, seconds: float) -> None:
        """Nothing to call back."""


def ends_of(admin: Admin, partitions: int = 4) -> LogEnds:
    """The topic on this cluster."""
    connection = Connection(Cluster(bootstrap_servers="h:1"))
    connection._admin = cast("AdminClient", admin)
    return LogEnds(connection, "t", partitions)


def test_all_answer() -> None:
    """The two kinds of ends differ by the isolation level; a partition that the job does not read is not asked for."""
    admin = Admin(dict.fromkeys(range(5), 1), {0: 7, 1: 0, 2: 5, 3: 9})
    ends = ends_of(admin)
    assert ends.stable() == {number: EpochEnd(end, 3) for number, end in ends.high_watermarks().items()}
    assert ends.high_watermarks() == {0: 7, 1: 0, 2: 5, 3: 9}
    assert admin.asked == [
        ([0, 1, 2, 3], IsolationLevel.READ_COMMITTED),
        *[([0, 1, 2, 3], IsolationLevel.READ_UNCOMMITTED)] * 2,
    ]


def test_a_partition_without_a_leader_is_not_asked_for() -> None:
    """Its request would only be answered when its time is over."""
    admin = Admin({0: 1, 1: -1, 2: 2}, {0: 7, 2: 5})
    assert ends_of(admin).stable() == {0: EpochEnd(7, 3), 2: EpochEnd(5, 3)}
    assert [numbers for numbers, _ in admin.asked] == [[0, 2]]


def test_a_leader_that_does_not_answer() -> None:
    """Its partitions have an error, or with librdkafka neither error nor offset; the next call has a new client."""
    admin = Admin(dict.fromkeys(range(4), 1), {0: 7, 1: TIMED_OUT, 2: OFFSET_INVALID, 3: 0})
    ends = ends_of(admin)
    assert ends.stable() == {0: EpochEnd(7, 3), 3: EpochEnd(0, 3)}
    assert ends.connection._admin is None


def test_a_cluster_that_is_away() -> None:
    """No partition answers, and nothing is raised."""
    assert ends_of(Admin({}, {})).stable() == {}
