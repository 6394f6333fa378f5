"""The process that local workers are forked from."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from support.job.spark_sessions import small_session


@pytest.mark.spark
def test_workers_are_born_ready() -> None:
    """A worker has everything imported; a task neither reads Spark's zip files again nor visits what was imported."""

    def look_around(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import gc
        import sys
        import zipimport

        import pyarrow
        from pyspark import worker

        ready = {
            "groupreplay.streaming.engine.packing.pack",
            "groupreplay.streaming.spark.operator",
            "pandas",
        } <= sys.modules.keys()
        cheap = zipimport.zipimporter.invalidate_caches.__name__ == "_keep_directory"
        cheap &= worker.ApplyInPandasWithStateSerializer.__name__ == "GroupSerializer"
        # What a collection would visit is a small part of what there is.
        cheap &= len(gc.get_objects()) < gc.get_freeze_count() // 4
        yield pyarrow.RecordBatch.from_pydict({"ready": [ready], "cheap": [cheap]})

    frame = small_session().range(1).coalesce(1).mapInArrow(look_around, "ready boolean, cheap boolean")
    assert [tuple(row) for row in frame.collect()] == [(True, True)]
