"""The finished batches of a query, read from the JVM as text.

PySpark's own way asks the JVM for some two hundred fields one by one: hundreds of milliseconds a batch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class JavaProgress:
    """``BatchProgress`` from the query object of the JVM."""

    def after(self, query: StreamingQuery, known: int | None) -> list[Mapping[str, Any]]:
        """See ``BatchProgress.after``."""
        java_query: Any = query._jsq
        last = java_query.lastProgress()
        if last is None:
            return []
        batch = json.loads(last.json())
        if known is None or batch["batchId"] <= known + 1:
            return [batch]
        return [json.loads(one.json()) for one in java_query.recentProgress()]

    def close(self) -> None:
        """Does nothing: the JVM forgets a query with its session."""
