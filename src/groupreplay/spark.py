"""The events of consumer groups as a frame of Spark: ``group_events``.

The module imports no pyspark until the function is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from groupreplay.streaming.base.clock import epoch_ms
from groupreplay.streaming.base.errors import naming_extras
from groupreplay.streaming.config.retention import Brokers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Brokers", "group_events"]


@naming_extras()
def group_events(
    frame: DataFrame,
    *,
    cluster_id: str,
    topic_id: str = "0",
    late_by: str | None = None,
    brokers: Brokers | None = None,
    member_events: bool = False,
    complete_since: datetime | int | None = None,
    topic_names: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    rules: str | Path | None = None,
) -> DataFrame:
    """The events of all groups in a frame of ``__consumer_offsets`` with the columns of Spark's Kafka source.

    ``key``, ``value`` (binary), ``partition``, ``offset`` and ``timestamp`` (a timestamp, or milliseconds) are
    needed; of a ``topic`` column only ``__consumer_offsets`` is read. The result has the columns of
    ``streaming.spark.event_frame.EVENT_SCHEMA``: ``event_id``, ``time``, ``type``, ``severity``, ``severity_number``,
    ``group_id``, ``topic``, ``partition``, ``offset`` (of the record that caused the event) and ``document``, the
    CloudEvent as JSON. The same log gives the same ids as ``groupreplay run`` and ``groupreplay replay`` if
    ``cluster_id`` and ``topic_id`` are the same.

    A batch frame is a whole log: conditions are evaluated until its last record. In a streaming frame a group's time is
    that of its own records, so that an event which only time causes (a rebalance that gets stuck) comes with the next
    record of its group. ``late_by``, for example ``"1 minute"``, lets time pass for all groups with the newest record
    of the frame: no record may then be read later than this after a newer one of another partition. A stream that is
    behind must not use it, and with ``availableNow`` it needs
    ``spark.sql.streaming.noDataMicroBatches.enabled=false``.

    ``topic_id`` is the id of the offsets topic, a part of the events' ids; ``topic_names`` has names of topics by id.
    ``complete_since`` (an aware datetime, or milliseconds since 1970): no record since then is missing. ``rules`` is a
    file with rules (docs/rules.md).

    Raises:
        GroupReplayError: a column is missing or has another type, an option does not fit, or the extra spark is
            missing.
    """
    import pandas as _  # noqa: F401 -- to name the extra here, and not in a task

    from groupreplay.state import Context
    from groupreplay.streaming.config.retention import Retention, effective
    from groupreplay.streaming.config.rules_file import RulesSource
    from groupreplay.streaming.spark.event_frame import event_frame
    from groupreplay.version import __version__

    context = Context(
        cluster_id=cluster_id,
        era=topic_id,
        complete_since_ms=None if complete_since is None else epoch_ms(complete_since),
        topic_names=dict(topic_names or {}),
        member_events=member_events,
        labels=dict(labels or {}),
        release=__version__,
        policy=RulesSource(path=None if rules is None else Path(rules)).load(),
        **effective((brokers or Brokers()).flags(), Retention()).for_context(),
    )
    return event_frame(frame, context, late_by)
