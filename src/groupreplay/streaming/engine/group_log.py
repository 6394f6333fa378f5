"""Keeps the records and commits of some groups while the rows of a log pass by."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from groupreplay.codecs import Malformed, OffsetCommitValue, Skipped, decode_value
from groupreplay.state.plausible_times import LATEST_MS
from groupreplay.state.snapshot.observations import GroupRecord
from groupreplay.streaming.contract.log import numbers
from groupreplay.streaming.engine.packing.key_columns import Flags, Ints, KeyColumns, keys_of_rows
from groupreplay.timeline.commit_rates import CommitLog

#: Successive offsets without a record that the marker of a transaction explains.
_MARKER: Final = 1
#: The end of the offset in the value of a commit.
_OFFSET_END: Final = 10
#: Gaps that are closer are one: no bucket of commits is shorter.
_GAP_APART_MS: Final = 1_000


class LogGaps:
    """Times between two records of a partition of the log, with offsets between them that no record has.

    One missing offset is none: markers of transactions take single ones. Before its first record a log lacks none if
    that has the offset 0.
    """

    def __init__(self) -> None:
        self._last: dict[int, tuple[int, int]] = {}
        self._spans: dict[int, list[tuple[int, int]]] = defaultdict(list)

    def see(self, batch: pa.RecordBatch) -> None:
        """The next records of the log, of every group; columns of ``ROW_SCHEMA``."""
        at_ms = numbers(batch["timestamp"])
        usable = (at_ms >= 0) & (at_ms <= LATEST_MS)
        partition, offset = numbers(batch["partition"])[usable], numbers(batch["offset"])[usable]
        for number in np.unique(partition).tolist():
            mine = partition == number
            self._add(number, offset[mine], at_ms[usable][mine])

    def _add(self, partition: int, offset: Ints, at_ms: Ints) -> None:
        last = self._last.get(partition, (-2, 0))
        offsets, times = np.r_[last[0], offset], np.r_[last[1], at_ms]
        spans = self._spans[partition]
        for at in np.flatnonzero(np.diff(offsets) > _MARKER + 1).tolist():
            since_ms, until_ms = sorted((int(times[at]), int(times[at + 1])))
            if spans and since_ms - spans[-1][1] <= _GAP_APART_MS:
                spans[-1] = min(since_ms, spans[-1][0]), max(until_ms, spans[-1][1])
            else:
                spans.append((since_ms, until_ms))
        self._last[partition] = int(offsets[-1]), int(times[-1])

    def of(self, partition: int) -> tuple[tuple[int, int], ...]:
        """Those of one partition, in order."""
        return tuple(sorted(self._spans.get(partition, ())))


@dataclass(slots=True)
class GroupLog:
    """The records of one group in log order: all but its commits, and some of those.

    The states need the first commit after each other record, and the first one of a topic has the topic's id.

    ``undated`` counts records whose time cannot be; they are in neither list. ``gaps`` are those of all partitions.
    """

    gaps: LogGaps = field(default_factory=LogGaps)
    records: list[GroupRecord] = field(default_factory=list)
    undated: int = 0
    #: Commits with the offset of the one before, as far as both were in one batch.
    repeats: int = 0
    _commits: list[tuple[list[tuple[str, int]], Ints, Ints, Ints]] = field(default_factory=list)
    _after_record: bool = True

    def add_commits(self, places: list[tuple[str, int]], place: Ints, at_ms: Ints, offset: Ints) -> None:
        """Commits of these places (topic, partition), whose indexes ``place`` has; offset -1: a tombstone."""
        self._commits.append((places, place, at_ms, offset))

    def wants_commit(self) -> bool:
        """Whether the next commit is the first one after another record."""
        return self._after_record

    def add(self, record: GroupRecord) -> None:
        """The next record."""
        self.records.append(record)
        self._after_record = not isinstance(record.value, OffsetCommitValue)

    def commits(self) -> CommitLog:
        """All commits."""
        numbers_of: dict[tuple[str, int], int] = {}
        parts = []
        for places, place, _, _ in self._commits:
            renumbered = np.array(
                [numbers_of.setdefault(topic_partition, len(numbers_of)) for topic_partition in places],
                np.int64,
            )
            parts.append(renumbered[place])
        columns = [parts, [part[2] for part in self._commits], [part[3] for part in self._commits]]
        place, at_ms, offset = (np.concatenate([np.zeros(0, np.int64), *column]) for column in columns)
        is_commit = offset >= 0
        return CommitLog(
            places=tuple(numbers_of),
            place=place[is_commit],
            at_ms=at_ms[is_commit],
            moves=(place, at_ms, offset),
            gaps=self.gaps.of(self.records[0].partition) if self.records else (),
            repeats=self.repeats,
        )


class GroupLogs:
    """The logs of the groups that ``groups`` holds (None: of all), by id; ``reading`` passes all batches on.

    ``gaps`` have seen the log already where ``reading`` gets a part of its records.
    """

    def __init__(
        self, groups: Container[str] | None, until_ms: int | None = None, gaps: LogGaps | None = None
    ) -> None:
        self.gaps = LogGaps() if gaps is None else gaps
        self.logs: dict[str, GroupLog] = defaultdict(lambda: GroupLog(self.gaps))
        self._is_whole = gaps is None
        self._groups = groups
        self._until_ms = LATEST_MS if until_ms is None else until_ms

    def reading(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches, with the columns of ``ROW_SCHEMA``."""
        for batch in batches:
            if self._is_whole:
                self.gaps.see(batch)
            self._read(batch)
            yield batch

    def _read(self, batch: pa.RecordBatch) -> None:
        keys, row_key = keys_of_rows(batch["key"])
        only = self._groups
        wanted = np.array([only is None or name in only for name in keys.groups] + [False], bool)
        rows = np.flatnonzero(wanted[keys.group[row_key]])
        if len(rows):
            self._read_rows(batch.take(pa.array(rows)), keys, row_key[rows])

    def _read_rows(self, batch: pa.RecordBatch, keys: KeyColumns, row_key: Ints) -> None:
        """The rows of wanted groups."""
        is_commit = (keys.slot[row_key] >= 0) & numbers(batch["value"].is_valid().cast(pa.uint8())).astype(
            bool
        )
        at_ms = numbers(batch["timestamp"])
        usable = (at_ms >= 0) & (at_ms <= min(self._until_ms, LATEST_MS))
        group = keys.group[row_key]
        # Keys of other records have the slot -1, and no topic.
        topic = np.r_[keys.slot_topic, -1][keys.slot[row_key]]
        for number in np.unique(group).tolist():
            log, mine = self.logs[keys.groups[number]], group == number
            log.undated += int(((at_ms < 0) | (at_ms > LATEST_MS))[mine].sum())
            commits = np.flatnonzero(mine & is_commit & usable)
            moves = np.flatnonzero(mine & (keys.slot[row_key] >= 0) & usable)
            _add_commits(
                log, keys, row_key[moves], at_ms[moves], _offsets(batch["value"].take(pa.array(moves)))
            )
            log.repeats += _repeats(row_key[commits], batch["value"].take(pa.array(commits)))
            chosen = _one_by_one(mine & usable, is_commit, topic, log)
            _add_records(log, batch, keys, row_key, chosen)


_RECORD: Final = ("partition", "offset", "timestamp", "value")


def _offsets(values: pa.Array) -> Ints:
    """The committed offsets, bytes 2 to 10 of each version; -1 for a tombstone, and what has none."""
    offsets = numbers(pc.fill_null(pc.binary_length(values), 0)).astype(np.int64) >= _OFFSET_END
    committed = np.full(len(values), -1, np.int64)
    slices = pc.binary_slice(values.filter(pa.array(offsets)), 2, _OFFSET_END)
    data = b"".join(slices.to_pylist())
    committed[offsets] = np.frombuffer(data, ">i8")
    return committed


def _add_commits(log: GroupLog, keys: KeyColumns, row_key: Ints, at_ms: Ints, offset: Ints) -> None:
    """Commits and tombstones by topic partition."""
    if not len(row_key):
        return
    slots, place = np.unique(keys.slot[row_key], return_inverse=True)
    topics, partitions = keys.slot_topic[slots].tolist(), keys.slot_partition[slots].tolist()
    places = [(keys.topics[topic], partition) for topic, partition in zip(topics, partitions, strict=True)]
    log.add_commits(places, place, at_ms.copy(), offset)


def _repeats(row_key: Ints, values: pa.Array) -> int:
    """How many commits have the offset of the one before of their partition: bytes 2 to 10 of each version."""
    offsets = numbers(pc.binary_slice(values, 2, 10).dictionary_encode().indices)
    order = np.argsort(row_key, kind="stable")
    return int(((np.diff(row_key[order]) == 0) & (np.diff(offsets[order]) == 0)).sum())


def _one_by_one(mine: Flags, is_commit: Flags, topic: Ints, log: GroupLog) -> list[int]:
    """The rows to decode one by one: all that are no commit, the first commit after each of them and of each topic."""
    others = np.flatnonzero(mine & ~is_commit)
    commits = np.flatnonzero(mine & is_commit)
    after = np.searchsorted(commits, others, side="right")
    firsts = {int(commits[at]) for at in after.tolist() if at < len(commits)}
    if log.wants_commit() and len(commits):
        firsts.add(int(commits[0]))
    of_topics = commits[np.unique(topic[commits], return_index=True)[1]]
    return sorted({*others.tolist(), *firsts, *of_topics.tolist()})


def _add_records(
    log: GroupLog, batch: pa.RecordBatch, keys: KeyColumns, row_key: Ints, rows: list[int]
) -> None:
    columns = (batch[name].take(pa.array(rows, pa.int64())) for name in _RECORD)
    for row, *cells in zip(rows, *(column.to_pylist() for column in columns), strict=True):
        key, (partition, offset, at_ms, value_bytes) = keys.key(int(row_key[row])), cells
        if isinstance(key, Skipped | Malformed):
            continue
        value = decode_value(key, value_bytes)
        if isinstance(value, Skipped | Malformed):
            continue
        log.add(GroupRecord(partition=partition, offset=offset, timestamp_ms=at_ms, key=key, value=value))
