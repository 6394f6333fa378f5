"""The rows of ``groupreplay lag``: each partition at one moment, or each topic of a group at many."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from groupreplay.app.inspection.group_lag import (
    Description,
    GroupLags,
    lag_fields,
    partitions_of,
    time_lag_text,
)
from groupreplay.app.text.tables import Moment, Table
from groupreplay.streaming.sources.recorded_ends import RecordedEnds
from groupreplay.timeline.commit_rates import CommitLog, CommittedOffsets, committed_offsets
from groupreplay.timeline.lag import EndSpan, Lag, lag_at, total

#: Steps of a history, unless a length was chosen.
_STEPS: Final = 30
_SHORTEST_STEP_MS: Final = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LagRow:
    """The lag at a moment of a partition, or (``partition`` None) of all partitions of the topic with a commit.

    The truth is between ``least`` and ``most``; None: not known. ``lag_unknown`` counts partitions of unknown lag.
    """

    at_ms: int
    group_id: str
    topic: str
    partition: int | None
    offset: int | None
    log_end_offset: int | None
    lag: int | None
    lag_least: int | None
    lag_most: int | None
    time_lag_ms: int | None
    time_lag_least_ms: int | None
    time_lag_most_ms: int | None
    lag_unknown: int
    lag_notes: tuple[str, ...]


def current_rows(groups: Sequence[Description], lags: GroupLags, topics: Container[str]) -> list[LagRow]:
    """A row for each partition with a committed offset or an owner, of these topics; by group, topic and partition."""
    rows = []
    for group in groups:
        committed = {(offset["topic"], offset["partition"]): offset for offset in group["offsets"]}
        for topic, partition in sorted(set(partitions_of([group]))):
            if topic in topics:
                offset = committed.get((topic, partition))
                lag = lags.of(topic, partition, offset)
                number = None if offset is None else offset["offset"]
                rows.append(_row(lags.at_ms, group["group_id"], topic, [lag], partition, number, lag.end))
    return rows


def history_rows(
    logs: Mapping[str, CommitLog], ends: RecordedEnds, topics: Container[str], moments_ms: Sequence[int]
) -> Iterator[LagRow]:
    """A row for each group, topic and moment at which the group has committed offsets of the topic.

    ``logs``: all commits by group.
    """
    for group_id in sorted(logs):
        of_topics: dict[str, list[tuple[CommittedOffsets, Sequence[EndSpan]]]] = {}
        for (topic, partition), commits in sorted(committed_offsets(logs[group_id]), key=itemgetter(0)):
            if topic in topics:
                of_topics.setdefault(topic, []).append((commits, ends.spans(topic, partition)))
        for topic, partitions in of_topics.items():
            for at_ms in moments_ms:
                committed = ((commits.at(at_ms), spans) for commits, spans in partitions)
                lags = [lag_at(spans, commit, at_ms) for commit, spans in committed if commit is not None]
                if lags:
                    yield _row(at_ms, group_id, topic, lags)


def moments(since_ms: int, until_ms: int, step_ms: int | None) -> list[int]:
    """The moments of a history, the last one included; without a step about thirty."""
    step = step_ms or max(_SHORTEST_STEP_MS, (until_ms - since_ms) // _STEPS)
    return [*range(since_ms, until_ms, step), until_ms]


def _row(
    at_ms: int,
    group_id: str,
    topic: str,
    lags: Sequence[Lag],
    partition: int | None = None,
    offset: int | None = None,
    end: int | None = None,
) -> LagRow:
    records, time, unknown = total(lags)
    return LagRow(
        at_ms=at_ms,
        group_id=group_id,
        topic=topic,
        partition=partition,
        offset=offset,
        log_end_offset=end,
        **lag_fields(records, time),
        lag_unknown=unknown,
        lag_notes=tuple(dict.fromkeys(note for item in lags for note in item.notes)),
    )


def current_table(rows: Sequence[LagRow]) -> Table:
    """Kafka's columns of offsets and lag, then the time, and what else is to be known."""
    headings = (
        "GROUP",
        "TOPIC",
        "PARTITION",
        "CURRENT-OFFSET",
        "LOG-END-OFFSET",
        "LAG",
        "TIME-LAG",
        "LAG-NOTES",
    )
    cells = [
        (
            *(row.group_id, row.topic, row.partition, row.offset, row.log_end_offset, row.lag),
            *(time_lag_text(row.time_lag_least_ms, row.time_lag_most_ms), "; ".join(row.lag_notes)),
        )
        for row in rows
    ]
    return Table(headings, cells)


def history_table(rows: Sequence[LagRow]) -> Table:
    """A line for each moment; between LAG-LEAST and LAG-MOST is the truth."""
    headings = ("TIME", "GROUP", "TOPIC", "LAG", "LAG-LEAST", "LAG-MOST", "TIME-LAG", "LAG-NOTES")
    cells = [
        (
            *(Moment(row.at_ms), row.group_id, row.topic, row.lag, row.lag_least, row.lag_most),
            *(time_lag_text(row.time_lag_least_ms, row.time_lag_most_ms), "; ".join(row.lag_notes)),
        )
        for row in rows
    ]
    return Table(headings, cells)
