"""Leaders of the offsets topic change while the job runs and while it is down, with and without loss of records."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.clients import Connection
from support.job.jobs import Json, RunningJob, running_job, topic_names
from support.job.replays import named, replayed_log
from support.kafka.clients import commit_surely, make_topics
from support.kafka.lost_records import TWO_REPLICAS, elect_uncleanly, restart_in_turn
from support.kafka.three_brokers import three_brokers

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1200)]

LOG = TopicPartition(OFFSETS_TOPIC, 0)


class Commits:
    """Groups without members that commit an offset of ``orders``; each commit is one more record."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._next = itertools.count(1)

    def __call__(self, *groups: str) -> None:
        """Each of them commits the next number; a coordinator may just be moving."""
        for group in groups:
            commit_surely(self._server, group, TopicPartition("orders", 0, next(self._next)))


def gaps(job: RunningJob) -> list[Json]:
    """The gaps, in order."""
    return named(list(job.events().values()), "job.gap")


def groups_as_replayed(job: RunningJob, checkpoint: Path) -> bool:
    """Whether the documents are those of a replay of what the log holds now."""
    newest = max([checkpoint, *checkpoint.glob("anew-*")])
    first_start_ms = json.loads((newest / "groupreplay.json").read_bytes())["first_start_ms"]
    _, replay = replayed_log(job.server, complete_since_ms=first_start_ms)
    expected: dict[str, Any] = {}
    for group in replay.groups():
        group.note_topic(in_topic=True)
        document = group.take_document()
        if document is not None:
            expected[group.group_id] = json.loads(json.dumps(document, default=str))
    return steady(job.documents()) == steady(expected)


def steady(documents: dict[str, Json]) -> dict[str, Json]:
    """Documents without times and places, which are written only when something else changes."""
    return {
        group: {
            **document,
            "offsets": {n: v for n, v in document["offsets"].items() if not n.endswith("_commit_ms")},
            "log_position": None,
        }
        for group, document in documents.items()
    }


def eras(job: RunningJob, *groups: str) -> set[str]:
    """The part of the ids of these groups' events that is the topic's incarnation, without the topic's id."""
    era = Connection(Cluster(bootstrap_servers=job.server)).identify(OFFSETS_TOPIC).era
    created = [
        one
        for one in named(list(job.events().values()), "group.created")
        if one["data"]["group_id"] in groups
    ]
    assert {one["data"]["group_id"] for one in created} == set(groups)
    return {one["id"].removeprefix(f"{OFFSETS_TOPIC}-{era}").split("-")[0] for one in created}


def test_elections(tmp_path: Path, unique: Callable[[str], str]) -> None:
    """A rolling restart is no gap. A leader without the last records is one, also when its log is longer by now.

    The state is then that of the new log, and no id is used twice: while the job runs, and while it is down.
    """
    with three_brokers(1, **TWO_REPLICAS) as cluster:
        server, topics, checkpoint = cluster.bootstrap_servers, topic_names(unique("elect")), tmp_path / "job"
        make_topics(server, {"orders": 1})
        commit = Commits(server)
        commit("kept")
        with running_job(server, checkpoint, topics, "--no-probe") as job:

            def read_lost(*groups: str) -> None:
                commit(*groups)
                job.wait_caught_up()

            job.wait_caught_up()
            restart_in_turn(cluster, LOG, lambda: commit("kept", "calm"))
            job.wait_caught_up()
            assert gaps(job) == []
            assert eras(job, "calm") == {""}

            elect_uncleanly(
                cluster,
                LOG,
                write_lost=lambda: read_lost("kept", "lost", "lost"),
                write_more=lambda: commit(*["regrown"] * 8),
            )
            job.wait_until(lambda: len(gaps(job)) == 1)
            job.wait_caught_up()
            commit("after")
            job.wait_caught_up()
            job.wait_until(lambda: groups_as_replayed(job, checkpoint))
            assert job.documents().keys() == {"kept", "calm", "regrown", "after"}
            assert (eras(job, "lost"), eras(job, "after")) == ({""}, {".1"})

            def read_and_stop(*groups: str) -> None:
                read_lost(*groups)
                assert job.stop() == 143

            elect_uncleanly(
                cluster,
                LOG,
                write_lost=lambda: read_and_stop("kept", "away", "away"),
                write_more=lambda: commit(*["grown"] * 8),
            )
            job.restart()
            job.wait_until(lambda: len(gaps(job)) == 2)
            job.wait_caught_up()
            commit("last")
            job.wait_caught_up()
            job.wait_until(lambda: groups_as_replayed(job, checkpoint))
            assert job.documents().keys() == {"kept", "calm", "regrown", "after", "grown", "last"}
            assert (eras(job, "away"), eras(job, "last")) == ({".1"}, {".2"})

            restart_in_turn(cluster, LOG, lambda: commit("kept"))
            job.wait_caught_up()
            assert job.stop() == 143
            job.restart()
            job.wait_caught_up()
            found = [one["data"] for one in gaps(job)]
            assert [one["reason"] for one in found] == ["truncated", "truncated"]
            for one in found:
                (lost,) = one["partitions"]
                assert (lost["partition"], lost["log_start"]) == (0, 0)
            # The first one may be found before the log has grown again.
            (lost,) = found[1]["partitions"]
            assert lost["log_end"] > lost["read_to"] > 0
