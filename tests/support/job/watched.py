"""Real groups with a prober beside them, and what a replay of both topics says of them afterwards."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from groupreplay.state import Severity
from groupreplay.streaming.contract.probe_messages import GroupAnswer, RoundSummary, decode_message
from groupreplay.streaming.local.process_guard import GuardedProcess
from support.job.jobs import read_topic
from support.job.replays import Json, event_name, replayed_topics
from support.kafka.waiting import in_background, wait_until


@dataclass(frozen=True)
class Watch:
    """``groupreplay probe`` as a process. It writes to ``sink``, which may be another cluster."""

    servers: str
    sink: str
    topic: str

    def rounds(self) -> list[RoundSummary]:
        """The rounds that have been written so far."""
        return [one for one in self._messages() if isinstance(one, RoundSummary)]

    def answers(self, group: str) -> list[GroupAnswer]:
        """What was written about one group so far."""
        found = [one for one in self._messages() if isinstance(one, GroupAnswer)]
        return [one for one in found if one.group_id == group]

    def _messages(self) -> Iterator[Any]:
        return (decode_message(one.key, one.value) for one in read_topic(self.sink, self.topic))

    def replay(self, *flags: str) -> Heard:
        """What the log and the probes say up to this moment."""
        return Heard(replayed_topics(self.servers, self.topic, "--sink-bootstrap-server", self.sink, *flags))


@contextmanager
def watching(
    servers: str, folder: Path, *, sink: str | None = None, topic: str = "watched-probes"
) -> Iterator[Watch]:
    """A prober that takes a round every second, from its first round on."""
    watch = Watch(servers, sink or servers, topic)
    command = [sys.executable, "-m", "groupreplay", "probe", "--interval", "1"]
    command += ["--bootstrap-server", servers, "--sink-bootstrap-server", watch.sink, "--probes-topic", topic]
    with GuardedProcess(command, folder / "probe.log"):
        wait_until(watch.rounds, pause=0.5)
        yield watch


@dataclass(frozen=True)
class Heard:
    """Events, by time."""

    events: Sequence[Json]

    def of(self, group: str | None, name: str = "") -> list[Json]:
        """The fields of the events about a group (None: about the job), all or those of one name."""
        return [
            one["data"]
            for one in self.events
            if one["data"]["group_id"] == group and (not name or event_name(one) == name)
        ]

    def counts(self, group: str) -> Counter[str]:
        """How often each event was said of a group."""
        return Counter(event_name(one) for one in self.events if one["data"]["group_id"] == group)

    def alarms(self, group: str | None) -> list[tuple[str, str, str]]:
        """The conditions of a group (None: of the job): name, severity and status, in order."""
        return [
            (event_name(one), one["severitytext"], one["data"]["status"])
            for one in self.events
            if one["data"]["group_id"] == group and "condition_id" in one["data"]
        ]

    def severe(self) -> list[tuple[str | None, str, str]]:
        """Everything of WARN or above, facts and conditions: group, name, severity."""
        return [
            (one["data"]["group_id"], event_name(one), one["severitytext"])
            for one in self.events
            if one["severitynumber"] >= Severity.WARN
        ]


@contextmanager
def producing(servers: str, topics: dict[str, int], every_seconds: float = 0.25) -> Iterator[None]:
    """Messages into every partition of these topics, so that there is something to commit."""
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})

    def run(done: threading.Event) -> None:
        while not done.wait(every_seconds):
            for topic, partitions in topics.items():
                for partition in range(partitions):
                    producer.produce(topic, b"x", partition=partition)
            producer.poll(0)
        producer.flush(10)

    with in_background(run):
        yield
