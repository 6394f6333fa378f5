"""Growth of time and memory: the job on a topic, on one with twice the records, and on one with twice the groups.

    python benchmarks/growth.py [--groups 1000] [--partitions 50] [--commits 40] [--repeat 3]
    small: --groups 5 --partitions 5 --commits 4 --repeat 1 --topics 1

Each topic has its own broker; one session reads them in turn; the first round is not measured. The last topic has four
times the records and groups of the first: the memory of the workers must not grow.
"""

from __future__ import annotations

import argparse
import statistics
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from page import flag_parser, put, show_progress
from processes import FULL_SPEED
from queries import Pass, Queries, session, settings_for
from shapes import Shape
from traffic import write

from groupreplay.streaming.local.broker import EmbeddedBroker


def shapes(groups: int, partitions: int, commits: int) -> list[Shape]:
    """The topics that are compared; the first is what the others are multiples of."""
    return [
        Shape("base", groups, partitions, commits),
        Shape("records x 2", groups, partitions, 2 * commits),
        Shape("groups x 2", 2 * groups, partitions, commits // 2),
        Shape("both x 2", 2 * groups, partitions, commits),
        Shape("records x 4", groups, partitions, 4 * commits),
    ]


def passes(asked: argparse.Namespace) -> dict[Shape, list[Pass]]:
    """The goes of each topic."""
    found: dict[Shape, list[Pass]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="groupreplay-bench-")))
        brokers = {}
        for shape in shapes(asked.groups, asked.partitions, asked.commits)[: asked.topics]:
            broker = EmbeddedBroker(offsets_partitions=50, jvm_options=["-Xmx1g", FULL_SPEED])
            brokers[shape] = stack.enter_context(broker)
            seconds = write(broker.bootstrap_servers, shape)
            show_progress(f"{shape.name}: {shape.records:,} records in {seconds:.1f} s")
        settings = {
            shape: settings_for(
                broker.bootstrap_servers,
                shuffle_partitions=4,
                max_offsets=asked.max_offsets_per_trigger,
                master=None,
            )
            for shape, broker in brokers.items()
        }
        spark = stack.enter_context(session(next(iter(settings.values()))))
        for number in range(asked.repeat + 1):
            for shape, own in settings.items():
                queries = Queries(spark, own, folder)
                one = queries.measure(queries.job)
                show_progress(f"{shape.name}: {one.seconds:.2f} s" + (" (warm-up)" if not number else ""))
                if number:
                    found.setdefault(shape, []).append(one)
    return found


def table(found: dict[Shape, list[Pass]]) -> str:
    """The result as a table in Markdown, each topic beside the first."""
    base = statistics.median(one.seconds for one in next(iter(found.values())))
    lines = [
        "| topic | groups | records | s | to the first | CPU s | workers' peak MiB | JVM's |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for shape, goes in found.items():
        seconds = statistics.median(one.seconds for one in goes)
        cpu = statistics.median(sum(one.cost.cpu_seconds.values()) for one in goes)
        workers, jvm = (
            statistics.median(one.cost.peak_mib[kind] for one in goes) for kind in ("workers", "jvm")
        )
        lines.append(
            f"| {shape.name} | {shape.groups:,} | {shape.records:,} | {seconds:.2f} | {seconds / base:.2f} "
            f"| {cpu:.1f} | {workers:.0f} | {jvm:.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Prints the table."""
    parser = flag_parser(__doc__)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--partitions", type=int, default=50)
    parser.add_argument("--commits", type=int, default=40)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--topics", type=int, help="only the first so many of the five")
    parser.add_argument("--max-offsets-per-trigger", type=int, default=2_000_000)
    parser.add_argument("--page", action="store_true", help="put the table into docs/performance.md")
    asked = parser.parse_args()
    found = table(passes(asked))
    print(found)
    if asked.page:
        put("growth", found)


if __name__ == "__main__":
    main()
