"""How long partitions stood still in a rebalance: from the last commit to the new assignment, each moment once."""

from __future__ import annotations

import pytest

from groupreplay.timeline.commit_times import CommitTimes
from groupreplay.timeline.event_reading import read_events
from groupreplay.timeline.standstill import Stop, is_eager, stop_of, union_ms

COMMITS = CommitTimes(5_000, {("t", 0): [1_000, 6_000, 11_000]})


def test_a_stop_begins_with_the_last_commit() -> None:
    """A partition without a commit since its owner had it has no bound."""
    assert stop_of(("t", 0), 9_000, COMMITS) == Stop(6_000, 9_000)
    assert stop_of(("t", 0), 9_000, COMMITS, owned_ms=6_000) == Stop(6_000, 9_000)
    assert [stop_of(("t", 0), 9_000, COMMITS, 7_000), stop_of(("t", 1), 9_000, COMMITS)] == [None, None]
    assert Stop(6_000, 9_000).length_ms == 3_000


def test_moments_of_several_stops_count_once() -> None:
    """Stops that overlap, and what of them is between two moments."""
    stops = [Stop(40, 50), Stop(0, 20), Stop(10, 30)]
    assert union_ms(stops, 5, 45) == 30
    assert union_ms([], 0, 100) == 0


@pytest.mark.parametrize(
    ("group_type", "protocol_type", "protocol", "expected"),
    [
        ("classic", "consumer", "range", True),
        ("classic", "consumer", "sticky", True),
        ("classic", "consumer", "cooperative-sticky", False),
        ("classic", "consumer", "own-assignor", False),
        ("classic", "connect", "range", False),
        ("consumer", "consumer", "range", False),
    ],
)
def test_what_is_eager(group_type: str, protocol_type: str, protocol: str, *, expected: bool) -> None:
    """Kafka's assignors of classic groups of consumers, other than the cooperative one."""
    data = {"group_type": group_type, "protocol_type": protocol_type, "protocol": protocol}
    (event,) = read_events(
        [
            {
                "id": "e",
                "type": "io.groupreplay.rebalance.completed.v1",
                "time": "2026-01-01T00:00:00Z",
                "data": data,
            }
        ]
    )
    assert is_eager(event) is expected
