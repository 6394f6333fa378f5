"""``run --adopt``: the job goes on where a watch was killed, while a group is stuck or an incident is open."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.jobs import running_job, topic_names
from support.job.replays import Json, named
from support.job.watch_process import watching_process
from support.job.watched import producing
from support.kafka.clients import make_topics, new_consumer
from support.kafka.polled_members import PolledMembers
from support.kafka.waiting import wait_until
from support.receiver import receiving

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long]

FLAGS = ("--probe-interval", "1", "--rule", "rebalance.stuck.threshold_ms=6000", "--member-events")


def of_group(events: Iterable[Json], group: str) -> dict[str, Json]:
    """The events about a group by id."""
    mine = [event for event in events if event["data"].get("group_id") == group]
    # Only its writer decides whether it came late.
    return {event["id"]: {**event, "data": {**event["data"], "catch_up": None}} for event in mine}


def has_resolved(events: Iterable[Json], group: str) -> bool:
    """Whether the stuck rebalance is over."""
    stuck = named(list(events), "rebalance.stuck", group)
    return any(event["data"]["status"] == "resolved" for event in stuck)


def test_a_stuck_group_is_handed_over(
    broker: EmbeddedBroker, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """Each event of the group is in one of both, or in both with one id; its condition ends in the job."""
    group, topic, servers = unique("adopted"), unique("orders"), broker.bootstrap_servers
    topics, state = topic_names(unique("job")), tmp_path / "state.db"
    make_topics(servers, {topic: 6})
    members = PolledMembers(servers, 60_000)
    with receiving() as receiver, closing(members), producing(servers, {topic: 6}, 0.05):
        outputs = ("--state", str(state), "--jsonl", str(tmp_path / "e.jsonl"), "--webhook", receiver.url)
        with watching_process(servers, tmp_path, *outputs, *FLAGS) as watch:
            for name in ("a", "b"):
                members.join(name, group, topic)
            members.wait_until(lambda: members.owned("a", "b") == [3, 3], 90)
            members.wait_until(lambda: named(receiver.taken, "rebalance.completed", group), 90)
            members.stuck.add("a")
            members.join("c", group, topic)
            (fired,) = members.wait_until(lambda: named(watch.events(), "rebalance.stuck", group), 90)
            members.wait_until(lambda: named(receiver.taken, "rebalance.stuck", group), 90)
            file = tmp_path / "e.jsonl"
            members.wait_until(lambda: fired["id"] in file.read_text(), 90)
            watch.kill()
            before = of_group(watch.events(), group)
            assert of_group(map(json.loads, file.open()), group) == before
        with running_job(servers, tmp_path / "checkpoint", topics, "--adopt", str(state), *FLAGS) as job:
            job.wait_caught_up()
            members.stuck.clear()
            members.wait_until(lambda: has_resolved(job.events().values(), group), 200)
            after = of_group(list(job.events().values()), group)
    stuck = [event for event in after.values() if event["type"].endswith("rebalance.stuck.v1")]
    assert {event["data"]["condition_id"] for event in stuck} == {fired["data"]["condition_id"]}
    for event_id in before.keys() & after.keys():
        assert before[event_id]["data"] == after[event_id]["data"]
    completed = [
        event["data"]["generation"] for event in named([*before.values()], "rebalance.completed", group)
    ]
    later = [event["data"]["generation"] for event in named([*after.values()], "rebalance.completed", group)]
    # The first one may have been complete before the watch was.
    reported = sorted({*completed, *later})
    assert reported == list(range(reported[0], max(later) + 1))
    assert reported[0] in {1, 2} & {*completed}


def incidents(events: Iterable[Json], what: str) -> dict[str, str]:
    """The incidents that have opened, or are resolved, by the ids of these events."""
    return {
        event["id"]: event["data"]["incident_id"] for event in events if f"incident.{what}" in event["type"]
    }


def test_an_open_incident_is_handed_over(tmp_path: Path) -> None:
    """The watch has told that it opened, and is killed; the job tells, under the same id, that it is over.

    That it opened is told again, at most, by the event that the watch could not note as delivered.
    """
    groups, state = [f"reader-{number}" for number in range(12)], tmp_path / "state.db"
    with EmbeddedBroker(offsets_partitions=2) as broker:
        servers = broker.bootstrap_servers
        make_topics(servers, {"orders": 1, "billing": 1})
        for number, group in enumerate((*groups, *(f"other-{number}" for number in range(12)))):
            with closing(new_consumer(servers, group)) as consumer:
                topic = "orders" if number < len(groups) else "billing"
                # Three commits: the loss of such a group is a warning.
                for offset in (1, 2, 3):
                    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        with watching_process(servers, tmp_path, "--state", str(state), "--probe-interval", "1") as watch:
            admin = AdminClient({"bootstrap.servers": servers})
            admin.delete_topics(["orders"])["orders"].result(30)
            wait_until(lambda: incidents(watch.events(), "opened"), seconds=120)
            watch.kill()
            opened = incidents(watch.events(), "opened")
            assert not incidents(watch.events(), "resolved")
        with running_job(
            servers, tmp_path / "checkpoint", topic_names("adopted"), "--adopt", str(state)
        ) as job:
            job.wait_until(lambda: bool(incidents(job.events().values(), "resolved")))
            events = list(job.events().values())
    assert list(incidents(events, "resolved").values()) == list(set(opened.values()))
    assert incidents(events, "opened").keys() <= opened.keys()
