"""``run --adopt``: the job goes on where a watch was killed, while a group is stuck."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

import pytest

from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.jobs import running_job, topic_names
from support.job.replays import Json, named
from support.job.watch_process import watching_process
from support.job.watched import producing
from support.kafka.clients import make_topics
from support.kafka.polled_members import PolledMembers
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
            members.wait_until(lambda: named(watch.events(), "rebalance.stuck", group), 90)
            (fired,) = named(watch.events(), "rebalance.stuck", group)
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
    assert sorted({*completed, *later}) == list(range(1, max(later) + 1))
