"""Speed of the job compared with other readers of the same topic, in one run.

    python benchmarks/bench.py [--shape steady] [--factor 1] [--repeat 3] [--json FILE]
    python benchmarks/bench.py --scale 200000       the job at this number of groups instead: ``scale.py``, with --page
    small: --factor 0.002 --repeat 1 --warm-up 0 --log-partitions 2
    small: --shape wide --shape many --shape churn --only job --factor 0.002 --repeat 1 --warm-up 0

Starts a broker and lets its group coordinator write the topic: every commit is a request. Then each reader reads the
whole topic, in turn, ``--repeat`` times; unmeasured rounds before (``--warm-up``) warm up the JVM. The readers in Spark
share one session with the settings of the job. Prints medians, and ratios to the bare connector beside those of the
last commit that changed them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import figures
import scale
from figures import Figure, beside
from page import flag_parser, put, show_progress
from processes import FULL_SPEED, KINDS, Cost, Finished
from queries import Queries, Session, session, settings_for
from shapes import SHAPES, Shape
from tools import LOG_LOADING, capture, console, first_record, load, replay
from traffic import write

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.config.settings import Cluster, RunSettings
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.local.broker import EmbeddedBroker

#: The readers in the order in which they run; the names of those in Spark are methods of ``Queries``.
SPARK: Final = ("connector", "count_rows", "count_packed", "job", "job_connector")
OUTSIDE: Final = ("replay", "console", "broker_load")
#: In the third round the JVM's compilers still take half of the job's time in ``many``, in the fifth a third.
_WARM_UP: Final = 4
TITLES: Final[Mapping[str, str]] = {
    "connector": "Spark's connector, to nowhere",
    "count_rows": "… counted by group, raw records",
    "count_packed": "… counted by group, our packed rows",
    "job": "our job, all topics written",
    "job_connector": "… with `--log-source connector`",
    "replay": "groupreplay replay (no Spark)",
    "console": "Kafka's console consumer",
    "broker_load": "the broker's own load",
}


@dataclass(frozen=True)
class Measured:
    """The passes of one reader: seconds, and the cost of the median pass; without ``overhead_seconds`` of its start."""

    name: str
    seconds: Sequence[float]
    cost: Cost = field(default_factory=Cost)
    overhead_seconds: float = 0.0
    details: Sequence[Any] = ()

    @property
    def median(self) -> float:
        """Seconds of the median pass."""
        return statistics.median(self.seconds)

    @property
    def cpu_seconds(self) -> float:
        """The sum over all processes; 0 when not measured."""
        return _cpu(self.cost)


def measure(asked: argparse.Namespace, shape: Shape, spark: Session | None) -> dict[str, Any]:
    """All readers on one shape, as plain values; without a session only those outside Spark."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="groupreplay-bench-")))
        broker = stack.enter_context(
            EmbeddedBroker(
                offsets_partitions=asked.log_partitions, jvm_options=["-Xmx2g", FULL_SPEED, LOG_LOADING]
            )
        )
        server = broker.bootstrap_servers
        rate = shape.records / write(server, shape)
        show_progress(f"{shape.records:,} records of {shape.groups:,} groups: {rate:,.0f}/s")
        log = Connection(Cluster(bootstrap_servers=server))
        records = sum(log.end_offsets(OFFSETS_TOPIC, asked.log_partitions).values())
        measured = [] if spark is None else measure_spark(asked, spark, server, folder)
        measured += measure_outside(asked, broker, folder, records)
    return {
        "shape": asdict(shape),
        "records": records,
        "written_per_second": round(rate),
        "machine": machine(),
        "settings": {
            name: getattr(asked, name)
            for name in ("log_partitions", "shuffle_partitions", "max_offsets_per_trigger", "repeat")
        },
        "measured": [row(one, records, shape.groups, measured) for one in measured],
    }


def run_settings(asked: argparse.Namespace, server: str) -> RunSettings:
    """The job's settings from the command line."""
    settings = settings_for(
        server,
        shuffle_partitions=asked.shuffle_partitions,
        max_offsets=asked.max_offsets_per_trigger,
        master=asked.master,
    )
    return replace(settings, spark_conf={**settings.spark_conf, **dict(asked.spark_conf)})


def measure_spark(asked: argparse.Namespace, spark: Session, server: str, folder: Path) -> list[Measured]:
    """The readers in Spark, in turn."""
    names = [name for name in SPARK if name in asked.only]
    queries = Queries(spark, run_settings(asked, server), folder)
    rounds = []
    for number in range(-asked.warm_up, asked.repeat):
        passes = {name: queries.measure(getattr(queries, name)) for name in names}
        goes = (f"{name} {one.seconds:.2f} s, {_cpu(one.cost):.1f} of CPU" for name, one in passes.items())
        show_progress("; ".join(goes) + (" (warm-up)" if number < 0 else ""))
        if number >= 0:
            rounds.append(passes)
    return [
        Measured(
            name,
            [one[name].seconds for one in rounds],
            _middle([one[name] for one in rounds]).cost,
            details=[asdict(one[name]) for one in rounds],
        )
        for name in names
    ]


def _cpu(cost: Cost) -> float:
    return sum(cost.cpu_seconds.values())


def _middle(passes: Sequence[Any]) -> Any:
    return sorted(passes, key=lambda one: one.seconds)[(len(passes) - 1) // 2]


def measure_outside(
    asked: argparse.Namespace, broker: EmbeddedBroker, folder: Path, records: int
) -> list[Measured]:
    """The readers that are separate processes."""
    measured = []
    server = broker.bootstrap_servers
    if "replay" in asked.only:
        file = folder / "capture.parquet"
        capture(server, file)
        goes = [replay(file) for _ in range(asked.repeat)]
        measured.append(_of_goes("replay", goes, replay(first_record(file)).seconds))
    if "broker_load" in asked.only:
        loads = [load(broker, asked.log_partitions) for _ in range(asked.repeat)]
        measured.append(
            Measured("broker_load", [one.seconds for one in loads], details=[asdict(one) for one in loads])
        )
    if "console" in asked.only:
        # Last, because it joins a group, and that writes records to the topic.
        goes = [console(server, records, folder / "console.log") for _ in range(asked.repeat)]
        start = console(server, 1, folder / "console.log").seconds
        measured.append(_of_goes("console", goes, start))
    for one in measured:
        show_progress(f"{one.name} {one.median:.2f} s")
    return measured


def _of_goes(name: str, goes: Sequence[Finished], overhead: float) -> Measured:
    seconds = [max(0.001, one.seconds - overhead) for one in goes]
    return Measured(name, seconds, _middle(goes).cost, overhead)


def row(one: Measured, records: int, groups: int, all_of_them: Sequence[Measured]) -> dict[str, Any]:
    """One line of the table, as plain values."""
    bare = next((other for other in all_of_them if other.name == "connector"), None)
    return {
        "name": one.name,
        "seconds": [round(second, 3) for second in one.seconds],
        "median_seconds": round(one.median, 3),
        "overhead_seconds": round(one.overhead_seconds, 3),
        "records_per_second": round(records / one.median),
        "groups_per_second": round(groups / one.median),
        "rate_to_connector": None if bare is None else round(bare.median / one.median, 3),
        "records_per_cpu_second": round(records / one.cpu_seconds) if one.cpu_seconds else None,
        "cpu_seconds": {kind: round(value, 2) for kind, value in one.cost.cpu_seconds.items()},
        "peak_mib": {kind: round(value) for kind, value in one.cost.peak_mib.items()},
        "details": list(one.details),
    }


def machine() -> dict[str, Any]:
    """The machine and the versions."""
    return {
        "cpus": os.cpu_count(),
        "processor": platform.machine(),
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in ("pyspark", "pyarrow", "numpy", "pandas")},
    }


def table(result: Mapping[str, Any], before: Mapping[str, Figure]) -> str:
    """The result as a table in Markdown, ratios beside those ``before``."""
    shape = Shape(**result["shape"])
    lines = [
        f"{shape.name}: {result['records']:,} records of {shape.groups:,} groups, "
        f"written by the coordinator at {result['written_per_second']:,} records/s",
        "",
        "| read by | s | records/s | groups/s | to the connector | records/CPU s | CPU s: driver, JVM, workers "
        "| peak MiB: the same |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for one in result["measured"]:
        known = one["rate_to_connector"]
        ratio = "" if known is None else beside(f"{shape.name} {one['name']}", known, before)
        by_cpu = f"{one['records_per_cpu_second']:,}" if one["records_per_cpu_second"] else ""
        costs = [
            ", ".join(pattern.format(one[name][kind]) for kind in KINDS if kind in one[name])
            for name, pattern in (("cpu_seconds", "{:.1f}"), ("peak_mib", "{:.0f}"))
        ]
        lines.append(
            f"| {TITLES[one['name']]} | {one['median_seconds']:.2f} | {one['records_per_second']:,} "
            f"| {one['groups_per_second']:,} | {ratio} | {by_cpu} | {costs[0]} | {costs[1]} |"
        )
    taken_off = [
        f"{TITLES[one['name']]} {one['overhead_seconds']:.2f} s"
        for one in result["measured"]
        if one["overhead_seconds"]
    ]
    if taken_off:
        lines += ["", f"Not in the table, what a start takes: {', '.join(taken_off)}."]
    return "\n".join(lines)


def ratios(result: Mapping[str, Any]) -> dict[str, float]:
    """The figures of a shape that are kept: those of this project's own readers."""
    shape, of_readers = (
        result["shape"]["name"],
        {one["name"]: one["rate_to_connector"] for one in result["measured"]},
    )
    return {
        f"{shape} {name}": of_readers[name] for name in ("job", "replay") if of_readers.get(name) is not None
    }


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = flag_parser(__doc__)
    names: Callable[[str], list[str]] = partial(str.split, sep=",")
    parser.add_argument("--shape", choices=SHAPES, action="append", help="may be repeated; default: steady")
    parser.add_argument("--factor", type=float, default=1.0, help="so many times the groups of a shape")
    parser.add_argument(
        "--scale",
        type=int,
        metavar="GROUPS",
        help="measure the running job at this size, for docs/scaling.md",
    )
    parser.add_argument("--groups", type=int)
    parser.add_argument("--partitions", type=int)
    parser.add_argument("--commits", type=int)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=_WARM_UP, help="rounds before, not measured")
    parser.add_argument("--only", type=names, default=[*SPARK, *OUTSIDE], help=",".join([*SPARK, *OUTSIDE]))
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--page", action="store_true", help="put the tables into docs/performance.md")
    parser.add_argument("--log-partitions", type=int, default=50, help="of the offsets topic")
    parser.add_argument("--master")
    parser.add_argument("--shuffle-partitions", type=int, default=4)
    parser.add_argument("--max-offsets-per-trigger", type=int, default=2_000_000)
    parser.add_argument("--spark-conf", type=lambda text: text.split("=", 1), action="append", default=[])
    return parser.parse_args(argv)


def shape_of(asked: argparse.Namespace, name: str) -> Shape:
    """A shape with the changes from the command line."""
    given = {key: getattr(asked, key) for key in ("groups", "partitions", "commits")}
    changed = {key: value for key, value in given.items() if value}
    return replace(SHAPES[name].scaled(asked.factor), **changed)


def main() -> None:
    """Measures the shapes from the command line."""
    asked = arguments()
    if asked.scale is not None:
        scale.main([str(asked.scale), "--page"])
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    results = []
    stack = ExitStack()
    spark = None
    if set(SPARK) & set(asked.only):
        # One session for all shapes: Python cannot start a second JVM of Spark.
        spark = stack.enter_context(session(run_settings(asked, "unused:9092")))
    with stack:
        for name in asked.shape or ["steady"]:
            results.append(measure(asked, shape_of(asked, name), spark))
            # Another size has other ratios.
            before: dict[str, Figure] = figures.known() if asked.factor == 1 else {}
            print(table(results[-1], before), end="\n\n", flush=True)
            if asked.page:
                put(name, table(results[-1], {}))
                figures.keep(ratios(results[-1]))
    if asked.json is not None:
        asked.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
