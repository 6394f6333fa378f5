"""Writes the pickle that the JVM of Spark hands to a worker: ``python -m golden.refresh_jvm_state_pickles``.

Run it in ``tests/`` with the Python of each line (``.venv``, ``.lines/3.5`` and so on). A query of two batches stores a
state; in the second batch the worker writes down what it is given to unpickle.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyspark
from pyspark.sql import SparkSession

from groupreplay.streaming.local.platforms import java_environment, javas_of

PLACE = Path(__file__).with_name("jvm_state_pickles.json")
STATE = b"\xff\x00blob" * 3


def main() -> None:
    """Replaces the pickle of this release."""
    os.environ.update(java_environment(javas_of(pyspark.__version__)))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    known = json.loads(PLACE.read_text())
    line = pyspark.__version__.rpartition(".")[0]
    others = {release: text for release, text in known.items() if release.rpartition(".")[0] != line}
    with tempfile.TemporaryDirectory() as folder:
        found = given(Path(folder))
    made = {**others, pyspark.__version__: found.hex()}
    PLACE.write_text(json.dumps(dict(sorted(made.items())), indent=2) + "\n")


def given(folder: Path) -> bytes:
    """What the worker of a small query was given."""
    out, source = folder / "given", folder / "source"
    source.mkdir()
    for number in range(2):
        (source / f"{number}.json").write_text('{"k": "a"}\n')

    def keep(_: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        from pyspark.serializers import CPickleSerializer

        plain: Callable[..., Any] = CPickleSerializer.loads

        def loads(self: Any, pickled: bytes, encoding: str = "bytes") -> Any:
            if b"_create_row" in pickled and len(pickled) < 1_000:
                out.write_bytes(pickled)
            return plain(self, pickled)

        if state.exists is False:
            CPickleSerializer.loads = loads  # type: ignore[method-assign]
        for _frame in frames:
            pass
        state.update((STATE,))
        yield pd.DataFrame([["x"]], columns=["v"])

    spark = SparkSession.builder.master("local[1]").config("spark.sql.shuffle.partitions", "1").getOrCreate()
    rows = spark.readStream.schema("k string").option("maxFilesPerTrigger", 1).json(str(source))
    result = rows.groupBy("k").applyInPandasWithState(keep, "v string", "blob binary", "update", "NoTimeout")
    writer = result.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
    writer.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()
    spark.stop()
    return out.read_bytes()


if __name__ == "__main__":
    main()
