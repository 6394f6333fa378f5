"""The samples of lag, from what was measured last."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from groupreplay.app.exporter.feed import Limits
from groupreplay.app.exporter.lag_watch import MeasuredLags, MeasuredPartition
from groupreplay.app.exporter.metric_catalog import PREFIX_GROUP, Sheet
from groupreplay.app.text.times import duration_ms
from groupreplay.streaming.sinks.topics_snapshot import TopicsSnapshot

#: The label of the rules that has the longest time lag of a group.
OBJECTIVE: Final = "lag_objective"


def measure_lags(
    sheet: Sheet, snapshot: TopicsSnapshot, lags: MeasuredLags, now_ms: int, limits: Limits
) -> None:
    """The lag of the groups that have documents; of others, and of ends that are too old, nothing is known."""
    cluster = "" if snapshot.job is None else snapshot.job.cluster_id
    sheet.add("groupreplay_ends_timestamp_seconds", lags.answered_ms / 1000, cluster=cluster)
    for group in snapshot.groups.values():
        place = {"cluster": group.cluster_id, "consumergroup": group.label}
        if (objective_ms := _objective_ms(group.labels.get(OBJECTIVE))) is not None:
            sheet.add("groupreplay_group_lag_objective_seconds", objective_ms / 1000, **place)
        partitions = lags.groups.get(group.label, ()) if lags.is_fresh(now_ms) else ()
        for topic, of_topic in groupby(partitions, key=lambda each: each.topic):
            measured = list(of_topic)
            labels = {**place, "topic": topic}
            _own_names(sheet, measured, labels, by_partition=limits.by_partition)
            if limits.kafka_exporter_names:
                _kafka_exporter_names(sheet, measured, labels)


def _own_names(
    sheet: Sheet, measured: Sequence[MeasuredPartition], labels: dict[str, str], *, by_partition: bool
) -> None:
    prefix = "groupreplay_group_"
    parts = [[each] for each in measured] if by_partition else [measured]
    for part in parts:
        named = {**labels, "partition": str(part[0].partition)} if by_partition else labels
        sheet.add(f"{prefix}committed_offset", sum(each.offset for each in part), **named)
        records = [each.lag.records.estimate for each in part if each.lag.records is not None]
        times_ms = [each.lag.time_ms.estimate for each in part if each.lag.time_ms is not None]
        sheet.add(f"{prefix}lag_unknown_partitions", len(part) - len(records), **named)
        if records:
            sheet.add(f"{prefix}lag", sum(records), **named)
        if times_ms:
            sheet.add(f"{prefix}lag_seconds", max(times_ms) / 1000, **named)


def _kafka_exporter_names(
    sheet: Sheet, measured: Sequence[MeasuredPartition], labels: dict[str, str]
) -> None:
    known = [(each, each.lag.records.estimate) for each in measured if each.lag.records is not None]
    for each in measured:
        number = str(each.partition)
        sheet.add(f"{PREFIX_GROUP}current_offset", each.offset, **labels, partition=number)
    sheet.add(f"{PREFIX_GROUP}current_offset_sum", sum(each.offset for each in measured), **labels)
    for each, records in known:
        sheet.add(f"{PREFIX_GROUP}lag", records, **labels, partition=str(each.partition))
    if known:
        sheet.add(f"{PREFIX_GROUP}lag_sum", sum(records for _, records in known), **labels)


def _objective_ms(text: str | None) -> int | None:
    """A duration such as ``5m``; None: there is none, or it is no duration."""
    try:
        return None if text is None else duration_ms(text)
    except ValueError:
        return None
