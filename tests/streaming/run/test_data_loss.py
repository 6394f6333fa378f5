"""Whether the log is still the one that was read; the cluster is a puppet here."""

from __future__ import annotations

from typing import Any, cast

import pytest

from groupreplay.state.events.job_events import GapReason, UnreadRange
from groupreplay.streaming.base.errors import ExitCode
from groupreplay.streaming.kafka.clients import Connection, TopicIdentity
from groupreplay.streaming.kafka.log_marks import EpochEnd, LogMarks, PartitionMark
from groupreplay.streaming.run import data_loss
from groupreplay.streaming.run.data_loss import lost_log
from groupreplay.streaming.spark.checkpoint_identity import Identity

IDENTITY = Identity(cluster_id="c", era="e", partitions=2, probes="p", first_start_ms=0)


class Cluster:
    """An offsets topic of two partitions."""

    def __init__(self, starts: dict[int, int], ends: dict[int, int], era: str = "e") -> None:
        self.starts, self.ends, self.era = starts, ends, era

    def identify(self, topic: str) -> TopicIdentity:
        return TopicIdentity(cluster_id="c", topic=topic, era=self.era, partitions=len(self.ends), leaders={})

    def first_offsets(self, _: str, __: int) -> dict[int, int]:
        return self.starts

    def log_ends(self, _: str, __: int) -> dict[int, EpochEnd]:
        return {number: EpochEnd(end, 7) for number, end in self.ends.items()}


def lost(cluster: Cluster, read: dict[int, int], **known: Any) -> tuple[GapReason, list[UnreadRange]] | None:
    """The reason and the ranges."""
    error = lost_log(read, IDENTITY, cast(Connection, cluster), **known)
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


def test_a_batch_that_was_begun_ends_behind_the_log() -> None:
    """Spark could never read it again, although everything that is in the state is there."""
    found = lost(Cluster({0: 0, 1: 0}, {0: 7, 1: 9}), {0: 5, 1: 9}, planned={0: 8, 1: 9})
    assert found == ("truncated", [unread(0, 5, 0, 7)])


@pytest.mark.parametrize(
    ("cut", "era", "found"),
    [
        ({1}, "e", ("truncated", [unread(1, 9, 0, 12)])),
        (set(), "e", None),
        ({1}, "f", None),
    ],
)
def test_a_log_that_was_cut_and_has_grown_again(
    cut: set[int], era: str, found: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No offset shows it, but the marks of the same topic do; those of another topic count nothing."""
    marks = LogMarks(era, {0: PartitionMark(EpochEnd(5, 6)), 1: PartitionMark(EpochEnd(9, 6))})
    asked: list[Any] = []
    monkeypatch.setattr(data_loss, "cut_partitions", lambda *given: asked.append(given[1:]) or cut)
    assert lost(Cluster({0: 0, 1: 0}, {0: 7, 1: 12}), {0: 5, 1: 9}, marks=marks) == found
    answered = {0: EpochEnd(7, 7), 1: EpochEnd(12, 7)}
    assert asked == ([("__consumer_offsets", marks.partitions, answered)] if era == "e" else [])
