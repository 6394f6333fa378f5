"""Lag and log ends of committed offsets, for ``--with-lag``."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from confluent_kafka import KafkaException

from groupreplay.app.inspection.lag import LogBounds, log_bounds, with_lag

DAY = 86_400_000


#: One partition with a lag, one whose log was truncated below the committed offset, and one that does not exist.
GROUP: dict[str, Any] = {
    "group_id": "g",
    "type": "classic",
    "members": [{"partitions": {"t": [1], "u": [0]}}],
    "offsets": [
        {"topic": "t", "partition": 0, "offset": 5},
        {"topic": "t", "partition": 1, "offset": 7},
        {"topic": "t", "partition": 2, "offset": 9},
    ],
}


class Cluster:
    """A connection with the log start and end offsets of two partitions."""

    ends: ClassVar = {("t", 0): (0, 8), ("t", 1): (6, 6), ("u", 0): (1, 4)}

    def partition_offsets(self, places: Any, *, first: bool) -> dict[tuple[str, int], int]:
        """Like ``Connection``: unknown partitions are left out."""
        return {place: self.ends[place][0 if first else 1] for place in places if place in self.ends}


def test_lag_and_what_a_reset_would_cost() -> None:
    """Replays count from the log's start to the offset, skips from there to its end; neither is negative."""
    cut = {"log_start_offset": 6, "log_end_offset": 6, "lag": 0, "earliest_replays": 0, "latest_skips": 0}
    whole = {"log_start_offset": 0, "log_end_offset": 8, "lag": 3, "earliest_replays": 5, "latest_skips": 3}
    first, second, third = GROUP["offsets"]
    bounds = log_bounds([GROUP], Cluster())  # type: ignore[arg-type]
    assert with_lag([GROUP], bounds) == [{**GROUP, "offsets": [{**first, **whole}, {**second, **cut}, third]}]


def test_partitions_that_are_owned() -> None:
    """Partitions with an owner but without a commit are asked for, too; members of a streams group own none."""
    starts, ends = {("t", 0): 0, ("t", 1): 6}, {("t", 0): 8, ("t", 1): 6}
    owned = LogBounds({**starts, ("u", 0): 1}, {**ends, ("u", 0): 4})
    assert log_bounds([GROUP], Cluster()) == owned  # type: ignore[arg-type]
    streams = {**GROUP, "type": "streams"}
    assert log_bounds([streams], Cluster()) == LogBounds(starts, ends)  # type: ignore[arg-type]


def test_a_cluster_that_does_not_answer() -> None:
    """The client error becomes a message that names what was asked."""

    class Silent:
        def partition_offsets(self, places: Any, *, first: bool) -> Any:
            raise KafkaException("no")

        def explain(self, error: KafkaException, where: str) -> Exception:
            return RuntimeError(where)

    with pytest.raises(RuntimeError, match="ends of partitions"):
        log_bounds([GROUP], Silent())  # type: ignore[arg-type]
