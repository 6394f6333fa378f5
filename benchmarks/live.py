"""Costs of the running job: a restart, idle batches, busy batches; and the time of ``--help`` and of the demo's start.

    python benchmarks/live.py restart [--groups 20000]   from the Spark session to the first new event
    python benchmarks/live.py idle [--groups 20000]      batches in which nothing happens
    python benchmarks/live.py busy [--groups 5000]       batches in which every group commits
    python benchmarks/live.py help                       groupreplay --help, many times
    python benchmarks/live.py demo                       groupreplay demo, to its first event
    small: help --repeat 1
    small: demo --repeat 1
    small: idle busy restart --groups 20 --warm-up 1 --repeat 2 --trigger 1

Each of the first three starts a broker, lets its coordinator write the commits of that many groups, and runs the
whole job as a process of its own, with its default settings and the flags behind ``--``. Of several measurements all
take the same job.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

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

LOG_PARTITIONS: Final = 50
_PARTITIONS: Final = 5
#: The first batch after the catch-up calls every group once.
_SETTLING_BATCHES: Final = 5
_AS_A_CHILD: Final = "job"
_PROGRAM: Final = str(Path(sys.executable).with_name("groupreplay"))
_END_SECONDS: Final = 20.0
_SESSION_IS_UP: Final = "the session is up at"


class Job(RunningJob):
    """``groupreplay run`` with its default settings, which prints when its Spark session is up."""

    def _start(self) -> GuardedProcess:
        command = [sys.executable, __file__, _AS_A_CHILD, str(self.progress), "run"]
        command += ["--bootstrap-server", self.server, "--checkpoint", str(self.checkpoint)]
        return GuardedProcess([*command, *topic_flags(self.topics), *self.flags], self.log)

    @property
    def progress(self) -> Path:
        """Spark's JSON of each finished batch, one line each."""
        return self.checkpoint.with_suffix(".progress")

    def session_up(self) -> float:
        """Unix seconds of the last start."""
        lines = self.log.read_text("utf-8", "replace").splitlines()
        return float([line for line in lines if _SESSION_IS_UP in line][-1].rpartition(" ")[2])

    def batches(self) -> Mapping[int, Mapping[str, Any]]:
        """Batches by number, from the job's documents."""
        documents = read_json(self.server, self.topics.job)
        return {one["batch"]["id"]: one["batch"] for one in documents if one.get("batch")}

    def has_finished(self, number: int) -> bool:
        """Whether this batch is finished."""
        return max(self.batches(), default=0) >= number


def run_command() -> None:
    """Runs the command line of groupreplay, in a child process."""
    from groupreplay.app.cli.program import main as command_line
    from groupreplay.streaming.spark import engine, job
    from groupreplay.streaming.spark.progress import finished_batch
    from groupreplay.streaming.spark.session import spark_session

    file_of_progress, known = Path(sys.argv[2]), set[int]()

    def made(*settings: Any) -> Any:
        spark = spark_session(*settings)
        print(f"{_SESSION_IS_UP} {time.time()}", flush=True)
        return spark

    def noted(progress: Mapping[str, Any]) -> Any:
        if progress["batchId"] not in known:
            known.add(progress["batchId"])
            with file_of_progress.open("a", encoding="utf-8") as file:
                file.write(json.dumps(progress) + "\n")
        return finished_batch(progress)

    sys.argv = ["groupreplay", *sys.argv[3:]]
    with patch.object(job, "spark_session", made), patch.object(engine, "finished_batch", noted):
        command_line()


@dataclass(frozen=True)
class Size:
    """How much is measured: ``repeat`` batches or starts, after ``warm_up`` batches, one each ``trigger`` seconds."""

    groups: int = 0
    warm_up: int = 0
    repeat: int = 1
    trigger: float = 1.0


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
            EmbeddedBroker(offsets_partitions=LOG_PARTITIONS, jvm_options=["-Xmx2g", FULL_SPEED])
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
        job.wait_until(partial(job.has_finished, number))
    return begin + batches


def restart(now: Running, size: Size) -> dict[str, Any]:
    """Stops the job, writes records, starts it again and waits for the first event."""
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
        try:
            arrived = now.job.wait_until(lambda: _arrived(consumer))
        finally:
            now.job.process.end(0)
    up = now.job.session_up()
    return {
        "groups": size.groups,
        "start_to_session_s": up - begin,
        "session_to_event_s": arrived - up,
    }


def _arrived(consumer: Any) -> float | None:
    """Unix seconds at which the job wrote the next message; None without one."""
    message = consumer.poll(0.5)
    is_one = message is not None and message.error() is None
    return message.timestamp()[1] / 1000 if is_one else None


def idle(now: Running, size: Size) -> dict[str, Any]:
    """Batches with nothing but heartbeats and the prober's answers."""
    settled = _pass(now.job, size.warm_up)
    _pass(now.job, size.repeat)
    seconds = [one["seconds"] for number, one in now.job.batches().items() if number > settled]
    return {"groups": size.groups, "batches": len(seconds), **_spread(seconds)}


def busy(now: Running, size: Size) -> dict[str, Any]:
    """Every group commits once in each trigger."""
    first: dict[str, float] = {}
    begin = time.monotonic()
    for number in range(1, size.warm_up + size.repeat + 1):
        write(now.server, Shape("groups", size.groups, _PARTITIONS, commits=1), first_commit=number)
        if number == size.warm_up:
            first = {"batch": max(now.job.batches()), "at": time.monotonic()}
        time.sleep(max(0.0, size.trigger * number - (time.monotonic() - begin)))
    passed = time.monotonic() - first["at"]
    batches = [one for number, one in now.job.batches().items() if number > first["batch"]]
    seconds = [one["seconds"] for one in batches]
    share = sum(seconds) / passed
    return {"groups": size.groups, "batches": len(seconds), **_spread(seconds), "busy_share": share}


def show_help(size: Size) -> dict[str, Any]:
    """The start of a command that does nothing."""
    seconds = []
    for _ in range(size.repeat):
        begin = time.perf_counter()
        subprocess.run([_PROGRAM, "--help"], check=True, stdout=subprocess.DEVNULL, timeout=60)
        seconds.append(time.perf_counter() - begin)
    return _spread(seconds)


#: An action of the demo has ``>>>`` in place of a severity.
_EVENT_LINE: Final = re.compile(rb"[\d:.]{12} +\w")


def show_demo(size: Size) -> dict[str, Any]:
    """From the start of the demo to its first event; the broker's and Spark's jars are there."""
    seconds = []
    for _ in range(size.repeat):
        begin = time.perf_counter()
        with (
            tempfile.TemporaryDirectory(prefix="groupreplay-bench-") as folder,
            GuardedProcess([_PROGRAM, "demo"], subprocess.PIPE, cwd=Path(folder)) as demo,
        ):
            assert demo.answers is not None
            assert any(_EVENT_LINE.match(line) for line in demo.answers), "the demo printed no event"
            seconds.append(time.perf_counter() - begin)
            demo.end(_END_SECONDS)
    return _spread(seconds)


def _spread(seconds: Sequence[float]) -> dict[str, float]:
    return {"median_s": statistics.median(seconds), "min_s": min(seconds), "max_s": max(seconds)}


#: A job runs for months: its JVM has compiled its code after 200 idle batches, or 12 busy ones.
_OF_THE_JOB: Final[Mapping[str, tuple[Callable[[Running, Size], dict[str, Any]], Size]]] = {
    "restart": (restart, Size(groups=20_000, trigger=10.0)),
    "idle": (idle, Size(groups=20_000, warm_up=200, repeat=20)),
    "busy": (busy, Size(groups=5_000, warm_up=12, repeat=8, trigger=10.0)),
}
#: Starts of the program, which need no running job: what measures them, and how often.
_ALONE: Final[Mapping[str, tuple[Callable[[Size], dict[str, Any]], int]]] = {
    "help": (show_help, 11),
    "demo": (show_demo, 3),
}


def main() -> None:
    """Prints one line of JSON for each measurement."""
    if sys.argv[1:2] == [_AS_A_CHILD]:
        run_command()
        return
    parser = flag_parser(__doc__)
    parser.add_argument("what", choices=[*_OF_THE_JOB, *_ALONE], nargs="+")
    parser.add_argument("--groups", type=int)
    parser.add_argument("--warm-up", type=int, help="batches before, which are not measured")
    parser.add_argument("--repeat", type=int, help="batches, or starts of groupreplay, that are measured")
    parser.add_argument("--trigger", type=float, help="seconds from batch to batch")
    parser.add_argument("--page", action="store_true", help="put the figures into docs/performance.md")
    own: list[str] = sys.argv[1:]
    of_run: list[str] = []
    if "--" in own:  # argparse would add them to the list of the first positional argument
        own, of_run = own[: own.index("--")], own[own.index("--") + 1 :]
    asked = parser.parse_args(own)
    flags = {name: getattr(asked, name) for name in ("groups", "warm_up", "repeat", "trigger")}
    given = {name: value for name, value in flags.items() if value is not None}
    for name in asked.what:
        if name in _ALONE:
            measure_start, repeat = _ALONE[name]
            show(name, measure_start(replace(Size(repeat=repeat), **given)), page=asked.page)
    measures = [_OF_THE_JOB[name] for name in asked.what if name in _OF_THE_JOB]
    if measures:
        first = replace(measures[0][1], **given)
        with running(first.groups, [*of_run, "--trigger", str(first.trigger)]) as now:
            for measure, default in measures:
                found = measure(now, replace(default, **given))
                show(measure.__name__, found, page=asked.page)


def show(what: str, found: Mapping[str, Any], *, page: bool) -> None:
    """Prints the figures, and puts them into the page."""
    rounded = {name: round(value, 3) if isinstance(value, float) else value for name, value in found.items()}
    print(json.dumps({"measured": what, **rounded}), flush=True)
    if page:
        place = f"{what} {found['groups']}" if "groups" in found else what
        put(place, "- " + ", ".join(f"`{key}` {value}" for key, value in rounded.items()))


if __name__ == "__main__":
    main()
