"""Start and end offsets of partitions beside committed offsets, for ``--with-lag``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaException

from groupreplay.streaming.inspection.groups import Description
from groupreplay.streaming.kafka.clients import Connection

#: Records that a consumer reads again from the log's start, or skips, if it loses the committed offset and starts
#: at ``auto.offset.reset``. Of a partition, and summed up for a group.
REPLAYED: Final = "earliest_replays"
SKIPPED: Final = "latest_skips"


def with_lag(groups: Sequence[Description], connection: Connection) -> list[dict[str, Any]]:
    """The same groups; each offset gets the start and end of its partition's log, and what follows from them.

    Offsets of partitions that were deleted, or that this login may not see, get no such fields.

    Raises:
        GroupReplayError: the cluster does not answer.
    """
    partitions = {(one["topic"], one["partition"]) for group in groups for one in group["offsets"]}
    try:
        starts = connection.partition_offsets(partitions, first=True)
        ends = connection.partition_offsets(partitions, first=False)
    except KafkaException as error:
        raise connection.explain(error, "ends of partitions") from None
    return [
        {**group, "offsets": [_measured(one, starts, ends) for one in group["offsets"]]} for group in groups
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
