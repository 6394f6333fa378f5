"""The documents in ``group-states`` are those of the groups that the broker has, whatever was in the topic before."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.contract.messages import CONDITIONS_KEY, bad_records_key
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.output_topics import ensure_topics
from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.jobs import Json, has_caught_up, read_topic, remove_log, topic_names
from support.job.own_process import keep_session, run_until
from support.job.replays import replayed_log
from support.kafka.clients import commit_once, make_topics, new_consumer, produce
from support.kafka.waiting import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.spark]

OTHERS = json.dumps({"cluster_id": "another", "group_id": "theirs"}).encode()


def listed(server: str) -> set[str]:
    """The groups that the broker has."""
    admin = AdminClient({"bootstrap.servers": server, "log_level": 0})

    def ask() -> Any:
        # librdkafka drops the connection that it has started with.
        answer = admin.list_consumer_groups().result(30)
        return None if answer.errors else answer

    return {one.group_id for one in wait_until(ask).valid}


def delete_groups(server: str, *groups: str) -> None:
    """Deletes groups, as an operator does."""
    admin = AdminClient({"bootstrap.servers": server, "log_level": 0})
    for answer in admin.delete_consumer_groups(list(groups)).values():
        answer.result(30)


def live_once(server: str, group: str) -> None:
    """A member joins, commits, and leaves."""
    with closing(new_consumer(server, group, "orders", session_timeout_ms=6_000)) as consumer:
        wait_until(lambda: consumer.poll(0.1) or consumer.assignment())
        consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)


def documents(server: str, topic: str) -> dict[str, Json]:
    """The last document of each group of this cluster."""
    latest = {one.key: one.value for one in read_topic(server, topic)}
    found = {(key or b"").decode(): json.loads(value) for key, value in latest.items() if value is not None}
    return {group: one for group, one in found.items() if one["cluster_id"] != "another"}


def steady(document: Json) -> Json:
    """A document without its places in the log, which change with every commit and are not written for that alone."""
    offsets = {name: value for name, value in document["offsets"].items() if not name.endswith("_commit_ms")}
    return {**document, "offsets": offsets, "log_position": None}


def replayed(server: str, place: Path) -> dict[str, Json]:
    """The documents of a fresh replay of the log, which knows since when the job at this place has read it."""
    first_start_ms = json.loads((newest(place) / "groupreplay.json").read_bytes())["first_start_ms"]
    _, replay = replayed_log(server, complete_since_ms=first_start_ms)
    found: dict[str, Any] = {}
    for group in replay.groups():
        group.note_topic(in_topic=True)
        found[group.group_id] = json.loads(json.dumps(group.take_document(), default=str))
    return {name: one for name, one in found.items() if isinstance(one, dict)}


def newest(place: Path) -> Path:
    """The checkpoint in use, which may be a folder inside."""
    return max([place, *place.glob("anew-*")])


class Story:
    """Several lives of a job on one broker, in the process of the test."""

    def __init__(self, broker: EmbeddedBroker, folder: Path, topics: TopicNames) -> None:
        self.server, self.folder, self.topics = broker.bootstrap_servers, folder, topics

    def run(self, checkpoint: str, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Runs the job until the topic equals the broker and the replay, and its requests were served."""
        place = self.folder / checkpoint
        started_ms = self.last_heartbeat_ms() + 1

        def wait(done: threading.Event) -> None:
            wait_until(
                lambda: done.is_set() or has_caught_up(self.server, self.topics, started_ms), pause=0.5
            )
            meanwhile()
            wait_until(lambda: done.is_set() or (self.is_synced(place) and self.is_equal()), pause=0.5)

        run_until(self.server, place, self.topics, wait, trigger_seconds=1.0)
        assert documents(self.server, self.topics.states).keys() == listed(self.server)
        held = {name: steady(one) for name, one in documents(self.server, self.topics.states).items()}
        assert held == {name: steady(one) for name, one in replayed(self.server, place).items()}

    def last_heartbeat_ms(self) -> int:
        """The last caught-up time of the jobs before."""
        beats = (json.loads(one.value or b"{}") for one in read_topic(self.server, self.topics.probes))
        return max((one.get("caught_up_ms") or 0 for one in beats), default=0)

    def is_equal(self) -> bool:
        """Whether the topic has the documents of exactly the groups of the broker."""
        return documents(self.server, self.topics.states).keys() == listed(self.server)

    def is_synced(self, place: Path) -> bool:
        """Whether the job has nothing more to ask."""
        try:
            record = json.loads((newest(place) / "groupreplay-topics.json").read_bytes())
        except ValueError:
            return False  # it is being written
        return record["unchecked"] is None and record["topics"]["states"] == self.topics.states

    def tombstones(self) -> list[str]:
        """The groups whose documents were removed, in order."""
        return [
            (one.key or b"").decode()
            for one in read_topic(self.server, self.topics.states)
            if one.value is None
        ]

    def recreate(self, *topics: str) -> None:
        """Deletes topics and creates them again."""
        admin = AdminClient({"bootstrap.servers": self.server, "log_level": 0})
        for answer in admin.delete_topics(list(topics)).values():
            answer.result(30)
        wait_until(lambda: not set(topics) & set(admin.list_topics(timeout=10).topics))
        ensure_topics(Connection(Cluster(bootstrap_servers=self.server)), self.topics)


def test_the_topic_equals_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unique: Callable[[str], str]
) -> None:
    """After a first start on old documents, on a new checkpoint, after a gap, on a new topic and on a renamed one.

    One story, because each chapter needs what the one before has left in the topics.
    """
    keep_session(monkeypatch)
    often = {"log.retention.check.interval.ms": 500}
    with EmbeddedBroker(offsets_partitions=4, overrides=often) as broker:
        server = broker.bootstrap_servers
        story = Story(broker, tmp_path, topic_names(unique("sync")))
        make_topics(server, {"orders": 1})
        ensure_topics(Connection(Cluster(bootstrap_servers=server)), story.topics)
        live_once(server, "member")
        commit_once(server, "plain")
        # What a job of this cluster has left, and what one of another cluster has.
        cluster_id = Connection(Cluster(bootstrap_servers=server)).cluster_id()
        left = json.dumps({"cluster_id": cluster_id, "group_id": "long-gone"}).encode()
        produce(server, story.topics.states, [(b"long-gone", left), (b"theirs", OTHERS)])
        stale = json.dumps(
            {"cluster_id": cluster_id, "partition": 3, "bad_records": [{"kind": "skipped", "records": 9}]}
        )
        produce(
            server,
            story.topics.job,
            [
                (CONDITIONS_KEY, b'{"conditions":[{"condition":"job.blind"}]}'),
                (bad_records_key("__consumer_offsets", 3), stale.encode()),
            ],
        )
        story.run("first")
        assert story.tombstones() == ["long-gone"]
        assert job_document(story, CONDITIONS_KEY)["conditions"] == []
        assert job_document(story, bad_records_key("__consumer_offsets", 3))["bad_records"] == []

        # A group that ends while no job runs, and a new checkpoint: nobody knows it any more.
        commit_once(server, "short-lived")
        story.run("first")
        delete_groups(server, "short-lived")
        story.run("second")
        assert story.tombstones() == ["long-gone", "short-lived"]
        # The first checkpoint again: the other job has written since, and a group has ended.
        commit_once(server, "seen-by-the-second")
        story.run("second")
        delete_groups(server, "seen-by-the-second")
        story.run("first")
        assert sorted(set(story.tombstones())) == ["long-gone", "seen-by-the-second", "short-lived"]

        # A new topic under the old name and under another one: every document is written, also of quiet groups.
        story.recreate(story.topics.states, story.topics.job)
        story.run("first")
        assert CONDITIONS_KEY in {one.key for one in read_topic(server, story.topics.job)}
        story.topics = replace(story.topics, states=f"{story.topics.states}-2")
        story.run("first")
        # While the job runs.
        monkeypatch.setattr("groupreplay.streaming.run.document_sync._LOOK_SECONDS", 0.5)
        story.run("first", lambda: story.recreate(story.topics.states))

        # All records are lost: the state is built anew from those that follow, and the broker knows no more either.
        commit_once(server, "unseen")
        remove_log(server, 4)
        broker.stop()
        broker.start()
        commit_once(server, "new")
        story.run("first")
        assert documents(server, story.topics.states).keys() == {"new"}
        assert list((tmp_path / "first").glob("anew-*"))


def job_document(story: Story, key: bytes) -> Json:
    """The last message of the topic of the job with this key."""
    value = [one.value for one in read_topic(story.server, story.topics.job) if one.key == key][-1]
    found: Json = json.loads(value or b"")
    return found
