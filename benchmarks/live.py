"""Costs of the running job: a restart, idle batches, busy batches; and the time of ``--help``.

    python benchmarks/live.py restart [--groups 20000]   from the Spark session to the first new event
    python benchmarks/live.py idle [--groups 20000]      batches in which nothing happens
    python benchmarks/live.py busy [--groups 5000]       batches in which every group commits
    python benchmarks/live.py help                       groupreplay --help

Each starts a broker, lets its coordinator write the commits of that many groups, and runs the whole job as a process
of its own, with its default settings and the flags behind ``--`` (``-- --trigger 5``).
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import OFFSET_END, TopicPartition
from page import flag_parser, put, show_progress
from processes import FULL_SPEED
from shapes import Shape
from traffic import write

from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.local.process_guard import GuardedProcess

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.job.jobs import RunningJob, read_json, topic_flags, topic_names

_LOG_PARTITIONS: Final = 50
_PARTITIONS: Final = 5
#: The first batch after the catch-up calls every group once.
_SETTLING_BATCHES: Final = 5
#: Batches until the JVM of an idle job has compiled its code; a job runs for months.
_IDLE_WARM_UP, _IDLE_MEASURED = 200, 20
#: Triggers until the JVM of a busy job has compiled its code, and then those that are measured.
_WARM_UP, _MEASURED = 12, 8
_AS_A_CHILD: Final = "job"
_SESSION_IS_UP: Final = "the session is up at"


class Job(RunningJob):
    """``groupreplay run`` with its default settings, which prints when its Spark session is up."""

    def _start(self) -> GuardedProcess:
        command = [sys.executable, __file__, _AS_A_CHILD, "run"]
        command += ["--bootstrap-server", self.server, "--checkpoint", str(self.checkpoint)]
        return GuardedProcess([*command, *topic_flags(self.topics), *self._flags], self.log)

    def session_up(self) -> float:
        """Unix seconds of the last start."""
        lines = self.log.read_text("utf-8", "replace").splitlines()
        return float([line for line in lines if _SESSION_IS_UP in line][-1].rpartition(" ")[2])

    def batches(self) -> Mapping[int, Mapping[str, Any]]:
        """Batches by number, from the job's documents."""
        documents = read_json(self.server, self.topics.job)
        return {one["batch"]["id"]: one["batch"] for one in documents if one.get("batch")}


def run_command() -> None:
    """Runs the command line of groupreplay, in a child process."""
    from groupreplay.streaming.cli.program import main as command_line
    from groupreplay.streaming.job import run

    start = run.spark_session

    def made(*settings: Any) -> Any:
        spark = start(*settings)
        print(f"{_SESSION_IS_UP} {time.time()}", flush=True)
        return spark

    run.spark_session = made
    sys.argv = ["groupreplay", *sys.argv[2:]]
    command_line()


@dataclass(frozen=True)
class Running:
    """A job that has caught up with a topic of so many groups."""

    job: Job
    server: str
    groups: int


@contextmanager
def running(groups: int, flags: Sequence[str]) -> Iterator[Running]:
    """Writes the topic, starts the job and waits until it has read everything."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="groupreplay-bench-")))
        broker = stack.enter_context(
            EmbeddedBroker(offsets_partitions=_LOG_PARTITIONS, jvm_options=["-Xmx2g", FULL_SPEED])
        )
        server = broker.bootstrap_servers
        write(server, Shape("groups", groups, _PARTITIONS, commits=1))
        job = Job(server, folder / "job", topic_names("bench"), *flags)
        stack.callback(job.process.end, 0)
        job.wait_caught_up()
        show_progress(
            f"{groups:,} groups are read {time.time() - job.session_up():.1f} s after the session is up"
        )
        yield Running(job, server, groups)


def _pass(job: Job, batches: int) -> int:
    """Waits for this many further batches; returns the number of the last one."""
    begin = max(job.batches(), default=0)
    for number in range(begin + 1, begin + batches + 1):
        # One wait for each batch: a wait has a limit, and there may be many batches.
        job.wait_until(lambda number=number: max(job.batches(), default=0) >= number)
    return begin + batches


def restart(groups: int, flags: Sequence[str]) -> dict[str, Any]:
    """Stops the job, writes records, starts it again and waits for the first event."""
    with running(groups, flags) as now:
        _pass(now.job, _SETTLING_BATCHES)
        now.job.stop()
        write(now.server, Shape("news", groups=10, partitions=_PARTITIONS, generations=10))
        with closing(Connection(Cluster(bootstrap_servers=now.server)).consumer()) as consumer:
            topic = now.job.topics.events
            places = consumer.list_topics(topic, timeout=30).topics[topic].partitions
            consumer.assign([TopicPartition(topic, place, OFFSET_END) for place in places])
            consumer.poll(5)  # resolves the end now, not after the event was written
            begin = time.time()
            now.job.restart()
            arrived: list[float] = []
            try:
                now.job.wait_until(lambda: arrived.extend(_arrived(consumer)) or arrived)
            finally:
                now.job.process.end(0)
        up = now.job.session_up()
        return {"groups": groups, "start_to_session_s": up - begin, "session_to_event_s": arrived[0] - up}


def _arrived(consumer: Any) -> Iterator[float]:
    """Unix seconds at which the job wrote the next message; nothing without one."""
    message = consumer.poll(0.5)
    if message is not None and message.error() is None:
        yield message.timestamp()[1] / 1000


def idle(groups: int, flags: Sequence[str]) -> dict[str, Any]:
    """Batches with nothing but heartbeats and the prober's answers."""
    with running(groups, [*flags, "--trigger", "1"]) as now:
        settled = _pass(now.job, _IDLE_WARM_UP)
        _pass(now.job, _IDLE_MEASURED)
        seconds = [one["seconds"] for number, one in now.job.batches().items() if number > settled]
        return {"groups": groups, "batches": len(seconds), **_spread(seconds)}


def busy(groups: int, flags: Sequence[str]) -> dict[str, Any]:
    """Every group commits once in each trigger of 10 s."""
    with running(groups, [*flags, "--trigger", "10"]) as now:
        first: dict[str, float] = {}
        begin = time.monotonic()
        for number in range(1, _WARM_UP + _MEASURED + 1):
            write(now.server, Shape("groups", groups, _PARTITIONS, commits=1), first_commit=number)
            if number == _WARM_UP:
                first = {"batch": max(now.job.batches()), "at": time.monotonic()}
            time.sleep(max(0.0, 10 * number - (time.monotonic() - begin)))
        passed = time.monotonic() - first["at"]
        batches = [one for number, one in now.job.batches().items() if number > first["batch"]]
        seconds = [one["seconds"] for one in batches]
        share = sum(seconds) / passed
        return {"groups": groups, "batches": len(seconds), **_spread(seconds), "busy_share": share}


def show_help(groups: int, flags: Sequence[str]) -> dict[str, Any]:
    """The start of a command that does nothing."""
    seconds = []
    for _ in range(11):
        begin = time.perf_counter()
        program = Path(sys.executable).with_name("groupreplay")
        subprocess.run([program, "--help"], check=True, stdout=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - begin)
    return _spread(seconds)


def _spread(seconds: Sequence[float]) -> dict[str, float]:
    return {"median_s": statistics.median(seconds), "min_s": min(seconds), "max_s": max(seconds)}


_MEASURES: Final[Mapping[str, tuple[Callable[[int, Sequence[str]], dict[str, Any]], int]]] = {
    "restart": (restart, 20_000),
    "idle": (idle, 20_000),
    "busy": (busy, 5_000),
    "help": (show_help, 0),
}


def main() -> None:
    """Prints one line of JSON."""
    if sys.argv[1:2] == [_AS_A_CHILD]:
        run_command()
        return
    parser = flag_parser(__doc__)
    parser.add_argument("what", choices=_MEASURES)
    parser.add_argument("--groups", type=int)
    parser.add_argument("--page", action="store_true", help="put the figures into docs/performance.md")
    own: list[str] = sys.argv[1:]
    of_run: list[str] = []
    if "--" in own:  # argparse would add them to the list of the first positional argument
        own, of_run = own[: own.index("--")], own[own.index("--") + 1 :]
    asked = parser.parse_args(own)
    measure, groups = _MEASURES[asked.what]
    found = measure(asked.groups or groups, of_run)
    rounded = {name: round(value, 3) if isinstance(value, float) else value for name, value in found.items()}
    print(json.dumps({"measured": asked.what, **rounded}))
    if asked.page:
        name = f"{asked.what} {asked.groups or groups}" if groups else asked.what
        put(name, "- " + ", ".join(f"`{key}` {value}" for key, value in rounded.items()))


if __name__ == "__main__":
    main()
