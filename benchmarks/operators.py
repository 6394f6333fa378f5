# ruff: noqa: N802, N803, N815
# The names are PySpark's.
"""CPU time of one call by PySpark's two stateful operators, with the job's own function and one state for each group.

    python benchmarks/operators.py [--groups 10000] [--calls 3] [--repeat 3] [--page]
    small: --groups 20 --calls 2 --repeat 1

Both run in PySpark's own worker, in one session: ``applyInPandasWithState``, and ``transformWithState`` with rows. That
one needs PySpark 4.1 or later and the package protobuf, and is left out without them. Each group has five commits
before each call, and each call sets a timer in place of the one before. Files are read, one a batch, and nothing is
written. CPU seconds are those of the driver, the JVM and the workers; a figure is the median of the passes.
"""

from __future__ import annotations

import os
import statistics
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pack import commits
from page import flag_parser, put, show_progress
from processes import Meter

from groupreplay.state import Context
from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.engine.packing.pack import pack
from groupreplay.streaming.local.platforms import installed_release
from groupreplay.streaming.spark.operator import (
    OUTPUT_COLUMNS,
    OUTPUT_SCHEMA,
    PACKED_SCHEMA,
    STATE_SCHEMA,
    Job,
    caught_up_ms,
    rows_of_call,
    step,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, GroupedData, SparkSession

_PARTITIONS: Final = 5
#: No timer fires within an hour.
_JOB: Final = Job(context=Context(cluster_id="benchmark"), topics=TopicNames(), retry_ms=3_600_000)
_STORE: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_CONF: Final[Mapping[str, str]] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.providerClass": _STORE,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # With timers a query with ``availableNow`` would never end.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}
_APPLY, _TRANSFORM = "applyInPandasWithState", "transformWithState"


def applied(rows: GroupedData) -> DataFrame:
    """The operator of the job."""
    from pyspark.sql.streaming.state import GroupStateTimeout

    timeout = GroupStateTimeout.ProcessingTimeTimeout
    made: DataFrame = rows.applyInPandasWithState(
        partial(step, job=_JOB), OUTPUT_SCHEMA, STATE_SCHEMA, "append", timeout
    )
    return made


class _Stored:
    """A state and a timer as ``rows_of_call`` knows them, written together: each update of a group sets a timer."""

    hasTimedOut = False

    def __init__(self, handle: Any, value: Any, times: Any) -> None:
        self._handle, self._value, self._times = handle, value, times
        self.get = value.get()
        self.exists = self.get is not None

    def getCurrentWatermarkMs(self) -> int:
        return int(self._times.getCurrentWatermarkInMs())

    def getCurrentProcessingTimeMs(self) -> int:
        return int(self._times.getCurrentProcessingTimeInMs())

    def update(self, state: tuple[bytes]) -> None:
        self._blob = state[0]

    def setTimeoutDuration(self, milliseconds: int) -> None:
        at_ms = self.getCurrentProcessingTimeMs() + milliseconds
        if self.exists:
            self._handle.deleteTimer(self.get[1])
        self._handle.registerTimer(at_ms)
        self._value.update((self._blob, at_ms))


def transformed(rows: GroupedData) -> DataFrame:
    """The other one. Its class is made here, because a PySpark before 4.1 has no base for it."""
    from pyspark.sql import Row
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Processor(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self._handle = handle
            self._value = handle.getValueState("state", f"{STATE_SCHEMA}, timer bigint")

        def handleInputRows(self, key: Any, rows: Iterable[Any], timerValues: Any) -> Iterator[Row]:
            given = [(bytes(row["packed"]), row["caught_up_ms"]) for row in rows]
            chunk = ([packed for packed, _ in given], [at_ms for _, at_ms in given])
            stored: Any = _Stored(self._handle, self._value, timerValues)
            for cells in rows_of_call(bytes(key[0]), [chunk], stored, _JOB):
                yield Row(**dict(zip(OUTPUT_COLUMNS, cells, strict=True)))

    made: DataFrame = rows.transformWithState(
        statefulProcessor=Processor(),
        outputStructType=OUTPUT_SCHEMA,
        outputMode="append",
        timeMode="ProcessingTime",
    )
    return made


_OPERATORS: Final = {_APPLY: applied, _TRANSFORM: transformed}


def write_input(folder: Path, groups: int, calls: int) -> None:
    """A file for each call, with one row for each group, as ``pack`` makes them."""
    (whole,) = commits(groups, _PARTITIONS, calls, 1, batch=1 << 62)
    size = groups * _PARTITIONS
    for number in range(calls):
        packed = pa.Table.from_batches(list(pack(iter([whole.slice(number * size, size)]))))
        columns = [column.split()[0] for column in PACKED_SCHEMA.split(", ")]
        pq.write_table(packed.select(columns), folder / f"{number:03}.parquet")


def cpu_seconds(spark: SparkSession, operator: str, folder: Path, checkpoint: Path) -> float:
    """What the operator takes for all files."""
    jvm: Any = spark.sparkContext._jvm
    read = spark.readStream.schema(PACKED_SCHEMA).option("maxFilesPerTrigger", "1").parquet(str(folder))
    rows = read.withWatermark("caught_up", "0 seconds").select("key", "packed", caught_up_ms())
    frame = _OPERATORS[operator](rows.groupBy("key"))
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    with Meter(int(jvm.java.lang.ProcessHandle.current().pid())) as meter:
        writer.trigger(availableNow=True).start().awaitTermination()
    return sum(meter.cost.cpu_seconds.values())


def main() -> None:
    """Prints a table."""
    parser = flag_parser(__doc__)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--calls", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--page", action="store_true", help="put the table into docs/performance.md")
    asked = parser.parse_args()
    release, names = installed_release(), [_APPLY, _TRANSFORM]
    if release < "4.1" or not all(map(find_spec, ("google", "google.protobuf"))):
        show_progress(f"{names.pop()} is left out: it needs PySpark 4.1 and the package protobuf")
    # The first passes warm up the JVM.
    micros = {name: passes[1:] for name, passes in measured(names, asked).items()}
    base = statistics.median(micros[_APPLY])
    lines = [f"PySpark {release}, {asked.groups:,} groups, {asked.calls} calls each", ""]
    lines += ["| operator | µs of CPU a call | least, most | ratio |", "| --- | ---: | ---: | ---: |"]
    for name, passes in micros.items():
        middle = statistics.median(passes)
        spread = f"{min(passes):,.0f}, {max(passes):,.0f}"
        lines.append(f"| `{name}` | {middle:,.0f} | {spread} | {middle / base:.2f} |")
    print("\n".join(lines))
    if asked.page:
        put("operators", "\n".join(lines))


def measured(names: Sequence[str], asked: Namespace) -> Mapping[str, list[float]]:
    """Microseconds of CPU a call, of each pass of each operator."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = SparkSession.builder.master("local[2]").config(map=dict(_CONF)).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    found: dict[str, list[float]] = {name: [] for name in names}
    with TemporaryDirectory() as folder:
        write_input(Path(folder), asked.groups, asked.calls)
        for _ in range(asked.repeat + 1):
            for name in names:
                with TemporaryDirectory() as checkpoint:
                    seconds = cpu_seconds(spark, name, Path(folder), Path(checkpoint))
                found[name].append(1e6 * seconds / asked.groups / asked.calls)
                show_progress(f"{name}: {found[name][-1]:.0f} us a call")
    spark.stop()
    return found


if __name__ == "__main__":
    main()
