"""The job's own conditions while its query stands still: published by the driver, and shown by the exporter."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from groupreplay.app.exporter.feed import Limits, SinkFeed
from groupreplay.app.exporter.server import Exporter
from groupreplay.codecs.kafka_terms import partition_for
from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.config.rules_file import RulesSource
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.contract.messages import CONDITIONS_KEY
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.run import own_conditions, status
from support.job.jobs import (
    KINDS,
    Json,
    comparable,
    has_caught_up,
    read_json,
    read_topic,
    running_job,
    topic_flags,
    topic_names,
)
from support.job.own_process import keep_session, run_until
from support.job.replays import event_name
from support.kafka.clients import commit_once, make_topics
from support.kafka.three_brokers import ThreeBrokers, three_brokers
from support.kafka.waiting import wait_until
from support.remedies import read_remedy
from support.tools.written_load import moment_ms

pytestmark = [pytest.mark.broker, pytest.mark.spark]


def own_events(server: str, topics: TopicNames) -> list[Json]:
    """The job's own events as they were written, repeats included."""
    return [one for one in read_json(server, topics.events) if event_name(one).startswith("job.")]


def blind(server: str, topics: TopicNames, what: str) -> list[Json]:
    """The data of the events of ``job.blind`` for this reason, each id once."""
    events = {one["id"]: one for one in own_events(server, topics)}
    return [one["data"] for one in events.values() if one["data"].get("what") == what]


def statuses(server: str, topics: TopicNames, what: str) -> list[str]:
    """What became of a condition, by time. One that is told late is told again while it holds, which counts once."""
    return [status for status, _ in groupby(one["status"] for one in blind(server, topics, what))]


def has_repeats(server: str, topics: TopicNames) -> bool:
    """Whether the query has written once more what the driver wrote while it was stopped: that something began.

    That it has ended is written once if the query is back before the driver finds it out.
    """
    times = Counter((one["id"], one["data"]["status"]) for one in own_events(server, topics))
    return {count for (_, status), count in times.items() if status == "firing"} == {2}


def held(server: str, topics: TopicNames) -> set[str]:
    """Why the job is blind, by the last document of its conditions."""
    values = read_topic_values(server, topics, CONDITIONS_KEY)
    return {one["what"] for one in values[-1]["conditions"] if "what" in one} if values else set()


def read_topic_values(server: str, topics: TopicNames, key: bytes) -> list[Any]:
    """The values with this key in ``group-job``."""
    return [json.loads(one.value or b"") for one in read_topic(server, topics.job) if one.key == key]


@contextmanager
def exported(server: str, topics: TopicNames) -> Iterator[Callable[[], str]]:
    """What the exporter answers when it is asked whether it is ready."""
    feed = SinkFeed(Cluster(bootstrap_servers=server), topics, now_ms)
    shown = Exporter(feed, Limits(), now_ms)
    feed.start()
    try:
        yield lambda: shown.page("/readyz", "").body.decode().strip()
    finally:
        feed.close()


def await_other_leaders(cluster: ThreeBrokers, topics: TopicNames, lost: int) -> None:
    """Waits until other nodes lead the job's topics: a reader that asks the lost one does so for a minute."""
    names = [getattr(topics, kind) for kind in KINDS]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})

    def moved() -> bool:
        known = admin.list_topics(timeout=20).topics
        leaders = {one.leader for name in names for one in known[name].partitions.values()}
        return not leaders & {lost, -1}

    wait_until(moved)


@pytest.mark.long
def test_a_partition_without_a_leader(tmp_path: Path) -> None:
    """Reported within a minute although the query stands still, and resolved; no event has two ids or two contents."""
    topics = topic_names("leaderless")
    with three_brokers(6, offsets_topic_replication_factor=1) as cluster:
        server = cluster.bootstrap_servers
        make_topics(server, {"t": 1})
        for number in range(12):
            commit_once(server, f"g{number}", TopicPartition("t", 0, 5))
        with (
            running_job(server, tmp_path / "checkpoint", topics, "--no-probe") as job,
            exported(server, topics) as ready,
        ):
            job.wait_caught_up()
            job.wait_until(lambda: ready() == "ok")
            assert own_events(server, topics) == []
            lost = cluster.leader(OFFSETS_TOPIC, 0)
            assert lost is not None
            leaderless = [n for n in range(6) if cluster.leader(OFFSETS_TOPIC, n) == lost]
            cluster.nodes[lost].kill()
            killed_ms = now_ms()
            await_other_leaders(cluster, topics, lost)
            job.wait_until(lambda: blind(server, topics, "brokers_silent"))
            (event,) = [one for one in own_events(server, topics) if one["data"]["what"] == "brokers_silent"]
            # When it was emitted: this process may read it late.
            took_ms = moment_ms(event["recordedtime"]) - killed_ms
            assert (event["data"]["partitions"], event["data"]["status"]) == (leaderless, "firing")
            assert event["data"]["catch_up"] is False
            assert "brokers_silent" in held(server, topics)

            job.wait_until(lambda: "query_stopped" in held(server, topics))
            job.wait_until(lambda: ready().startswith("the query has been stopped since 2"))
            status = job.status()
            assert (status["phase"], status["query"]["running"]) == ("waiting", False)
            assert took_ms <= 60_000

            cluster.start(lost)
            wait_until(lambda: cluster.leader(OFFSETS_TOPIC, 0) == lost)
            job.wait_caught_up()
            job.wait_until(lambda: ready() == "ok")
            job.wait_until(lambda: held(server, topics) == set())
            for what in ("brokers_silent", "query_stopped"):
                job.wait_until(lambda what=what: blind(server, topics, what)[-1]["status"] == "resolved")
            commit_once(server, f"g{partition_for('g0', 6)}", TopicPartition("t", 0, 6))
            job.wait_caught_up()
            written = own_events(server, topics)
            known: dict[str, Json] = {}
            for one in map(comparable, written):
                assert known.setdefault(one["id"], one) == one
            # What the driver has told, the query has told again.
            assert sorted(map(str, written)) != sorted(map(str, known.values()))
            firing = [one for one in known.values() if one["data"]["status"] == "firing"]
            assert len({(one["data"]["condition_id"], one["data"]["reason"]) for one in firing}) == len(
                firing
            )
            assert job.stop() == 143


@pytest.mark.long
def test_a_topic_of_events_that_cannot_be_written(tmp_path: Path) -> None:
    """The document of the conditions, the status and ``/readyz`` say so; afterwards the events are there, too."""
    topics = topic_names("unwritable")
    with three_brokers(3) as cluster:
        server = cluster.bootstrap_servers
        admin = make_topics(server, {"t": 1})
        two = {"min.insync.replicas": "2"}
        new = NewTopic(topics.events, 1, replica_assignment=[[2, 3]], config=two)
        admin.create_topics([new])[topics.events].result(20)
        commit_once(server, "g", TopicPartition("t", 0, 5))
        with (
            running_job(server, tmp_path / "checkpoint", topics) as job,
            exported(server, topics) as ready,
        ):
            job.wait_caught_up()
            job.wait_until(lambda: ready() == "ok")
            cluster.nodes[3].kill()
            await_other_leaders(cluster, topics, 3)
            cluster.await_leader(OFFSETS_TOPIC, partition_for("new", 3), lambda node: node not in (None, 3))
            commit_once(server, "new", TopicPartition("t", 0, 5))
            job.wait_until(lambda: "query_stopped" in held(server, topics))
            job.wait_until(lambda: ready().startswith("the query has been stopped since 2"))
            assert read_json(server, topics.events) == []
            cluster.start(3)
            job.wait_until(lambda: ready() == "ok")
            job.wait_caught_up()
            job.wait_until(lambda: held(server, topics) == set())
            job.wait_until(lambda: statuses(server, topics, "query_stopped") == ["firing", "resolved"])
            assert "group.created" in {event_name(one) for one in job.events().values()}
            assert job.stop() == 143


@pytest.mark.long
def test_a_source_that_is_away(
    tmp_path: Path, broker: EmbeddedBroker, unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sink is another cluster: heartbeats go on, the driver reports, and the query repeats it when it is back."""
    keep_session(monkeypatch)
    monkeypatch.setattr(status, "_BATCH_SECONDS", 4.0)
    monkeypatch.setattr(own_conditions, "_LEAST_SECONDS", 2.0)
    thresholds = (("job.blind.silent_ms", "2000"),)
    server, topics = broker.bootstrap_servers, topic_names(unique("away"))
    with EmbeddedBroker(offsets_partitions=2) as source:
        make_topics(source.bootstrap_servers, {"orders": 1})
        commit_once(source.bootstrap_servers, "g")

        fixes, failed = list[str](), list[str]()

        def lacking() -> list[str]:
            """What the flags of the job lack, by ``check``, as the event says."""
            words = ["--bootstrap-server", source.bootstrap_servers, "--sink-bootstrap-server", server]
            command = [sys.executable, "-m", "groupreplay", "check", "-o", "json", "--timeout", "60"]
            command += [*words, *topic_flags(topics)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
            return [one["check"] for one in json.loads(done.stdout) if one["status"] == "failed"]

        def story(done: threading.Event) -> None:
            def until(condition: Callable[[], object]) -> None:
                wait_until(lambda: done.is_set() or condition())

            with exported(server, topics) as ready:
                until(lambda: has_caught_up(server, topics, 1))
                until(lambda: ready() == "ok")
                source.stop()
                until(lambda: statuses(server, topics, "brokers_silent") == ["firing"])
                until(lambda: held(server, topics) == {"brokers_silent", "query_stopped"})
                until(lambda: ready().startswith("the query has been stopped since 2"))
                until(lambda: blind(server, topics, "query_stopped"))
                fixes.extend(one["fix"] for one in blind(server, topics, "query_stopped"))
                failed.extend(lacking())
                source.start()
                until(lambda: ready() == "ok")
                until(lambda: held(server, topics) == set())
                until(lambda: has_repeats(server, topics))
                assert done.is_set() or lacking() == []

        run_until(
            source.bootstrap_servers,
            tmp_path / "checkpoint",
            topics,
            story,
            sink=Cluster(bootstrap_servers=server),
            rules=RulesSource(thresholds=thresholds),
        )
    for what in ("brokers_silent", "query_stopped"):
        assert statuses(server, topics, what) == ["firing", "resolved"]
    read_remedy("state.conditions.job_blind: groupreplay check,", fixes[0])
    assert failed == ["cluster"]
    # What the query repeats later may be late.
    told = {one["id"]: one for one in reversed(own_events(server, topics))}
    assert {one["data"]["catch_up"] for one in told.values()} == {False}
