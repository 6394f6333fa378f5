"""The commits of a chunk folded into runs with NumPy.

A run is a stretch of commits of one stream (a group in a Kafka partition) without another record of that stream in
between. In a run every topic partition becomes one row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from groupreplay.state.snapshot.commit_intervals import counted, gaps_ms
from groupreplay.state.snapshot.commit_steps import STEPS, is_step
from groupreplay.state.snapshot.observations import (
    COMMITS,
    LULL_MS,
    LULLS,
    NO_EXPIRY,
    STAY_MS,
    Extent,
)
from groupreplay.streaming.engine.packing.commit_columns import CommitColumns
from groupreplay.streaming.engine.packing.key_columns import Flags, Ints, KeyColumns
from groupreplay.streaming.engine.packing.record_times import before_requests
from groupreplay.streaming.engine.wire import PackedRun

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class ChunkRows:
    """A chunk by row, in log order inside each Kafka partition.

    ``stream`` and ``slot`` are -1 where there is none; ``cuts`` marks the rows that end a run of their stream.
    """

    offset: Ints
    timestamp_ms: Ints
    stream: Ints
    slot: Ints
    cuts: Flags


class Run(NamedTuple):
    """One run: its stream and the packed form."""

    stream: int
    packed: PackedRun


class _SortedCommits(NamedTuple):
    """The commits sorted by run, by slot and in log order: each stretch of one run and slot becomes a folded row.

    By commit: ``row`` is its row in the chunk, ``stretch`` its stretch, ``is_later`` whether an earlier commit is in
    the same stretch; ``offset`` and ``committed_ms`` are its own; ``gap_ms`` is the time before each but the first.
    ``moves`` are the commits with another offset than the one before in their stretch. By stretch: ``begins`` is its
    first commit, ``sizes`` the number of its commits, ``last_row`` the row in the chunk of its last commit; ``slot``
    and ``run`` (dense and rising) are those of all its commits. ``run_begins`` has the first stretch of each run.
    """

    row: Ints
    stretch: Ints
    is_later: Flags
    offset: Ints
    committed_ms: Ints
    gap_ms: Ints
    moves: Ints
    begins: Ints
    sizes: Ints
    last_row: Ints
    slot: Ints
    run: Ints
    run_begins: Ints


class _RunTopics(NamedTuple):
    """The topic tables of all runs, concatenated; the table of run *i* starts at ``begins[i]``.

    ``topic`` has the entries; by stretch, ``entry`` is its entry and ``place`` the entry counted from the start of
    the table of its run.
    """

    topic: Ints
    begins: Ints
    entry: Ints
    place: Ints


def fold(commits: CommitColumns, rows: ChunkRows, keys: KeyColumns) -> list[Run]:
    """The runs of a chunk; those of one stream in the order of the log."""
    if not commits.is_commit.any():
        return []
    ordered = _sorted_commits(commits, rows, len(keys.slot_topic))
    ends = _stay_ends(ordered, rows.timestamp_ms[ordered.row])
    if len(ends):
        among = np.flatnonzero(commits.is_commit)
        stays = before_requests(ordered.row[ends], among, rows.stream, rows.timestamp_ms)
        rows = replace(rows, cuts=rows.cuts | stays)
        ordered = _sorted_commits(commits, rows, len(keys.slot_topic))
    topics = _run_topics(keys.slot_topic[ordered.slot], ordered, len(keys.topics))
    names = [keys.topics[topic] for topic in topics.topic.tolist()]
    # Item i of each column belongs to run i; the columns of ``packed`` are the fields of PackedRun.
    stream = rows.stream[ordered.row[ordered.begins[ordered.run_begins]]]
    packed = map(
        PackedRun,
        _parts(names, topics.begins),
        _packed(_folded_rows(commits, rows, keys, ordered, topics), ordered.run_begins),
        _extents(commits, rows, ordered),
        _steps(commits, rows, ordered),
        _metadata(commits, ordered),
        _topic_ids(commits, ordered, topics),
        _rhythm(rows, ordered),
        _lulls(rows, ordered),
    )
    return list(map(Run, stream.tolist(), packed))


def _sorted_commits(commits: CommitColumns, rows: ChunkRows, slots: int) -> _SortedCommits:
    row, place = _sorted_rows(commits.is_commit, rows, slots)
    is_later = np.zeros(len(row), bool)
    np.equal(place[1:], place[:-1], out=is_later[1:])
    begins = np.flatnonzero(~is_later)
    offset, committed_ms = commits.offset[row], commits.commit_timestamp_ms[row]
    moves = np.flatnonzero(offset[1:] != offset[:-1]) + 1
    sizes = np.diff(begins, append=len(row))
    run, slot = np.divmod(place[begins], slots)
    is_next = np.r_[False, run[1:] != run[:-1]]
    return _SortedCommits(
        row=row,
        stretch=np.repeat(np.arange(len(begins)), sizes),
        is_later=is_later,
        offset=offset,
        committed_ms=committed_ms,
        gap_ms=gaps_ms(committed_ms[:-1], committed_ms[1:]),
        moves=moves[is_later[moves]],
        begins=begins,
        sizes=sizes,
        last_row=row[begins + sizes - 1],
        slot=slot,
        run=np.cumsum(is_next),
        run_begins=np.r_[0, np.flatnonzero(is_next)],
    )


def _sorted_rows(is_commit: Flags, rows: ChunkRows, slots: int) -> tuple[Ints, Ints]:
    """(the rows of the commits by run, by slot and in log order; a number for run and slot of each)."""
    chosen, count = np.flatnonzero(is_commit), len(is_commit)
    run = rows.stream[chosen]
    cuts = np.flatnonzero(rows.cuts)
    if len(cuts):
        # A number that rises with every stream and with every cut inside one.
        run = run + np.searchsorted(np.sort(rows.stream[cuts] * count + cuts), run * count + chosen)
    # Run, slot and row in one number: sorting these numbers is much faster than sorting rows by two keys.
    bits = count.bit_length()
    sorted_ = (run * slots + rows.slot[chosen]) << bits | chosen
    sorted_.sort()
    return sorted_ & ((1 << bits) - 1), sorted_ >> bits


def _run_topics(topic: Ints, ordered: _SortedCommits, topics: int) -> _RunTopics:
    pairs, entry = np.unique(ordered.run * topics + topic, return_inverse=True)
    begins = np.searchsorted(pairs // topics, np.arange(len(ordered.run_begins)))
    return _RunTopics(pairs % topics, begins, entry, entry - begins[ordered.run])


def _folded_rows(
    commits: CommitColumns, rows: ChunkRows, keys: KeyColumns, ordered: _SortedCommits, topics: _RunTopics
) -> npt.NDArray[np.void]:
    """One row for each topic partition of a run."""
    first, last = ordered.row[ordered.begins], ordered.last_row
    columns = {
        "topic": topics.place,
        "partition": keys.slot_partition[ordered.slot],
        "count": ordered.sizes,
        "offset": commits.offset[last],
        "first_offset": commits.offset[first],
        "leader_epoch": commits.leader_epoch[last],
        "first_leader_epoch": commits.leader_epoch[first],
        "expire_timestamp_ms": commits.expire_timestamp_ms[last],
        "commit_timestamp_ms": commits.commit_timestamp_ms[last],
        "first_commit_timestamp_ms": commits.commit_timestamp_ms[first],
        "changed_ms": _of_moves(ordered, ordered.moves, ordered.committed_ms),
        "moved_ms": _of_moves(ordered, ordered.moves[::-1], rows.timestamp_ms[ordered.row]),
        "log_offset": rows.offset[last],
        "first_log_offset": rows.offset[first],
        "timestamp_ms": rows.timestamp_ms[last],
        "first_timestamp_ms": rows.timestamp_ms[first],
    }
    folded = np.zeros(len(first), COMMITS)
    for name in COMMITS.names or ():
        folded[name] = columns[name]
    return folded


def _extents(commits: CommitColumns, rows: ChunkRows, ordered: _SortedCommits) -> list[Extent]:
    """The extent of each run."""
    # In a chunk the rows of a stream are in the order of the log.
    first = np.minimum.reduceat(ordered.row[ordered.begins], ordered.run_begins)
    last = np.maximum.reduceat(ordered.last_row, ordered.run_begins)
    has_expiry = commits.expire_timestamp_ms[ordered.last_row] != NO_EXPIRY
    columns = (
        rows.offset[first],
        rows.timestamp_ms[first],
        rows.offset[last],
        rows.timestamp_ms[last],
        np.add.reduceat(ordered.sizes, ordered.run_begins),
        np.logical_or.reduceat(has_expiry, ordered.run_begins),
    )
    return list(map(Extent, *(column.tolist() for column in columns)))


def _of_moves(ordered: _SortedCommits, moves: Ints, times_ms: Ints) -> Ints:
    """For each stretch the time of its last one of these moves, else -1."""
    last = np.full(len(ordered.begins), -1, np.int64)
    # Of several assignments to one place NumPy keeps the last.
    last[ordered.stretch[moves]] = moves
    return np.where(last < 0, -1, times_ms[last])


def _stay_ends(ordered: _SortedCommits, times_ms: Ints) -> Ints:
    """The moves of offsets that had stayed for ``STAY_MS`` in their stretch."""
    moves = ordered.moves
    if not len(moves) or int(times_ms.max()) - int(times_ms.min()) < STAY_MS:
        return moves[:0]
    since: Ints = np.maximum(np.r_[0, moves[:-1]], ordered.begins[ordered.stretch[moves]])
    return moves[times_ms[moves] - times_ms[since] >= STAY_MS]


def _lulls(rows: ChunkRows, ordered: _SortedCommits) -> list[bytes]:
    """Rows of LULLS by run."""
    at = np.flatnonzero(ordered.is_later[1:] & (ordered.gap_ms >= LULL_MS)) + 1
    stretch = ordered.stretch[at]
    lulls = np.zeros(len(at), LULLS)
    lulls["row"] = stretch - ordered.run_begins[ordered.run[stretch]]
    lulls["before_ms"] = ordered.committed_ms[at - 1]
    lulls["after_ms"] = rows.timestamp_ms[ordered.row[at]]
    return _packed(lulls, np.searchsorted(stretch, ordered.run_begins))


def _rhythm(rows: ChunkRows, ordered: _SortedCommits) -> list[bytes]:
    """Rows of RHYTHM by run: the intervals before all commits but the first of each stretch."""
    later = ordered.is_later[1:]
    run, rhythm = counted(
        np.repeat(ordered.run, ordered.sizes - 1),
        rows.timestamp_ms[ordered.row[1:][later]],
        ordered.gap_ms[later],
        (ordered.offset[1:] == ordered.offset[:-1])[later],
    )
    return _packed(rhythm, np.searchsorted(run, np.arange(len(ordered.run_begins))))


def _steps(commits: CommitColumns, rows: ChunkRows, ordered: _SortedCommits) -> list[bytes]:
    """Rows of STEPS by run."""
    offset, epoch = ordered.offset, commits.leader_epoch[ordered.row]
    found = is_step((offset[:-1], offset[1:]), (epoch[:-1], epoch[1:]), ordered.gap_ms)
    at = np.flatnonzero(ordered.is_later[1:] & found) + 1
    stretch = ordered.stretch[at]
    steps = np.zeros(len(at), STEPS)
    steps["old_offset"], steps["new_offset"] = offset[at - 1], offset[at]
    steps["old_leader_epoch"], steps["leader_epoch"] = epoch[at - 1], epoch[at]
    steps["log_offset"] = rows.offset[ordered.row[at]]
    steps["timestamp_ms"] = rows.timestamp_ms[ordered.row[at]]
    steps["row"] = stretch - ordered.run_begins[ordered.run[stretch]]
    return _packed(steps, np.searchsorted(stretch, ordered.run_begins))


def _topic_ids(commits: CommitColumns, ordered: _SortedCommits, topics: _RunTopics) -> list[dict[int, bytes]]:
    """For each run the ids of its topics by place in its table: the id in the last commit that has one."""
    with_id = np.flatnonzero((commits.topic_id_at >= 0)[ordered.row])
    # Inside a stretch the commits are in log order, and NumPy keeps the last assignment.
    of_stretch = np.full(len(ordered.begins), -1, np.int64)
    of_stretch[ordered.stretch[with_id]] = ordered.row[with_id]
    last = np.full(len(topics.topic), -1, np.int64)
    np.maximum.at(last, topics.entry, of_stretch)
    return [
        {place: commits.topic_id(row) for place, row in enumerate(table) if row >= 0}
        for table in _parts(last.tolist(), topics.begins)
    ]


def _metadata(commits: CommitColumns, ordered: _SortedCommits) -> list[dict[int, str]]:
    """For each run the metadata strings that are not empty, by row of the run."""
    metadata: list[dict[int, str]] = [{} for _ in ordered.run_begins]
    filled = np.flatnonzero(commits.metadata_length[ordered.last_row] > 0)
    run = ordered.run[filled]
    columns = (run, filled - ordered.run_begins[run], ordered.last_row[filled])
    for of_run, place, row in zip(*(column.tolist() for column in columns), strict=True):
        metadata[of_run][place] = commits.metadata(row)
    return metadata


def _parts(values: list[_Value], begins: Ints) -> list[list[_Value]]:
    """The values of each run; those of run *i* start at ``begins[i]``."""
    return [values[begin:end] for begin, end in pairwise([*begins.tolist(), len(values)])]


def _packed(whole: npt.NDArray[np.void], begins: Ints) -> list[bytes]:
    """The same for an array: the bytes of each part."""
    size, data = whole.itemsize, whole.tobytes()
    return [data[begin:end] for begin, end in pairwise([*(begins * size).tolist(), len(data)])]
