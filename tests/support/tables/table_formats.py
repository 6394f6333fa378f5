"""The open formats of docs/tables.md: their jars, which `table_formats.json` lists, and readers that are not Spark.

``python -m support.tables.table_formats``, run in the folder ``tests``, resolves the jars again.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pyspark

from groupreplay.streaming.local.jars import JarSet, fetched_jars, jar_paths, lock
from groupreplay.streaming.local.platforms import line_name
from support.paths import ROOT

PAGE: Final = (ROOT / "docs" / "tables.md").read_text(encoding="utf-8")
LIST: Final = Path(__file__).with_suffix(".json")
LINE: Final = line_name(pyspark.__version__)
_DELTA: Final = "io.delta:delta-spark_4.1_2.13:4.3.1"
_ICEBERG: Final = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
#: What takes time on a small machine, and changes no row. Delta reads its own log with 50 tasks by default.
_QUICK: Final = (
    "spark.ui.enabled=false",
    "spark.ui.showConsoleProgress=false",
    "spark.databricks.delta.snapshotPartitions=1",
)
#: Without dependencies: those of Delta that are not in Spark are in the second jar, and Iceberg's has its own.
JARS: Final = {
    "delta": JarSet(closure=(), alone=(_DELTA, "io.delta:delta-storage:4.3.1")),
    "iceberg": JarSet(closure=(), alone=(_ICEBERG,)),
}


def blocks(language: str) -> list[str]:
    """The blocks of the page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def table_jars(name: str) -> list[Path]:
    """The jars of a format, and those of Spark's Kafka connector."""
    listed: dict[str, dict[str, str]] = json.loads(LIST.read_text(encoding="utf-8"))
    return [*fetched_jars(name, listed[name]), *jar_paths("spark-connector")]


def delta_rows(folder: Path) -> list[dict[str, Any]]:
    """Read by delta-rs."""
    from deltalake import DeltaTable

    rows: list[dict[str, Any]] = DeltaTable(str(folder / "group_events")).to_pyarrow_table().to_pylist()
    return rows


def iceberg_rows(folder: Path) -> list[dict[str, Any]]:
    """Read by PyIceberg; the catalog of the page is a folder, in which a file names the newest metadata."""
    from pyiceberg.table import StaticTable

    metadata = folder / "monitoring" / "group_events" / "metadata"
    newest = metadata / f"v{(metadata / 'version-hint.text').read_text()}.metadata.json"
    rows: list[dict[str, Any]] = StaticTable.from_metadata(str(newest)).scan().to_arrow().to_pylist()
    return rows


@dataclass(frozen=True)
class TableFormat:
    """A format on the page, by the numbers of its blocks.

    Attributes:
        lines: the lines of Spark on which its jars run.
        writer: the number of the block of Python that writes.
        command: the number of the block with the command that starts a program.
        rows: reads the table; the folder is the one that the page calls /tables.
    """

    name: str
    lines: tuple[str, ...]
    writer: int
    command: int
    rows: Callable[[Path], list[dict[str, Any]]]

    def program(self, events: str) -> str:
        """A program of the page: ``events`` is its first part, and the block of this format writes."""
        return f"{events}\n{blocks('python')[self.writer]}"

    def submit_arguments(self) -> str:
        """What PySpark starts the JVM with: the settings of the page's command, and files in place of packages."""
        words = shlex.split(blocks("sh")[self.command])
        settings = [word for flag, word in pairwise(words) if flag == "--conf"]
        arguments = ["--master", "local[2]", "--jars", ",".join(map(str, table_jars(self.name)))]
        arguments += [part for setting in settings for part in ("--conf", setting)]
        arguments += [part for setting in _QUICK for part in ("--conf", setting)]
        return shlex.join([*arguments, "pyspark-shell"])


FORMATS: Final[Mapping[str, TableFormat]] = {
    "delta": TableFormat("delta", ("4.1", "4.2"), writer=1, command=0, rows=delta_rows),
    "iceberg": TableFormat("iceberg", ("4.1",), writer=2, command=1, rows=iceberg_rows),
}


if __name__ == "__main__":
    lock(LIST, sets=JARS)
