"""The commits of a chunk folded into runs, in NumPy: what makes a million commits cheap.

Knows arrays: a run is a stretch of commits of one stream (a group in a Kafka partition) with no other record
of that stream between; inside a run each topic partition becomes one row. Must not know bytes or groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from groupreplay.state.observations import COMMITS, DECREASES
from groupreplay.state.rhythm import counted, gaps_ms
from groupreplay.streaming.binary_columns import Flags, Ints
from groupreplay.streaming.commit_columns import CommitColumns
from groupreplay.streaming.key_columns import KeyColumns
from groupreplay.streaming.packing import PackedRun


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
    """One run: its stream, where it begins in the log, and the packed form."""

    stream: int
    first_offset: int
    packed: PackedRun


def fold(commits: CommitColumns, rows: ChunkRows, keys: KeyColumns) -> list[Run]:
    """The runs of a chunk; those of one stream in the order of the log."""
    commit_rows, run_of = _commits_by_run(rows, commits.is_commit)
    if not len(commit_rows):
        return []
    # Stable: the log order stays inside each topic partition of a run.
    order = np.argsort(run_of * len(keys.slot_topic) + rows.slot[commit_rows], kind="stable")
    commit_rows, run_of = commit_rows[order], run_of[order]
    slot = rows.slot[commit_rows]
    begins = np.flatnonzero(np.r_[True, (run_of[1:] != run_of[:-1]) | (slot[1:] != slot[:-1])])
    sizes = np.diff(np.r_[begins, len(commit_rows)])

    run_of_row = run_of[begins]
    run_begins = np.flatnonzero(np.r_[True, run_of_row[1:] != run_of_row[:-1]])
    folded = _folded(commits, rows, commit_rows, begins, sizes)
    folded["partition"] = keys.slot_partition[slot[begins]]
    # Every commit with one before it in its row.
    later = np.delete(np.arange(len(commit_rows)), begins)
    offset = commits.fields["offset"][commit_rows]
    folded["changed_ms"] = _changed_ms(
        commits, commit_rows, begins, later[offset[later] != offset[later - 1]]
    )
    rhythm_run, rhythm = _rhythm(commits, rows, commit_rows, run_of, later)
    decreases = _decreases(rows, commit_rows, offset, later[offset[later] < offset[later - 1]])
    row_of_decrease = np.searchsorted(begins, decreases["row"], side="right") - 1
    decreases["row"] = row_of_decrease - run_begins[run_of_row[row_of_decrease]]

    topics = _run_topics(keys.slot_topic[slot[begins]], run_of_row, run_begins, len(keys.topics))
    folded["topic"] = topics.place
    topic_id_rows = _topic_id_rows(commits, commit_rows, np.repeat(topics.entry, sizes), len(topics.topic))
    return _runs(
        commits=commits,
        folded=folded,
        last_rows=commit_rows[begins + sizes - 1],
        run_begins=run_begins,
        streams=rows.stream[commit_rows[begins[run_begins]]],
        decreases=decreases,
        decrease_begins=np.searchsorted(row_of_decrease, run_begins),
        topics=topics,
        topic_names=keys.topics,
        topic_id_rows=topic_id_rows,
        rhythm=rhythm,
        rhythm_begins=np.searchsorted(rhythm_run, np.arange(len(run_begins))),
    )


def _commits_by_run(rows: ChunkRows, is_commit: Flags) -> tuple[Ints, Ints]:
    """(rows of commits by stream and log order, number of the run that each belongs to, dense and rising)."""
    by_stream = np.argsort(rows.stream, kind="stable")
    cuts_before = np.cumsum(rows.cuts[by_stream])
    chosen = is_commit[by_stream]
    commit_rows, cuts_before = by_stream[chosen], cuts_before[chosen]
    stream = rows.stream[commit_rows]
    new_run = np.r_[False, (stream[1:] != stream[:-1]) | (cuts_before[1:] != cuts_before[:-1])]
    return commit_rows, np.cumsum(new_run[: len(commit_rows)])


def _folded(
    commits: CommitColumns, rows: ChunkRows, commit_rows: Ints, begins: Ints, sizes: Ints
) -> npt.NDArray[np.void]:
    """One row for each topic partition of a run, still without its topic and partition."""
    first, last = commit_rows[begins], commit_rows[begins + sizes - 1]
    folded = np.zeros(len(begins), COMMITS)
    folded["count"] = sizes
    for name in ("offset", "leader_epoch", "commit_timestamp_ms", "expire_timestamp_ms"):
        folded[name] = commits.fields[name][last]
    folded["log_offset"], folded["timestamp_ms"] = rows.offset[last], rows.timestamp_ms[last]
    folded["first_offset"] = commits.fields["offset"][first]
    folded["first_log_offset"], folded["first_timestamp_ms"] = rows.offset[first], rows.timestamp_ms[first]
    folded["first_commit_timestamp_ms"] = commits.fields["commit_timestamp_ms"][first]
    return folded


def _decreases(rows: ChunkRows, commit_rows: Ints, offset: Ints, fell: Ints) -> npt.NDArray[np.void]:
    """Every commit below the one before it; ``row`` is still its place among the sorted commits."""
    decreases = np.zeros(len(fell), DECREASES)
    decreases["row"] = fell
    decreases["old_offset"], decreases["new_offset"] = offset[fell - 1], offset[fell]
    decreases["log_offset"] = rows.offset[commit_rows[fell]]
    decreases["timestamp_ms"] = rows.timestamp_ms[commit_rows[fell]]
    return decreases


def _changed_ms(commits: CommitColumns, commit_rows: Ints, begins: Ints, changed: Ints) -> Ints:
    """For each row the time of its last commit with another offset than the one before, else -1."""
    last = np.full(len(commit_rows), -1, np.int64)
    last[changed] = changed
    last = np.maximum.reduceat(last, begins)
    return np.where(last < 0, -1, commits.fields["commit_timestamp_ms"][commit_rows[last]])


def _rhythm(
    commits: CommitColumns, rows: ChunkRows, commit_rows: Ints, run_of: Ints, later: Ints
) -> tuple[Ints, npt.NDArray[np.void]]:
    """(run of each row of RHYTHM, the rows) for the gaps before all ``later`` commits."""
    offset, committed_ms = (commits.fields[name][commit_rows] for name in ("offset", "commit_timestamp_ms"))
    return counted(
        run_of[later],
        rows.timestamp_ms[commit_rows[later]],
        gaps_ms(committed_ms[later - 1], committed_ms[later]),
        offset[later] == offset[later - 1],
    )


class _RunTopics(NamedTuple):
    """The topic tables of all runs, one behind the other.

    ``topic`` are the entries, ``begins`` where each run's table begins, ``entry`` the entry of each folded
    row and ``place`` the same, counted inside its run.
    """

    topic: Ints
    begins: Ints
    entry: Ints
    place: Ints


def _run_topics(topic: Ints, run: Ints, run_begins: Ints, topics: int) -> _RunTopics:
    pairs, entry = np.unique(run * topics + topic, return_inverse=True)
    begins = np.searchsorted(pairs // topics, np.arange(len(run_begins)))
    return _RunTopics(pairs % topics, begins, entry, entry - begins[run])


def _topic_id_rows(commits: CommitColumns, commit_rows: Ints, entry: Ints, entries: int) -> Ints:
    """For each entry of the topic tables the row of its last commit with a topic id, else -1."""
    entry_of = np.zeros(len(commits.is_commit), np.int64)
    entry_of[commit_rows] = entry
    with_id = np.flatnonzero(commits.is_commit & commits.topic_ids.any(axis=1))
    last = np.full(entries, -1, np.int64)
    # In log order; of several assignments to one place NumPy keeps the last.
    last[entry_of[with_id]] = with_id
    return last


def _runs(
    *,
    commits: CommitColumns,
    folded: npt.NDArray[np.void],
    last_rows: Ints,
    run_begins: Ints,
    streams: Ints,
    decreases: npt.NDArray[np.void],
    decrease_begins: Ints,
    topics: _RunTopics,
    topic_names: Sequence[str],
    topic_id_rows: Ints,
    rhythm: npt.NDArray[np.void],
    rhythm_begins: Ints,
) -> list[Run]:
    metadata: list[dict[int, str]] = [{} for _ in run_begins]
    with_metadata = np.flatnonzero(commits.metadata_length[last_rows] > 0)
    run_with_metadata = np.searchsorted(run_begins, with_metadata, side="right") - 1
    for place, run in zip(with_metadata.tolist(), run_with_metadata.tolist(), strict=True):
        metadata[run][place - int(run_begins[run])] = commits.metadata(int(last_rows[place]))

    first_offsets = np.minimum.reduceat(folded["first_log_offset"], run_begins).tolist()
    spans = (
        _spans(run_begins, folded),
        _spans(decrease_begins, decreases),
        _spans(topics.begins, topics.topic),
        _spans(rhythm_begins, rhythm),
    )
    entry_topics, id_rows = topics.topic.tolist(), topic_id_rows.tolist()
    runs = []
    for run, (stream, rows, falls, entries, gaps) in enumerate(zip(streams.tolist(), *spans, strict=True)):
        packed = PackedRun(
            [topic_names[topic] for topic in entry_topics[entries]],
            folded[rows].tobytes(),
            decreases[falls].tobytes(),
            metadata[run],
            {
                place: commits.topic_ids[row].tobytes()
                for place, row in enumerate(id_rows[entries])
                if row >= 0
            },
            rhythm[gaps].tobytes(),
        )
        runs.append(Run(stream, first_offsets[run], packed))
    return runs


def _spans(begins: Ints, whole: npt.NDArray[Any]) -> list[slice]:
    """The stretches of ``whole`` that begin at ``begins``."""
    places = [*begins.tolist(), len(whole)]
    return [slice(begin, end) for begin, end in pairwise(places)]
