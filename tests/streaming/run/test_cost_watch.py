"""The thread that joins rebalances with recorded ends and commits: what it publishes, when, and how often."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.contract.log import Places
from groupreplay.streaming.contract.messages import OutputRow
from groupreplay.streaming.contract.partition_ends import PartitionEnds
from groupreplay.streaming.contract.probe_messages import encode_message
from groupreplay.streaming.run.cost_watch import BACK_MS, CostWatch
from groupreplay.timeline.commit_rates import CommitLog
from groupreplay.timeline.stop_cost import Place
from support.histories.builders import CONTEXT
from support.histories.samples import one_of_each, written
from support.job.captures import CLUSTER_ID
from support.job.probes import ends_round, topic_ends

TOPICS = TopicNames()
MINUTE = 60_000
AT = 1_700_000_000_000


@dataclass
class Topics:
    """The topics of the job, as they were written."""

    topics: TopicNames = TOPICS
    written: dict[str, list[tuple[bytes | None, bytes | None]]] = field(
        default_factory=lambda: {TOPICS.events: [], TOPICS.probes: []}
    )
    since_ms: int = 0

    def begin(self, since_ms: int) -> Places:
        """All of it."""
        self.since_ms = since_ms
        return {topic: {0: 0} for topic in (*self.written, TOPICS.states)}

    def read(self, places: Places) -> Iterator[tuple[str, bytes | None, bytes | None]]:
        """What was written since."""
        for topic in places:
            messages = self.written[topic]
            for key, value in messages[places[topic][0] :]:
                yield topic, key, value
            places[topic] = {0: len(messages)}


@dataclass
class Commits:
    """The commits of the one group; ``now`` is what is committed of a partition without a commit since."""

    moves: list[tuple[int, int, int]] = field(default_factory=list)
    asked: int = 0

    def since(self, partition: int, groups: Collection[str], since_ms: int) -> Mapping[str, CommitLog]:
        """Those of partition 0 of the topic."""
        self.asked += 1
        rows = [move for move in self.moves if move[1] >= since_ms]
        columns = np.array(rows, np.int64).reshape(len(rows), 3).T
        log = CommitLog(places=(("t", 0),), moves=(columns[0], columns[1], columns[2]))
        return dict.fromkeys(groups, log)

    def now(self, group: str) -> Mapping[Place, int]:
        """Two partitions."""
        return {("t", 0): self.moves[-1][2], ("t", 1): 7}


@dataclass
class Job:
    """A run, whose clock is set by the test."""

    topics: Topics = field(default_factory=Topics)
    commits: Commits = field(default_factory=Commits)
    now_ms: int = AT

    def watch(self) -> CostWatch:
        """The watch of a run that starts now."""
        return CostWatch(
            messages=self.topics,
            commits=self.commits,
            context=lambda: replace(CONTEXT, cluster_id=CLUSTER_ID),
            publish=self._publish,
            clock=lambda: self.now_ms,
        )

    def events(self) -> list[dict[str, Any]]:
        """The costs that were published."""
        bodies = [json.loads(value or b"") for _, value in self.topics.written[TOPICS.events]]
        return [body for body in bodies if body["type"] == "groupreplay.rebalance.cost.v1"]

    def _publish(self, topic: str, row: OutputRow) -> None:
        self.topics.written[topic].append((row.key, row.value))


def stopped_job() -> Job:
    """A rebalance of 20 s ended at AT; ten records a second were written to one of two partitions."""
    job = Job()
    completed = next(written(event) for event in one_of_each() if event.fact.NAME == "rebalance.completed")
    completed["time"] = "2023-11-14T22:13:20.000Z"
    completed["data"] |= {"cluster_id": CLUSTER_ID, "duration_ms": 20_000, "sync_ms": 0}
    job.topics.written[TOPICS.events].append((b"", json.dumps(completed).encode()))
    for number in range(30):
        at_ms = AT - 5 * MINUTE + number * 30_000
        end = 300 * number
        messages = [
            topic_ends(number, {0: PartitionEnds(0, end, end), 1: PartitionEnds(0, 7, 7)}, taken_ms=at_ms),
            ends_round(number, taken_ms=at_ms),
        ]
        job.topics.written[TOPICS.probes] += map(encode_message, messages)
    job.commits.moves = [(0, AT - 20_000, 2_800)]
    return job


def test_a_cost_is_published_when_the_group_has_caught_up() -> None:
    """Once, with the id that follows from that of the rebalance; after a restart it is not published again."""
    job = stopped_job()
    watch = job.watch()
    watch.tick()
    assert (job.events(), job.commits.asked, job.topics.since_ms) == ([], 0, AT - BACK_MS)
    job.now_ms = AT + 3 * MINUTE
    watch.tick()
    assert (job.events(), job.commits.asked) == ([], 1)
    job.now_ms += 1_000
    watch.tick()
    assert job.commits.asked == 1
    job.commits.moves.append((0, AT + 2 * MINUTE, 4_300))
    for again in (watch, watch, job.watch()):
        job.now_ms += 5 * MINUTE
        again.tick()
    (event,) = job.events()
    completed = json.loads(job.topics.written[TOPICS.events][0][1] or b"")
    assert event["id"] == completed["id"].replace("rebalance.completed", "rebalance.cost")
    assert event["time"] == "2023-11-14T22:15:20.000Z"
    assert event["data"]["completed_event"] == completed["id"]
    assert event["data"]["rebalance_id"] == completed["data"]["rebalance_id"]
    cost = event["data"]["cost"]
    assert (cost["added"], cost["partitions"], cost["lag_unknown"]) == (200, 1, 0)
    assert cost["text"] == "+ 200 records on 1 partition, caught up 2 min 0 s later"


def test_after_an_hour_it_is_published_as_it_is() -> None:
    """A group that has not caught up; its time is an hour after the rebalance, whenever the job noticed."""
    job = stopped_job()
    watch = job.watch()
    for minutes in (3, 20, 61, 90):
        job.now_ms = AT + minutes * MINUTE
        watch.tick()
    (event,) = job.events()
    assert (event["time"], event["data"]["cost"]["caught_up_ms"]) == ("2023-11-14T23:13:20.000Z", None)


def test_without_recorded_ends_nothing_is_published() -> None:
    """And no commits are read."""
    job = stopped_job()
    job.topics.written[TOPICS.probes].clear()
    watch = job.watch()
    for minutes in (3, 90):
        job.now_ms = AT + minutes * MINUTE
        watch.tick()
    assert (job.events(), job.commits.asked) == ([], 0)
