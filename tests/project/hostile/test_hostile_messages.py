"""Every reader of a topic of the job, and what others may write there: it is counted, and never an exception."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from groupreplay.app.exporter.collector import measure
from groupreplay.app.exporter.feed import Limits
from groupreplay.app.text.event_text import line_of
from groupreplay.state.phrases import counted
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.config.config_file import load_defaults
from groupreplay.streaming.config.rules_file import RulesSource, RulesWatch
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.contract.log import ROW_SCHEMA
from groupreplay.streaming.contract.messages import (
    CONDITIONS_KEY,
    JOB_KEY,
    OBJECTS,
    BadRecordCounts,
    JobConditions,
    KindCount,
    bad_records_key,
)
from groupreplay.streaming.contract.probe_messages import ProbeMessage, decode_message, encode_message
from groupreplay.streaming.engine.advance import advance
from groupreplay.streaming.engine.probe_rows import ProbeFilter, pack_probes
from groupreplay.streaming.sinks import event_topic
from groupreplay.streaming.sinks.event_topic import EventTopic, SinkReader, Wanted
from groupreplay.streaming.sinks.topics_snapshot import TopicsSnapshot
from groupreplay.streaming.sources.source import shows_rounds
from support.histories.builders import CONTEXT
from support.histories.probed import START
from support.histories.samples import one_of_each
from support.job.captures import CLUSTER_ID
from support.job.probes import asked, beat, summed_up
from support.job.sink_messages import CLUSTER, document, events, job_document, stable, stuck
from support.tools.hostile_json import BYTES, spoiled

NOW = START + 1_000
SAMPLES = one_of_each()


class Spoken:
    """A message as a Kafka client hands it over."""

    def __init__(self, topic: str, key: bytes, value: bytes | None) -> None:
        self._content = (topic, key, value)

    def error(self) -> None:
        """None: it is a message."""

    def topic(self) -> str:
        """The topic."""
        return self._content[0]

    def key(self) -> bytes:
        """The key."""
        return self._content[1]

    def value(self) -> bytes | None:
        """The value."""
        return self._content[2]


def valid_events() -> list[bytes]:
    """An event of every type."""
    return events(SAMPLES, "g")


def valid_probes() -> list[ProbeMessage]:
    """A message of each kind in ``group-probes``."""
    return [asked("g", "PreparingRebalance", at=NOW), summed_up(at=NOW), beat(at=NOW, caught_up=NOW)]


def test_the_corpus_is_hostile() -> None:
    """No entry is a message of any kind, and the decoder of any object refuses most of them without an exception."""
    assert [value for value in BYTES if decode_message(b"\0", value) is not None] == []
    refused = [value for value in BYTES if OBJECTS.decode(value) is None]
    assert len(refused) > len(BYTES) / 2


def test_the_exporter() -> None:
    """Each message is used or counted; a scrape works after each, and the next good message is used."""
    (group, emitted), (ill, _) = stable(), stuck()
    job = job_document(NOW)
    conditions = JobConditions(
        CLUSTER, [{"condition": "job.blind", "severity": "ERROR", "what": "no_rights"}]
    )
    tally = BadRecordCounts(CLUSTER, 3, [KindCount(kind="malformed", key_type=2, records=4)])
    messages = [
        (JOB_KEY, job),
        (CONDITIONS_KEY, json.dumps({"conditions": conditions.conditions}).encode()),
        (
            bad_records_key("t", 3),
            json.dumps({"bad_records": [{"kind": "m", "records": tally.partition}]}).encode(),
        ),
    ]
    snapshot = TopicsSnapshot()
    for value in BYTES:
        before = snapshot.unreadable
        snapshot.take_state(b"g", value)
        snapshot.take_event(value, NOW)
        assert snapshot.unreadable == before + 2, value[:50]
        snapshot.take_job(JOB_KEY, value)
        snapshot.take_job(CONDITIONS_KEY, value)
        snapshot.take_job(b"\0t-3", value)
    for value in spoiled(document(ill)):
        snapshot.take_state(b"g", value)
        measure(snapshot, NOW, Limits())
    for key, valid in messages:
        for value in spoiled(valid):
            snapshot.take_job(key, value)
            measure(snapshot, NOW, Limits())
    for value in spoiled(events(emitted)[0]):
        snapshot.take_event(value, NOW)
        measure(snapshot, NOW, Limits())
    unreadable = snapshot.unreadable
    assert unreadable > 1_000
    snapshot.take_state(b"good", document(group, "good"))
    snapshot.take_job(JOB_KEY, job)
    assert snapshot.unreadable == unreadable
    assert snapshot.groups["good"].member_count == 2
    assert measure(snapshot, NOW, Limits())


def read_back(values: list[bytes], monkeypatch: pytest.MonkeyPatch) -> tuple[list[bytes], int]:
    """What ``events`` prints of these messages, and how many it counts."""
    arrays: dict[str, list[Any]] = {name: [0] * len(values) for name in ROW_SCHEMA.names}
    arrays |= {"topic": ["t"] * len(values), "key": [b""] * len(values), "value": values}
    batch = pa.RecordBatch.from_pydict(arrays, schema=ROW_SCHEMA)

    def read_messages(*_: object) -> Iterator[pa.RecordBatch]:
        yield batch

    class Still:
        def __init__(self, _: object) -> None: ...

        def identify(self, _: str) -> Any:
            return type("Identity", (), {"partitions": 1})

        def end_offsets(self, *_: object) -> dict[int, int]:
            return {0: len(values)}

        def first_offsets(self, *_: object) -> dict[int, int]:
            return {0: 0}

    monkeypatch.setattr(event_topic, "read_messages", read_messages)
    monkeypatch.setattr(event_topic, "Connection", Still)
    topic = EventTopic(Cluster(bootstrap_servers="h:1"), "t", Wanted())
    return list(topic.read(follow=False)), topic.unreadable


def test_the_command_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each message is shown once, as it was written, or counted; each that is shown has a line of safe text."""
    good = valid_events()
    strange = [value for one in good[::7] for value in spoiled(one)]
    found, unreadable = read_back([*BYTES, *good, *strange], monkeypatch)
    ids = [json.loads(one)["id"] for one in found]
    assert {json.loads(one)["id"] for one in good} <= set(ids)
    assert len(ids) == len(set(ids))
    assert len(found) + unreadable <= len(BYTES) + len(good) + len(strange)
    assert unreadable > len(BYTES)
    for value in found:
        line = line_of(OBJECTS.decode(value) or {})
        assert line.plain().isprintable()
        assert "time" in json.loads(value.decode())


@pytest.mark.parametrize("event", SAMPLES, ids=lambda one: one.fact.NAME)
def test_a_line_for_every_event(event: Any) -> None:
    """Whatever the values of an event are, its line is safe to print."""
    (valid,) = events([event], event.group_id)
    for value in spoiled(valid):
        found = OBJECTS.decode(value)
        if found is not None:
            assert line_of(found).plain().isprintable(), value[:200]


def test_the_reader_of_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Good messages among bad ones in all its topics are used, and the others are counted."""
    good = valid_events()[0]
    (group, _) = stable()
    values = [*BYTES, *spoiled(good)]
    messages = [Spoken("e", b"g", good)]
    messages += [Spoken(topic, b"g", value) for value in values for topic in ("e", "s", "p")]
    messages += [Spoken("s", b"g", value) for value in spoiled(document(group))]
    messages += [Spoken("s", b"g", document(group))]
    messages += [Spoken("p", *encode_message(beat(at=5, caught_up=5)))]
    monkeypatch.setattr(event_topic, "consume", lambda *_: messages)
    monkeypatch.setattr(event_topic, "Connection", lambda _: type("C", (), {"consumer": lambda _: None})())
    reader = SinkReader("h:1", event_topic.TopicNames(events="e", states="s", probes="p"))
    found = reader.events(0.0)
    assert json.loads(good) in found
    assert reader.documents["g"] == json.loads(document(group))
    assert reader.caught_up_ms == 5
    assert reader.unreadable > 2 * len(BYTES)


def probe_batch(messages: list[tuple[bytes, bytes | None]]) -> pa.RecordBatch:
    """Messages of ``group-probes``."""
    size = len(messages)
    columns = {
        "topic": ["p"] * size,
        "partition": [0] * size,
        "offset": list(range(size)),
        "timestamp": [NOW] * size,
        "timestampType": [0] * size,
        "key": [key for key, _ in messages],
        "value": [value for _, value in messages],
    }
    return pa.RecordBatch.from_pydict(columns, schema=ROW_SCHEMA)


def test_the_readers_of_the_probes(caplog: pytest.LogCaptureFixture) -> None:
    """The job counts what it skips, applies the rest, and quarantines nothing; a starting prober reads on as well."""
    messages: list[tuple[bytes, bytes | None]] = [(b"\0", value) for value in BYTES]
    for valid in valid_probes():
        key, value = encode_message(valid)
        messages += [(key, one) for one in spoiled(value)]
        messages.append((key, value))
    unread = sum(decode_message(*one) is None for one in messages)
    assert len(BYTES) < unread < len(messages)
    packed = list(pack_probes([probe_batch(messages)], ProbeFilter(topic="p", cluster_id=CLUSTER_ID)))
    assert f"{counted(unread, 'message')} of topic p" in caplog.text
    blobs: dict[bytes, bytes | None] = {}
    for batch in packed:
        for key, row in zip(batch["key"].to_pylist(), batch["packed"].to_pylist(), strict=True):
            if row is not None:
                result = advance(key, blobs.get(key), [row], now_ms=NOW, recorded_ms=NOW, context=CONTEXT)
                assert [
                    one.event_type for one in result.rows if "quarantined" in (one.event_type or "")
                ] == []
                blobs[key] = result.blob
    assert len(blobs) >= 2
    assert shows_rounds([probe_batch(messages)])[0]


@pytest.mark.parametrize(
    "text",
    [*BYTES, b"a = " + b"[" * 5_000, b"a = " + b"9" * 5_000, b"a.b = 1\na = 2", b'runbook = "\\ud800"'],
    ids=lambda text: repr(text[:20]),
)
def test_files_of_the_operator(tmp_path: Path, text: bytes) -> None:
    """A rules or configuration file with any content is refused with the error for users; a running job keeps going."""
    path = tmp_path / "rules.toml"
    path.write_bytes(b"")
    watch = RulesWatch(RulesSource(path=path))
    path.write_bytes(text + b"\n")
    assert not watch.changed() or watch.error is None
    for load in (lambda: RulesSource(path=path).load(), lambda: load_defaults(path, {}, {})):
        # An empty file, and one that is TOML by accident, is no error.
        with contextlib.suppress(GroupReplayError):
            load()
