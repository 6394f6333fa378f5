"""How groups use topics: who reads a topic, which groups nobody uses, and what each writes to the offsets topic."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from groupreplay.app.inspection.group_lag import Description, GroupLags, lag_fields, time_lag_text
from groupreplay.app.text.tables import Table, moment
from groupreplay.codecs.kafka_terms import GroupType
from groupreplay.state.phrases import milliseconds
from groupreplay.streaming.contract.log import numbers
from groupreplay.streaming.engine.packing.key_columns import Ints, keys_of_rows

#: Members of these own partitions of topics; those of streams groups own tasks.
_OWN_PARTITIONS: Final = frozenset({GroupType.CLASSIC, GroupType.CONSUMER, GroupType.SHARE})
#: A marker of a transaction takes one offset; more than one that no record has were removed by compaction.
_MARKER: Final = 1


def of_topics(groups: Iterable[Description], topics: Container[str]) -> list[dict[str, Any]]:
    """The groups that read these topics, with what they have of them only.

    A group reads a topic if it has a committed offset of it, or a member that owns a partition of it or is subscribed
    to it.
    """
    narrowed = []
    for group in groups:
        offsets = [offset for offset in group["offsets"] if offset["topic"] in topics]
        members = [
            {**member, "partitions": {name: own for name, own in _owned(group, member) if name in topics}}
            for member in group["members"]
        ]
        subscribed = [topic for topic in group["subscribed_topics"] or () if topic in topics]
        if offsets or subscribed or any(member["partitions"] for member in members):
            narrowed.append(
                {**group, "offsets": offsets, "members": members, "subscribed_topics": subscribed}
            )
    return narrowed


def _owned(group: Description, member: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[int]]]:
    """The partitions that a member owns, by topic; where it owns tasks, none are known."""
    if group["type"] in _OWN_PARTITIONS:
        yield from ((topic, own) for topic, own in member["partitions"].items() if own)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderRow:
    """A topic that a group reads, in ``list --topic``; times in milliseconds, lags as in ``list``.

    ``members``: of the group; ``owners``: those that own partitions of the topic (None: the records do not show it).
    ``partitions`` counts those with a committed offset.
    """

    topic: str
    group_id: str
    type: str
    state: str
    members: int
    owners: int | None
    partitions: int
    last_commit_ms: int | None
    lag: int | None
    lag_least: int | None
    lag_most: int | None
    time_lag_ms: int | None
    time_lag_least_ms: int | None
    time_lag_most_ms: int | None
    lag_unknown: int | None


def reader_rows(groups: Sequence[Description], topics: Container[str], lags: GroupLags) -> list[ReaderRow]:
    """A row for each topic and each group that reads it, by topic, then by group."""
    rows = [
        _reader(group, topic, lags) for group in groups for topic in sorted(_topics(group)) if topic in topics
    ]
    return sorted(rows, key=lambda row: (row.topic, row.group_id))


def _topics(group: Description) -> set[str]:
    owned = {topic for member in group["members"] for topic, _ in _owned(group, member)}
    return {*(offset["topic"] for offset in group["offsets"]), *owned, *(group["subscribed_topics"] or ())}


def _reader(group: Description, topic: str, lags: GroupLags) -> ReaderRow:
    (mine,) = of_topics([group], {topic})
    owners = sum(bool(member["partitions"]) for member in mine["members"])
    records, time, unknown = lags.totals(mine) if lags else (None, None, None)
    return ReaderRow(
        topic=topic,
        group_id=group["group_id"],
        type=group["type"],
        state=group["state"],
        members=len(group["members"]),
        owners=owners if group["type"] in _OWN_PARTITIONS or not group["members"] else None,
        partitions=len(mine["offsets"]),
        last_commit_ms=last_commit_ms(mine),
        **lag_fields(records, time),
        lag_unknown=unknown,
    )


def reader_table(rows: Iterable[ReaderRow], *, with_lag: bool) -> Table:
    """One row per topic and group."""
    headings = ("TOPIC", "GROUP", "TYPE", "STATE", "#MEMBERS", "#OWNERS", "#PARTITIONS", "LAST-COMMIT")
    cells = [
        (
            *(row.topic, row.group_id, row.type, row.state, row.members, row.owners, row.partitions),
            moment(row.last_commit_ms),
            *((row.lag, time_lag_text(row.time_lag_least_ms, row.time_lag_most_ms)) if with_lag else ()),
        )
        for row in rows
    ]
    return Table((*headings, *(("LAG", "TIME-LAG") if with_lag else ())), cells)


def last_commit_ms(group: Description) -> int | None:
    """The time of the newest of a group's committed offsets; None without any."""
    return max((offset["commit_timestamp_ms"] for offset in group["offsets"]), default=None)


def last_used_ms(group: Description) -> int | None:
    """When a group was last used: its last commit, or its last change of state; None: no record has a time."""
    return max(
        (at_ms for at_ms in (last_commit_ms(group), group["since_ms"]) if at_ms is not None), default=None
    )


def unused(groups: Sequence[dict[str, Any]], before_ms: int) -> list[dict[str, Any]]:
    """The groups without members that were last used before that time, the longest unused first."""
    times = {group["group_id"]: last_used_ms(group) for group in groups if not group["members"]}
    old = [
        group for group in groups if (at_ms := times.get(group["group_id"])) is not None and at_ms < before_ms
    ]
    return sorted(old, key=lambda group: times[group["group_id"]] or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusedRow:
    """A group in ``list --unused``: when it was last used, and since when it is in its state; in milliseconds."""

    group_id: str
    type: str
    state: str
    partitions: int
    last_commit_ms: int | None
    since_ms: int | None
    unused_ms: int


def unused_row(group: Description, at_ms: int) -> UnusedRow:
    """The row of a group from ``unused``."""
    return UnusedRow(
        group_id=group["group_id"],
        type=group["type"],
        state=group["state"],
        partitions=len(group["offsets"]),
        last_commit_ms=last_commit_ms(group),
        since_ms=group["since_ms"],
        unused_ms=at_ms - (last_used_ms(group) or 0),
    )


def unused_table(rows: Iterable[UnusedRow]) -> Table:
    """One row per group."""
    columns = ("GROUP", "TYPE", "STATE", "#PARTITIONS", "LAST-COMMIT", "SINCE", "UNUSED-FOR")
    cells = [
        (
            *(row.group_id, row.type, row.state, row.partitions),
            *(moment(row.last_commit_ms), moment(row.since_ms), milliseconds(row.unused_ms)),
        )
        for row in rows
    ]
    return Table(columns, cells)


#: Of a shorter time a rate is chance: a gap may be an aborted transaction of seconds ago.
_LEAST_MS: Final = 60_000


@dataclass(slots=True)
class _Tail:
    """What a partition of the log has behind its last gap: since when, and the commits of each group."""

    since_ms: int | None = None
    commits: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class CommitLoads:
    """What each group has written to a log up to ``until_ms`` (None: its end)."""

    until_ms: int | None = None
    bytes: Counter[str | None] = field(default_factory=Counter)
    commit_bytes: Counter[str | None] = field(default_factory=Counter)
    _tails: defaultdict[int, _Tail] = field(default_factory=lambda: defaultdict(_Tail))
    _last: dict[int, int] = field(default_factory=dict)
    _partition: dict[str, int] = field(default_factory=dict)

    def reading(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches; each partition in its order."""
        until_ms = self.until_ms
        for batch in batches:
            self._see(
                batch if until_ms is None else batch.filter(pc.less_equal(batch["timestamp"], until_ms))
            )
            yield batch

    def _see(self, batch: pa.RecordBatch) -> None:
        keys, row_key = keys_of_rows(batch["key"])
        names = [*keys.groups, None]
        # -1, the last of the names: of no group.
        group = keys.group[row_key]
        sizes = _lengths(batch["key"]) + _lengths(batch["value"])
        is_commit = (keys.slot[row_key] >= 0) & ~numbers(batch["value"].is_null().cast(pa.uint8())).astype(
            bool
        )
        for counter, of_rows in ((self.bytes, sizes), (self.commit_bytes, sizes * is_commit)):
            summed = np.bincount(group % len(names), of_rows, len(names)).astype(int).tolist()
            for name, size in zip(names, summed, strict=True):
                counter[name] += size
        partition = numbers(batch["partition"])
        for place in np.unique(partition).tolist():
            rows = np.flatnonzero(partition == place)
            self._partition.update(
                (keys.groups[number], place) for number in np.unique(group[rows]) if number >= 0
            )
            rows = self._behind_gaps(place, rows, batch)
            commits = np.bincount(group[rows[is_commit[rows]]], minlength=len(keys.groups))
            for number in np.flatnonzero(commits).tolist():
                self._tails[place].commits[keys.groups[number]] += int(commits[number])

    def _behind_gaps(self, place: int, rows: Ints, batch: pa.RecordBatch) -> Ints:
        """The rows of a partition behind its last gap; what was counted before that is forgotten."""
        offsets = numbers(batch["offset"])[rows]
        gaps = np.flatnonzero(np.diff(np.r_[self._last.get(place, offsets[0] - 1), offsets]) > _MARKER + 1)
        self._last[place] = int(offsets[-1])
        if len(gaps):
            self._tails[place] = _Tail()
            rows = rows[gaps[-1] :]
        tail, at_ms = self._tails[place], numbers(batch["timestamp"])[rows]
        if tail.since_ms is None and (at_ms >= 0).any():
            tail.since_ms = int(at_ms[at_ms >= 0][0])
        return rows

    def rows(self, groups: Sequence[Description], at_ms: int) -> list[LoadRow]:
        """The row of each group, that with most commits a second first; ``at_ms`` is the end of the log."""
        rows = [self._row(group, at_ms) for group in groups]
        return sorted(rows, key=lambda row: (-(row.commits_per_second or 0), -row.bytes, row.group_id))

    def _row(self, group: Description, at_ms: int) -> LoadRow:
        name = group["group_id"]
        tail = self._tails.get(self._partition.get(name, -1), _Tail())
        over_ms = None if tail.since_ms is None or at_ms <= tail.since_ms else at_ms - tail.since_ms
        rate = None
        if over_ms is not None and over_ms >= _LEAST_MS:
            rate = round(1_000 * tail.commits[name] / over_ms, 4)
        everything = self.bytes.total()
        return LoadRow(
            group_id=name,
            type=group["type"],
            state=group["state"],
            members=len(group["members"]),
            commits=tail.commits[name],
            since_ms=tail.since_ms,
            over_ms=over_ms,
            commits_per_second=rate,
            bytes=self.bytes[name],
            share=round(self.bytes[name] / everything, 6) if everything else None,
        )


def _lengths(column: pa.Array) -> Ints:
    return numbers(pc.fill_null(pc.binary_length(column), 0)).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRow:
    """What a group has written, in ``list --sort commits``.

    ``commits`` are those since ``since_ms``, the last gap of its partition of the log, for ``over_ms`` milliseconds
    (None: no record has a time); of less than a minute there is no rate. ``bytes`` of its keys and values, of all kinds
    of records that the log still has, and their ``share`` of those of all groups, from 0 to 1.
    """

    group_id: str
    type: str
    state: str
    members: int
    commits: int
    since_ms: int | None
    over_ms: int | None
    commits_per_second: float | None
    bytes: int
    share: float | None


def load_table(rows: Iterable[LoadRow]) -> Table:
    """One row per group."""
    columns = ("GROUP", "TYPE", "STATE", "#MEMBERS", "COMMITS", "OVER", "COMMITS/S", "BYTES", "SHARE")
    cells = [
        (
            *(row.group_id, row.type, row.state, row.members, row.commits),
            None if row.over_ms is None else milliseconds(row.over_ms),
            None if row.commits_per_second is None else f"{row.commits_per_second:.4g}",
            row.bytes,
            None if row.share is None else f"{100 * row.share:.1f} %",
        )
        for row in rows
    ]
    return Table(columns, cells)
