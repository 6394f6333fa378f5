"""The finished batches of a query, read from the JVM at little cost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


def batches_after(query: StreamingQuery, known: int | None) -> list[Mapping[str, Any]]:
    """Spark's JSON of the batches after the one with this number, as far as Spark remembers them.

    Earlier ones may be among them; ``known`` None selects the last batch only.
    """
    # As text: PySpark's own way asks the JVM for some two hundred fields one by one, hundreds of milliseconds in all.
    java_query: Any = query._jsq
    last = java_query.lastProgress()
    if last is None:
        return []
    batch = json.loads(last.json())
    if known is None or batch["batchId"] <= known + 1:
        return [batch]
    return [json.loads(one.json()) for one in java_query.recentProgress()]
