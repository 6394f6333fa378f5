"""The job at a number of groups: first start, idle, 1 % active, restart, a long stop, memory, disk.

    python benchmarks/scale.py 200000 [--trigger 10] [--batches 8] [--json FILE] [--page]
    make bench ARGS="--scale 200000"      the same, and puts the figures into docs/scaling.md
    small: 20000 --trigger 5 --batches 2

Each group has two members and five partitions with an offset. A template of these six records, with the name of each
group in it, is written into the offsets topic itself: a coordinator takes longer for a million groups than the job. The
job is a process of its own with its default settings and the flags behind ``--``.

CPU time is that of all processes of the job, by kind: on a machine with other work, seconds on the clock say little.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import psutil
from confluent_kafka import Producer
from page import flag_parser, put, show_progress
from processes import FULL_SPEED, CpuTimes

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parent / "memory"))

from job import KINDS, kind_of, pss_mib
from live import LOG_PARTITIONS, Job

from groupreplay.codecs.kafka_terms import partition_for
from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.local.broker import EmbeddedBroker
from support.histories import builders
from support.job.captures import in_bytes
from support.job.jobs import has_caught_up, read_json, topic_names

SCALING: Final = Path(__file__).parents[1] / "docs" / "scaling.md"
_PARTITIONS: Final = 5
_NAME: Final = "group-{:07}"
_ACTIVE: Final = 100  # one group of so many
#: How long ago the groups have committed: what can follow from a pause has been due before the job starts.
_REST_MS: Final = 3_600_000
_LIVE: Final = "live-group"
_LIVE_SECONDS: Final = 5.0
#: Groups that have committed before are no longer active at the next start; the number of these commits.
_STOP_SECONDS: Final = 130.0
_LATER: Final = 10_000
_POLL_SECONDS: Final = 2.0
_PSS_SECONDS: Final = 20.0
#: Hours, because the machine may have other work.
_PATIENCE_SECONDS: Final = 4 * 3600.0
_MIB: Final = 1 << 20


class GroupWriter:
    """Writes records of groups into the offsets topic, by templates in which the name is replaced."""

    def __init__(self, server: str) -> None:
        # Only Kafka's own administration client may write to internal topics, and the broker knows it by its name.
        self._producer = Producer(
            {
                "bootstrap.servers": server,
                "client.id": "__admin_client",
                "linger.ms": 50,
                "queue.buffering.max.messages": 500_000,
                "compression.type": "none",
            }
        )
        self._failures: list[Any] = []

    def write(self, names: Iterable[str], records: Sequence[builders.Raw]) -> None:
        """The records, once for each name, with their own times."""
        template = builders.GROUP.encode()
        pairs = [(*in_bytes(one), one.at) for one in records]
        mark = len(template).to_bytes(2, "big") + template
        for name in names:
            own = len(name.encode()).to_bytes(2, "big") + name.encode()
            partition = partition_for(name, LOG_PARTITIONS)
            for key, value, at_ms in pairs:
                self._produce(key.replace(mark, own, 1), value, partition, at_ms)
        assert self._producer.flush(300) == 0
        assert self._failures == []

    def _produce(self, key: bytes, value: bytes | None, partition: int, at_ms: int) -> None:
        while True:
            try:
                self._producer.produce(
                    *(OFFSETS_TOPIC, value, key, partition), on_delivery=self._note, timestamp=at_ms
                )
                break
            except BufferError:
                self._producer.poll(0.1)
        self._producer.poll(0)

    def _note(self, error: Any, _: Any) -> None:
        if error is not None:
            self._failures.append(error)


def group_records(generation: int, at_ms: int) -> list[builders.Raw]:
    """A generation of two members."""
    halves = ([0, 1, 2], [3, 4])
    members = [
        builders.member(f"consumer-orders-1-00000000-0000-0000-0000-00000000000{name}", half, topic="orders")
        for name, half in zip("ab", halves, strict=True)
    ]
    return [builders.generation(generation, *members, at=at_ms)]


def commits(number: int, at_ms: int) -> list[builders.Raw]:
    """One offset of each partition."""
    return [builders.commit("orders", part, 1_000 * number + part, at_ms) for part in range(_PARTITIONS)]


@dataclass(slots=True)
class Meter:
    """CPU seconds of the job's processes by kind, and the largest sum of their PSS that was seen."""

    job: Job
    peak_mib: dict[str, float] = field(default_factory=lambda: {"together": 0.0})
    _pss_at: float = 0.0
    _times: CpuTimes = field(default_factory=CpuTimes)

    def cpu(self) -> dict[str, float]:
        """Since the process began."""
        root = psutil.Process(self.job.process.pid)
        for process in [root, *root.children(recursive=True)]:
            with suppress(psutil.Error):
                self._times.note(kind_of(process, root.pid), [process])
        return {kind: self._times.seconds[kind] for kind in KINDS}

    def look(self) -> None:
        """Notes the CPU time, and takes the PSS now and then: the kernel goes through all pages for it."""
        self.cpu()
        if time.monotonic() >= self._pss_at:
            sizes = pss_mib(self.job.process)
            if sizes["together"] > self.peak_mib["together"]:
                self.peak_mib = sizes
            self._pss_at = time.monotonic() + _PSS_SECONDS


def batches(job: Job) -> list[Mapping[str, Any]]:
    """Spark's JSON of the batches that all runs of the job have finished."""
    lines = job.progress.read_text("utf-8").splitlines() if job.progress.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def seconds_of(batch: Mapping[str, Any]) -> float:
    """How long a batch took."""
    return float(batch["durationMs"]["triggerExecution"]) / 1_000


def log_records(batch: Mapping[str, Any]) -> int:
    """The records of the log that a batch has read."""
    return sum(one["numInputRows"] for one in batch["sources"] if OFFSETS_TOPIC in (one["endOffset"] or ()))


def updated(batch: Mapping[str, Any]) -> int:
    """The states that a batch has written."""
    return sum(int(one["numRowsUpdated"]) for one in batch["stateOperators"])


@dataclass(slots=True)
class Measurement:
    """What is measured, one method for each; the groups are in the topic."""

    job: Job
    writer: GroupWriter
    groups: int
    batches: int
    trigger: float
    meter: Meter = field(init=False)
    _live_at: float = 0.0
    _generation: int = 1

    def __post_init__(self) -> None:
        self.meter = Meter(self.job)

    def first_start(self) -> dict[str, Any]:
        """From the session to the first batch that finds nothing to do, beside a group that rebalances."""
        return self._catch_up()

    def long_stop(self) -> dict[str, Any]:
        """The same after a stop in which each group has committed once, before the last two minutes of it."""
        self.job.stop()
        self.writer.write(map(_NAME.format, range(self.groups)), commits(_LATER, now_ms()))
        time.sleep(_STOP_SECONDS)
        self.job.restart()
        return self._catch_up()

    def _catch_up(self) -> dict[str, Any]:
        begin_ms, before, known = now_ms(), self.meter.cpu(), len(batches(self.job))
        told, first_ms = _told(self.job), list[int]()

        def ended() -> bool:
            self._rebalance_live()
            if not first_ms and _told(self.job) > told:
                first_ms.append(now_ms())
            read = batches(self.job)[known:]
            # A live generation is a record; an idle batch writes a few states at most.
            is_quiet = bool(read) and log_records(read[-1]) < 100 and updated(read[-1]) < 100
            return is_quiet and has_caught_up(self.job.server, self.job.topics, begin_ms)

        self._wait(ended)
        up_ms = self.job.session_up() * 1_000
        read, after = batches(self.job)[known:], self.meter.cpu()
        return {
            "seconds": (now_ms() - up_ms) / 1_000,
            "cpu": {kind: after[kind] - before[kind] for kind in KINDS},
            "batches": len(read),
            "longest_batch_s": max(map(seconds_of, read)),
            "states_written": sum(map(updated, read)),
            "first_event_s": (first_ms[0] - up_ms) / 1_000 if first_ms else None,
        }

    def idle(self) -> dict[str, Any]:
        """Batches with nothing but heartbeats and the prober's answers."""
        return self._span(lambda: None)

    def active(self) -> dict[str, Any]:
        """One group of a hundred commits in each trigger, always others."""
        share = range(0, self.groups, _ACTIVE)
        number, written_at = 1, 0.0

        def write() -> None:
            nonlocal number, written_at
            if time.monotonic() >= written_at + self.trigger:
                names = (_NAME.format((first + number) % self.groups) for first in share)
                self.writer.write(names, commits(number, now_ms()))
                number, written_at = number + 1, time.monotonic()

        return self._span(write)

    def restart(self) -> dict[str, Any]:
        """From the new session to its first batch."""
        known = len(batches(self.job))
        self.job.stop()
        self.job.restart()
        self._wait(lambda: len(batches(self.job)) > known)
        first = batches(self.job)[known]
        return {
            "seconds": time.time() - self.job.session_up(),
            "first_batch_s": seconds_of(first),
            "cpu": self.meter.cpu(),
        }

    def disk_mib(self) -> float:
        """The checkpoint."""
        return sum(one.stat().st_size for one in self.job.checkpoint.rglob("*") if one.is_file()) / _MIB

    def _span(self, work: Callable[[], None]) -> dict[str, Any]:
        """The batches while the work is done again and again; the first one began before it."""
        known, before = len(batches(self.job)), self.meter.cpu()

        def ended() -> bool:
            work()
            return len(batches(self.job)) > known + self.batches

        self._wait(ended)
        read = batches(self.job)[known + 1 :]
        after, took = self.meter.cpu(), sorted(map(seconds_of, read))
        return {
            "cpu_a_batch": {kind: (after[kind] - before[kind]) / (len(read) + 1) for kind in KINDS},
            "median_s": took[len(took) // 2],
            "longest_batch_s": took[-1],
            "states_written": sum(map(updated, read)) / len(read),
        }

    def _wait(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not condition():
            self.job.require_running()
            assert time.monotonic() < deadline, self.job.process.tail(40)
            self.meter.look()
            time.sleep(_POLL_SECONDS)

    def _rebalance_live(self) -> None:
        if time.monotonic() >= self._live_at:
            self.writer.write([_LIVE], group_records(self._generation, now_ms()))
            self._generation, self._live_at = self._generation + 1, time.monotonic() + _LIVE_SECONDS


def _told(job: Job) -> int:
    """How many events the live group has. Before the topic is made there is none."""
    return sum(one.get("subject") == _LIVE for one in read_json(job.server, job.topics.events))


def measure(groups: int, batches: int, trigger: float, flags: Sequence[str]) -> dict[str, Any]:
    """All figures of one number of groups."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="groupreplay-bench-")))
        broker = stack.enter_context(
            EmbeddedBroker(
                offsets_partitions=LOG_PARTITIONS,
                jvm_options=["-Xmx1g", FULL_SPEED],
            )
        )
        writer = GroupWriter(broker.bootstrap_servers)
        at_ms, begin = now_ms() - _REST_MS, time.monotonic()
        writer.write(map(_NAME.format, range(groups)), [*group_records(1, at_ms), *commits(0, at_ms)])
        show_progress(f"{groups:,} groups are written in {time.monotonic() - begin:.0f} s")
        flags = [*flags, "--trigger", str(trigger)]
        job = Job(broker.bootstrap_servers, folder / "job", topic_names("scale"), *flags)
        stack.callback(lambda: job.process.end(0))
        now = Measurement(job, writer, groups, batches, trigger)
        result: dict[str, Any] = {"groups": groups, "records": 6 * groups}
        for step in (now.first_start, now.idle, now.active, now.restart, now.long_stop):
            result[step.__name__] = step()
            show_progress(f"{step.__name__}: {json.dumps(rounded(result[step.__name__]))}")
        result |= {"peak_mib": now.meter.peak_mib, "disk_mib": now.disk_mib()}
        return dict(rounded(result))


def rounded(value: Any) -> Any:
    """Numbers with three digits behind the point."""
    if isinstance(value, Mapping):
        return {key: rounded(one) for key, one in value.items()}
    return round(value, 3) if isinstance(value, float) else value


def rows(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The lines of the table: what is measured, and the figure."""
    names = ("first_start", "idle", "active", "restart", "long_stop")
    first, idle, active, again, stopped = (result[name] for name in names)

    def cores(cpu: Mapping[str, float], digits: int) -> str:
        parts = " + ".join(f"{cpu[kind]:.{digits}f}" for kind in ("driver", "jvm", "workers"))
        return f"{sum(cpu.values()):.{digits}f} ({parts})"

    def caught_up(name: str, of: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        told = "none" if of["first_event_s"] is None else f"{of['first_event_s']:.0f} s"
        yield f"{name} to the first quiet batch, core s (driver + JVM + workers)", cores(of["cpu"], 0)
        yield "… on the clock", f"{of['seconds']:.0f} s"
        yield "… longest of its batches", f"{of['longest_batch_s']:.0f} s"
        yield "… states written for each group", f"{of['states_written'] / result['groups']:.2f}"
        yield "… first event of a group that rebalances meanwhile", told

    yield "records in the log", f"{result['records']:,}"
    yield from caught_up("first start", first)
    for name, of in (("idle", idle), ("1 % active", active)):
        yield f"batch {name}, core s", cores(of["cpu_a_batch"], 1)
        clock = f"{of['median_s']:.1f} and {of['longest_batch_s']:.1f} s"
        yield f"batch {name} on the clock, median and longest", clock
    yield "restart: session to the end of the first batch", f"{again['seconds']:.0f} s"
    yield from caught_up("start after each group has committed", stopped)
    memory = result["peak_mib"]
    parts = " + ".join(f"{memory[kind]:.0f}" for kind in KINDS)
    yield "largest PSS, MiB (driver + JVM + workers + prober)", f"{memory['together']:.0f} ({parts})"
    yield "checkpoint at the end, MiB", f"{result['disk_mib']:.0f}"


def table(results: Sequence[Mapping[str, Any]]) -> str:
    """A column for each number of groups."""
    heads = [f"{one['groups']:,} groups" for one in results]
    lines = [f"| | {' | '.join(heads)} |", f"| --- |{' ---: |' * len(heads)}"]
    for lines_of_all in zip(*map(rows, results), strict=True):
        lines.append(f"| {lines_of_all[0][0]} | {' | '.join(figure for _, figure in lines_of_all)} |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the table of the numbers of groups."""
    own = list(sys.argv[1:] if argv is None else argv)
    of_run: list[str] = []
    if "--" in own:
        own, of_run = own[: own.index("--")], own[own.index("--") + 1 :]
    parser = flag_parser(__doc__)
    parser.add_argument("groups", type=int, nargs="+")
    parser.add_argument("--batches", type=int, default=8, help="that are measured, idle and active")
    parser.add_argument("--trigger", type=float, default=10.0)
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="add the figures, a line for each number of groups"
    )
    parser.add_argument("--page", action="store_true", help="put the table into docs/scaling.md")
    asked = parser.parse_args(own)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    results = []
    for groups in asked.groups:
        results.append(measure(groups, asked.batches, asked.trigger, of_run))
        print(table(results[-1:]), end="\n\n", flush=True)
        if asked.page:
            put(f"scale {groups}", table(results[-1:]), SCALING)
        if asked.json is not None:
            with asked.json.open("a", encoding="utf-8") as file:
                file.write(json.dumps(results[-1]) + "\n")


if __name__ == "__main__":
    main()
