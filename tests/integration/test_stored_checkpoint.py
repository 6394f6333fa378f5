"""The whole checkpoint of an earlier commit: today's job starts on it, and tells the story to its end."""

from __future__ import annotations

import json
import time
from datetime import datetime, timezone
from pathlib import Path

import pytest
from captures import invoke
from confluent_kafka import Producer
from jobs import Json, RunningJob, comparable, running_job, topic_names, write_log
from stored_checkpoint import StoredLog, offsets_of, unpack

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.broker import EmbeddedBroker
from groupreplay.streaming.clients import Connection
from groupreplay.streaming.settings import Cluster
from groupreplay.streaming.topics import ensure_topics

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(900)]

KINDS = {"classic", "simple", "consumer", "share", "streams"}
#: As when the checkpoint was made.
TOPICS = topic_names("stored")
FLAGS = ("--no-probe", "--shuffle-partitions", "1", "--member-events")


def test_todays_job_starts_on_it(tmp_path: Path) -> None:
    """Every event of the second half, as if the job had never been another one: nothing began again."""
    stored = unpack(tmp_path)
    checkpoint = tmp_path / "checkpoint"
    with EmbeddedBroker(offsets_partitions=stored.partitions) as broker:
        server = broker.bootstrap_servers
        eras = move(checkpoint, server)
        write_log(server, [*stored.before, *stored.after], stored.partitions)
        batches = len(list((checkpoint / "commits").glob("[0-9]*")))
        with running_job(server, checkpoint, TOPICS, *FLAGS) as job:
            job.wait_caught_up(time.time_ns() // 1_000_000)
            # What was under way is called after the record that began it, in the former topic.
            said = json.loads(json.dumps(job.events()).replace(*eras))
            expected = second_half(stored, job)
            assert job.stop() == 143
    assert {event["data"]["group_id"] for event in expected.values()} == KINDS
    differing = {name: (said.get(name), one) for name, one in expected.items() if said.get(name) != one}
    assert differing == {}
    # What else is said comes with time: the records are as old as the checkpoint.
    assert [one for one in said.values() if one["data"]["cause"] and one["id"] not in expected] == []
    assert batches > 0
    assert not list(checkpoint.glob("anew-*"))


def move(checkpoint: Path, server: str) -> tuple[str, str]:
    """To a cluster with the same id, and probes as many as were read; returns the offsets topic's id before and now."""
    connection = Connection(Cluster(bootstrap_servers=server))
    identity = checkpoint / "groupreplay.json"
    known: Json = json.loads(identity.read_text())
    era = connection.identify(OFFSETS_TOPIC).era
    moved = {name: era for name in ("era", "event_era") if known.get(name)}
    identity.write_text(json.dumps({**known, **moved}))
    ensure_topics(connection, TOPICS)
    last = max((file for file in (checkpoint / "offsets").iterdir()), key=lambda file: int(file.name))
    (read,) = (
        json.loads(line)[TOPICS.probes] for line in last.read_text().splitlines() if TOPICS.probes in line
    )
    producer = Producer({"bootstrap.servers": server})
    for partition, count in read.items():
        for _ in range(count):
            producer.produce(TOPICS.probes, b"{}", partition=int(partition))
    assert producer.flush(60) == 0
    return known["era"], era


def second_half(stored: StoredLog, job: RunningJob) -> dict[str, Json]:
    """What ``replay`` says of the records behind the moment at which the earlier job was stopped."""
    since = datetime.fromtimestamp(stored.first_start_ms / 1000, timezone.utc).isoformat()
    words = ("replay", "--bootstrap-server", job.server, "--probes-topic", job.topics.probes)
    printed = invoke(*words, "-o", "jsonl", "--member-events", "--complete-since", since)
    assert printed.exit_code == 0, printed.output
    events = [comparable(json.loads(line)) for line in printed.stdout.splitlines()]
    read = offsets_of(stored.before)
    causes = {event["id"]: event["data"]["cause"] for event in events}
    return {
        event["id"]: event
        for event in events
        if (cause := causes[event["id"]]) and cause["offset"] >= read.get(cause["partition"], 0)
    }
