"""Start and end offsets of partitions beside committed offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from groupreplay.app.inspection.groups import Description

if TYPE_CHECKING:
    from groupreplay.streaming.kafka.clients import Connection

#: Records that a consumer reads again from the log's start, or skips, if it loses the committed offset and starts
#: at ``auto.offset.reset``. Of a partition, and summed up for a group.
REPLAYED: Final = "earliest_replays"
SKIPPED: Final = "latest_skips"
#: Types of groups whose members own partitions of topics; those of streams groups own tasks.
_OWN_PARTITIONS: Final = ("classic", "consumer")


@dataclass(frozen=True, slots=True)
class LogBounds:
    """First and end offset of partitions; a partition that was deleted, or that the login may not see, has none."""

    starts: Mapping[tuple[str, int], int]
    ends: Mapping[tuple[str, int], int]


NO_BOUNDS: Final = LogBounds({}, {})


def log_bounds(groups: Sequence[Description], connection: Connection) -> LogBounds:
    """The bounds of all partitions that have a committed offset or an owner.

    Raises:
        GroupReplayError: the cluster does not answer.
    """
    from confluent_kafka import KafkaException

    partitions = {(one["topic"], one["partition"]) for group in groups for one in group["offsets"]}
    partitions |= {
        (topic, number)
        for group in groups
        if group["type"] in _OWN_PARTITIONS
        for member in group["members"]
        for topic, numbers in member["partitions"].items()
        for number in numbers
    }
    try:
        return LogBounds(
            connection.partition_offsets(partitions, first=True),
            connection.partition_offsets(partitions, first=False),
        )
    except KafkaException as error:
        raise connection.explain(error, "ends of partitions") from None


def with_lag(groups: Sequence[Description], bounds: LogBounds) -> list[dict[str, Any]]:
    """The same groups; each offset gets the start and end of its partition's log, and what follows from them.

    Offsets of partitions without bounds get no such fields.
    """
    return [
        {**group, "offsets": [_measured(one, bounds.starts, bounds.ends) for one in group["offsets"]]}
        for group in groups
    ]


def _measured(
    offset: Description, starts: Mapping[tuple[str, int], int], ends: Mapping[tuple[str, int], int]
) -> dict[str, Any]:
    partition = (offset["topic"], offset["partition"])
    if partition not in starts or partition not in ends:
        return dict(offset)
    lag = max(0, ends[partition] - offset["offset"])
    return {
        **offset,
        "log_start_offset": starts[partition],
        "log_end_offset": ends[partition],
        "lag": lag,
        REPLAYED: max(0, min(offset["offset"], ends[partition]) - starts[partition]),
        SKIPPED: lag,
    }
