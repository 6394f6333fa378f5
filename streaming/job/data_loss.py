"""Whether the log is still the one that was read: records deleted before they were read make the state wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from groupreplay.state.events.job_events import GapReason, JobGap, UnreadRange
from groupreplay.state.policy.context import OFFSETS_TOPIC
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError

if TYPE_CHECKING:
    from groupreplay.streaming.kafka.clients import Connection, TopicIdentity


class LogLostError(GroupReplayError):
    """A part of the log was deleted before it was read; ``gap`` has the offsets."""

    def __init__(self, gap: JobGap, topic: TopicIdentity) -> None:
        numbers = ", ".join(str(one.partition) for one in gap.partitions[:5])
        super().__init__(
            f"a part of the log was deleted before it was read ({gap.reason.replace('_', ' ')})",
            where=f"{OFFSETS_TOPIC}, partitions {numbers}{' …' if len(gap.partitions) > 5 else ''}",
            fix="start again: the state is built anew from what the log holds",
            exit_code=ExitCode.DATA,
        )
        self.gap = gap
        self.topic = topic


def lost_log(
    read: Mapping[int, int], era: str, partitions: int, connection: Connection
) -> LogLostError | None:
    """The part of the log that was deleted unread; ``read`` is the next offset of each partition. None: nothing was.

    Raises:
        GroupReplayError: the cluster does not answer, or does not have the topic at this moment.
    """
    topic = connection.identify(OFFSETS_TOPIC)
    starts = connection.first_offsets(OFFSETS_TOPIC, topic.partitions)
    ends = connection.end_offsets(OFFSETS_TOPIC, topic.partitions)
    ranges = {
        number: UnreadRange(
            partition=number, read_to=read.get(number, 0), log_start=start, log_end=ends[number]
        )
        for number, start in sorted(starts.items())
        if number in ends
    }
    gap = _gap(ranges, read, same_topic=topic.era == era, same_count=topic.partitions == partitions)
    return None if gap is None else LogLostError(gap, topic)


def _gap(
    ranges: Mapping[int, UnreadRange], read: Mapping[int, int], *, same_topic: bool, same_count: bool
) -> JobGap | None:
    """The first reason that applies, with its partitions."""
    found: dict[GapReason, list[UnreadRange]] = {
        "topic_recreated": [] if same_topic else list(ranges.values()),
        "partitions_added": [] if same_count else list(ranges.values()),
        "truncated": [one for one in ranges.values() if one.log_end < one.read_to],
        "removed": [one for one in ranges.values() if one.partition in read and one.log_start > one.read_to],
    }
    for reason, partitions in found.items():
        if partitions:
            return JobGap(reason=reason, partitions=tuple(partitions))
    return None
