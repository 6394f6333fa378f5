"""The job beside living groups: first start, second job, outage, stop."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import astuple
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, TopicPartition

from groupreplay.codecs import decode_key
from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.jobs import RunningJob, comparable, read_topic, running_job, topic_names
from support.job.replays import event_name, replayed_log
from support.kafka.blank_brokers import blank_broker
from support.kafka.clients import make_topics, new_consumer, produce
from support.kafka.waiting import is_alive, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.spark]

ORDERS = "orders"


@contextmanager
def group_member(server: str, group: str) -> Iterator[Consumer]:
    """A consumer that has joined, owns partitions, and has committed an offset."""
    with closing(new_consumer(server, group, ORDERS, session_timeout_ms=6_000)) as consumer:
        wait_until(lambda: consumer.poll(0.1) or consumer.assignment())
        consumer.commit(offsets=[TopicPartition(ORDERS, 0, 1)], asynchronous=False)
        yield consumer


def groups_in_the_log(server: str) -> set[str]:
    """The names of all groups that ever wrote a record."""
    return {decode_key(one.key).group for one in read_topic(server, OFFSETS_TOPIC)}  # type: ignore[union-attr]


def run_id(job: RunningJob) -> str:
    """The id of the process that last wrote the job's document."""
    return str(job.status()["run_id"])


def types_of(job: RunningJob, group: str) -> list[str]:
    """What was said about a group, in the order of its sequence."""
    events = [event for event in job.events().values() if event["data"]["group_id"] == group]
    return [event_name(event) for event in sorted(events, key=lambda event: event["data"]["cause"]["offset"])]


@pytest.mark.line
def test_a_life_of_the_job(tmp_path: Path) -> None:
    """First start on an old topic, live events, a refused second job, an outage, a clean stop.

    One story, because each chapter needs a running job, and a running job takes its time to start.
    """
    with blank_broker() as broker:
        server = broker.bootstrap_servers
        make_topics(server, {ORDERS: 2})
        produce(server, ORDERS, [(None, b"x")] * 10)
        with group_member(server, "old"):
            pass

        topics = topic_names("live")
        with running_job(server, tmp_path / "checkpoint", topics) as job:
            # The first start says nothing about the past and writes every group's document.
            job.wait_caught_up()
            assert job.events() == {}
            told = job.log.read_text()
            names = ", ".join(sorted(astuple(topics)))
            stages = (
                f"created the topics {names}",
                "starting Spark",
                "a first start: reads all of __consumer_offsets, ",
            )
            assert [told.count(f"groupreplay: {stage}") for stage in stages] == [1, 1, 1]
            assert {group: document["state"] for group, document in job.documents().items()} == {
                "old": "Empty"
            }

            # What happens now is said.
            with group_member(server, "new"):
                job.wait_until(lambda: "rebalance.completed" in types_of(job, "new"))
            job.wait_until(lambda: "group.emptied" in types_of(job, "new"))
            assert types_of(job, "new") == ["group.created", "rebalance.completed", "group.emptied"]
            headers = [one.headers for one in read_topic(server, topics.events)]
            assert all(one["content-type"] == b"application/cloudevents+json" for one in headers)
            assert {one["ce_id"].decode() for one in headers} == set(job.events())

            # librdkafka aborts the prober: the job goes on, and the rounds come back.
            pid = job.prober()
            os.kill(pid, signal.SIGABRT)
            job.wait_until(lambda: job.status()["prober_restarts"] == 1)
            died_ms = time.time_ns() // 1_000_000
            job.wait_until(lambda: job.status()["prober"]["round_ms"] > died_ms)
            assert (job.status()["restarts"], job.status()["prober"]["rights"]) == (0, "ok")
            assert "the prober has ended (SIGABRT)" in job.process.tail(200)
            assert pid != job.prober()

            # A second job on the same checkpoint does not start.
            with running_job(server, tmp_path / "checkpoint", topics) as second:
                wait_until(lambda: second.process.exit_code is not None)
                assert second.process.exit_code == 2
                assert "another job is using this checkpoint" in second.process.tail(200)
                # Spark was not started for that: the log of both has only the first start.
                assert second.log.read_text().count("groupreplay: starting Spark") == 1

            # An outage is ridden out in the same process.
            pid, before = job.process.pid, run_id(job)
            broker.stop()
            broker.start()
            with group_member(server, "after"):
                job.wait_until(lambda: "rebalance.completed" in types_of(job, "after"))
            job.wait_caught_up()
            assert (job.process.pid, run_id(job)) == (pid, before)

            # The job has added no group of its own, and replay says the same as the job.
            assert groups_in_the_log(server) == {"old", "new", "after"}
            events, _ = replayed_log(server)
            expected = {one["id"]: comparable(one) for one in events if one["data"]["group_id"] != "old"}
            job.wait_until(lambda: job.events().keys() >= expected.keys())
            assert job.events() == expected

            # SIGTERM ends it, its JVM too, without a page of stack traces.
            children = psutil.Process(pid).children(recursive=True)
            assert job.stop() == 143
            wait_until(lambda: not any(child.is_running() for child in children))
            assert "\tat " not in job.log.read_text()
            assert not is_alive(pid)


def test_a_missing_offsets_topic_is_told(tmp_path: Path) -> None:
    """On a cluster without any group the job does not start; it says why, and what makes the topic appear."""
    with (
        EmbeddedBroker(wait_for_coordinator=False) as broker,
        running_job(broker.bootstrap_servers, tmp_path / "checkpoint", topic_names("none")) as job,
    ):
        wait_until(lambda: job.process.exit_code is not None)
        assert job.process.exit_code == 5
        assert "the topic does not exist" in job.process.tail()
