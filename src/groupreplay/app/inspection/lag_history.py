"""The rows of ``groupreplay lag``: each partition at one moment, or each topic of a group at many."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from groupreplay.app.inspection.group_lag import (
    Description,
    GroupLags,
    lag_fields,
    partitions_of,
    time_lag_text,
)
from groupreplay.app.inspection.records import rows_of_groups
from groupreplay.app.text.tables import Moment, Table
from groupreplay.codecs import OffsetCommitKey, OffsetCommitValue, decode_key, decode_value
from groupreplay.streaming.sources.recorded_ends import RecordedEnds
from groupreplay.timeline.lag import Committed, Lag, lag_at, total

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


@dataclass(slots=True)
class CommitHistory:
    """All commits of some groups: by group, topic and partition their times, and the offsets (None: removed)."""

    groups: Container[str]
    times_ms: dict[tuple[str, str, int], list[int]] = field(default_factory=dict)
    offsets: dict[tuple[str, str, int], list[int | None]] = field(default_factory=dict)
    latest_ms: int = 0

    def read(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Note the commits of a log; each partition of it in its order."""
        for whole in batches:
            batch = rows_of_groups(whole, self.groups)
            columns = (batch[name].to_pylist() for name in ("key", "value", "timestamp"))
            for key, value, at_ms in zip(*columns, strict=True):
                self.latest_ms = max(self.latest_ms, at_ms)
                named = decode_key(key or b"")
                if isinstance(named, OffsetCommitKey):
                    self._note((named.group, named.topic, named.partition), decode_value(named, value), at_ms)

    def at(self, place: tuple[str, str, int], at_ms: int) -> Committed | None:
        """The commit that counts at a moment; None: there is none."""
        number = bisect_right(self.times_ms[place], at_ms)
        offset = self.offsets[place][number - 1] if number else None
        return None if offset is None else Committed(offset, self.times_ms[place][number - 1])

    def _note(self, place: tuple[str, str, int], commit: object, at_ms: int) -> None:
        if commit is not None and not isinstance(commit, OffsetCommitValue):
            return
        times_ms = self.times_ms.setdefault(place, [])
        # A clock that was set back: what is later in the log counts.
        times_ms.append(max(at_ms, times_ms[-1]) if times_ms else at_ms)
        self.offsets.setdefault(place, []).append(None if commit is None else commit.offset)


def history_rows(
    commits: CommitHistory, ends: RecordedEnds, topics: Container[str], moments_ms: Sequence[int]
) -> Iterator[LagRow]:
    """A row for each group, topic and moment at which the group has committed offsets of the topic."""
    places: dict[tuple[str, str], list[int]] = {}
    for group_id, topic, partition in sorted(commits.times_ms):
        if topic in topics:
            places.setdefault((group_id, topic), []).append(partition)
    for (group_id, topic), partitions in places.items():
        spans = {partition: ends.spans(topic, partition) for partition in partitions}
        for at_ms in moments_ms:
            committed = {
                partition: commit
                for partition in partitions
                if (commit := commits.at((group_id, topic, partition), at_ms)) is not None
            }
            lags = [lag_at(spans[partition], commit, at_ms) for partition, commit in committed.items()]
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
