"""Events leave ``watch`` and ``events`` by topics and over HTTP, whatever is killed; and a watch without the topic."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.local.process_guard import GuardedProcess
from support.job.jobs import JobTopics, topic_names
from support.job.replays import Json, named
from support.job.watch_process import watching_process
from support.job.watched import producing
from support.kafka.clients import commit_once, make_topics
from support.kafka.polled_members import PolledMembers
from support.kafka.waiting import wait_until
from support.receiver import receiving

pytestmark = pytest.mark.broker


def test_topics_and_a_receiver(broker: EmbeddedBroker, unique: Callable[[str], str], tmp_path: Path) -> None:
    """A watch with --sink and a reader of its topic with --webhook are killed and started again: every event arrives.

    The document of the group is in the other topic, and nothing else is written.
    """
    servers, topic, topics = broker.bootstrap_servers, unique("orders"), topic_names(unique("sink"))
    make_topics(servers, {topic: 2})
    flags = ["--state", str(tmp_path / "state.db"), "--no-probe", "--sink"]
    flags += ["--events-topic", topics.events, "--states-topic", topics.states]
    groups = [unique(f"group-{number}") for number in range(3)]
    command = [sys.executable, "-m", "groupreplay", "events", "--bootstrap-server", servers, "--follow"]
    command += [
        "--since",
        "1h",
        "--events-topic",
        topics.events,
        "--webhook-state",
        str(tmp_path / "hook.db"),
    ]
    with receiving() as receiver, watching_process(servers, tmp_path, *flags) as watch:
        written = JobTopics(servers, topics)
        forwarder: GuardedProcess | None = None
        for number, group in enumerate(groups):
            commit_once(servers, group, TopicPartition(topic, 0, 1))
            wait_until(lambda group=group: named(watch.events(), "group.created", group), 90, pause=0.2)
            watch.kill()
            if forwarder is not None:
                forwarder.end(0)
            log = tmp_path / f"events-{number}.log"
            forwarder = GuardedProcess([*command, "--webhook", receiver.url], log)
            watch.start()
            wait_until(lambda group=group: named(receiver.taken, "group.created", group), 90, pause=0.2)
        assert forwarder is not None
        forwarder.end(0)
        created = {event["id"] for group in groups for event in named(watch.events(), "group.created", group)}
        assert len(created) == len(groups)
        assert created <= written.events().keys() == {event["id"] for event in receiver.taken}
        heads = ("type", "time", "sequence", "subject")
        for event in receiver.taken:
            assert [event[name] for name in heads] == [written.events()[event["id"]][name] for name in heads]


def statuses(events: Sequence[Json], group: str, condition_id: str | None = None) -> list[str]:
    """What was reported of a stuck rebalance of the group: of the one with this id, or of all."""
    stuck = (event["data"] for event in named(events, "rebalance.stuck", group))
    return [data["status"] for data in stuck if condition_id in (None, data["condition_id"])]


def test_without_the_topic(broker: EmbeddedBroker, unique: Callable[[str], str], tmp_path: Path) -> None:
    """Through the Admin API alone a stuck group is reported, and its end; the process says what it cannot see."""
    group, topic, servers = unique("stuck"), unique("orders"), broker.bootstrap_servers
    make_topics(servers, {topic: 4})
    members = PolledMembers(servers, 60_000)
    flags = ("--admin-only", "--probe-interval", "1", "--rule", "rebalance.stuck.threshold_ms=4000")
    with (
        closing(members),
        producing(servers, {topic: 4}, 0.05),
        watching_process(servers, tmp_path, *flags, "--state", str(tmp_path / "state.db")) as watch,
    ):
        members.join("a", group, topic)
        members.wait_until(lambda: members.owned("a") == [4], 90)
        # On a busy machine the first join alone may have taken four seconds.
        earlier = len(named(watch.events(), "rebalance.stuck", group))
        members.stuck.add("a")
        members.join("b", group, topic)
        members.wait_until(lambda: statuses(watch.events(), group)[earlier:][-1:] == ["firing"], 90)
        fired = named(watch.events(), "rebalance.stuck", group)[-1]
        condition_id = fired["data"]["condition_id"]
        watch.kill()
        watch.start()
        members.stuck.clear()
        members.wait_until(lambda: len(statuses(watch.events(), group, condition_id)) > 1, 90)
    assert statuses(watch.events(), group, condition_id) == ["firing", "resolved"]
    assert "through the Admin API alone" in watch.outputs[0].read_text()
    assert {event["data"]["evidence"] for event in watch.events()} == {"probe"}
