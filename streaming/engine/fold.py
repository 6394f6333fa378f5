"""The commits of a chunk folded into runs, in NumPy: what makes a million commits cheap.

Knows arrays: a run is a stretch of commits of one stream (a group in a Kafka partition) with no other record
of that stream between; inside a run each topic partition becomes one row. Must not know bytes or groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from groupreplay.state.snapshot.commit_intervals import counted, gaps_ms
from groupreplay.state.snapshot.observations import COMMITS, DECREASES, Extent
from groupreplay.streaming.engine.binary_columns import Flags, Ints
from groupreplay.streaming.engine.commit_columns import CommitColumns
from groupreplay.streaming.engine.key_columns import KeyColumns
from groupreplay.streaming.engine.wire import PackedRun


@dataclass(frozen=True, slots=True)
class ChunkRows:
    """A chunk by row, in log order inside each Kafka partition.

    ``stream`` and ``slot`` are -1 where there is none; ``cuts`` are the rows that end a run of their stream.
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


class _Sorted(NamedTuple):
    """The commits sorted by run, by slot and in log order, which makes a stretch of each folded row.

    By commit: ``row`` is its row in the chunk, ``stretch`` its stretch, ``is_later`` says that it is not the
    first one there. By stretch: ``begins`` is its first commit, ``sizes`` how many it has, ``slot`` and ``run``
    (dense and rising) what they have in common. ``run_begins`` are the first stretches of the runs.
    """

    row: Ints
    stretch: Ints
    is_later: Flags
    begins: Ints
    sizes: Ints
    slot: Ints
    run: Ints
    run_begins: Ints

    @property
    def last_row(self) -> Ints:
        """The row of the chunk with the last commit of each stretch."""
        rows: Ints = self.row[self.begins + self.sizes - 1]
        return rows


def fold(commits: CommitColumns, rows: ChunkRows, keys: KeyColumns) -> list[Run]:
    """The runs of a chunk; those of one stream in the order of the log."""
    by_run = _by_run(rows, commits.is_commit, len(keys.slot_topic))
    if by_run is None:
        return []
    offset, committed_ms = commits.offset[by_run.row], commits.commit_timestamp_ms[by_run.row]
    topics = _run_topics(keys.slot_topic[by_run.slot], by_run, len(keys.topics))
    folded = _folded(commits, rows, by_run)
    folded["topic"], folded["partition"] = topics.place, keys.slot_partition[by_run.slot]
    folded["changed_ms"] = _changed_ms(by_run, offset, committed_ms)
    return _runs(
        commits,
        by_run,
        rows.stream[by_run.row[by_run.begins[by_run.run_begins]]],
        folded,
        _extents(rows, by_run, folded),
        _decreases(rows, by_run, offset),
        _rhythm(rows, by_run, offset, committed_ms),
        topics,
        keys.topics,
    )


def _by_run(rows: ChunkRows, is_commit: Flags, slots: int) -> _Sorted | None:
    """None when there is no commit."""
    commits = np.flatnonzero(is_commit)
    if not len(commits):
        return None
    run, count = rows.stream[commits], len(is_commit)
    cuts = np.flatnonzero(rows.cuts)
    if len(cuts):
        # A number that rises with every stream and with every cut inside one.
        run = run + np.searchsorted(np.sort(rows.stream[cuts] * count + cuts), run * count + commits)
    # Run, slot and row in one number: to sort those is much quicker than to sort rows by two keys.
    bits = count.bit_length()
    sorted_ = (run * slots + rows.slot[commits]) << bits | commits
    sorted_.sort()
    row, place = sorted_ & ((1 << bits) - 1), sorted_ >> bits
    is_later = np.zeros(len(row), bool)
    np.equal(place[1:], place[:-1], out=is_later[1:])
    begins = np.flatnonzero(~is_later)
    run, slot = np.divmod(place[begins], slots)
    is_next = np.r_[False, run[1:] != run[:-1]]
    run_begins = np.r_[0, np.flatnonzero(is_next)]
    sizes = np.diff(begins, append=len(row))
    stretch = np.repeat(np.arange(len(begins)), sizes)
    return _Sorted(row, stretch, is_later, begins, sizes, slot, np.cumsum(is_next), run_begins)


def _folded(commits: CommitColumns, rows: ChunkRows, by_run: _Sorted) -> npt.NDArray[np.void]:
    """One row for each topic partition of a run, still without its topic, its partition and its last change."""
    first, last = by_run.row[by_run.begins], by_run.last_row
    folded = np.zeros(len(first), COMMITS)
    folded["count"] = by_run.sizes
    folded["offset"], folded["first_offset"] = commits.offset[last], commits.offset[first]
    folded["leader_epoch"] = commits.leader_epoch[last]
    folded["expire_timestamp_ms"] = commits.expire_timestamp_ms[last]
    folded["commit_timestamp_ms"] = commits.commit_timestamp_ms[last]
    folded["first_commit_timestamp_ms"] = commits.commit_timestamp_ms[first]
    folded["log_offset"], folded["first_log_offset"] = rows.offset[last], rows.offset[first]
    folded["timestamp_ms"], folded["first_timestamp_ms"] = rows.timestamp_ms[last], rows.timestamp_ms[first]
    return folded


def _extents(rows: ChunkRows, by_run: _Sorted, folded: npt.NDArray[np.void]) -> Iterator[Extent]:
    """That of each run."""
    # In a chunk the rows of a stream are in the order of the log.
    first = np.minimum.reduceat(by_run.row[by_run.begins], by_run.run_begins)
    last = np.maximum.reduceat(by_run.last_row, by_run.run_begins)
    expire_ms = np.maximum.reduceat(folded["expire_timestamp_ms"], by_run.run_begins)
    columns = (
        rows.offset[first],
        rows.timestamp_ms[first],
        rows.offset[last],
        rows.timestamp_ms[last],
        np.add.reduceat(by_run.sizes, by_run.run_begins),
        expire_ms >= 0,
    )
    return map(Extent, *(column.tolist() for column in columns))


def _changed_ms(by_run: _Sorted, offset: Ints, committed_ms: Ints) -> Ints:
    """For each stretch the time of its last commit with another offset than the one before, else -1."""
    changed = np.flatnonzero(offset[1:] != offset[:-1]) + 1
    changed = changed[by_run.is_later[changed]]
    last = np.full(len(by_run.begins), -1, np.int64)
    # They rise; of several assignments to one place NumPy keeps the last.
    last[by_run.stretch[changed]] = changed
    return np.where(last < 0, -1, committed_ms[last])


def _rhythm(rows: ChunkRows, by_run: _Sorted, offset: Ints, committed_ms: Ints) -> _Parts:
    """Rows of RHYTHM by run, for the gaps before all later commits."""
    later = by_run.is_later[1:]
    of, rhythm = counted(
        np.repeat(by_run.run, by_run.sizes - 1),
        rows.timestamp_ms[by_run.row[1:][later]],
        gaps_ms(committed_ms[:-1], committed_ms[1:])[later],
        (offset[1:] == offset[:-1])[later],
    )
    return _Parts(rhythm, np.searchsorted(of, np.arange(len(by_run.run_begins))))


def _decreases(rows: ChunkRows, by_run: _Sorted, offset: Ints) -> _Parts:
    """Every commit below the one before it, by run; ``row`` is its row in the run."""
    fell = np.flatnonzero(by_run.is_later[1:] & (offset[1:] < offset[:-1])) + 1
    decreases = np.zeros(len(fell), DECREASES)
    decreases["old_offset"], decreases["new_offset"] = offset[fell - 1], offset[fell]
    decreases["log_offset"] = rows.offset[by_run.row[fell]]
    decreases["timestamp_ms"] = rows.timestamp_ms[by_run.row[fell]]
    stretch = by_run.stretch[fell]
    decreases["row"] = stretch - by_run.run_begins[by_run.run[stretch]]
    return _Parts(decreases, np.searchsorted(stretch, by_run.run_begins))


class _RunTopics(NamedTuple):
    """The topic tables of all runs, one behind the other.

    ``topic`` are the entries, ``begins`` where each run's table begins, ``entry`` the entry of each stretch
    and ``place`` the same, counted inside its run.
    """

    topic: Ints
    begins: Ints
    entry: Ints
    place: Ints


def _run_topics(topic: Ints, by_run: _Sorted, topics: int) -> _RunTopics:
    pairs, entry = np.unique(by_run.run * topics + topic, return_inverse=True)
    begins = np.searchsorted(pairs // topics, np.arange(len(by_run.run_begins)))
    return _RunTopics(pairs % topics, begins, entry, entry - begins[by_run.run])


def _topic_ids(commits: CommitColumns, by_run: _Sorted, topics: _RunTopics) -> list[bytes | None]:
    """For each entry of the topic tables the id that the last commit of the topic with one has."""
    last = np.full(len(topics.topic), -1, np.int64)
    with_id = np.flatnonzero((commits.topic_id_at >= 0)[by_run.row])
    # Stretch by stretch: inside one they are in log order, and the last assignment stays.
    of_stretch = np.full(len(by_run.begins), -1, np.int64)
    of_stretch[by_run.stretch[with_id]] = by_run.row[with_id]
    np.maximum.at(last, topics.entry, of_stretch)
    return [None if row < 0 else commits.topic_id(row) for row in last.tolist()]


def _metadata(commits: CommitColumns, by_run: _Sorted) -> list[dict[int, str]]:
    """For each run the metadata of its rows that have some."""
    metadata: list[dict[int, str]] = [{} for _ in by_run.run_begins]
    last_row = by_run.last_row
    filled = np.flatnonzero(commits.metadata_length[last_row] > 0)
    run = by_run.run[filled]
    for of_run, place, row in zip(
        run.tolist(), (filled - by_run.run_begins[run]).tolist(), last_row[filled].tolist(), strict=True
    ):
        metadata[of_run][place] = commits.metadata(row)
    return metadata


class _Parts(NamedTuple):
    """An array of which each run has the part from its place in ``begins`` on."""

    whole: npt.NDArray[np.void]
    begins: Ints

    def packed(self) -> list[bytes]:
        """The bytes of each part."""
        size, data = self.whole.itemsize, self.whole.tobytes()
        places = [*(self.begins * size).tolist(), len(data)]
        return [data[begin:end] for begin, end in pairwise(places)]


def _runs(
    commits: CommitColumns,
    by_run: _Sorted,
    streams: Ints,
    folded: npt.NDArray[np.void],
    extents: Iterable[Extent],
    decreases: _Parts,
    rhythm: _Parts,
    topics: _RunTopics,
    topic_names: list[str],
) -> list[Run]:
    names = [topic_names[topic] for topic in topics.topic.tolist()]
    ids = _topic_ids(commits, by_run, topics)
    tables = [*topics.begins.tolist(), len(names)]
    return [
        Run(
            stream,
            PackedRun(
                names[begin:end],
                rows,
                extent,
                falls,
                metadata,
                {place: id_ for place, id_ in enumerate(ids[begin:end]) if id_ is not None},
                gaps,
            ),
        )
        for stream, (begin, end), rows, extent, falls, gaps, metadata in zip(
            streams.tolist(),
            pairwise(tables),
            _Parts(folded, by_run.run_begins).packed(),
            extents,
            decreases.packed(),
            rhythm.packed(),
            _metadata(commits, by_run),
            strict=True,
        )
    ]
