"""Rounds as they were written before ends were predicted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from groupreplay.streaming.contract.end_columns import pack_columns
from groupreplay.streaming.contract.probe_messages import decode_message
from groupreplay.streaming.sources.recorded_ends import RecordedEnds
from groupreplay.streaming.sources.unpacked_ends import SteppedEnds
from support.kafka.packed_rounds import CLUSTER_ID

_WRITTEN = Path(__file__).parents[2] / "golden" / "stepped_ends.json"


def test_they_are_read_as_before() -> None:
    """What commit 38df05ec has written, rounded and not, with a cut log and an open transaction, and how it read it."""
    written = json.loads(_WRITTEN.read_text())
    ends = RecordedEnds(CLUSTER_ID)
    for key, value in written["messages"]:
        ends.add(decode_message(key.encode("latin1"), json.dumps(value).encode()))
    names = ("first_ms", "last_ms", "start", "end", "stable", "more", "epoch")
    spans = [
        [[getattr(span, name) for name in names] for span in ends.spans("t", number)] for number in range(4)
    ]
    assert spans == written["spans"]


def test_changes_of_another_table() -> None:
    """Places that the table does not have, and columns that do not belong together, are no changes."""
    table = SteppedEnds()
    table.grow(3)
    none = np.zeros(0, np.int64)
    for columns, why in (
        ([np.zeros(2, np.int64), np.array([7]), np.array([1]), *[none] * 8], "places"),
        ([np.zeros(2, np.int64), none, np.array([1]), *[none] * 8], "belong together"),
        ([np.zeros(1, np.int64), *[none] * 10], "of a round"),
    ):
        with pytest.raises(ValueError, match=why):
            table.read(pack_columns(columns))
    with pytest.raises(ValueError, match="shifts"):
        table.state(np.array([0]), *[np.array([63])] * 5)
