"""Groups that lose offsets soon, and what a consumer would read again or never see."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from confluent_kafka import KafkaException

from groupreplay.streaming.inspection.expiry import expiring, expiring_summary, expiring_table, with_lag
from groupreplay.streaming.text.terminal import Table

DAY = 86_400_000


def offset(topic: str, partition: int, committed: int, expires_at_ms: int | None) -> dict[str, Any]:
    """A committed offset as ``describe`` has it, as far as it counts here."""
    return {"topic": topic, "partition": partition, "offset": committed, "expires_at_ms": expires_at_ms}


def group(name: str, *offsets: dict[str, Any]) -> dict[str, Any]:
    """A group."""
    return {"group_id": name, "type": "classic", "state": "Empty", "offsets": list(offsets)}


GROUPS = [
    group("later", offset("t", 0, 5, 9 * DAY)),
    group("stays", offset("t", 0, 5, None)),
    group("second", offset("t", 1, 7, DAY), offset("t", 2, 9, 5 * DAY)),
    group("first", offset("t", 0, 5, DAY - 1), offset("u", 0, 1, None)),
]


class Cluster:
    """A connection that knows where partitions begin and end."""

    ends: ClassVar = {("t", 0): (0, 8), ("t", 1): (6, 6)}

    def partition_offsets(self, places: Any, *, first: bool) -> dict[tuple[str, int], int]:
        """As ``Connection`` does: what is not known is left out."""
        return {place: self.ends[place][0 if first else 1] for place in places if place in self.ends}


def test_the_first_one_first_with_what_it_loses() -> None:
    """Only the offsets that expire by then; at that moment is by then."""
    found = expiring(GROUPS, DAY)
    assert [(one["group_id"], len(one["offsets"])) for one in found] == [("first", 1), ("second", 1)]


def test_the_table() -> None:
    """Nobody was asked for the ends."""
    columns = ("GROUP", "TYPE", "STATE", "#PARTITIONS", "EXPIRES", "EARLIEST-REPLAYS", "LATEST-SKIPS")
    assert expiring_table(expiring(GROUPS, DAY - 1)) == Table(
        columns, [("first", "classic", "Empty", 1, "1970-01-01T23:59:59.999Z", None, None)]
    )


def test_what_is_read_again_and_what_is_skipped() -> None:
    """From the beginning of the log to the offset; from there to the end. A log that was cut is no negative lag."""
    found = with_lag(expiring(GROUPS, 5 * DAY), Cluster())  # type: ignore[arg-type]
    first, second = map(expiring_summary, found)
    assert (first["earliest_replays"], first["latest_skips"]) == (5, 3)
    assert (second["earliest_replays"], second["latest_skips"]) == (0, 0)
    assert found[0]["offsets"][0]["lag"] == 3
    assert "lag" not in found[1]["offsets"][1]


def test_a_cluster_that_does_not_answer() -> None:
    """Its error in our words."""

    class Silent:
        def partition_offsets(self, places: Any, *, first: bool) -> Any:
            raise KafkaException("no")

        def explain(self, error: KafkaException, where: str) -> Exception:
            return RuntimeError(where)

    with pytest.raises(RuntimeError, match="ends of partitions"):
        with_lag(GROUPS, Silent())  # type: ignore[arg-type]
