"""The process that Spark's Python workers are forked from, when the JVM is our own and the workers are local.

Knows pyspark's daemon and three costs of it: a worker imports pandas and Arrow anew; every task reads the
directories of Spark's zip and jar files anew (``importlib.invalidate_caches``), which took longer than all
the rest of a small batch; and each column of each key is converted in a way that fits every type there is, for
one row of bytes as for a million dates. Must not start threads: its children are forks.
"""

from __future__ import annotations

import zipimport
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute
from pyspark.daemon import manager
from pyspark.sql.pandas.serializers import ApplyInPandasWithStateSerializer

from groupreplay.streaming import pack, step  # noqa: F401


def main() -> None:
    """Serves until the JVM closes our standard input."""
    zipimport.zipimporter.invalidate_caches = _keep_directory  # type: ignore[method-assign, assignment]
    ApplyInPandasWithStateSerializer.arrow_to_pandas = series  # type: ignore[method-assign, assignment]
    manager()  # type: ignore[no-untyped-call]


_any_series = ApplyInPandasWithStateSerializer.arrow_to_pandas


def series(serializer: ApplyInPandasWithStateSerializer, column: Any) -> Any:
    """The same pandas Series that PySpark makes of an Arrow column, a quarter of the time for those of our rows."""
    if pa.types.is_binary(column.type):
        values = np.empty(len(column), object)
        values[:] = column.to_pylist()
    elif pa.types.is_int64(column.type) and not column.null_count:
        values = np.array(column.to_pylist(), np.int64)
    else:
        return _any_series(serializer, column)  # type: ignore[no-untyped-call]
    return pd.Series(values, dtype=values.dtype, name=column._name, copy=False)


def _keep_directory(_: zipimport.zipimporter) -> None:
    """Nothing is ever added to Spark's own files while they are in use."""


if __name__ == "__main__":
    main()
