"""``groupreplay serve`` under load: many groups, a steady flow of events, many open streams.

    python benchmarks/served/load.py [--groups 5000] [--rate 10] [--seconds 600] [--streams 100] [--page]
    small: --groups 20 --seconds 3 --streams 3

Starts the embedded broker and the command itself. Each event is written to group-events; its delay is the time from
then until a stream has it. Meanwhile the pages' requests are timed, one after the other, and memory is read.
"""

from __future__ import annotations

import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

sys.path.insert(0, str(Path(__file__).parents[1]))

from page import flag_parser, put, show_progress

from groupreplay.streaming.local.broker import EmbeddedBroker

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from support.kafka.waiting import wait_until

_MEMBERS: Final = 10
_PATHS: Final = (
    "/api/groups?limit=100",
    "/api/groups?search=group-04&limit=100",
    "/api/groups/group-00001",
    "/api/conditions",
    "/api/events?limit=100",
    "/api/strips?limit=50",
    "/api/groups/group-00001/timeline",
    "/static/echarts.min.js",
    "/metrics",
)


@dataclass(slots=True)
class Measured:
    """Delays of events in seconds, times of requests in seconds by path, memory in MiB by second."""

    delays: list[float] = field(default_factory=list)
    requests: dict[str, list[float]] = field(default_factory=dict)
    memory: list[tuple[float, float]] = field(default_factory=list)
    received: int = 0
    expected: int = 0


def member(number: int) -> dict[str, Any]:
    """A member as documents and events have it."""
    return {
        "member_id": f"consumer-{number}-5f2b8c1e-3a57-4d1e-9a0b-c5d7e1f20{number:03d}",
        "instance_id": None,
        "client_id": f"consumer-{number}",
        "client_host": f"/10.1.{number}.7",
        "session_timeout_ms": 45_000,
        "rebalance_timeout_ms": 300_000,
        "topics": ["orders", "payments"],
        "partitions": {"orders": f"{number}", "payments": f"{number}-{number + 3}"},
    }


def document(number: int, now_ms: int) -> bytes:
    """A group's document; one group in fifty has a condition."""
    held = {
        "condition": "rebalance.slow",
        "severity": "WARN",
        "condition_id": f"bench-{number}",
        "since_ms": now_ms - 60_000,
        "status": "firing",
        "runbook": "docs/runbook.md#rebalance-slow",
    }
    return json.dumps(
        {
            "cluster_id": "bench",
            "group_id": group_id(number),
            "type": "classic",
            "simple": False,
            "state": "Stable" if number % 50 else "PreparingRebalance",
            "generation": 7,
            "since_ms": now_ms - 3_600_000,
            "member_count": _MEMBERS,
            "members": [member(one) for one in range(_MEMBERS)],
            "subscribed_topics": ["orders", "payments"],
            "offsets": {"partitions": 50, "newest_commit_ms": now_ms, "next_expiry_ms": None},
            "conditions": [] if number % 50 else [held],
            "labels": {},
        }
    ).encode()


def event(number: int, group: int) -> bytes:
    """A completed rebalance, as the job writes it."""
    at = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return json.dumps(
        {
            "specversion": "1.0",
            "id": f"bench-{number}",
            "source": "kafka://bench/__consumer_offsets",
            "type": "groupreplay.rebalance.completed.v1",
            "subject": group_id(group),
            "time": at,
            "sequence": f"{number:020d}",
            "severitynumber": 9,
            "severitytext": "INFO",
            "data": {
                "group_id": group_id(group),
                "group_type": "classic",
                "trigger": "member_joined",
                "generation": number,
                "member_count": _MEMBERS,
                "members": [member(one) for one in range(_MEMBERS)],
            },
        }
    ).encode()


def group_id(number: int) -> str:
    """``group-00042``."""
    return f"group-{number:05d}"


@contextmanager
def served(servers: str, folder: Path) -> Iterator[tuple[psutil.Process, str]]:
    """The command, as users start it, and its address."""
    command = [sys.executable, "-m", "groupreplay", "serve", "--bootstrap-server", servers]
    command += ["--listen", "127.0.0.1:0", "--history-file", str(folder / "history.db")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        address = line.partition("http://")[2].partition("/")[0]
        threading.Thread(target=process.stderr.read, daemon=True).start()
        try:
            yield psutil.Process(process.pid), address
        finally:
            process.terminate()


def get(address: str, path: str) -> bytes:
    """A body; fails unless the answer is 200."""
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    assert answer.status == 200, (path, answer.status, body[:200])
    return body


class Reader(threading.Thread):
    """Reads one stream; keeps when each event came."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self.came: dict[str, float] = {}
        self._connection = http.client.HTTPConnection(address, timeout=60)
        self._connection.request("GET", "/api/events/stream")
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200

    def run(self) -> None:
        """Until the server ends the stream."""
        while line := self._answer.readline():
            # The id alone: parsing a hundred times each event would measure this process.
            if line.startswith(b'data: {"event"'):
                self.came[line.partition(b'"id": "')[2].partition(b'"')[0].decode()] = time.monotonic()


def ask_all(address: str, measured: Measured, stop: threading.Event) -> None:
    """Asks as a page does, one request after the other, with pauses."""
    while not stop.is_set():
        for path in _PATHS:
            begin = time.perf_counter()
            get(address, path)
            measured.requests.setdefault(path, []).append(time.perf_counter() - begin)
            if stop.wait(0.5):
                return


def write_events(producer: Producer, groups: int, rate: float, seconds: float) -> dict[str, float]:
    """Writes events at a rate; returns when each was written."""
    written: dict[str, float] = {}
    begin = time.monotonic()
    for number in range(int(rate * seconds)):
        time.sleep(max(0.0, begin + number / rate - time.monotonic()))
        value = event(number, number % groups)
        written[f"bench-{number}"] = time.monotonic()
        producer.produce("group-events", value, group_id(number % groups).encode())
        producer.poll(0)
    producer.flush(30)
    return written


def measure(groups: int, rate: float, seconds: float, streams: int) -> Measured:
    """Runs all of it."""
    measured, stop = Measured(), threading.Event()
    with ExitStack() as parts:
        folder = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="groupreplay-bench-")))
        broker = parts.enter_context(EmbeddedBroker())
        servers = broker.bootstrap_servers
        names = ("group-events", "group-states", "group-job", "group-probes")
        admin = AdminClient({"bootstrap.servers": servers})
        for answer in admin.create_topics([NewTopic(name, 4, 1) for name in names]).values():
            answer.result(30)
        producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
        now_ms = int(time.time() * 1000)
        for number in range(groups):
            producer.produce("group-states", document(number, now_ms), group_id(number).encode())
            producer.poll(0)
        producer.flush(60)
        process, address = parts.enter_context(served(servers, folder))
        wait_until(lambda: json.loads(get(address, "/api/groups?limit=1"))["total"] >= groups, pause=0.2)
        readers = [Reader(address) for _ in range(streams)]
        for one in readers:
            one.start()
        asking = threading.Thread(target=ask_all, args=(address, measured, stop), daemon=True)
        asking.start()
        watching = threading.Thread(target=watch, args=(process, measured, stop), daemon=True)
        watching.start()
        written = write_events(producer, groups, rate, seconds)
        time.sleep(3)
        stop.set()
        asking.join(60)
        measured.expected = len(written) * streams
        for one in readers:
            measured.received += len(one.came)
            measured.delays += [at - written[name] for name, at in one.came.items()]
    return measured


def watch(process: psutil.Process, measured: Measured, stop: threading.Event) -> None:
    """Reads the memory every second."""
    begin = time.monotonic()
    while not stop.wait(1):
        memory = process.memory_info().rss / 2**20
        measured.memory.append((time.monotonic() - begin, memory))
        if len(measured.memory) % 30 == 0:
            show_progress(f"{len(measured.memory)} s, {memory:.0f} MiB")


def table(measured: Measured) -> str:
    """The figures as Markdown."""
    memory = [value for _, value in measured.memory]
    part = max(len(memory) // 5, 1)
    first, last = statistics.median(memory[part : 2 * part] or memory), statistics.median(memory[-part:])
    rows = [
        ("events received by all streams", f"{measured.received} of {measured.expected}"),
        ("delay of an event, median / 99 % / largest", _times(measured.delays)),
        ("memory (RSS), second fifth of the time / last fifth", f"{first:.0f} MiB / {last:.0f} MiB"),
        *((f"`{path}`, median / 99 % / largest", _times(found)) for path, found in measured.requests.items()),
    ]
    return "\n".join(["| what | figure |", "| --- | --- |", *(f"| {what} | {text} |" for what, text in rows)])


def _times(seconds: list[float]) -> str:
    if not seconds:
        return "none"
    ordered = sorted(seconds)
    high = ordered[min(int(len(ordered) * 0.99), len(ordered) - 1)]
    return " / ".join(f"{value * 1000:.0f} ms" for value in (statistics.median(ordered), high, ordered[-1]))


def main() -> None:
    """The command line."""
    parser = flag_parser(__doc__)
    parser.add_argument("--groups", type=int, default=5_000)
    parser.add_argument("--rate", type=float, default=10.0)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--page", action="store_true", help="write the figures into docs/performance.md")
    given = parser.parse_args()
    figures = table(measure(given.groups, given.rate, given.seconds, given.streams))
    print(figures)
    if given.page:
        put("serve", figures)


if __name__ == "__main__":
    main()
