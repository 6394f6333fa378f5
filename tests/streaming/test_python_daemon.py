"""The process that local workers are forked from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql.pandas.serializers import ApplyInPandasWithStateSerializer
from pyspark.sql.types import BinaryType, StructField, StructType
from spark_sessions import small_session

from groupreplay.streaming.python_daemon import series


@pytest.mark.parametrize(
    "values",
    [
        pa.array([b"g:a"]),
        pa.array([None, b"", b"x" * 300], pa.binary()),
        pa.array([], pa.binary()),
        pa.array([-1, 1 << 62]),
        pa.array([1, None]),
        pa.array([None], pa.int64()),
        pa.array(["text", None]),
        pa.array([{"startOffset": 1, "isLastChunk": True}]),
    ],
    ids=lambda values: f"{values.type} {len(values)}",
)
def test_columns_are_converted_as_pyspark_does(values: pa.Array) -> None:
    """The same Series for our rows and for all others."""
    state = StructType([StructField("state", BinaryType())])
    serializer: Any = ApplyInPandasWithStateSerializer("UTC", False, True, state, 10_000, False)
    (column,) = pa.table({"column": values}).itercolumns()
    expected = serializer.arrow_to_pandas(column)
    pd.testing.assert_series_equal(series(serializer, column), expected)
    assert [type(one) for one in series(serializer, column)] == [type(one) for one in expected]


@pytest.mark.spark
def test_workers_are_born_ready() -> None:
    """A worker has everything imported, and a task does not read Spark's zip files again."""

    def look_around(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sys
        import zipimport

        import pyarrow
        from pyspark.sql.pandas.serializers import ApplyInPandasWithStateSerializer

        ready = {"groupreplay.streaming.pack", "groupreplay.streaming.step", "pandas"} <= sys.modules.keys()
        cheap = zipimport.zipimporter.invalidate_caches.__name__ == "_keep_directory"
        cheap &= ApplyInPandasWithStateSerializer.arrow_to_pandas.__name__ == "series"
        yield pyarrow.RecordBatch.from_pydict({"ready": [ready], "cheap": [cheap]})

    frame = small_session().range(1).coalesce(1).mapInArrow(look_around, "ready boolean, cheap boolean")
    assert [tuple(row) for row in frame.collect()] == [(True, True)]
