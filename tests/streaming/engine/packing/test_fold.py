"""Commits folded into runs, on columns written by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from groupreplay.state.snapshot.commit_steps import STEPS
from groupreplay.state.snapshot.observations import COMMITS, Extent
from groupreplay.streaming.engine.packing.commit_columns import decode_regular
from groupreplay.streaming.engine.packing.fold import ChunkRows, Run, fold
from groupreplay.streaming.engine.packing.key_columns import BinaryColumn, decode_keys
from support.histories.raw_records import commit

A0, A1, B0 = (commit("g", "a", 0)[0], commit("g", "a", 1)[0], commit("g", "b", 0)[0])


def folded(
    records: Sequence[tuple[bytes, int, str]],
    *,
    cuts: Sequence[int] = (),
    streams: Sequence[int] | None = None,
) -> list[Run]:
    """The runs of (key, offset, metadata) records at log offsets 100, 101, … of one stream."""
    keys = list(dict.fromkeys(key for key, _, _ in records))
    columns = decode_keys(pa.array(keys, pa.large_binary()))
    values = [commit(offset=offset, metadata=metadata)[1] for _, offset, metadata in records]
    is_cut = np.zeros(len(records), bool)
    is_cut[list(cuts)] = True
    rows = ChunkRows(
        offset=np.arange(len(records)) + 100,
        timestamp_ms=np.arange(len(records)) * 10,
        stream=np.array(streams or [0] * len(records)),
        slot=columns.slot[np.array([keys.index(key) for key, _, _ in records], np.int64)],
        cuts=is_cut,
    )
    commits = decode_regular(BinaryColumn.of(pa.array(values, pa.large_binary())), ~is_cut)
    return fold(commits, rows, columns)


def rows_of(run: Run, *names: str) -> list[tuple[int, ...]]:
    """Some fields of a run's rows."""
    return [tuple(row) for row in np.frombuffer(run.packed.rows, COMMITS)[list(names)].tolist()]


def test_one_row_for_each_topic_partition() -> None:
    """The last value with its place, the first one with its own, and how many there were."""
    (run,) = folded([(A0, 1, ""), (A1, 5, ""), (A0, 2, "note"), (B0, 7, ""), (A0, 3, "last")])
    assert (run.stream, run.packed.extent.first_offset, run.packed.topics) == (0, 100, ["a", "b"])
    names = (
        "topic",
        "partition",
        "offset",
        "count",
        "log_offset",
        "timestamp_ms",
        "first_offset",
        "first_log_offset",
    )
    assert rows_of(run, *names) == [
        (0, 0, 3, 3, 104, 40, 1, 100),
        (0, 1, 5, 1, 101, 10, 5, 101),
        (1, 0, 7, 1, 103, 30, 7, 103),
    ]
    assert run.packed.metadata == {0: "last"}


def test_the_extent_is_that_of_the_rows() -> None:
    """What is known of all runs at once is what the rows of each say."""
    records = [(A0, 1, ""), (B0, 4, ""), (A0, 2, ""), (A1, 0, ""), (A0, 3, ""), (A1, 4, ""), (B0, 5, "")]
    runs = folded(records, cuts=[3], streams=[0, 1, 0, 0, 0, 0, 1])
    assert [run.packed.extent for run in runs] == [
        Extent(100, 0, 102, 20, 2, False),
        Extent(104, 40, 105, 50, 2, False),
        Extent(101, 10, 106, 60, 2, False),
    ]
    assert [Extent.of(np.frombuffer(run.packed.rows, COMMITS)) for run in runs] == [
        run.packed.extent for run in runs
    ]


def test_every_step_back_is_kept() -> None:
    """Old and new offset and epoch, and where in the log it happened; steps between rows are none."""
    (run,) = folded([(A1, 9, ""), (A0, 5, ""), (A0, 3, ""), (A0, 8, ""), (A0, 7, ""), (A1, 10, "")])
    assert np.frombuffer(run.packed.steps, STEPS).tolist() == [
        (1, 5, 3, 102, 20, -1, -1),
        (1, 8, 7, 104, 40, -1, -1),
    ]


def test_a_cut_ends_the_run_of_its_stream_only() -> None:
    """Other records of a group lie between its runs; those of other groups do not."""
    records = [(A0, 1, ""), (A0, 2, ""), (A0, 0, ""), (A0, 3, ""), (A0, 4, "")]
    runs = folded(records, cuts=[2], streams=[0, 1, 0, 0, 1])
    assert [
        (run.stream, run.packed.extent.first_offset, rows_of(run, "offset", "count")) for run in runs
    ] == [(0, 100, [(1, 1)]), (0, 103, [(3, 1)]), (1, 101, [(4, 2)])]


def test_steps_are_not_seen_across_a_cut() -> None:
    """Inside a run only: the group's state knows the offset before it."""
    runs = folded([(A0, 5, ""), (A0, 0, ""), (A0, 1, "")], cuts=[1])
    assert [len(run.packed.steps) for run in runs] == [0, 0]


def test_nothing_to_fold() -> None:
    """A chunk without commits has no runs."""
    assert folded([(A0, 1, "")], cuts=[0]) == []
