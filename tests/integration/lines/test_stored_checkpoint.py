"""The whole checkpoint that a line of Spark has made: today's job starts on it, and tells the story to its end."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.output_topics import ensure_topics
from groupreplay.streaming.kafka.topic_identity import TopicIdentity
from groupreplay.streaming.local.platforms import LINES
from support.job.jobs import Json, comparable, read_events, topic_names, write_log
from support.job.own_process import keep_session, run_until
from support.job.replays import replayed_topics
from support.kafka.blank_brokers import blank_broker
from support.kafka.clients import produce
from support.kafka.waiting import wait_until
from support.stored.checkpoints import StoredLog, of_line, offsets_of, unpack

pytestmark = [pytest.mark.broker, pytest.mark.spark]

KINDS = {"classic", "simple", "consumer", "share", "streams"}
#: As when the checkpoint was made.
TOPICS = topic_names("stored")


@pytest.fixture(
    params=[
        pytest.param(
            of_line(line.name),
            id=line.name,
            # Beside the lines each run has one: that before the newest.
            marks=[pytest.mark.line, *([] if line is LINES[-2] else [pytest.mark.long])],
        )
        for line in LINES
    ]
)
def stored(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoredLog:
    """The checkpoint in ``tmp_path``; the offsets topic of every broker gets the id that it was made with.

    The job runs in the session of the other tests, whose JVM is not ended by it.
    """
    found = unpack(request.param, tmp_path)
    era = json.loads((tmp_path / "checkpoint" / "groupreplay.json").read_text())["era"]
    identify = Connection.identify

    def as_then(self: Connection, topic: str) -> TopicIdentity:
        now = identify(self, topic)
        return replace(now, era=era) if topic == OFFSETS_TOPIC else now

    monkeypatch.setattr(Connection, "identify", as_then)
    keep_session(monkeypatch)
    return found


def test_todays_job_starts_on_it(stored: StoredLog, tmp_path: Path) -> None:
    """Every event of the second half, as if the job had never been another one: nothing began again."""
    checkpoint = tmp_path / "checkpoint"
    with blank_broker(stored.partitions) as broker:
        server = broker.bootstrap_servers
        write_log(server, [*stored.before, *stored.after], stored.partitions)
        fill_probes(checkpoint, server)
        expected = second_half(stored, server)

        def wait(done: threading.Event) -> None:
            # The last operation of a log is told a batch later.
            wait_until(
                lambda: done.is_set() or read_events(server, TOPICS).keys() >= expected.keys(), pause=1.0
            )

        run_until(server, checkpoint, TOPICS, wait, member_events=True)
        said = read_events(server, TOPICS)
    assert {event["data"]["group_id"] for event in expected.values()} == KINDS
    assert {name: said.get(name) for name in expected} == expected
    assert [one["id"] for one in said.values() if from_log(one) and one["id"] not in expected] == []
    assert not list(checkpoint.glob("anew-*"))


def fill_probes(checkpoint: Path, server: str) -> None:
    """As many messages as the earlier job had read of the probes; they say nothing."""
    ensure_topics(Connection(Cluster(bootstrap_servers=server)), TOPICS)
    last = max((checkpoint / "offsets").iterdir(), key=lambda file: int(file.name))
    (read,) = (
        json.loads(line)[TOPICS.probes] for line in last.read_text().splitlines() if TOPICS.probes in line
    )
    for partition, count in read.items():
        produce(server, TOPICS.probes, [(None, b"{}")] * count, int(partition))


def second_half(stored: StoredLog, server: str) -> dict[str, Json]:
    """What ``replay`` says of the records behind the moment at which the earlier job was stopped."""
    since = datetime.fromtimestamp(stored.first_start_ms / 1000, timezone.utc).isoformat()
    told = replayed_topics(server, TOPICS.probes, "--member-events", "--complete-since", since)
    read = offsets_of(stored.before)
    return {
        event["id"]: event
        for event in map(comparable, told)
        if from_log(event) and event["data"]["cause"]["offset"] >= read[event["data"]["cause"]["partition"]]
    }


def from_log(event: Json) -> bool:
    """A fact that a record tells; conditions come with the time that went by between the two jobs."""
    return event["id"].startswith(OFFSETS_TOPIC) and "condition_id" not in event["data"]
