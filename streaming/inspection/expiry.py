"""Groups whose offsets expire soon, and what would be lost: for ``list --expiring`` and ``--with-lag``.

Knows the fields of ``Group.describe()`` and how to ask a cluster for the ends of partitions; must not know when
an offset expires.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaException

from groupreplay.state.display.phrases import timestamp
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.text.terminal import Cell, Table

Picture = Mapping[str, Any]

#: Of a partition, and added up for a group: records that a consumer would read again from the beginning of the
#: log, or never see, if it had to begin where ``auto.offset.reset`` says.
REPLAYED: Final = "earliest_replays"
SKIPPED: Final = "latest_skips"


def expiring(found: Sequence[Picture], until_ms: int) -> list[dict[str, Any]]:
    """The groups with offsets that may be removed by then, the first one first, with those offsets only."""
    chosen = []
    for picture in found:
        offsets = [
            one
            for one in picture["offsets"]
            if one["expires_at_ms"] is not None and one["expires_at_ms"] <= until_ms
        ]
        if offsets:
            chosen.append({**picture, "offsets": offsets})
    return sorted(chosen, key=_first_ms)


def _first_ms(picture: Picture) -> int:
    return min(int(one["expires_at_ms"]) for one in picture["offsets"])


def expiring_summary(picture: Picture) -> dict[str, Any]:
    """What ``list --expiring`` says of a group of ``expiring``; the sums are None where nobody was asked."""
    return {
        "group_id": picture["group_id"],
        "type": picture["type"],
        "state": picture["state"],
        "partitions": len(picture["offsets"]),
        "expires_at_ms": _first_ms(picture),
        **{name: _sum(picture["offsets"], name) for name in (REPLAYED, SKIPPED)},
    }


def _sum(offsets: Sequence[Picture], name: str) -> int | None:
    known = [one[name] for one in offsets if one.get(name) is not None]
    return sum(known) if known else None


def expiring_table(found: Sequence[Picture]) -> Table:
    """One row a group."""
    columns = ("GROUP", "TYPE", "STATE", "#PARTITIONS", "EXPIRES", "EARLIEST-REPLAYS", "LATEST-SKIPS")
    rows: list[tuple[Cell, ...]] = []
    for one in map(expiring_summary, found):
        head = (one["group_id"], one["type"], one["state"], one["partitions"])
        rows.append((*head, timestamp(one["expires_at_ms"]), one[REPLAYED], one[SKIPPED]))
    return Table(columns, rows)


def with_lag(found: Sequence[Picture], connection: Connection) -> list[dict[str, Any]]:
    """The same groups, each offset with the ends of its partition and what they mean.

    A partition that the cluster does not know any more, or does not show to this login, gets no such fields.

    Raises:
        GroupReplayError: the cluster does not answer.
    """
    places = {(one["topic"], one["partition"]) for picture in found for one in picture["offsets"]}
    try:
        starts = connection.partition_offsets(places, first=True)
        ends = connection.partition_offsets(places, first=False)
    except KafkaException as error:
        raise connection.explain(error, "ends of partitions") from None
    return [
        {**picture, "offsets": [_measured(one, starts, ends) for one in picture["offsets"]]}
        for picture in found
    ]


def _measured(
    offset: Picture, starts: Mapping[tuple[str, int], int], ends: Mapping[tuple[str, int], int]
) -> dict[str, Any]:
    place = (offset["topic"], offset["partition"])
    if place not in starts or place not in ends:
        return dict(offset)
    lag = max(0, ends[place] - offset["offset"])
    return {
        **offset,
        "log_start_offset": starts[place],
        "log_end_offset": ends[place],
        "lag": lag,
        REPLAYED: max(0, min(offset["offset"], ends[place]) - starts[place]),
        SKIPPED: lag,
    }
