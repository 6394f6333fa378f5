"""The process that Spark's Python workers are forked from, when the JVM is our own and the workers are local.

Knows pyspark's daemon and three costs of it: a worker imports pandas and Arrow anew; every task reads the
directories of Spark's zip and jar files anew (``importlib.invalidate_caches``), and looks for garbage in all that
was ever imported (``gc.collect``, 90 ms). The last two took longer than all the rest of a small batch. A fourth,
pandas around every call of a group, is ``group_worker``'s. Must not start threads: its children are forks.
"""

from __future__ import annotations

import gc
import zipimport

import pandas as pd  # noqa: F401
import pyarrow.compute  # noqa: F401
from pyspark.daemon import manager

from groupreplay.streaming.engine import pack  # noqa: F401
from groupreplay.streaming.spark import group_worker


def main() -> None:
    """Serves until the JVM closes our standard input."""
    zipimport.zipimporter.invalidate_caches = _keep_directory  # type: ignore[method-assign, assignment]
    group_worker.install()
    # What is there now stays, and no collection in a worker has to visit it (nor does that copy its pages).
    gc.collect()
    gc.freeze()
    manager()  # type: ignore[no-untyped-call]


def _keep_directory(_: zipimport.zipimporter) -> None:
    """Nothing is ever added to Spark's own files while they are in use."""


if __name__ == "__main__":
    main()
