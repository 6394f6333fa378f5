"""How long a rebalance took, from the fields of its event."""

from __future__ import annotations

from typing import Any

import pytest

from groupreplay.state.display.rebalance_length import rebalance_length, silence_text

LEADER = {
    "leader": "m",
    "members": [{"member_id": "m", "client_id": "a", "client_host": "/h", "instance_id": None}],
}


@pytest.mark.parametrize(
    ("fields", "least_ms", "most_ms", "text"),
    [
        ({"duration_ms": 2_000}, 2_000, 2_000, "took 2.0 s"),
        ({"duration_ms": 0}, 0, 0, "took 0 ms"),
        # The leader is a part of the rebalance: the bound of the join phase alone is no bound of the whole.
        ({"duration_upper_bound_ms": 7, "sync_ms": 8_001}, 8_001, 8_008, "took 8.0 s"),
        ({"duration_upper_bound_ms": 6_000, "sync_ms": 12}, 12, 6_012, "took at most 6.0 s"),
        ({"join_ms_min": 2_000, "join_ms_max": 12_000, "sync_ms": 12}, 2_012, 12_012, "took 2.0 s .. 12.0 s"),
        ({"join_ms_max": 12_000, "duration_upper_bound_ms": 3_000}, 0, 3_000, "took at most 3.0 s"),
        ({"sync_ms": 8_001}, 8_001, None, "took at least 8.0 s"),
        ({"sync_ms": 12}, 12, None, ""),
        ({}, 0, None, ""),
        ({"duration_ms": "1", "sync_ms": True}, 0, None, ""),
    ],
)
def test_bounds(fields: dict[str, Any], least_ms: int, most_ms: int | None, text: str) -> None:
    """The join phase and the sync phase together; the exact length where the event has it."""
    found = rebalance_length(fields)
    assert (found.least_ms, found.most_ms, found.text()) == (least_ms, most_ms, text)


def test_a_slow_leader() -> None:
    """It is named from three seconds on, if the event has it."""
    slow = rebalance_length({"sync_ms": 8_001, **LEADER})
    assert slow.leader_text() == "waited 8.0 s for the assignment of the leader, a on h"
    for fast in (
        {"sync_ms": 2_999, **LEADER},
        {"sync_ms": 8_001},
        {"sync_ms": 8_001, **LEADER, "leader": "x"},
    ):
        assert rebalance_length(fast).leader_text() == ""


def test_silence() -> None:
    """It is a part of the bound by the record before, and says nothing beside an answer of the brokers."""
    assert silence_text({"silent_ms": 5_000}) == " (no commits for 5.0 s of them)"
    for fields in ({}, {"silent_ms": 999}, {"silent_ms": 5_000, "join_ms_max": 1}):
        assert silence_text(fields) == ""
