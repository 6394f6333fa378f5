"""A real Kafka broker as a subprocess: one node, KRaft, loopback only; it ends when this process ends."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Final

from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.local.jars import jar_paths
from groupreplay.streaming.local.platforms import find_java
from groupreplay.streaming.local.process_guard import GuardedProcess

HOST: Final = "127.0.0.1"
_OUTGOING_FILE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
#: Where the kernel does not say it: the range that IANA gives to outgoing connections begins here.
_OUTGOING_FROM: Final = 49_152
#: Below it are the well-known services that people run on their machines.
_LEAST: Final = 10_240
_TRIES: Final = 1_000


def free_ports(count: int) -> list[int]:
    """Different ports that are free now.

    They lie below those that the kernel gives to outgoing connections: a server that is down for a moment would find
    its port taken by any client on the machine.

    Raises:
        OSError: no free port was found.
    """
    limit = _outgoing_from()
    with ExitStack() as stack:
        return [_bound(stack, limit) for _ in range(count)]


def _outgoing_from() -> int:
    try:
        return int(_OUTGOING_FILE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return _OUTGOING_FROM


def _bound(stack: ExitStack, limit: int) -> int:
    """A port that is held until the stack closes."""
    # With a range that begins very low, any free port has to do.
    tried = (random.randrange(_LEAST, limit) if limit > _LEAST else 0 for _ in range(_TRIES))  # noqa: S311
    for port in tried:
        probe = stack.enter_context(socket.socket())
        try:
            probe.bind((HOST, port))
        except OSError:
            continue
        number: int = probe.getsockname()[1]
        return number
    raise OSError(f"no free port between {_LEAST} and {limit} on {HOST}")


DEFAULT_VERSION: Final = "4.4.0"

_CLUSTER_ID: Final = "Z3JvdXByZXBsYXktZGVtbw"
#: The broker runs for minutes, too short for the optimising JIT compiler to pay off.
_JVM_OPTIONS: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xms128m", "-Xmx512m")
_LOG_OPTIONS: Final = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server=info",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.coordinator.group=info",
    # The coordinator in Scala, to Kafka 3.9.
    "-Dorg.slf4j.simpleLogger.log.kafka.coordinator.group=info",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
)
_PORT_TRIES: Final = 5
#: A broker that cannot start ends by itself. A start takes minutes on a machine that has other work, or when a
#: coordinator loads tens of millions of records.
_READY_SECONDS: Final = 900.0
_POLL_SECONDS: Final = 0.1

#: Settings of a small single broker with short delays; a caller's overrides win.
_SETTINGS: Final[Mapping[str, object]] = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 4,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "share.coordinator.state.topic.num.partitions": 4,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.share.min.session.timeout.ms": 1000,
    "group.share.min.heartbeat.interval.ms": 500,
    "group.streams.min.session.timeout.ms": 1000,
    "group.streams.min.heartbeat.interval.ms": 500,
    # A request for a missing topic must fail.
    "auto.create.topics.enable": "false",
    # The log cleaner allocates this at start from a small heap, even if it has nothing to do.
    "log.cleaner.dedupe.buffer.size": 8 * 1024 * 1024,
    "num.network.threads": 2,
    "num.io.threads": 4,
}


class BrokerError(GroupReplayError):
    """The broker did not start, or ended; the message contains the end of its log."""


class _PortTakenError(BrokerError):
    """Another process bound the port after it was chosen and before the broker used it."""


class EmbeddedBroker:
    """One broker of a given Kafka version, its data folder and its log.

    A context manager: starts on entry, stops and removes its data on exit. Tests of outages use `stop()` or `kill()`
    and then `start()`: port and data stay the same until `close()`.
    """

    #: JVM options of every broker that this process starts, behind the default ones.
    common_jvm_options: ClassVar[Sequence[str]] = ()

    def __init__(
        self,
        version: str = DEFAULT_VERSION,
        *,
        port: int = 0,
        offsets_partitions: int = 8,
        overrides: Mapping[str, object] | None = None,
        jvm_options: Sequence[str] = (),
        wait_for_coordinator: bool = True,
        jars: Sequence[Path] = (),
    ) -> None:
        """Does not start the broker yet.

        Args:
            version: a Kafka version; without ``jars`` one with a jar set "broker-VERSION".
            port: the client port; 0 takes a free one.
            offsets_partitions: partitions of the offsets topic.
            overrides: settings of server.properties that override the defaults of this module.
            jvm_options: added after the other JVM options, so they override them.
            wait_for_coordinator: also wait until the offsets topic exists and its coordinators are loaded; False
                leaves the creation of the topic to the first consumer.
            jars: the class path of the version.
        """
        self.version = version
        self.port = port
        self.folder = Path(tempfile.mkdtemp(prefix="groupreplay-broker-"))
        self.log_path = self.folder / "broker.log"
        self._detached = False
        self._controller_port = 0
        self._settings = {
            **_SETTINGS,
            "offsets.topic.num.partitions": offsets_partitions,
            **(overrides or {}),
        }
        self._jvm_options = jvm_options
        self._wait_for_coordinator, self._jars = wait_for_coordinator, jars
        self._process: GuardedProcess | None = None

    def __enter__(self) -> EmbeddedBroker:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` for clients; available after the first start."""
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The JVM's process id, also the id of its process group; None if it is not running."""
        return self._process.pid if self._process is not None and self._process.exit_code is None else None

    def start(self) -> None:
        """Start the broker, and return when clients can use it. Does nothing if it is running.

        Raises:
            BrokerError: the broker ended or was not ready in time; it has been stopped.
            JarError, JavaNotFoundError: this machine lacks jars or Java.
        """
        if self.pid is not None:
            return
        fixed = self.port != 0
        for left in reversed(range(_PORT_TRIES)):
            try:
                self._start_once()
                return
            except _PortTakenError:
                if fixed or not left:
                    raise
                self.port = 0

    def stop(self, seconds: float = 20.0) -> None:
        """Stop the broker; kill it if that takes longer than ``seconds``. Port and data are kept."""
        if self._process is not None:
            self._process.end(seconds)
            self._process = None

    def kill(self) -> None:
        """Kill the broker, as a power failure would; port and data are kept.

        The next start takes about 12 s: the controller waits until the killed broker's session has expired.
        """
        self.stop(0)

    def restart(self) -> None:
        """Stop the broker and start it again with the same port and data."""
        self.stop()
        self.start()

    def close(self) -> None:
        """End the broker and remove its data, unless it was detached."""
        if not self._detached:
            self.kill()  # a clean stop is not needed, as the data is removed
            shutil.rmtree(self.folder, ignore_errors=True)

    def detach(self) -> None:
        """Leave the broker running, with its data, after the end of this process; `kill PID` ends it."""
        self._detached = True
        if self._process is not None:
            self._process.release()
            self._process = None

    def tail(self, lines: int = 30) -> str:
        """The last lines of the broker's log, since its start."""
        return "" if self._process is None else self._process.tail(lines)

    def _start_once(self) -> None:
        self.kill()  # unregisters a broker that ended by itself
        properties = self._write_properties()
        jars = self._jars or jar_paths(f"broker-{self.version}")
        java = [
            *(str(find_java().executable), *_JVM_OPTIONS, *_LOG_OPTIONS),
            *(*self.common_jvm_options, *self._jvm_options),
            *("-cp", os.pathsep.join(map(str, jars))),
        ]
        if not (self.folder / "data" / "meta.properties").exists():
            self._format([*java, "kafka.tools.StorageTool", "format"], properties)
        log_start = self.log_path.stat().st_size if self.log_path.exists() else 0
        self._process = GuardedProcess(
            [*java, "kafka.Kafka", str(properties)],
            self.log_path,
            cwd=self.folder,
            orphan_folder=self.folder,
        )
        try:
            self._wait_until_ready(log_start)
        except BaseException:
            self.kill()
            raise

    def _write_properties(self) -> Path:
        port, other_port = free_ports(2)
        if not self.port:
            self.port = port
        elif _in_use(self.port):
            raise _PortTakenError(
                "the port is in use", where=self.bootstrap_servers, fix="choose another port, or 0"
            )
        self._controller_port = port if other_port == self.port else other_port
        listeners = f"PLAINTEXT://{self.bootstrap_servers}"
        settings: dict[str, object] = {
            "log.dirs": self.folder / "data",
            "listeners": f"{listeners},CONTROLLER://{HOST}:{self._controller_port}",
            "advertised.listeners": listeners,
            "controller.quorum.voters": f"1@{HOST}:{self._controller_port}",
            **self._settings,
        }
        path = self.folder / "server.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")
        return path

    def _format(self, tool: list[str], properties: Path) -> None:
        done = subprocess.run(
            [*tool, "-t", _CLUSTER_ID, "-c", str(properties)],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode != 0:
            output = (done.stdout + done.stderr).strip()
            raise BrokerError(
                f"Kafka {self.version} cannot format its folder: {output}", where=str(self.folder)
            )

    def _wait_until_ready(self, log_start: int) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        self._await(lambda: _accepts(self.port), deadline, log_start, "its port did not open")
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        self._await(lambda: _answers(admin), deadline, log_start, "it answered no metadata request")
        if self._wait_for_coordinator:
            self._await(
                lambda: _coordinates(admin), deadline, log_start, "its group coordinator was not ready"
            )

    def _await(self, condition: Callable[[], bool], deadline: float, log_start: int, failure: str) -> None:
        while not condition():
            if self.pid is None:
                with self.log_path.open("rb") as log:
                    log.seek(log_start)
                    taken = b"Address already in use" in log.read()
                raise (_PortTakenError if taken else BrokerError)(
                    f"Kafka {self.version} ended while starting; its log ends:\n{self.tail()}"
                )
            if time.monotonic() > deadline:
                raise BrokerError(
                    f"Kafka {self.version}: {failure} within {_READY_SECONDS:g} s; "
                    f"its log ends:\n{self.tail()}"
                )
            time.sleep(_POLL_SECONDS)


def _in_use(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Java does: a restart reuses its port
        try:
            probe.bind((HOST, port))
        except OSError:
            return True
        return False


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0


def _answers(admin: Any) -> bool:
    """Whether the broker is registered with its controller and returns metadata."""
    from confluent_kafka import KafkaException

    try:
        return bool(admin.list_topics(timeout=5).brokers)
    except KafkaException:
        return False


def _coordinates(admin: Any) -> bool:
    """Whether all coordinators have loaded their partitions of the offsets topic.

    Looking up the coordinator of any group makes the broker create the topic; listing groups fails while a partition
    is being loaded. Neither writes a record.
    """
    from confluent_kafka import KafkaException

    try:
        admin.describe_consumer_groups(["groupreplay-readiness"], request_timeout=5)[
            "groupreplay-readiness"
        ].result()
    except KafkaException as error:
        if error.args[0].name() != "GROUP_ID_NOT_FOUND":
            return False
    try:
        return not admin.list_consumer_groups(request_timeout=5).result().errors
    except KafkaException:
        return False
