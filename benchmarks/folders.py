"""Folders of a broker read without it, beside the broker's own load of the same segments and a capture of them.

    python benchmarks/folders.py [--shape steady] [--factor 1] [--repeat 3] [--page]
    small: --factor 0.002 --repeat 1 --log-partitions 2

Starts a broker and lets its group coordinator write the topic: every commit is a request. Then the broker loads its
partitions after a restart, ``groupreplay replay`` reads its folders, and a capture of the same topic. Of both the
time of a run that reads one batch, or one record, is taken off, because a load has no start of a program either. Prints
medians, and ratios to the broker's load.
"""

from __future__ import annotations

import statistics
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from page import flag_parser, put, show_progress
from processes import FULL_SPEED, Cost
from shapes import SHAPES, Shape
from tools import LOG_LOADING, capture, first_batch, first_record, load, replay, replay_folders
from traffic import write

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.local.broker import EmbeddedBroker


@dataclass(frozen=True)
class Row:
    """A reader: the seconds of its passes without its start, and the cost of the last one."""

    title: str
    seconds: Sequence[float]
    cost: Cost | None = None

    @property
    def median(self) -> float:
        """Seconds of the median pass."""
        return statistics.median(self.seconds)


def measure(asked: Namespace, shape: Shape) -> tuple[int, list[Row]]:
    """How many records there are, and the readers; the broker's load is the first."""
    options = ["-Xmx2g", FULL_SPEED, LOG_LOADING]
    with (
        TemporaryDirectory(prefix="groupreplay-bench-") as name,
        EmbeddedBroker(offsets_partitions=asked.log_partitions, jvm_options=options) as broker,
    ):
        write(broker.bootstrap_servers, shape)
        ends = Connection(Cluster(bootstrap_servers=broker.bootstrap_servers)).end_offsets(
            OFFSETS_TOPIC, asked.log_partitions
        )
        records, file, folder = sum(ends.values()), Path(name, "capture.parquet"), broker.folder / "data"
        show_progress(f"{records:,} records are written")
        capture(broker.bootstrap_servers, file)
        loads = [load(broker, asked.log_partitions) for _ in range(asked.repeat)]
        assert {one.records for one in loads} == {records}
        # Its folder is a copy now, and nothing else takes the processors.
        broker.stop()
        start = replay(first_record(file)).seconds
        start_of_folders = replay_folders(first_batch(folder, Path(name, "first")), file).seconds
        of_folders = [replay_folders(folder, file) for _ in range(asked.repeat)]
        of_capture = [replay(file) for _ in range(asked.repeat)]
    return records, [
        Row("the broker's own load", [one.seconds for one in loads]),
        Row(
            "replay --from-log-dir",
            [max(0.001, one.seconds - start_of_folders) for one in of_folders],
            of_folders[-1].cost,
        ),
        Row(
            "replay --from-file", [max(0.001, one.seconds - start) for one in of_capture], of_capture[-1].cost
        ),
    ]


def table(shape: Shape, records: int, rows: Sequence[Row]) -> str:
    """The rows as a table in Markdown."""
    lines = [
        f"{shape.name}: {records:,} records of {shape.groups:,} groups",
        "",
        "| read by | s | records/s | to the broker's load | CPU s | peak MiB |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        cost = (
            "|  |  |"
            if row.cost is None
            else f"| {_of(row.cost.cpu_seconds):.1f} | {_of(row.cost.peak_mib):.0f} |"
        )
        lines.append(
            f"| {row.title} | {row.median:.2f} | {records / row.median:,.0f} "
            f"| {rows[0].median / row.median:.2f} {cost}"
        )
    return "\n".join(lines)


def _of(values: Mapping[str, float]) -> float:
    return sum(values.values())


def main() -> None:
    """Measures one shape."""
    parser = flag_parser(__doc__)
    parser.add_argument("--shape", choices=SHAPES, default="steady")
    parser.add_argument("--factor", type=float, default=1.0, help="so many times the groups of the shape")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--log-partitions", type=int, default=50, help="of the offsets topic")
    parser.add_argument("--page", action="store_true", help="put the table into docs/performance.md")
    asked = parser.parse_args()
    shape = SHAPES[asked.shape].scaled(asked.factor)
    result = table(shape, *measure(asked, shape))
    print(result, flush=True)
    if asked.page:
        put("folders", result)


if __name__ == "__main__":
    main()
