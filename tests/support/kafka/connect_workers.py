"""Workers of Kafka Connect as processes; they form one group, the tasks of a sink connector another one."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from groupreplay.streaming.local.broker import free_ports
from groupreplay.streaming.local.jars import jar_paths
from groupreplay.streaming.local.platforms import find_java
from groupreplay.streaming.local.process_guard import GuardedProcess
from support.kafka.kafka_admin import kafka_admin
from support.kafka.kafka_classes import broker_jars

#: How long Connect waits for a restarted worker before it moves its tasks; the default is 5 minutes.
REBALANCE_DELAY_MS = 3_000
_JVM = ("-Xmx192m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")


class Workers:
    """The workers of one Connect cluster, by client id. A context manager: on exit it kills running workers."""

    def __init__(self, servers: str, group: str, folder: Path) -> None:
        self.servers, self.group = servers, group
        self._folder = folder
        self._exit = ExitStack()
        self._running: dict[str, GuardedProcess] = {}
        self._ports: dict[str, int] = {}

    def __enter__(self) -> Workers:
        # librdkafka refuses to describe groups that are not consumer groups.
        self._admin = self._exit.enter_context(kafka_admin(broker_jars(), self.servers))
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self._running.values():
            worker.end(0)
        self._exit.close()

    def start(self, *names: str) -> None:
        """Starts workers; each has its own settings file and port."""
        for name in names:
            (self._ports[name],) = free_ports(1)
            settings = self._folder / f"{name}.properties"
            lines = [f"{key}={value}" for key, value in self._settings(name).items()]
            settings.write_text("\n".join(lines), "utf-8")
            jars = os.pathsep.join(map(str, jar_paths("connect-4.3.1")))
            command = [str(find_java().executable), *_JVM, "-cp", jars]
            command += ["org.apache.kafka.connect.cli.ConnectDistributed", str(settings)]
            self._running[name] = GuardedProcess(command, self._folder / f"{name}.log")

    def stop(self, name: str) -> None:
        """Stops a worker with SIGTERM, as a deployment does."""
        self._running.pop(name).end(60)

    def kill(self, name: str) -> None:
        """Kills a worker with SIGKILL, as the kernel does when memory runs out."""
        self._running.pop(name).end(0)

    def create_connector(self, connector: str, settings: Mapping[str, str]) -> bool:
        """Requests a connector from any worker; returns whether it was created."""
        port = next(iter(self._ports.values()))
        body = json.dumps({"name": connector, "config": settings}).encode()
        url, kind = f"http://127.0.0.1:{port}/connectors", {"Content-Type": "application/json"}
        try:
            with urllib.request.urlopen(urllib.request.Request(url, body, kind), timeout=30) as response:
                return bool(response.status == 201)
        except (urllib.error.URLError, OSError):
            return False

    def are_assigned(self, connector: str = "", tasks: int = 0) -> bool:
        """Whether the broker reports all running workers in their group, and all tasks of this sink in theirs."""
        consumers, wanted = f"connect-{connector}", {self.group: set(self._running)}
        if connector:
            wanted[consumers] = {f"connector-consumer-{connector}-{number}" for number in range(tasks)}
        seen = self._admin.describe(
            {group: "consumer" if group == consumers else "classic" for group in wanted}
        )
        return wanted == {
            group: {member["client_id"] for member in found["members"]}
            for group, found in seen.items()
            if found["state"] == "Stable"
        }

    def _settings(self, name: str) -> dict[str, Any]:
        converter = "org.apache.kafka.connect.converters.ByteArrayConverter"
        topics = {
            f"{kind}.storage.{setting}": value
            for kind in ("offset", "config", "status")
            for setting, value in (("topic", f"{self.group}-{kind}"), ("replication.factor", 1))
        }
        return {
            "bootstrap.servers": self.servers,
            "group.id": self.group,
            "client.id": name,
            "listeners": f"http://127.0.0.1:{self._ports[name]}",
            "key.converter": converter,
            "value.converter": converter,
            "heartbeat.interval.ms": 500,
            "session.timeout.ms": 6_000,
            "scheduled.rebalance.max.delay.ms": REBALANCE_DELAY_MS,
            "plugin.discovery": "only_scan",
            **topics,
            "offset.storage.partitions": 2,
            "status.storage.partitions": 2,
        }
