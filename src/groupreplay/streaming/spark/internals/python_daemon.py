"""The process from which Spark forks its Python workers, when the job runs its own JVM and the workers are local.

A cluster can use it as well (``spark.python.daemon.module``), if its Python has groupreplay. It removes three
costs of pyspark's daemon: each worker imports pandas and Arrow; every task reads the directories of Spark's zip and
jar files (``importlib.invalidate_caches``) and collects garbage among all imported objects (``gc.collect``, 90 ms).
The last two took longer than the rest of a small batch. ``group_worker`` removes a fourth. It must not start
threads: its children are forks. With a release whose private parts are not known it does what pyspark's daemon
does.
"""

from __future__ import annotations

import gc
import runpy
import zipimport

import pandas as pd  # noqa: F401
import pyarrow.compute  # noqa: F401
import pyspark

from groupreplay.streaming.spark import operator  # noqa: F401
from groupreplay.streaming.spark.internals import has_known_internals


def main() -> None:
    """Serves until the JVM closes the standard input."""
    if has_known_internals(pyspark.__version__):
        _replace_costly_parts()
    # Collections in the workers skip all objects that exist now, and so do not copy their pages.
    gc.collect()
    gc.freeze()
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)


def _replace_costly_parts() -> None:
    from groupreplay.streaming.spark.internals import group_worker

    zipimport.zipimporter.invalidate_caches = _keep_directory  # type: ignore[method-assign, assignment]
    group_worker.install()


def _keep_directory(_: zipimport.zipimporter) -> None:
    """Does nothing: Spark's own files do not change while they are in use."""


if __name__ == "__main__":
    main()
