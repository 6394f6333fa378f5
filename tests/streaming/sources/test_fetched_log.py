"""The offsets topic in the batches of its leaders: the rows that a consumer gets."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from groupreplay.codecs.kafka_terms import partition_for
from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.contract.log import no_progress
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.topic_reader import read_spans
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.sources import fetched_log
from groupreplay.streaming.sources import topic as topic_module
from groupreplay.streaming.sources.topic import read_log
from support.histories.raw_records import Raw, commit
from support.job.captures import rows_batch
from support.kafka.clients import make_topics, new_consumer


class Writer:
    """Writes commits of one group, each time as one batch."""

    def __init__(self, servers: str, group: str, partition: int, **settings: Any) -> None:
        self.group, self.partition, self.written = group, partition, 0
        # Only Kafka's own administration client may write to this topic.
        self.producer = Producer(
            {"bootstrap.servers": servers, "client.id": "__admin_client", "log_level": 0, **settings}
        )

    def write(self, records: int) -> None:
        """Outside of transactions."""
        for _ in range(records):
            key, value = commit(self.group, partition=self.written)
            self.producer.produce(OFFSETS_TOPIC, value, key, self.partition, timestamp=1_000 + self.written)
            self.written += 1
        assert self.producer.flush(60) == 0


class Transactions:
    """Commits offsets of a group in transactions, each time in one batch."""

    def __init__(self, servers: str, member: Consumer, name: str, topic: str) -> None:
        self.producer = Producer({"bootstrap.servers": servers, "transactional.id": name, "log_level": 0})
        self.member, self.topic = member, topic
        self.producer.init_transactions(60)

    def write(self, records: int) -> None:
        """In the open transaction."""
        places = [TopicPartition(self.topic, number, 1) for number in range(records)]
        self.producer.send_offsets_to_transaction(places, self.member.consumer_group_metadata(), 60)


def write_transactions(servers: str, group: str, number: int, unique: Callable[[str], str]) -> None:
    """Two transactions lie across each other, twice, one of them aborted; then a third, whose marker is the last."""
    topic = unique("t")
    make_topics(servers, {topic: 5})
    plain, packed = (
        Writer(servers, group, number),
        Writer(servers, group, number, **{"compression.type": "gzip"}),
    )
    with closing(new_consumer(servers, group)) as member:
        aborting, committing = (Transactions(servers, member, unique("tx"), topic) for _ in range(2))
        plain.write(70)
        for _ in range(2):
            aborting.producer.begin_transaction()
            committing.producer.begin_transaction()
            for writer in (aborting, plain, committing, packed, aborting):
                writer.write(3)
            aborting.producer.abort_transaction(60)
            plain.write(2)
            committing.producer.commit_transaction(60)
            plain.write(2)
        aborting.producer.begin_transaction()
        aborting.write(5)
        aborting.producer.commit_transaction(60)


def rows(batches: Iterator[pa.RecordBatch]) -> list[dict[str, Any]]:
    """All rows, whatever batches they came in."""
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.broker
def test_the_rows_of_a_consumer(
    broker: EmbeddedBroker,
    unique: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of whole partitions and parts of batches; without aborted transactions, in whatever answers they come.

    Some batches are compressed, and a marker is the last.
    """
    servers, group = broker.bootstrap_servers, unique("g")
    connection = Connection(Cluster(bootstrap_servers=servers))
    partitions = connection.identify(OFFSETS_TOPIC).partitions
    number = partition_for(group, partitions)
    begin = connection.end_offsets(OFFSETS_TOPIC, partitions)[number]
    write_transactions(servers, group, number, unique)
    monkeypatch.setattr(topic_module, "_MANY_RECORDS", 1)
    end = connection.end_offsets(OFFSETS_TOPIC, partitions)[number]
    whole = [(each, 0, last) for each, last in connection.end_offsets(OFFSETS_TOPIC, partitions).items()]
    parts = [
        (number, begin + 65, begin + 85),
        (number, begin + 72, end - 3),
        (number, end - 1, end),
    ]
    with caplog.at_level(logging.DEBUG, topic_module.__name__):
        for spans in (whole, *([part] for part in parts)):
            expected = rows(read_spans(connection, OFFSETS_TOPIC, spans, no_progress))
            assert rows(read_log(connection, spans, no_progress)) == expected
            with monkeypatch.context() as patch:
                # A broker sends one batch at least.
                patch.setattr(fetched_log, "_FETCH_BYTES", 1)
                assert rows(read_log(connection, spans, no_progress)) == expected
    assert caplog.messages == []
    committed = rows(read_log(connection, [(number, begin, end)], no_progress))
    # Beside the five markers, records of aborted transactions are missing; clients may write some twice.
    assert 70 < len(committed) < end - begin - 5


def spans_of(seen: list[Sequence[tuple[int, int, int]]]) -> Callable[..., Iterator[pa.RecordBatch]]:
    """A consumer that notes what it is to read."""

    def read(
        _: Connection, __: str, spans: Any, progress: Callable[[int, int], None]
    ) -> Iterator[pa.RecordBatch]:
        seen.append(spans)
        progress(1, sum(end - start for _, start, end in spans))
        yield from ()

    return read


@pytest.mark.parametrize("missing", [False, True])
def test_a_consumer_reads_on(monkeypatch: pytest.MonkeyPatch, missing: bool) -> None:
    """Behind the last row that was fetched, when something is not as it should be; all of it without the library."""

    def fetched(*_: object) -> Iterator[pa.RecordBatch]:
        if missing:
            raise ModuleNotFoundError
        yield rows_batch([Raw(0, 3, 1_000, b"k", None), Raw(0, 4, 1_000, b"k", None)])
        raise GroupReplayError("no whole batch")

    seen, done = list[Sequence[tuple[int, int, int]]](), list[tuple[int, int | None]]()
    monkeypatch.setattr(topic_module, "read_spans", spans_of(seen))
    monkeypatch.setattr(topic_module, "_MANY_RECORDS", 10)
    monkeypatch.setattr(fetched_log.FetchedLog, "read", fetched)
    connection = Connection(Cluster(bootstrap_servers="h:1"))
    spans = [(0, 3, 9), (1, 5, 5), (2, 0, 4)]
    read = rows(read_log(connection, spans, lambda done_, total: done.append((done_, total))))
    if missing:
        assert (read, seen, done) == ([], [[(0, 3, 9), (2, 0, 4)]], [(1, 10)])
    else:
        assert ([row["offset"] for row in read], seen) == ([3, 4], [[(0, 5, 9), (2, 0, 4)]])
        assert done == [(2, 10), (3, 10)]
    assert rows(read_log(connection, [(0, 3, 9)], no_progress)) == []
    assert seen[-1] == [(0, 3, 9)]


class Client:
    """In place of ``RawLog``: counts the clients that are open."""

    opened = closed = 0

    def __init__(self, *_: object, **__: object) -> None:
        Client.opened += 1

    def close(self) -> None:
        """See ``RawLog.close``."""
        Client.closed += 1


def test_a_client_stays_open_until_a_reading_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task costs no new connections; what may be wrong with the old ones ends with them, and a consumer reads on."""
    seen, offset = list[Sequence[tuple[int, int, int]]](), 3

    def records(_: Client, __: int, start: int, ___: int) -> Iterator[pa.RecordBatch]:
        yield rows_batch([Raw(0, start, 1_000, b"k", None)])
        if start != offset:
            raise GroupReplayError("the connection was closed")

    monkeypatch.setattr(fetched_log, "RawLog", Client)
    monkeypatch.setattr(fetched_log, "_records", records)
    monkeypatch.setattr(topic_module, "read_spans", spans_of(seen))
    connection = Connection(Cluster(bootstrap_servers="h:1"))
    log = fetched_log.FetchedLog(connection)

    def read(start: int) -> list[int]:
        return [row["offset"] for row in rows(read_log(connection, [(0, start, 9)], no_progress, log))]

    assert (read(3), read(3), Client.opened, Client.closed, seen) == ([3], [3], 1, 0, [])
    assert (read(5), Client.opened, Client.closed, seen) == ([5], 1, 1, [[(0, 6, 9)]])
    assert (read(3), Client.opened, Client.closed) == ([3], 2, 1)
