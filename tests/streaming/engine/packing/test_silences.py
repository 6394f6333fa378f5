"""Where a group was silent inside a chunk."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from groupreplay.state.snapshot.observations import SILENCE_MS
from groupreplay.streaming.engine.packing import silences
from groupreplay.streaming.engine.packing.record_times import Stretches
from groupreplay.streaming.engine.packing.silences import silence_cuts


def cuts(rows: list[tuple[int, int]], left_out: tuple[int, ...] = ()) -> list[int] | None:
    """The rows that end a run, of rows with (stream, time)."""
    stream, at_ms = np.array(rows, np.int64).T
    applied = np.ones(len(rows), bool)
    applied[list(left_out)] = False
    one_partition = Stretches(np.zeros(len(rows), np.int64), np.arange(len(rows)), np.array([len(rows) - 1]))
    found = silence_cuts(at_ms, applied, stream, one_partition)
    return None if found is None else np.flatnonzero(found).tolist()


def test_each_stream_has_its_own_silence() -> None:
    """Others commit meanwhile; a silence of one of them is none of the first."""
    rows = [(0, 0), (1, 0), (1, 60_000), (0, SILENCE_MS - 1), (1, SILENCE_MS), (0, 2 * SILENCE_MS - 1)]
    assert cuts(rows) == [3]
    assert cuts(rows[:-1]) is None


def test_rows_that_reach_no_group_break_no_silence() -> None:
    """Records that cannot be read, of this or of no group."""
    rows = [(0, 0), (0, 90_000), (-1, 95_000), (0, SILENCE_MS)]
    assert cuts(rows) is None
    assert cuts(rows, left_out=(1,)) == [0]


def test_times_that_cannot_be() -> None:
    """No time is no silence, and the largest difference of two times is no error."""
    assert cuts([(0, -1), (0, 10 * SILENCE_MS)]) is None
    assert cuts([(0, 0), (-1, -(2**63)), (-1, 2**63 - 1), (0, SILENCE_MS)]) == [0]


@pytest.mark.parametrize("seed", range(20))
def test_the_quick_way_leaves_nothing_out(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rows as without the table that leaves most streams out."""
    random, at_ms = Random(seed), 0
    back = random.choice(((), (-19_000,), (-90_000,)))
    rows = []
    for _ in range(200):
        at_ms += random.choice((0, 1, 20_000, 50_000, SILENCE_MS - 1, SILENCE_MS, *back)) * random.randrange(
            2
        )
        rows.append((random.randrange(random.choice((1, 3))), at_ms))
    found = cuts(rows)
    monkeypatch.setattr(silences, "_MOST_QUARTERS", 0)
    assert cuts(rows) == found
