"""Whether the log is still the one that was read.

Records that were deleted before they were read make the state wrong, and so do records that were read and then lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from groupreplay.state.events.job_events import GapReason, JobGap, UnreadRange
from groupreplay.state.policy.context import OFFSETS_TOPIC
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.kafka.log_check import cut_partitions, present_ends
from groupreplay.streaming.kafka.log_marks import LogMarks

if TYPE_CHECKING:
    from groupreplay.streaming.kafka.clients import Connection, TopicIdentity
    from groupreplay.streaming.spark.checkpoint_identity import Identity


_WHAT: Final[Mapping[GapReason, str]] = {
    "topic_recreated": "the offsets topic is another one",
    "partitions_added": "groups have moved to other partitions",
    "removed": "a part of the log was deleted before it was read",
    "truncated": "records that the log once had at its end are gone",
}


class LogLostError(GroupReplayError):
    """The log is no longer the one that was read; ``gap`` has the offsets."""

    def __init__(self, gap: JobGap, topic: TopicIdentity) -> None:
        numbers = ", ".join(str(one.partition) for one in gap.partitions[:5])
        super().__init__(
            f"{_WHAT[gap.reason]} ({gap.reason.replace('_', ' ')})",
            where=f"{OFFSETS_TOPIC}, partitions {numbers}{' …' if len(gap.partitions) > 5 else ''}",
            fix="start again: the state is built anew from what the log holds",
            exit_code=ExitCode.DATA,
        )
        self.gap = gap
        self.topic = topic


def lost_log(
    read: Mapping[int, int],
    identity: Identity,
    connection: Connection,
    *,
    planned: Mapping[int, int] | None = None,
    marks: LogMarks | None = None,
) -> LogLostError | None:
    """The part of the log that is gone; None: the log is the one that was read.

    ``read`` is the next offset of each partition, ``planned`` the one after the batch that was begun last, ``marks``
    is what was seen of the log before.

    Raises:
        GroupReplayError: the cluster does not answer, or does not have the topic at this moment.
    """
    topic = connection.identify(OFFSETS_TOPIC)
    starts = connection.first_offsets(OFFSETS_TOPIC, topic.partitions)
    known = marks.partitions if marks is not None and marks.era == topic.era else {}
    ends = present_ends(connection, OFFSETS_TOPIC, topic.partitions, known)
    ranges = {
        number: UnreadRange(
            partition=number, read_to=read.get(number, 0), log_start=start, log_end=ends[number].offset
        )
        for number, start in sorted(starts.items())
        if number in ends
    }
    same_count = topic.partitions == identity.partitions
    gap = _gap(ranges, read, planned or {}, same_topic=topic.era == identity.era, same_count=same_count)
    if gap is None and known:
        cut = sorted(cut_partitions(connection, OFFSETS_TOPIC, known, ends))
        if cut:
            gap = JobGap(reason="truncated", partitions=tuple(ranges[number] for number in cut))
    return None if gap is None else LogLostError(gap, topic)


def _gap(
    ranges: Mapping[int, UnreadRange],
    read: Mapping[int, int],
    planned: Mapping[int, int],
    *,
    same_topic: bool,
    same_count: bool,
) -> JobGap | None:
    """The first reason that applies, with its partitions."""
    found: dict[GapReason, list[UnreadRange]] = {
        "topic_recreated": [] if same_topic else list(ranges.values()),
        "partitions_added": [] if same_count else list(ranges.values()),
        "truncated": [
            one
            for one in ranges.values()
            # Spark reads a batch again exactly as it was planned, and could never finish this one.
            if one.log_end < max(one.read_to, planned.get(one.partition, 0))
        ],
        "removed": [one for one in ranges.values() if one.partition in read and one.log_start > one.read_to],
    }
    for reason, partitions in found.items():
        if partitions:
            return JobGap(reason=reason, partitions=tuple(partitions))
    return None
