"""The process from which Spark forks its Python workers, when the job runs its own JVM and the workers are local.

It removes three costs of pyspark's daemon: each worker imports pandas and Arrow; every task reads the directories of
Spark's zip and jar files (``importlib.invalidate_caches``) and collects garbage among all imported objects
(``gc.collect``, 90 ms). The last two took longer than the rest of a small batch. ``group_worker`` removes a fourth.
It must not start threads: its children are forks.
"""

from __future__ import annotations

import gc
import zipimport

import pandas as pd  # noqa: F401
import pyarrow.compute  # noqa: F401
from pyspark.daemon import manager

from groupreplay.streaming.spark import (
    group_worker,
    log_task,  # noqa: F401
)


def main() -> None:
    """Serves until the JVM closes the standard input."""
    zipimport.zipimporter.invalidate_caches = _keep_directory  # type: ignore[method-assign, assignment]
    group_worker.install()
    # Collections in the workers skip all objects that exist now, and so do not copy their pages.
    gc.collect()
    gc.freeze()
    manager()  # type: ignore[no-untyped-call]


def _keep_directory(_: zipimport.zipimporter) -> None:
    """Does nothing: Spark's own files do not change while they are in use."""


if __name__ == "__main__":
    main()
