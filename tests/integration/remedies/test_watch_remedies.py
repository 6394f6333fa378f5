"""What ``watch`` warns of, and a page of ``serve`` has not read yet: what they say to do, done on real brokers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from groupreplay.app.serve.offsets_log import group_logs
from groupreplay.app.serve.offsets_log.group_logs import LiveLogs, LogUnreadError
from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.base.errors import ExitCode
from groupreplay.streaming.base.process import StopRequest
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka import clients, topic_reader
from groupreplay.streaming.kafka.rights import source_rights, watch_rights
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.run import status
from groupreplay.streaming.spark.query import TopicPlan, planned_partitions
from groupreplay.streaming.watch import follower as watching
from groupreplay.streaming.watch.follower import Follower, WatchSettings, opened
from groupreplay.streaming.watch.polls import Outcome
from support.job.jobs import read_json, topic_names
from support.job.own_process import run_here
from support.job.spark_sessions import small_session
from support.kafka.clients import commit_once, make_topics
from support.kafka.runbook_commands import as_administrator
from support.kafka.secured import USER, SecuredBroker
from support.kafka.waiting import in_background, wait_until
from support.remedies import read_remedy

pytestmark = [pytest.mark.broker, pytest.mark.timeout(900)]

SECONDS = 240.0


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What ``watch`` warns of."""
    messages: list[str] = []
    monkeypatch.setattr(watching.log, "warning", lambda text, *more: messages.append(text % more))
    return messages


@contextmanager
def following(
    source: Cluster, deliver: Callable[[Outcome], None] = lambda _: None, **settings: Any
) -> Iterator[Follower]:
    """A ``watch`` that reads meanwhile."""
    stop = StopRequest()
    with (
        opened(WatchSettings(source=source, **settings), deliver) as follower,
        in_background(lambda _: follower.follow(stop)),
    ):
        try:
            yield follower
        finally:
            stop.make(15)


def test_groups_that_it_may_not_see(guarded: SecuredBroker, tmp_path: Path, warnings: list[str]) -> None:
    """The printed right for all groups: the prober's next rounds see them, and nothing more is said."""
    guarded.allow_only(source_rights(probe=False, ask_retention=True))
    properties = dict(line.split("=", 1) for line in guarded.properties(tmp_path).read_text().splitlines())
    source = Cluster(bootstrap_servers=guarded.checked, properties=properties)
    with following(source, probe_interval_seconds=1.0) as follower:
        wait_until(lambda: warnings, SECONDS)
        (line,) = read_remedy("streaming.watch.follower: grant it: …", warnings[0])
        as_administrator(guarded, line.replace("HOST:PORT", guarded.checked).replace("NAME", USER))
        wait_until(lambda: getattr(follower.report.last_round, "rights", "") == "ok", SECONDS)
    assert len(warnings) == 1


def test_the_rights_of_a_watch(guarded: SecuredBroker, tmp_path: Path, warnings: list[str]) -> None:
    """With the rights of its KafkaUser, and no other, the prober's round is whole, and nothing is refused."""
    guarded.allow_only(watch_rights())
    properties = dict(line.split("=", 1) for line in guarded.properties(tmp_path).read_text().splitlines())
    source = Cluster(bootstrap_servers=guarded.checked, properties=properties)
    with following(source, probe_interval_seconds=1.0) as follower:
        wait_until(lambda: getattr(follower.report.last_round, "rights", "") == "ok", SECONDS)
    assert warnings == []


@pytest.mark.spark
@pytest.mark.usefixtures("one_session")
def test_a_watch_that_falls_behind(
    tmp_path: Path, warnings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who takes its events is too slow; ``run`` reads the partitions of the log in several tasks, to the end."""
    monkeypatch.setattr(status, "_CAUGHT_UP_WITHIN_MS", 2_000)
    is_slow, topics, polls = threading.Event(), topic_names("watched"), list[Outcome]()
    groups = {f"g{number}" for number in range(12)}
    with EmbeddedBroker(offsets_partitions=4) as broker:
        server = broker.bootstrap_servers
        source = Cluster(bootstrap_servers=server)
        make_topics(server, {"orders": 1})
        commit_once(server, "g0")

        def is_behind() -> bool:
            return follower.report.phase(now_ms()) != "caught_up"

        def deliver(outcome: Outcome) -> None:
            polls.append(outcome)
            wait_until(lambda: not is_slow.is_set(), SECONDS)

        with following(source, deliver, probe_interval_seconds=None) as follower:
            wait_until(lambda: not is_behind(), SECONDS)
            polls.clear()
            # The first of them may have begun before.
            wait_until(lambda: len(polls) > 1, SECONDS)
            is_slow.set()
            for group in sorted(groups):
                commit_once(server, group)
            wait_until(lambda: is_behind() and any(follower.report.lag().values()), SECONDS)
            is_slow.clear()
            wait_until(lambda: warnings, SECONDS)
        (count,) = read_remedy("streaming.watch.follower: … records to go;", warnings[0])
        assert int(count.rpartition(" ")[2]) > 0
        plan = TopicPlan(cluster=source, topic=OFFSETS_TOPIC, partitions=4)
        assert planned_partitions(small_session(), plan) > 1
        assert run_here(server, tmp_path / "checkpoint", topics, once=True) == ExitCode.OK
        assert groups <= {document["group_id"] for document in read_json(server, topics.states)}


class SlowConsumer(Consumer):
    """A client to which records come one by one."""

    def consume(self, *_: Any, **__: Any) -> list[Any]:
        return []


def test_a_page_that_asks_again(
    guarded: SecuredBroker, unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that one request cannot read: each further one goes on from there, until all of it was read."""
    plain, group = guarded.broker.bootstrap_servers, unique("paged")
    for offset in (1, 2, 3):
        commit_once(plain, group, TopicPartition("orders", 0, offset))
    monkeypatch.setattr(clients, "Consumer", SlowConsumer)
    monkeypatch.setattr(topic_reader, "BATCH_ROWS", 1)
    monkeypatch.setattr(group_logs, "READ_SECONDS", 0.0)
    logs, refusals = LiveLogs(Cluster(bootstrap_servers=plain)), list[str]()

    def asked() -> bool:
        try:
            (offset,) = (logs.read(group, now_ms()).described() or {})["offsets"]
        except LogUnreadError as error:
            refusals.append(str(error))
            return False
        return bool(offset["offset"] == 3)

    wait_until(asked)
    read_remedy("app.serve.offsets_log.group_logs: ask again", refusals[0])
    assert len(refusals) == len(set(refusals))
