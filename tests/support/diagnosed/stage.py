"""A broker with groups of real clients, to each of which a story happens at the same time, in a thread of its own."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from support.departures.player import Host, JavaHost, RdkafkaHost
from support.kafka.clients import make_topics
from support.kafka.kafka_classes import Jvm, broker_jars
from support.kafka.sleepy_leader import SOURCE as SLEEPY_LEADER
from support.kafka.stubborn_member import stubborn_command
from support.kafka.waiting import wait_until

PARTITIONS: Final = 6
TOPIC, QUIET_TOPIC, DOOMED_TOPIC, BUSY_TOPIC = "orders", "quiet", "doomed", "clicks"
_PRODUCE_SECONDS: Final = 0.1
#: The busy topic gets so many records while the others get one.
_BUSIER: Final = 5
_PATIENCE_SECONDS: Final = 300.0
_ASSIGNOR: Final = "partition.assignment.strategy"
#: Of Java's consumers; librdkafka has the names alone.
_JAVA_ASSIGNORS: Final = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
#: So long a group lives before and after what is done to it.
LIFE_SECONDS: Final = 25.0


@dataclass
class Stage:
    """One broker; on exit all of its clients end."""

    servers: str
    exit: ExitStack = field(default_factory=ExitStack)
    is_doomed: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.admin: AdminClient = make_topics(
            self.servers, dict.fromkeys((TOPIC, QUIET_TOPIC, DOOMED_TOPIC, BUSY_TOPIC), PARTITIONS)
        )

    def group(
        self, name: str, library: str = "librdkafka", *, in_one: bool = False, **settings: object
    ) -> PlayedGroup:
        """A group without members; in the names of settings ``_`` stands for a dot."""
        dotted = {key.replace("_", "."): value for key, value in settings.items()}
        return PlayedGroup(self, name, library, dotted, in_one)

    def produce(self, done: threading.Event) -> None:
        """Writes to each partition twice a second; ten times to those of the busy topic, and not to the quiet one."""
        producer = Producer({"bootstrap.servers": self.servers, "log_level": 0})
        for number in count():
            if done.wait(_PRODUCE_SECONDS):
                return
            is_due = number % _BUSIER == 0
            for partition in range(PARTITIONS):
                for topic in (BUSY_TOPIC, TOPIC)[: 1 + is_due]:
                    producer.produce(topic, b"m", partition=partition)
            if is_due and not self.is_doomed.is_set():
                producer.produce(DOOMED_TOPIC, b"m")
            producer.flush(10)

    def sleepy_leader(self) -> Any:
        """Java's consumers whose assignor sleeps on request."""
        jvm = self.exit.enter_context(Jvm(broker_jars()))
        return jvm.make(SLEEPY_LEADER, "SleepyLeader")


@dataclass
class PlayedGroup:
    """A group and its members, each in a process of its own, by client id.

    ``in_one``: all of them are in one process, for members that only close: a JVM takes seconds to start.
    """

    stage: Stage
    name: str
    library: str
    settings: Mapping[str, object]
    in_one: bool = False
    hosts: dict[str, Host] = field(default_factory=dict)

    def start(self, *members: str, topic: str = TOPIC, **more: object) -> None:
        """Processes with one member each."""
        for member in members:
            host = self.hosts[member] = self._host()
            host.start(member, topic, self._settings(member, more))

    def _host(self) -> Host:
        if self.in_one and self.hosts:
            return next(iter(self.hosts.values()))
        return (JavaHost if self.library == "java" else RdkafkaHost)(self.stage.exit)

    def _settings(self, member: str, more: Mapping[str, object]) -> dict[str, object]:
        base: dict[str, object] = {
            "bootstrap.servers": self.stage.servers,
            "group.id": self.name,
            "client.id": member,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 2_000,
            "max.poll.interval.ms": 300_000,
        }
        if self.settings.get("group.protocol") != "consumer":
            base |= {"session.timeout.ms": 20_000, _ASSIGNOR: "range"}
        chosen = {**base, **self.settings, **{key.replace("_", "."): value for key, value in more.items()}}
        if self.library == "librdkafka":
            return {"log_level": 0, **chosen}
        if _ASSIGNOR in chosen:
            chosen[_ASSIGNOR] = _JAVA_ASSIGNORS[str(chosen[_ASSIGNOR])]
        return {key: str(value) for key, value in chosen.items()}

    def stubborn(self, member: str, rebalance_timeout_ms: int) -> None:
        """A KIP-848 member that never revokes a partition."""
        command = stubborn_command(self.stage.servers, self.name, member, TOPIC, rebalance_timeout_ms)
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        self.stage.exit.callback(process.wait)
        self.stage.exit.callback(process.kill)

    def kill(self, *members: str) -> None:
        """``kill -9``."""
        for member in members:
            self.hosts[member].send(signal.SIGKILL)

    def freeze(self, member: str) -> None:
        """``kill -STOP``."""
        self.hosts[member].send(signal.SIGSTOP)

    def do(self, action: str, *members: str) -> None:
        """``close``, ``hang`` (poll no more) or ``block`` (the next revocation never ends)."""
        for member in members:
            self.hosts[member].do(member, action)

    def is_now(self, members: int, state: str = "STABLE") -> None:
        """Waits until the broker reports this state and so many members."""
        wait_until(lambda: self._reported() == (state, members), _PATIENCE_SECONDS, pause=1.0)

    def lives(self, members: int, seconds: float = LIFE_SECONDS) -> None:
        """The group becomes stable with so many members, and works for a while."""
        self.is_now(members)
        time.sleep(seconds)

    def _reported(self) -> tuple[str, int]:
        try:
            found = self._described()
        except KafkaException:
            return "?", -1
        return found.state.name, len(found.members)

    def _described(self) -> Any:
        answers = self.stage.admin.describe_consumer_groups([self.name], request_timeout=20)
        return answers[self.name].result()

    def is_gone(self) -> None:
        """Waits until the group has no members."""
        wait_until(
            lambda: (
                self._reported() in ((ConsumerGroupState.EMPTY.name, 0), (ConsumerGroupState.DEAD.name, 0))
            ),
            _PATIENCE_SECONDS,
            pause=1.0,
        )

    def set_offsets(self, offset: int) -> None:
        """As an administrator sets those of all partitions."""
        places = [TopicPartition(TOPIC, partition, offset) for partition in range(PARTITIONS)]
        asked = [ConsumerGroupTopicPartitions(self.name, places)]
        for answer in self.stage.admin.alter_consumer_group_offsets(asked).values():
            answer.result(60)

    def has_offsets(self) -> bool:
        """Whether the coordinator still has one."""
        answers = self.stage.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(self.name)])
        try:
            return bool(answers[self.name].result(60).topic_partitions)
        except KafkaException:
            return True

    def delete(self) -> None:
        """As an administrator deletes a group."""
        for answer in self.stage.admin.delete_consumer_groups([self.name], request_timeout=30).values():
            answer.result(60)


#: What happens to a group on a stage.
Play = Callable[[Stage, str], None]


def play(servers: str, plays: Mapping[str, Play], show: Callable[[str], None]) -> None:
    """Everything that happens, group id -> play, at the same time.

    Raises:
        AssertionError: a play has failed.
    """
    stage, done, failures = Stage(servers), threading.Event(), dict[str, BaseException]()

    def run(group: str, chosen: Play) -> None:
        try:
            chosen(stage, group)
            show(f"{group}: played")
        except BaseException as error:
            failures[group] = error
            show(f"{group}: failed, {error!r}")

    producing = threading.Thread(target=stage.produce, args=(done,), daemon=True)
    threads = [threading.Thread(target=run, args=entry, daemon=True) for entry in plays.items()]
    with stage.exit:
        producing.start()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        done.set()
        producing.join()
    assert not failures, failures
