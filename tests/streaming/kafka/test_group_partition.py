"""Which partition holds a group."""

from __future__ import annotations

import pytest

from groupreplay.streaming.kafka.clients import TopicIdentity
from groupreplay.streaming.kafka.group_partition import coordinator_of, locate


@pytest.mark.parametrize(
    ("group", "partitions", "expected"),
    [("testgroup", None, 27), ("my-group", None, 12), ("my-group", 7, 1), ("polygenelubricants", None, 0)],
)
def test_without_a_cluster(group: str, partitions: int | None, expected: int) -> None:
    """The partition follows from the name alone; nobody can say who leads it."""
    assert locate(group, None, partitions) == {
        "group_id": group,
        "partition": expected,
        "coordinator": None,
        "partitions": partitions or 50,
        "assumed": partitions is None,
    }


def test_the_leader_is_the_coordinator() -> None:
    """The broker that leads the group's partition coordinates the group; without a leader nobody does."""
    identity = TopicIdentity("c", "__consumer_offsets", "0", 50, {12: "host:9092 (3)"})
    assert coordinator_of("my-group", identity) == "host:9092 (3)"
    assert coordinator_of("testgroup", identity) is None
    assert coordinator_of("my-group", None) is None
