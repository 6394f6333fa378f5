"""The running job on a machine whose clock is an hour fast, beside forged messages and wrong coordinators."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, Producer, TopicPartition

from groupreplay.codecs.kafka_terms import partition_for
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.contract.probe_messages import (
    GroupAnswer,
    HeartbeatMessage,
    ProbeMessage,
    RoundSummary,
    decode_message,
    encode_message,
)
from support.histories.raw_records import commit
from support.job.jobs import JobTopics, Json, RunningJob, read_json, running_job, topic_names, write_log
from support.job.own_process import OwnJob, keep_session, run_until
from support.job.replays import event_name
from support.kafka.blank_brokers import blank_broker
from support.kafka.clients import commit_once, make_topics
from support.startup_code import python_path

pytestmark = [pytest.mark.broker, pytest.mark.spark]

PARTITIONS = 4
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
YEAR_MS = 365 * 24 * HOUR_MS
#: What Python runs first in every process of the job, and so on the whole machine but for Spark's own timers: the clock
#: is ahead by what a file says.
SET_CLOCK = """
import importlib.util
import time
from pathlib import Path

def ahead_ms():
    return int(Path(__file__).with_name("ahead_ms").read_text())

if importlib.util.find_spec("groupreplay") is not None:
    # What every clock of the job reads; a function of groupreplay's may be somebody's default already.
    true_ns = time.time_ns
    time.time_ns = lambda: true_ns() + 1_000_000 * ahead_ms()
if importlib.util.find_spec("pyspark") is not None:
    from pyspark.sql.streaming.state import GroupState

    batch_ms = GroupState.getCurrentProcessingTimeMs
    GroupState.getCurrentProcessingTimeMs = lambda state: batch_ms(state) + ahead_ms()
"""


def set_clock(folder: Path, ahead_ms: int) -> None:
    """Sets the clock of the machine, at one moment for all of its processes."""
    (folder / "new").write_text(str(ahead_ms))
    (folder / "new").replace(folder / "ahead_ms")


@contextmanager
def machine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All Python processes that start meanwhile run on a machine whose clock is an hour fast."""
    path = python_path(folder, SET_CLOCK)
    set_clock(folder, HOUR_MS)
    with monkeypatch.context() as changed:
        changed.setenv("PYTHONPATH", path)
        yield


def clocks(job: JobTopics) -> list[tuple[str, tuple[int, ...], tuple[int, ...], float, int | None]]:
    """What was reported about clocks: status, partitions, brokers, by how many hours, and the record."""
    found = [one["data"] for one in ordered(job) if one["data"].get("what") == "clock"]
    return [
        (
            one["status"],
            tuple(one["partitions"]),
            tuple(one["brokers"]),
            round(one["off_ms"] / HOUR_MS, 1),
            one["offset"],
        )
        for one in found
    ]


def ordered(job: JobTopics) -> list[Json]:
    """The events by time."""
    return sorted(job.events().values(), key=lambda one: one["time"])


def whats(job: JobTopics) -> set[tuple[str, str]]:
    """The reasons for which the job said that it is blind, and whether they began or ended."""
    blind = [one["data"] for one in job.events().values() if event_name(one) == "job.blind"]
    return {(one["what"], one["status"]) for one in blind}


def milliseconds(time: str) -> int:
    """A time in an event."""
    return round(datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp() * 1_000)


def probes(job: JobTopics) -> list[tuple[int, int, ProbeMessage]]:
    """The messages of the topic of probes with the kind of their timestamp, and the timestamp."""
    found: list[tuple[int, int, ProbeMessage]] = []
    settings = {"bootstrap.servers": job.server, "group.id": "unused", "enable.partition.eof": True}
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(job.topics.probes, 0, 0)])
        while (message := consumer.poll(30)) is not None and message.error() is None:
            decoded = decode_message(message.key(), message.value())
            assert decoded is not None
            found.append((*message.timestamp(), decoded))
    return found


def forge(job: JobTopics, at_ms: int) -> None:
    """What a program may write that has read the topic: a heartbeat of this run, a round, and an answer."""
    status = job.status()
    beat = HeartbeatMessage(
        cluster_id=status["cluster_id"],
        era=status["era"],
        job_id=status["job_id"],
        run_id=status["run_id"],
        at_ms=at_ms,
        caught_up_ms=at_ms,
        offsets={},
    )
    answer = GroupAnswer(
        cluster_id=status["cluster_id"],
        group_id="forged",
        taken_ms=at_ms,
        state="PreparingRebalance",
        broker=1,
        protocol_type="consumer",
        protocol="",
    )
    write(job, beat, a_round(job, at_ms, "ok"), answer)


def a_round(job: JobTopics, at_ms: int, rights: Any) -> RoundSummary:
    """A round of another prober."""
    return RoundSummary(
        cluster_id=job.status()["cluster_id"],
        taken_ms=at_ms,
        brokers={1: None},
        rights=rights,
        partitions={},
        partition_count=PARTITIONS,
        groups=0,
    )


def write(job: JobTopics, *messages: ProbeMessage) -> None:
    """Writes as any client does that may."""
    producer = Producer({"bootstrap.servers": job.server, "enable.idempotence": True, "log_level": 0})
    for one in messages:
        key, value = encode_message(one)
        producer.produce(job.topics.probes, key=key, value=value)
    assert producer.flush(60) == 0


@contextmanager
def fast_job(server: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningJob]:
    """The job on that machine."""
    path, topics = folder / "job", topic_names("fast")
    with ExitStack() as stack:
        with machine(folder / "clock", monkeypatch):
            job = stack.enter_context(running_job(server, path, topics, "--probe-interval", "1"))
        yield job


@pytest.mark.long
def test_a_machine_that_is_an_hour_fast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so, and all its times are right; neither forged messages nor a wrong coordinator go unnoticed.

    One story, because a running job takes its time to start.
    """
    with blank_broker(PARTITIONS) as broker:
        server = broker.bootstrap_servers
        make_topics(server, {"orders": 1})
        commit_once(server, "early")
        began_ms = now_ms()
        with fast_job(server, tmp_path, monkeypatch) as job:
            job.wait_until(lambda: clocks(job))
            assert clocks(job) == [("firing", (), (), 1.0, None)]
            commit_once(server, "late")
            job.wait_until(lambda: {"late"} <= {one["data"]["group_id"] for one in job.events().values()})
            times_are_right(job, began_ms)
            nothing_is_muted(job)
            a_coordinator_is_found_out(job)
            the_clock_is_set(job, tmp_path / "clock")
            assert job.status()["restarts"] == 0
            assert job.stop() == 143


def times_are_right(job: RunningJob, began_ms: int) -> None:
    """Those of events, of the job's document, and of what driver and prober write."""
    for event in read_json(job.server, job.topics.events):
        for time in (event["time"], event["recordedtime"]):
            assert began_ms - MINUTE_MS < milliseconds(time) < now_ms() + MINUTE_MS
        assert not event["data"].get("catch_up")
    status = job.status()
    assert began_ms - MINUTE_MS < status["first_start_ms"] <= status["started_ms"] < now_ms()
    assert round(status["clock_off_ms"] / HOUR_MS, 1) == 1.0
    # The broker has dated all messages.
    written = probes(job)
    assert {kind for kind, _, _ in written} == {TIMESTAMP_LOG_APPEND_TIME}
    told = [one for one in written if isinstance(one[2], HeartbeatMessage | RoundSummary)]
    assert {type(one[2]) for one in told} == {HeartbeatMessage, RoundSummary}
    assert max(abs(append_ms - told_ms(message)) for _, append_ms, message in told) < 30_000


def nothing_is_muted(job: RunningJob) -> None:
    """Messages from next year are left out and counted; those of the present count."""
    assert job.status()["counters"]["probes_misdated"] == 0
    forge(job, now_ms() + YEAR_MS)
    job.wait_until(lambda: job.status()["counters"]["probes_misdated"] == 3)
    write(job, a_round(job, now_ms(), "missing"))
    job.wait_until(lambda: {("no_rights", "firing"), ("no_rights", "resolved")} <= whats(job))
    assert all(one["data"]["group_id"] != "forged" for one in job.events().values())


def a_coordinator_is_found_out(job: RunningJob) -> None:
    """By the records that it writes an hour late; the next right one ends it."""
    where = partition_for("wrong", PARTITIONS)
    commit_dated(job, now_ms() - HOUR_MS)
    job.wait_until(lambda: len(clocks(job)) > 1)
    status, partitions, brokers, hours, offset = clocks(job)[1]
    assert (status, partitions, brokers, hours, offset is None) == ("firing", (where,), (1,), -1.0, False)
    commit_dated(job, now_ms())
    job.wait_until(lambda: clocks(job)[2:] == [("resolved", (where,), (1,), -1.0, offset)])


def the_clock_is_set(job: RunningJob, clock: Path) -> None:
    """Back to the truth, and an hour behind: no heartbeat is late, and the query begins again with other times."""
    known = len(clocks(job))
    set_clock(clock, 0)
    job.wait_until(lambda: clocks(job)[known:] == [("resolved", (), (), 1.0, None)])
    set_clock(clock, -HOUR_MS)
    job.wait_until(lambda: clocks(job)[known + 1 :] == [("firing", (), (), -1.0, None)])
    began_ms = now_ms()
    commit_once(job.server, "set")
    job.wait_until(lambda: named(job, "set"))
    for event in named(job, "set"):
        for time in (event["time"], event["recordedtime"]):
            assert began_ms - MINUTE_MS < milliseconds(time) < now_ms() + MINUTE_MS
    job.wait_caught_up()
    assert job.log.read_text().count("the clock of this machine was set") == 2
    assert job.status()["counters"]["probes_misdated"] == 3


def named(job: RunningJob, group: str) -> list[Json]:
    """The events about a group."""
    return [one for one in read_json(job.server, job.topics.events) if one["data"]["group_id"] == group]


def told_ms(message: ProbeMessage) -> int:
    """The time that the writer has given."""
    return message.at_ms if isinstance(message, HeartbeatMessage) else message.taken_ms  # type: ignore[union-attr]


def commit_dated(job: RunningJob, dated_ms: int) -> None:
    """A commit whose coordinator has dated it so, once the job has caught up with all before it."""
    job.wait_caught_up()
    key, value = commit("wrong", commit_timestamp_ms=dated_ms)
    write_log(job.server, [(partition_for("wrong", PARTITIONS), key, value, dated_ms)], PARTITIONS)


def test_a_topic_that_clients_date(
    tmp_path: Path,
    unique: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The job goes on and warns; a round from next year is one round, and the next one counts."""
    keep_session(monkeypatch)
    with blank_broker(PARTITIONS) as broker:
        server = broker.bootstrap_servers
        topics = topic_names(unique("dated"))
        make_topics(server, {"orders": 1, topics.probes: 1})
        commit_once(server, "early")

        def story(done: threading.Event) -> None:
            job = OwnJob(server, topics, done)
            job.wait_caught_up()
            assert "message.timestamp.type=CreateTime, should be LogAppendTime" in caplog.text
            forge(job, now_ms() + YEAR_MS)
            job.wait_until(lambda: any(told_ms(one) > now_ms() + HOUR_MS for _, _, one in heartbeats(job)))
            job.wait_caught_up()
            write(job, a_round(job, now_ms(), "missing"))
            job.wait_until(lambda: ("no_rights", "firing") in whats(job))
            write(job, a_round(job, now_ms(), "ok"))
            job.wait_until(lambda: ("no_rights", "resolved") in whats(job))
            assert job.status()["counters"]["probes_misdated"] == 0

        run_until(server, tmp_path / "job", topics, story)


def heartbeats(job: JobTopics) -> list[tuple[int, int, ProbeMessage]]:
    """The heartbeats alone."""
    return [one for one in probes(job) if isinstance(one[2], HeartbeatMessage)]
