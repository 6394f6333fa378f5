"""Histories of one group for ``whatif``: written by hand as records, and read as those of a capture."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from groupreplay.app.whatif.plays import group_histories
from groupreplay.codecs import uuid_text
from groupreplay.state import Context
from groupreplay.streaming.sources.source import Rows
from groupreplay.timeline.group_history import GroupHistory
from support.histories.builders import GROUP, Raw, commit, generation, member
from support.histories.modern_builders import (
    TOPIC_ID,
    UNRELEASED,
    current,
    described,
    first_join,
    group_epoch,
    left,
    operation,
    target,
    target_epoch,
)
from support.job.captures import raw, rows_batch

SECOND = 1_000
BEGIN = 1_767_225_600_000
CONTEXT = Context(
    cluster_id="c",
    era="e",
    complete_since_ms=0,
    member_events=True,
    retention_ms=86_400_000,
    topic_names={uuid_text(TOPIC_ID): "t"},
)


def history_of(records: Iterable[Raw], end_ms: int, *, is_whole: bool = True) -> GroupHistory:
    """The history that these records of group ``g`` are, in order of time; ``end_ms`` since ``BEGIN``.

    ``is_whole``: no record is missing; otherwise compaction may have removed some.
    """
    context = CONTEXT if is_whole else replace(CONTEXT, complete_since_ms=None)
    batch = rows_batch(raw(sorted(records, key=lambda record: record.at)))
    histories, _ = group_histories(Rows("c", "e", iter([batch])), context, None, end_ms=BEGIN + end_ms)
    return histories[GROUP]


def commits(partition: int, since_ms: int, until_ms: int, every_ms: int = 5 * SECOND) -> list[Raw]:
    """Regular commits of a partition."""
    times = range(since_ms, until_ms, every_ms)
    return [commit("t", partition, number, at=BEGIN + at_ms) for number, at_ms in enumerate(times)]


def restarted(host: str = "/10.0.0.2", client_id: str = "b", back_ms: int = 70 * SECOND) -> list[Raw]:
    """Members a and b with two partitions; b leaves at 60 s, and a new member comes back at ``back_ms``."""
    a = member("a1", (0,), client_id="a", host="/10.0.0.1")
    b = member("b1", (1,), client_id="b", host="/10.0.0.2")
    again = member("b2", (1,), client_id=client_id, host=host)
    alone = member("a1", (0, 1), client_id="a", host="/10.0.0.1")
    return [
        generation(1, a, b, at=BEGIN),
        *commits(0, 1 * SECOND, 180 * SECOND),
        *commits(1, 2 * SECOND, 60 * SECOND),
        generation(2, alone, at=BEGIN + 60 * SECOND),
        *commits(1, 61 * SECOND, back_ms),
        generation(3, a, again, at=BEGIN + back_ms),
        *commits(1, back_ms + 5 * SECOND, 180 * SECOND),
    ]


def joined_and_left(silent_ms: int) -> list[Raw]:
    """A consumer group: b joins a at 10 s, and leaves at 60 s, so long after its last commit."""
    leaves_ms = 60 * SECOND
    return [
        *first_join("a", at=BEGIN),
        *commits(0, 1 * SECOND, 180 * SECOND),
        *operation(
            BEGIN + 10 * SECOND,
            described("b"),
            group_epoch(3),
            target("a", [0]),
            target("b", [1]),
            target_epoch(3),
            current("b", 3, state=UNRELEASED),
        ),
        *operation(BEGIN + 12 * SECOND, current("a", 3, [0], previous=2)),
        *operation(BEGIN + 13 * SECOND, current("b", 3, [1], previous=3)),
        *commits(1, leaves_ms - silent_ms - 30 * SECOND, leaves_ms - silent_ms + 1),
        *operation(BEGIN + leaves_ms, left("b"), group_epoch(4), target("a", [0, 1]), target_epoch(4)),
        *operation(BEGIN + leaves_ms + 2 * SECOND, current("a", 4, [0, 1], previous=3)),
        *commits(1, leaves_ms + 5 * SECOND, 180 * SECOND),
    ]
