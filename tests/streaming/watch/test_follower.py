"""What ``watch`` says before it reads anything, and what it never imports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.state.events.event import JobGap, UnreadRange
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.base.process import StopRequest
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.log_watch import LogLostError
from groupreplay.streaming.kafka.topic_identity import TopicIdentity
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.watch.beginning import LogGoneError, WatchSettings
from groupreplay.streaming.watch.follower import Follower, opened
from groupreplay.streaming.watch.log_reader import Arrived, NoLog
from groupreplay.streaming.watch.polls import Outcome, Read
from groupreplay.streaming.watch.state_file import Change, Owner, StateFile
from support.kafka.clients import new_consumer
from support.remedies import read_remedy


def ignore(_: Outcome) -> None:
    """Nobody wants the events."""


def test_a_topic_that_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what the command is that needs no topic, and how to see the topic."""

    def hidden(_: Connection, topic: str) -> None:
        raise GroupReplayError("no topic", where=topic, fix="grant Describe", exit_code=ExitCode.DATA)

    monkeypatch.setattr(Connection, "identify", hidden)
    with (
        pytest.raises(GroupReplayError) as refused,
        opened(WatchSettings(source=Cluster(bootstrap_servers="h:1")), ignore),
    ):
        pass
    (rest,) = read_remedy("streaming.watch.beginning: groupreplay watch --admin-only", str(refused.value))
    assert (rest, refused.value.exit_code) == ("grant Describe", ExitCode.DATA)
    assert "hosted Kafka" in refused.value.what


@pytest.mark.broker
def test_a_log_that_was_cut(
    broker: EmbeddedBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that has read more than the log has: it says so, also as an event, and begins anew with other ids."""
    servers = broker.bootstrap_servers
    consumer = new_consumer(servers, "watch-log-cut")
    consumer.close()
    source = Cluster(bootstrap_servers=servers)
    path = tmp_path / "state.db"
    with opened(WatchSettings(source=source, state=path), ignore) as opened_follower:
        ends = Connection(source).end_offsets(OFFSETS_TOPIC, opened_follower.identity.partitions)
    file = StateFile(path)
    assert file.write(Change(read_to={number: end + 10 for number, end in ends.items()}))
    file.close()
    settings = WatchSettings(source=source, state=path)
    with opened(settings, ignore) as anew:
        era = f"{anew.identity.era}.1"
        assert (anew.polls.read_to, anew.polls.engine.context.era) == ({}, era)
    # After a process that was killed before its first poll.
    with opened(settings, ignore) as anew:
        (event,) = anew.polls.take(Read(read_to={0: 0})).events.values()
    assert "(truncated)" in capsys.readouterr().err
    gap = json.loads(event)
    assert (gap["data"]["reason"], gap["id"]) == ("truncated", f"job.gap-{anew.owner.first_start_ms}")
    with opened(settings, ignore) as later:
        assert later.polls.take(Read()).events == {}


def test_neither_spark_nor_a_jvm() -> None:
    """All modules of ``watch`` with its pages are imported, and none of Spark's is."""
    modules = (
        "groupreplay.app.cli.commands.watch",
        "groupreplay.app.serve.application",
        "groupreplay.app.serve.local_feed",
        "groupreplay.app.serve.watched_cluster",
        "groupreplay.app.exporter.http_server",
        "groupreplay.streaming.watch.follower",
        "groupreplay.streaming.prober.service",
    )
    lines = ["import sys", *(f"import {module}" for module in modules)]
    lines.append("print([name for name in ('pyspark', 'py4j', 'pandas') if name in sys.modules])")
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_no_right_to_read() -> None:
    """The message has the right that is missing, and the command that needs none."""

    class Refused(NoLog):
        """A reader without rights."""

        def read(self, seconds: float) -> Arrived:
            del seconds
            raise GroupReplayError("no", where="t", fix="grant Read", exit_code=ExitCode.AUTHORISATION)

    with pytest.raises(GroupReplayError) as refused:
        Follower._read(cast(Any, None), Refused(), StopRequest())
    (right,) = read_remedy("streaming.watch.follower: …; groupreplay watch --admin-only", str(refused.value))
    assert (right, refused.value.exit_code) == ("no (t): grant Read", ExitCode.AUTHORISATION)


@pytest.mark.parametrize(
    ("is_anew", "read_to", "repeats"),
    [(False, {}, False), (True, {0: 1}, False), (True, {}, True)],
    ids=["first", "later", "at once"],
)
def test_a_log_that_is_lost_again(*, is_anew: bool, read_to: dict[int, int], repeats: bool) -> None:
    """The state is built anew, but not once more before anything was read: that would repeat for ever."""
    gap = JobGap(reason="removed", partitions=(UnreadRange(partition=0, read_to=1, log_start=2, log_end=3),))
    lost = LogLostError(gap, TopicIdentity("c", OFFSETS_TOPIC, "e", 1, {}))
    owner = Owner(
        cluster_id="c", era="e", partitions=1, first_start_ms=1, job_id="w", gap=gap if is_anew else None
    )
    ended = SimpleNamespace(owner=owner, polls=SimpleNamespace(read_to=read_to))
    error = Follower._gone(cast(Any, ended), lost)
    if repeats:
        assert error is lost
    else:
        assert isinstance(error, LogGoneError)
        assert (error.lost, error.owner) == (lost, owner)
