"""Words for the progress of an engine, and for a failure as Spark reports it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groupreplay.streaming.run.interface import Batch
from groupreplay.streaming.run.status import JobIdentity

IDENTITY = JobIdentity(
    cluster_id="c", era="e", job_id="j", run_id="r", first_start_ms=1, started_ms=2, trigger_seconds=10
)


def batch(number: int, read: Mapping[int, int], **fields: Any) -> Batch:
    """A finished batch that has read the log so far, and one message of the prober."""
    read_to = {"__consumer_offsets": read, "group-probes": {0: 1}}
    given = {"started_ms": 0, "seconds": 1.5, "rows": 5, "records": 4, "groups": 7, "read_to": read_to}
    return Batch(number=number, **{**given, **fields})


class QueryError(Exception):
    """What pyspark raises for a query: a text, the JVM's stack trace beside it, and the cause apart from both."""

    def __init__(self, text: str, cause: Exception | None = None) -> None:
        super().__init__("the query terminated with an exception")
        self._stackTrace = f"org.apache.spark.SparkException: job aborted\n\tat x\nCaused by: {text}\n\tat y"
        self._cause = cause
