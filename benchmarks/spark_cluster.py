"""CPU seconds of the job on Spark's standalone cluster of two workers, and on one machine, in one run.

    python benchmarks/spark_cluster.py [--scale 1] [--warm-up 8] [--repeat 3] [--page]
    small: --scale 0.001 --warm-up 0 --repeat 1

Starts a broker and lets its coordinator write the shape ``many``. Then the job's query reads the whole log: with
``local[2]``, on two workers of one core each, and there with Spark's own daemon. Each has a session of its own, and
unmeasured passes before: three JVMs on the cluster need more of them than the one of a single machine. Counted are all
processes of the job: driver, JVM, executors, Python workers, and those of the cluster.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import psutil
from page import flag_parser, put, show_progress
from processes import FULL_SPEED
from queries import Queries, session, settings_for
from shapes import SHAPES
from traffic import write

from groupreplay.streaming.config.settings import RunSettings
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.spark.session import _JVM_CONF, PLAIN_FILES

_AS_A_CHILD: Final = "read"
_RESULT: Final = "cpu seconds of each pass:"
_HEAP: Final = "2g"
TITLES: Final[Mapping[str, str]] = {
    "one machine": "`local[2]`",
    "cluster": "two workers, our daemon",
    "stock daemon": "two workers, Spark's own daemon",
}


def cpu_seconds(sessions: Sequence[int]) -> float:
    """CPU seconds so far of all processes in these sessions; those that have ended count with their parents."""
    seconds = 0.0
    for process in psutil.process_iter():
        with suppress(psutil.Error, ProcessLookupError):
            if os.getsid(process.pid) in sessions:
                seconds += sum(process.cpu_times()[:4])
    return seconds


def read(server: str, warm_up: int, passes: int, folder: Path, sessions: Sequence[int]) -> list[float]:
    """CPU seconds of each pass over the log, without the warm-up; in the process of the driver."""
    found = []
    with session(_settings(server)) as spark:
        queries = Queries(spark, _settings(server), folder)
        for number in range(-warm_up, passes):
            before = cpu_seconds(sessions)
            seconds = queries.read(queries.job)
            used = cpu_seconds(sessions) - before
            show_progress(f"{seconds:.2f} s, {used:.1f} of CPU{' (warm-up)' if number < 0 else ''}")
            if number >= 0:
                found.append(used)
    return found


def _settings(server: str) -> RunSettings:
    settings = settings_for(server, shuffle_partitions=2, max_offsets=2_000_000, master="local[2]")
    return replace(settings, spark_conf={"spark.driver.memory": _HEAP})


@contextmanager
def commands(folder: Path) -> Iterator[Mapping[str, tuple[list[str], Mapping[str, str], Sequence[int]]]]:
    """The reader by name: its command, its environment, and the sessions of the cluster's processes."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from support.spark_cluster.standalone import standalone_cluster
    from support.spark_cluster.submitted_job import DAEMON_SETTING, STOCK_DAEMON, shipment

    shipped = shipment(folder / "shipment")
    conf = {
        **{name: value for name, value in _JVM_CONF.items() if name != "spark.driver.memory"},
        "spark.driver.memory": _HEAP,
        "spark.executor.memory": _HEAP,
        "spark.hadoop.fs.file.impl": PLAIN_FILES,
        "spark.log.level": "WARN",
    }
    with standalone_cluster(folder / "cluster") as cluster:
        stock = {**conf, DAEMON_SETTING: STOCK_DAEMON}
        environment, leaders = shipped.environment(), cluster.leaders()
        yield {
            "one machine": ([sys.executable], dict(os.environ), []),
            "cluster": (shipped.command(cluster, conf), environment, leaders),
            "stock daemon": (shipped.command(cluster, stock), environment, leaders),
        }


def measure(scale: float, warm_up: int, passes: int) -> dict[str, Any]:
    """The CPU seconds of each reader's passes, and the median a group in milliseconds, as plain values."""
    shape = SHAPES["many"].scaled(scale)
    measured: dict[str, list[float]] = {}
    with TemporaryDirectory(prefix="groupreplay-bench-") as name:
        folder = Path(name)
        with EmbeddedBroker(offsets_partitions=50, jvm_options=["-Xmx2g", FULL_SPEED]) as broker:
            server = broker.bootstrap_servers
            write(server, shape)
            with commands(folder) as readers:
                for reader, (command, environment, sessions) in readers.items():
                    show_progress(reader)
                    arguments = [
                        _AS_A_CHILD,
                        server,
                        str(warm_up),
                        str(passes),
                        str(folder),
                        *map(str, sessions),
                    ]
                    measured[reader] = _run([*command, __file__, *arguments], environment, folder)
    a_group = {name: 1_000 * statistics.median(used) / shape.groups for name, used in measured.items()}
    return {"groups": shape.groups, "cpu_seconds": measured, "cpu_ms_a_group": a_group}


def _run(command: Sequence[str], environment: Mapping[str, str], folder: Path) -> list[float]:
    """Runs a reader in a session of its own; its output has the result in one line."""
    with subprocess.Popen(
        command,
        env=environment,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        result: list[float] = []
        for line in process.stdout:
            if line.startswith(_RESULT):
                result = json.loads(line.removeprefix(_RESULT))
            else:
                show_progress(line.rstrip())
    if process.returncode or not result:
        raise SystemExit(f"{command[0]} ended with {process.returncode}")
    return result


def table(found: Mapping[str, Any]) -> str:
    """The result in Markdown."""
    base = found["cpu_ms_a_group"]["one machine"]
    lines = [
        f"`many`, {found['groups']:,} groups",
        "",
        "| read on | CPU s of each pass | CPU ms a group | to one machine |",
        "| --- | ---: | ---: | ---: |",
    ]
    for name, used in found["cpu_seconds"].items():
        a_group = found["cpu_ms_a_group"][name]
        each = ", ".join(f"{one:.1f}" for one in used)
        lines.append(f"| {TITLES[name]} | {each} | {a_group:.2f} | {a_group / base:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Prints the table; as a child process it reads, and prints one line."""
    if sys.argv[1:2] == [_AS_A_CHILD]:
        server, warm_up, passes, folder, *sessions = sys.argv[2:]
        used = read(server, int(warm_up), int(passes), Path(folder), [os.getsid(0), *map(int, sessions)])
        print(_RESULT, json.dumps(used), flush=True)
        return
    parser = flag_parser(__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="so many times the groups")
    parser.add_argument("--warm-up", type=int, default=8, help="passes before, which are not measured")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--page", action="store_true", help="put the table into docs/performance.md")
    asked = parser.parse_args()
    found = table(measure(asked.scale, asked.warm_up, asked.repeat))
    print(found)
    if asked.page:
        put("spark cluster", found)


if __name__ == "__main__":
    main()
