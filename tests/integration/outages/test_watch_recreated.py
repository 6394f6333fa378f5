"""The offsets topic is deleted and created again while ``watch`` runs, and while it does not."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.replays import Json, named
from support.job.watch_process import WatchProcess, watching_process
from support.kafka.clients import commit_surely, make_topics
from support.kafka.waiting import wait_until

pytestmark = pytest.mark.broker

#: Of both partitions of the offsets topic.
GROUPS = ("g1", "g2", "g3", "g4")


def recreate(servers: str, commits: int) -> None:
    """Deletes the topic; the groups commit so often, which creates it again."""
    admin = Connection(Cluster(bootstrap_servers=servers)).admin()
    admin.delete_topics([OFFSETS_TOPIC])[OFFSETS_TOPIC].result(30)
    for offset in range(100, 100 + commits):
        for group in GROUPS:
            commit_surely(servers, group, TopicPartition("orders", 0, offset))


def era_of(servers: str) -> str:
    """The id of the topic now."""
    return Connection(Cluster(bootstrap_servers=servers)).identify(OFFSETS_TOPIC).era


def gaps(watch: WatchProcess) -> list[tuple[str, int]]:
    """Reason and number of partitions of each gap that was printed."""
    found = [event["data"] for event in named(watch.events(), "job.gap")]
    return [(gap["reason"], len(gap["partitions"])) for gap in found]


def newest_commits(watch: WatchProcess) -> list[int]:
    """When the groups have committed last, as the pages say; nothing while these begin anew."""
    with suppress(OSError):
        documents = [watch.page(f"/api/groups/{group}")["document"] for group in GROUPS]
        return [document["offsets"]["newest_commit_ms"] for document in documents]
    return []


def in_file(path: Path) -> list[Json]:
    """The events in the file of ``--jsonl``."""
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("has_state", [True, False], ids=["state", "memory"])
def test_a_topic_that_is_created_again(tmp_path: Path, *, has_state: bool) -> None:
    """The process says so once, goes on with a state from the new topic, and what happens from then on is reported.

    The new log soon reaches beyond the offset up to which the former one was read. With a file the same holds for a
    topic that is created again while no process runs, and each event is once in the file of ``--jsonl``.
    """
    state, out = tmp_path / "state.db", tmp_path / "events.jsonl"
    flags = ("--state", str(state)) if has_state else ()
    with EmbeddedBroker(offsets_partitions=2) as broker:
        servers = broker.bootstrap_servers
        make_topics(servers, {"orders": 1})
        for group in GROUPS:
            commit_surely(servers, group, TopicPartition("orders", 0, 7))
        with watching_process(servers, tmp_path, "--jsonl", str(out), "--no-ends", *flags) as watch:
            commit_surely(servers, "before")
            wait_until(lambda: named(watch.events(), "group.created", "before"))
            recreated_ms = now_ms()
            recreate(servers, commits=6)
            wait_until(lambda: gaps(watch) == [("topic_recreated", 2)])
            commit_surely(servers, "after")
            wait_until(lambda: named(watch.events(), "group.created", "after"))
            assert watch.process is not None
            assert watch.process.exit_code is None
            assert watch.outputs[0].read_text().count("(topic recreated)") == 1
            (created,) = named(watch.events(), "group.created", "after")
            assert f"-{era_of(servers)}-" in created["id"]
            wait_until(lambda: newest_commits(watch))
            assert min(newest_commits(watch)) > recreated_ms
            if has_state:
                watch.kill()
                recreate(servers, commits=1)
                watch.start()
                wait_until(lambda: gaps(watch) == [("topic_recreated", 2)] * 2)
                watch.kill()
                watch.start()
                commit_surely(servers, "last")
                wait_until(lambda: named(watch.events(), "group.created", "last"))
            printed = [event["id"] for event in watch.events()]
            wait_until(lambda: sorted(event["id"] for event in in_file(out)) == sorted(printed))
            assert len(gaps(watch)) == 1 + has_state
