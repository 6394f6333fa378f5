"""Words for tests that run the whole job: start it, write a log for it, read what it wrote."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import ConfigResource

from groupreplay.codecs.kafka_terms import partition_for
from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.contract.messages import JOB_KEY
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.local.process_guard import GuardedProcess
from support.histories.builders import Raw
from support.job.captures import in_bytes
from support.kafka.clients import set_configs
from support.kafka.waiting import PATIENCE_SECONDS, T, wait_until

#: The kinds of the output topics, as ``TopicNames`` has them.
KINDS = ("events", "states", "dead_letters", "job", "probes")
Json = dict[str, Any]


class Message(NamedTuple):
    """One message of an output topic."""

    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes]


def topic_names(prefix: str) -> TopicNames:
    """Five topics of one test."""
    return TopicNames(**{kind: f"{prefix}-{kind}" for kind in KINDS})


def topic_flags(topics: TopicNames) -> list[str]:
    """The flags of ``run`` that name the topics."""
    return [word for kind in KINDS for word in (f"--{kind.replace('_', '-')}-topic", getattr(topics, kind))]


class JobTopics:
    """What a job has written into its topics."""

    def __init__(self, server: str, topics: TopicNames) -> None:
        self.server, self.topics = server, topics

    def require_running(self) -> None:
        """Raises AssertionError when the job has ended."""

    def wait_until(self, condition: Callable[[], T | None]) -> T:
        """Waits for the condition as long as the job lives; what it returns then."""

        def checked() -> T | None:
            self.require_running()
            return condition()

        return wait_until(checked, PATIENCE_SECONDS, pause=1.0)

    def wait_caught_up(self) -> None:
        """Waits until everything written before this call has been applied, by the job's own word."""
        called_ms = now_ms()
        self.wait_until(lambda: has_caught_up(self.server, self.topics, called_ms))

    def events(self) -> dict[str, Json]:
        """The events by id; repeats must be equal but for the time of emission."""
        return read_events(self.server, self.topics)

    def documents(self) -> dict[str, Json]:
        """The latest document of each group that has one."""
        latest = {one.key: one.value for one in read_topic(self.server, self.topics.states)}
        return {
            (key or b"").decode(): json.loads(value) for key, value in latest.items() if value is not None
        }

    def status(self) -> Json:
        """The last status of the job itself."""
        values = [one.value for one in read_topic(self.server, self.topics.job) if one.key == JOB_KEY]
        last: Json = json.loads(values[-1] or b"")
        return last


class RunningJob(JobTopics):
    """``groupreplay run`` as a process of its own."""

    #: What Python runs.
    program = ("-m", "groupreplay")

    def __init__(self, server: str, checkpoint: Path, topics: TopicNames, *flags: str) -> None:
        super().__init__(server, topics)
        self.checkpoint, self.flags = checkpoint, flags
        self.log = checkpoint.with_suffix(".log")
        self.process = self._start()

    def _start(self) -> GuardedProcess:
        command = [sys.executable, *self.program, "run"]
        command += ["--bootstrap-server", self.server, "--checkpoint", str(self.checkpoint)]
        command += ["--master", "local[2,4]", "--shuffle-partitions", "2", "--trigger", "1"]
        return GuardedProcess([*command, *topic_flags(self.topics), *self.flags], self.log)

    def require_running(self) -> None:
        """Raises AssertionError with the end of its log when the job has ended."""
        assert self.process.exit_code is None, f"the job has ended:\n{self.process.tail(40)}"

    def wait_until(self, condition: Callable[[], T | None]) -> T:
        """Waits for the condition as long as the job lives; what it returns then."""
        try:
            return super().wait_until(condition)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.process.tail(40)}") from None

    def kill(self) -> None:
        """Kills the driver alone, as the kernel does when memory runs out."""
        os.kill(self.process.pid, signal.SIGKILL)
        wait_until(lambda: self.process.exit_code is not None)

    def restart(self) -> None:
        """Starts a killed job again on its checkpoint."""
        self.process = self._start()

    def prober(self) -> int:
        """The process id of the prober that this job has started, as soon as there is one."""

        def look() -> int | None:
            with suppress(psutil.NoSuchProcess):
                for child in psutil.Process(self.process.pid).children():
                    if "groupreplay.streaming.prober.service" in child.cmdline():
                        return child.pid
            return None

        return self.wait_until(look)

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self.process.ask_to_end()
        wait_until(lambda: self.process.exit_code is not None)
        assert self.process.exit_code is not None
        return self.process.exit_code


@contextmanager
def running_job(server: str, checkpoint: Path, topics: TopicNames, *flags: str) -> Iterator[RunningJob]:
    """The job, ended hard when the test is over."""
    job = RunningJob(server, checkpoint, topics, *flags)
    try:
        yield job
    finally:
        job.process.end(0)


def comparable(event: Json) -> Json:
    """An event without what depends on when it was emitted."""
    data = {name: value for name, value in event["data"].items() if name != "catch_up"}
    return {name: value for name, value in event.items() if name != "recordedtime"} | {"data": data}


def is_in_a_replay(event: Json) -> bool:
    """Whether a replay has it, too: a job's own events depend on its life, incidents on what it knew at each moment."""
    return not event["type"].startswith(("groupreplay.job.", "groupreplay.incident."))


def said_of_groups(events: Mapping[str, Json], expected: Mapping[str, Json]) -> dict[str, Json]:
    """The events by id, but for those that no replay has.

    A condition that was said more than a minute late is said again, as it is by then, which no replay does.
    """
    fired = {("firing", event["data"].get("condition_id")) for event in expected.values()}

    def again(event: Json) -> bool:
        return (event["data"].get("status"), event["data"].get("condition_id")) in fired

    return {
        name: event
        for name, event in events.items()
        if is_in_a_replay(event) and (name in expected or not again(event))
    }


def has_caught_up(server: str, topics: TopicNames, after_ms: int) -> bool:
    """Whether a job's heartbeats say that it has applied everything up to this moment."""
    return any((beat.get("caught_up_ms") or 0) >= after_ms for beat in read_json(server, topics.probes))


def read_events(server: str, topics: TopicNames) -> dict[str, Json]:
    """The events by id; repeats must be equal but for the time of emission."""
    events: dict[str, Json] = {}
    for event in map(comparable, read_json(server, topics.events)):
        known = events.setdefault(event["id"], event)
        assert known == event, f"two events with one id: {known}, {event}"
    return events


def read_json(server: str, topic: str) -> list[Json]:
    """The values of a topic at this moment; a tombstone is an empty object."""
    return [json.loads(one.value or b"{}") for one in read_topic(server, topic)]


def read_topic(server: str, topic: str, isolation: str = "read_committed") -> list[Message]:
    """Everything that is in a topic at this moment; nothing when the topic does not exist yet."""
    cluster = Cluster(bootstrap_servers=server)
    with closing(Connection(cluster).consumer(isolation)) as consumer:
        known = consumer.list_topics(timeout=30).topics.get(topic)
        partitions = [] if known is None else list(known.partitions)
        spans = {partition: _span(consumer, topic, partition) for partition in partitions}
        ends = {partition: high for partition, (low, high) in spans.items() if low < high}
        consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
        return list(_until(consumer, ends))


def _span(consumer: Consumer, topic: str, partition: int) -> tuple[int, int]:
    """First and next offset of a partition; a new topic has no leader for a moment."""

    def ask() -> tuple[int, int] | None:
        with suppress(KafkaException):
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
            return low, high
        return None

    return wait_until(ask)


def _until(consumer: Consumer, ends: dict[int, int]) -> Iterator[Message]:
    while ends:
        message = consumer.poll(30)
        assert message is not None, f"nothing more arrives, still wanted: {ends}"
        if message.error() is not None:
            ends.pop(message.partition(), None)  # the end of a partition
            continue
        headers = dict(message.headers() or [])
        yield Message(message.key(), message.value(), headers)
        if message.offset() + 1 >= ends.get(message.partition(), 0):
            ends.pop(message.partition(), None)


def write_log(server: str, records: Iterable[tuple[int, bytes, bytes | None, int]], partitions: int) -> None:
    """Writes (partition, key, value, timestamp) into the offsets topic itself, in this order.

    Only Kafka's own administration client may write to internal topics, and the broker knows it by its name.
    """
    producer = Producer(
        {
            "bootstrap.servers": server,
            "client.id": "__admin_client",
            "enable.idempotence": True,
            "message.max.bytes": 4_000_000,
        }
    )
    failures: list[Any] = []
    for partition, key, value, timestamp_ms in records:
        producer.produce(
            OFFSETS_TOPIC,
            key=key,
            value=value,
            partition=partition % partitions,
            timestamp=timestamp_ms,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
        producer.poll(0)
    assert producer.flush(60) == 0
    assert failures == []


def remove_log(server: str, partitions: int) -> dict[int, int]:
    """Lets retention take all records of the offsets topic, as a wrong policy does; the ends by partition.

    The broker must look often: ``log.retention.check.interval.ms``.
    """
    cluster = Connection(Cluster(bootstrap_servers=server))

    def keep(policy: str, retention_ms: str) -> None:
        values = {"cleanup.policy": policy, "retention.ms": retention_ms}
        set_configs(server, ConfigResource.Type.TOPIC, [OFFSETS_TOPIC], values)

    keep("delete", "1")
    ends = cluster.end_offsets(OFFSETS_TOPIC, partitions)
    wait_until(lambda: cluster.first_offsets(OFFSETS_TOPIC, partitions) == ends)
    keep("compact", "-1")
    return ends


def interleaved(
    histories: dict[str, Sequence[Raw]], partitions: int, start_ms: int
) -> list[tuple[int, bytes, bytes | None, int]]:
    """The histories of several groups (``Raw.at`` counts from the start) as one log, by time.

    Records of one group with the same time stay neighbours: they are one operation.
    """
    records = [(raw.at, group, raw) for group, history in histories.items() for raw in history]
    return [
        (
            partition_for(group, partitions),
            *in_bytes(replace(raw, key=replace(raw.key, group=group))),
            start_ms + at,
        )
        for at, group, raw in sorted(records, key=lambda one: one[:2])
    ]


def last_batch(checkpoint: Path) -> int:
    """The number of the last batch that is finished; -1 before the first."""
    return max((int(file.name) for file in checkpoint.glob("commits/*") if file.name.isdigit()), default=-1)
