"""Plays departures: starts the members in processes of their own, and does to each at its time what the plan says."""

from __future__ import annotations

import heapq
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import ConsumerGroupState, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource

from support.departures import java_host, member_host
from support.departures.plan import QUIET_TOPIC, TOPIC, Cell, Departure, Library, departures
from support.kafka.clients import make_topics, set_configs
from support.kafka.kafka_classes import Jvm, broker_jars
from support.kafka.waiting import in_background, wait_until

PARTITIONS = 12
_JOINING_SECONDS = 240.0
_PRODUCE_SECONDS = 0.5


class Host(Protocol):
    """A process with members."""

    def start(self, name: str, topic: str, settings: Mapping[str, object]) -> None: ...
    def do(self, name: str, action: str) -> None: ...
    def send(self, number: signal.Signals) -> None: ...


class RdkafkaHost:
    """``member_host`` in a child process."""

    def __init__(self, exit_: ExitStack) -> None:
        self._process = subprocess.Popen(
            [sys.executable, member_host.__file__], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
        exit_.callback(self._end)

    def start(self, name: str, topic: str, settings: Mapping[str, object]) -> None:
        self._tell({"do": "start", "name": name, "topic": topic, "settings": dict(settings)})

    def do(self, name: str, action: str) -> None:
        self._tell({"do": action, "name": name})

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def _tell(self, told: Mapping[str, object]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(told).encode() + b"\n")
        self._process.stdin.flush()

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()


class JavaHost:
    """``java_host`` in a JVM."""

    def __init__(self, exit_: ExitStack) -> None:
        self._jvm = exit_.enter_context(Jvm(broker_jars(), can_freeze=True))
        exit_.callback(self._jvm.kill)
        self.java = self._jvm.make(java_host.SOURCE, "JavaHost")

    def start(self, name: str, topic: str, settings: Mapping[str, object]) -> None:
        from py4j.java_collections import MapConverter

        given = MapConverter().convert(dict(settings), self.java._gateway_client)
        self.java.start(name, topic, given)

    def do(self, name: str, action: str) -> None:
        if action == "block":
            self.java.block(name)
        else:
            self.java.wish(name, action)

    def send(self, number: signal.Signals) -> None:
        self._jvm._process.send_signal(number)


@dataclass(frozen=True)
class Departed:
    """What was done to a member, and when; ``reason`` is the true one."""

    group: str
    client: str
    cause: str
    at_ms: int
    library: str
    profile: str
    protocol: str
    begin_ms: int


@dataclass
class Player:
    """Plays cells on one broker. ``fates``: members that are killed or stopped at one time share a process."""

    servers: str
    cells: Sequence[Cell]
    show: Callable[[str], None] = print
    #: How long everything takes; None: as long as the timeouts of all members may.
    seconds: float | None = None
    done: list[Departed] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._exit = ExitStack()
        self._hosts: dict[tuple[object, ...], Host] = {}
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._begin_ms = 0

    def play(self) -> list[Departed]:
        """Everything, to the end."""
        make_topics(self.servers, {TOPIC: PARTITIONS, QUIET_TOPIC: PARTITIONS})
        for cell in self.cells:
            if cell.profile.own:
                set_configs(self.servers, ConfigResource.Type.GROUP, [cell.group], cell.profile.own)
        with self._exit, in_background(self._produce):
            self._start_all()
            self._begin_ms = int(time.time() * 1_000)
            begin = time.monotonic()
            for cell, one in departures(self.cells):
                self._plan(cell, one)
            for cell in self.cells:
                for one in cell.replaced:
                    self._at(one.at_s, partial(self._do, cell, one))
                    self._at(one.at_s + 1.5, partial(self._start, cell, one, "stay"))
            end_s = self.seconds or max(cell.end_s for cell in self.cells)
            while self._due or time.monotonic() < begin + end_s:
                left = (self._due[0][0] if self._due else end_s) - (time.monotonic() - begin)
                if left > 0:
                    time.sleep(min(left, 0.5))
                elif self._due:
                    heapq.heappop(self._due)[2]()
            self.show(f"{len(self.done)} departures in {time.monotonic() - begin:.0f} s")
        return self.done

    def _plan(self, cell: Cell, one: Departure) -> None:
        self._at(one.at_s, lambda: self._depart(cell, one))
        if one.joins_s is not None:
            joiner = Departure(f"{one.member}-joins", "close", 0)
            self._at(one.joins_s, lambda: self._start(cell, joiner, "stay"))

    def _at(self, at_s: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._due, (at_s, next(self._numbers), action))

    def _depart(self, cell: Cell, one: Departure) -> None:
        self._do(cell, one)
        self.done.append(
            Departed(
                cell.group,
                one.member,
                one.cause,
                int(time.time() * 1_000),
                cell.library,
                cell.profile.name,
                cell.profile.protocol,
                self._begin_ms,
            )
        )

    def _do(self, cell: Cell, one: Departure) -> None:
        host = self._host_of(cell, one)
        if one.cause in ("kill", "stop"):
            host.send(signal.SIGKILL if one.cause == "kill" else signal.SIGSTOP)
        elif one.cause == "removed":
            remover = self._host("java", "stay")
            assert isinstance(remover, JavaHost)
            host.do(one.member, "hang")  # it would come back at once
            remover.java.remove(self.servers, cell.group, one.instance)
        else:
            actions = {
                "static close": "close",
                "slow": "hang",
                "slow, another joins": "hang",
                "blocked": "block",
            }
            host.do(one.member, actions.get(one.cause, one.cause))

    def _host_of(self, cell: Cell, one: Departure) -> Host:
        if one.cause in ("kill", "stop"):
            return self._host(cell.library, one.cause, one.at_s)
        return self._host(cell.library, "act")

    def _host(self, library: Library, *fate: object) -> Host:
        key = (library, *fate)
        if key not in self._hosts:
            made = RdkafkaHost(self._exit) if library == "librdkafka" else JavaHost(self._exit)
            self._hosts[key] = made
        return self._hosts[key]

    def _start(self, cell: Cell, one: Departure, fate: str | None = None) -> None:
        host = self._host(cell.library, fate) if fate else self._host_of(cell, one)
        settings = cell.profile.settings(self.servers, cell.group, one.member, cell.library)
        if one.instance is not None:
            settings["group.instance.id"] = one.instance
        host.start(one.member, cell.profile.topic, settings)

    def _start_all(self) -> None:
        for cell in self.cells:
            for number in range(cell.stays):
                self._start(cell, Departure(f"{cell.group}-stays-{number}", "close", 0), "stay")
            for one in (*cell.departures, *cell.replaced):
                self._start(cell, one)
        if any(one.cause == "removed" for _, one in departures(self.cells)):
            self._host("java", "stay")
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        wanted = {cell.group: cell.stays + len(cell.departures) + len(cell.replaced) for cell in self.cells}

        def complete() -> bool:
            missing = {}
            for start in range(0, len(wanted), 20):
                names = list(wanted)[start : start + 20]
                for name, answer in admin.describe_consumer_groups(names, request_timeout=20).items():
                    try:
                        found = answer.result()
                    except KafkaException:
                        missing[name] = "?"
                        continue
                    if found.state is not ConsumerGroupState.STABLE or len(found.members) < wanted[name]:
                        missing[name] = f"{found.state.name} {len(found.members)}/{wanted[name]}"
            self.show(f"{len(wanted) - len(missing)} of {len(wanted)} groups are complete")
            return not missing

        wait_until(complete, _JOINING_SECONDS, pause=3.0)

    def _produce(self, done: Any) -> None:
        producer, number = Producer({"bootstrap.servers": self.servers, "log_level": 0}), 0
        while not done.wait(_PRODUCE_SECONDS):
            for partition in range(PARTITIONS):
                producer.produce(TOPIC, b"m", partition=partition)
            number += 1
            producer.flush(10)


def write_truth(path: Path, done: Collection[Departed]) -> None:
    """As JSON lines."""
    path.write_text("".join(json.dumps(asdict(one)) + "\n" for one in done))


def read_truth(path: Path) -> list[Departed]:
    """What ``write_truth`` wrote."""
    return [Departed(**json.loads(line)) for line in path.read_text().splitlines()]
