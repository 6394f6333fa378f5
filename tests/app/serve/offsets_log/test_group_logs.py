"""The log of a group while brokers come and go."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from groupreplay.app.serve.offsets_log import group_logs
from groupreplay.app.serve.offsets_log.group_logs import LiveLogs
from groupreplay.codecs import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.base.errors import UnreachableError
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.contract.log import ROW_SCHEMA, EpochEnd
from groupreplay.streaming.contract.messages import Output
from groupreplay.streaming.engine.live import Live
from groupreplay.streaming.engine.replay import Replay
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.topic_identity import TopicIdentity
from groupreplay.streaming.sources.source import Rows
from support.histories.builders import CONTEXT, emptied, generation, member
from support.job.captures import raw, rows_batch

HERE = Cluster(bootstrap_servers="127.0.0.1:1")
BEGIN_MS = 1_767_225_600_000


def commit(offset: int) -> pa.RecordBatch:
    """The record at this offset of the offsets topic: a commit of the group, a second after the one before.

    -1: one without a time.
    """
    at_ms = -1 if offset < 0 else BEGIN_MS + offset * 1_000
    key = encode_key(OffsetCommitKey(group="g", topic="t", partition=0))
    value = encode_value(OffsetCommitValue(version=3, offset=offset, metadata="", commit_timestamp_ms=at_ms))
    columns = ([OFFSETS_TOPIC], [0], [offset], [at_ms], [1], [key], [value])
    arrays = [pa.array(one, field.type) for one, field in zip(columns, ROW_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ROW_SCHEMA)


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> LiveLogs:
    """A topic with one partition, whose brokers go away after its second record when it is read first."""
    reads = iter([[commit(0), commit(1)], [commit(2)]])

    def read(*_: object) -> Iterator[pa.RecordBatch]:
        found = next(reads)
        yield from found
        if len(found) == 2:
            raise UnreachableError("no record arrived for 5 s")

    identity = TopicIdentity("c", OFFSETS_TOPIC, "era", 1, {})
    made = LiveLogs(HERE)
    made._about = group_logs._About(identity, CONTEXT, time.monotonic())
    monkeypatch.setattr(group_logs, "read_messages", read)
    monkeypatch.setattr(Connection, "first_offsets", lambda *_: {0: 0})
    monkeypatch.setattr(Connection, "partition_ends", lambda *_: {(OFFSETS_TOPIC, 0): EpochEnd(3, None)})
    return made


def test_brokers_that_go_away_while_the_log_is_read(logs: LiveLogs) -> None:
    """What was read before is not lost, and is no log that is known up to a time; the next read goes on behind it."""
    with pytest.raises(UnreachableError):
        logs.read("g", BEGIN_MS + 10_000)
    assert logs.kept("g") is None
    found = logs.read("g", BEGIN_MS + 20_000)
    assert found.log.commits().at_ms.tolist() == [BEGIN_MS, BEGIN_MS + 1_000, BEGIN_MS + 2_000]
    assert (found.rows, found.known_ms) == (3, BEGIN_MS + 20_000)
    assert logs.kept("g") is found


def test_brokers_that_are_known_to_be_away(logs: LiveLogs) -> None:
    """They are not asked: a page would wait for each answer that does not come."""
    logs._trouble = lambda: "cannot reach the cluster"
    began = time.monotonic()
    with pytest.raises(UnreachableError, match="cannot reach the cluster"):
        logs.read("g", BEGIN_MS)
    assert time.monotonic() - began < group_logs.ANSWER_SECONDS


def test_a_log_that_is_followed_gives_the_events_of_one_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids included, none twice, wherever the pages have asked; a read that is not whole lets no time pass."""
    records = [
        record._replace(partition=0)
        for record in raw(
            [
                generation(1, member("a", [0]), at=BEGIN_MS),
                generation(2, member("a", [0]), member("b", [1]), at=BEGIN_MS + 5_000),
                emptied(3, at=BEGIN_MS + 9_000),
            ]
        )
    ]
    ends = [record.offset + 1 for record in records]
    context = replace(CONTEXT, member_events=True)
    replay = Replay(context, ["g"])
    rows = Rows(context.cluster_id, context.era, iter([rows_batch(records)]))
    events = [json.loads(row.value or b"") for row in replay.feed(rows) if row.output is Output.EVENTS]
    ids = [event["id"] for event in events if ".member." in event["type"]]
    assert len(ids) == 4
    logs = LiveLogs(HERE)
    logs._about = group_logs._About(
        TopicIdentity("c", OFFSETS_TOPIC, "era", 1, {}), context, time.monotonic()
    )
    reads = iter([records[:1], [], records[1:]])
    monkeypatch.setattr(group_logs, "read_messages", lambda *_: map(rows_batch, filter(None, [next(reads)])))
    monkeypatch.setattr(Connection, "first_offsets", lambda *_: {0: 0})
    answers = iter([ends[0], ends[0], ends[2]])
    monkeypatch.setattr(
        Connection, "partition_ends", lambda *_: {(OFFSETS_TOPIC, 0): EpochEnd(next(answers), None)}
    )
    for now_ms in (BEGIN_MS + 1_000, BEGIN_MS + 4_000, BEGIN_MS + 20_000):
        found = logs.read("g", now_ms)
    assert [event["id"] for event in found.member_events] == ids


def test_the_clock_of_a_coordinator_that_is_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it writes next is later than its last record, and may be earlier than this server's present.

    Its clock goes on while nothing is written, and never counts as ahead of this server's. A record without a time
    shows none.
    """
    ticks, seconds = list[int](), 100.0
    reads = iter([[commit(-1)], [commit(0)], [], [commit(30)], [commit(10_000)]])
    monkeypatch.setattr(group_logs.time, "monotonic", lambda: seconds)
    monkeypatch.setattr(group_logs, "read_messages", lambda *_: iter(next(reads)))
    monkeypatch.setattr(Connection, "first_offsets", lambda *_: {0: 0})
    monkeypatch.setattr(Connection, "partition_ends", lambda *_: {(OFFSETS_TOPIC, 0): EpochEnd(1, None)})
    monkeypatch.setattr(Live, "tick", lambda _, now_ms: iter(ticks.append(now_ms) or ()))
    logs = LiveLogs(HERE)
    logs._about = group_logs._About(TopicIdentity("c", OFFSETS_TOPIC, "era", 1, {}), CONTEXT, seconds)
    for _ in range(5):
        logs.read("g", BEGIN_MS + 120_000 + int(seconds * 1_000))
        seconds += 5.0
    assert ticks == [BEGIN_MS, BEGIN_MS + 5_000, BEGIN_MS + 30_000, BEGIN_MS + 120_000 + 120_000]
