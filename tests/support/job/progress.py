"""Words for the progress of a query, and for its failure, as Spark reports them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groupreplay.streaming.run.status import JobIdentity

IDENTITY = JobIdentity(
    cluster_id="c", era="e", job_id="j", run_id="r", first_start_ms=1, started_ms=2, trigger_seconds=10
)


def batch(number: int, read: Mapping[int, int], **fields: Any) -> dict[str, Any]:
    """A finished batch that has read so far."""
    end = {"__consumer_offsets": {str(partition): offset for partition, offset in read.items()}}
    return {
        "batchId": number,
        "batchDuration": 1_500,
        "durationMs": {"triggerExecution": 1_500},
        "numInputRows": 5,
        "sources": [
            {"endOffset": end, "numInputRows": 4},
            {"endOffset": {"group-probes": {"0": 1}}, "numInputRows": 1},
        ],
        "stateOperators": [{"numRowsTotal": 7}],
        "observedMetrics": {},
        **fields,
    }


class QueryError(Exception):
    """What pyspark raises for a query: a text, the JVM's stack trace beside it, and the cause apart from both."""

    def __init__(self, text: str, cause: Exception | None = None) -> None:
        super().__init__("the query terminated with an exception")
        self._stackTrace = f"org.apache.spark.SparkException: job aborted\n\tat x\nCaused by: {text}\n\tat y"
        self._cause = cause
