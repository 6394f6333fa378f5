"""Whether the log is still the one that was read; the cluster is a puppet here."""

from __future__ import annotations

from typing import cast

import pytest

from groupreplay.state.events.job_events import GapReason, UnreadRange
from groupreplay.streaming.base.errors import ExitCode
from groupreplay.streaming.job.data_loss import lost_log
from groupreplay.streaming.kafka.clients import Connection, TopicIdentity


class Cluster:
    """An offsets topic of two partitions."""

    def __init__(self, starts: dict[int, int], ends: dict[int, int], era: str = "e") -> None:
        self.starts, self.ends, self.era = starts, ends, era

    def identify(self, topic: str) -> TopicIdentity:
        return TopicIdentity(cluster_id="c", topic=topic, era=self.era, partitions=len(self.ends), leaders={})

    def first_offsets(self, _: str, __: int) -> dict[int, int]:
        return self.starts

    def end_offsets(self, _: str, __: int) -> dict[int, int]:
        return self.ends


def lost(cluster: Cluster, read: dict[int, int]) -> tuple[GapReason, list[UnreadRange]] | None:
    """The reason and the ranges."""
    error = lost_log(read, "e", 2, cast(Connection, cluster))
    if error is None:
        return None
    assert error.exit_code is ExitCode.DATA
    return error.gap.reason, list(error.gap.partitions)


def unread(partition: int, read_to: int, log_start: int, log_end: int) -> UnreadRange:
    """A range."""
    return UnreadRange(partition=partition, read_to=read_to, log_start=log_start, log_end=log_end)


@pytest.mark.parametrize("read", [{}, {0: 0, 1: 0}, {0: 5, 1: 9}, {0: 7, 1: 3}])
def test_a_log_that_is_whole(read: dict[int, int]) -> None:
    """Nothing is gone that was not read; a start of the log after compaction moves nothing."""
    assert lost(Cluster({0: 0, 1: 3}, {0: 7, 1: 9}), read if read.get(1) != 0 else {}) is None


@pytest.mark.parametrize(
    ("cluster", "reason", "ranges"),
    [
        (Cluster({0: 6, 1: 0}, {0: 7, 1: 9}), "removed", [unread(0, 5, 6, 7)]),
        (Cluster({0: 0, 1: 0}, {0: 7, 1: 8}), "truncated", [unread(1, 9, 0, 8)]),
        (
            Cluster({0: 0, 1: 0}, {0: 7, 1: 9}, era="f"),
            "topic_recreated",
            [unread(0, 5, 0, 7), unread(1, 9, 0, 9)],
        ),
    ],
)
def test_a_log_that_is_not_the_one_that_was_read(
    cluster: Cluster, reason: GapReason, ranges: list[UnreadRange]
) -> None:
    """Partitions that begin behind what was read, or end before it; all partitions of another topic."""
    assert lost(cluster, {0: 5, 1: 9}) == (reason, ranges)


def test_more_partitions() -> None:
    """Groups then live in other partitions than before."""
    found = lost(Cluster({0: 0, 1: 0, 2: 0}, {0: 7, 1: 9, 2: 0}), {0: 7, 1: 9})
    assert found is not None
    assert found[0] == "partitions_added"
    assert found[1][2] == unread(2, 0, 0, 0)
