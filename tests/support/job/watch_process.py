"""``groupreplay watch`` as a process that a test starts, kills and starts again."""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from groupreplay.streaming.local.broker import free_ports
from groupreplay.streaming.local.process_guard import GuardedProcess
from support.kafka.waiting import wait_until

Json = dict[str, Any]


@dataclass
class WatchProcess:
    """A watch with pages; ``outputs`` has a file for each process, with what it printed."""

    servers: str
    folder: Path
    flags: tuple[str, ...]
    outputs: list[Path] = field(default_factory=list)
    process: GuardedProcess | None = None
    port: int = 0

    def start(self) -> None:
        """Starts the next process, and waits until it has read the log to its end."""
        (self.port,) = free_ports(1)
        self.outputs.append(self.folder / f"watch-{len(self.outputs)}.jsonl")
        command = [sys.executable, "-m", "groupreplay", "watch", "--bootstrap-server", self.servers]
        command += ["-o", "jsonl", "--listen", f"127.0.0.1:{self.port}", *self.flags]
        self.process = GuardedProcess(command, self.outputs[-1])
        wait_until(self._is_ready, pause=0.2)

    def kill(self) -> None:
        """SIGKILL: it can do nothing any more."""
        assert self.process is not None
        self.process.end(0)

    def events(self) -> list[Json]:
        """The events that all processes have printed, each once; one that is repeated must be the same."""
        events: dict[str, Json] = {}
        for line in (line for path in self.outputs for line in path.read_text().splitlines()):
            if line.startswith("{") and line.endswith("}"):
                event = json.loads(line)
                assert events.setdefault(event["id"], event) == event
        return list(events.values())

    def page(self, path: str) -> Json:
        """An answer of the API."""
        answer: Json = json.loads(self._get(path))
        return answer

    def metrics(self) -> str:
        """All metrics."""
        return self._get("/metrics")

    def _is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.exit_code is None, self.outputs[-1].read_text()
        try:
            return self._get("/readyz") == "ok"
        except (OSError, urllib.error.URLError):
            return False

    def _get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=20) as answer:
            return str(answer.read().decode()).strip()


@contextmanager
def watching_process(servers: str, folder: Path, *flags: str) -> Iterator[WatchProcess]:
    """A watch from the moment when it has caught up."""
    watch = WatchProcess(servers, folder, flags)
    watch.start()
    try:
        yield watch
    finally:
        watch.kill()
