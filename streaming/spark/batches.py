"""The finished batches of a query, as Spark itself tells of them.

Knows how to ask the JVM for them at little cost; must not know what is read from them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


def batches_after(query: StreamingQuery, known: int | None) -> list[Mapping[str, Any]]:
    """Spark's JSON of the batches behind the one with this number, as far as Spark remembers them.

    Earlier ones may be among them; ``known`` None asks for the last alone.
    """
    # As text: PySpark itself asks the JVM for each of some two hundred fields, hundreds of milliseconds of it.
    asked: Any = query._jsq
    last = asked.lastProgress()
    if last is None:
        return []
    batch = json.loads(last.json())
    if known is None or batch["batchId"] <= known + 1:
        return [batch]
    return [json.loads(one.json()) for one in asked.recentProgress()]
