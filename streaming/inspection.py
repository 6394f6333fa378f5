"""Groups as the tables of ``list`` and ``describe``, under the column names of Kafka's own tools.

Knows the fields of ``Group.describe()``; must not know how a table is drawn. Columns that Kafka's tools do
not have stand at the end, so that scripts written for those keep working.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final

from groupreplay.state.envelope import timestamp
from groupreplay.streaming.coordinator import coordinator_of
from groupreplay.streaming.errors import ExitCode, GroupReplayError
from groupreplay.streaming.replay import Replay
from groupreplay.streaming.rows import Rows
from groupreplay.streaming.terminal import Cell, Table

Picture = Mapping[str, Any]
_Rows = Iterator[Sequence[Cell]]


class View(str, Enum):
    """The three tables of ``describe``."""

    OFFSETS = "offsets"
    MEMBERS = "members"
    STATE = "state"


def pictures(replay: Replay, rows: Rows) -> list[dict[str, Any]]:
    """``Group.describe()`` of every group that lives at the end of the rows, by name."""
    for _ in replay.feed(rows):
        pass
    everything = (group.describe() for group in replay.groups())
    return [picture for picture in everything if picture["state"] != "Dead"]


def choose(
    found: Sequence[dict[str, Any]], *, types: Collection[str] = (), states: Collection[str] = ()
) -> list[dict[str, Any]]:
    """The groups of these types and in these states, in whatever case they are spelled; empty for all."""
    wanted_types = {name.lower() for name in types}
    wanted_states = {name.lower() for name in states}
    return [
        picture
        for picture in found
        if (not wanted_types or picture["type"].lower() in wanted_types)
        and (not wanted_states or picture["state"].lower() in wanted_states)
    ]


def require(found: Sequence[Picture], groups: Collection[str], where: str) -> None:
    """Raises GroupReplayError when one of the named groups is not there."""
    missing = sorted(set(groups) - {picture["group_id"] for picture in found})
    if missing:
        raise GroupReplayError(
            f"there is no group {missing[0]!r}",
            where=where,
            fix="groupreplay list shows those that are there",
            exit_code=ExitCode.DATA,
        )


def summary(picture: Picture) -> dict[str, Any]:
    """What ``list`` says of a group."""
    return {
        "group_id": picture["group_id"],
        "type": picture["type"],
        "state": picture["state"],
        "members": len(picture["members"]),
        "generation": picture["generation"],
        "since_ms": picture["since_ms"],
    }


def list_table(found: Sequence[Picture]) -> Table:
    """One row a group."""
    rows = [
        (
            *(one[name] for name in ("group_id", "type", "state", "members", "generation")),
            _time(one["since_ms"]),
        )
        for one in map(summary, found)
    ]
    return Table(("GROUP", "TYPE", "STATE", "#MEMBERS", "GENERATION", "SINCE"), rows)


def describe_table(found: Sequence[Picture], view: View, rows: Rows, *, verbose: bool) -> Table:
    """The chosen view of the groups, one below the other."""
    columns, row_maker = _VIEWS[view]
    table = [row for picture in found for row in row_maker(picture, rows)]
    if view is View.MEMBERS and not verbose:
        return Table(columns[:-1], [row[:-1] for row in table])
    return Table(columns, table)


def _state_rows(picture: Picture, rows: Rows) -> _Rows:
    yield (
        picture["group_id"],
        coordinator_of(picture["group_id"], rows.identity),
        picture["protocol"],
        picture["state"],
        len(picture["members"]),
        picture["generation"],
        _time(picture["since_ms"]),
    )


def _member_rows(picture: Picture, _: Rows) -> _Rows:
    for member in picture["members"]:
        held: Mapping[str, Sequence[int]] = member["partitions"]
        yield (
            picture["group_id"],
            member["member_id"],
            member["instance_id"],
            member["client_host"],
            member["client_id"],
            sum(map(len, held.values())),
            ",".join(f"{topic}({','.join(map(str, held[topic]))})" for topic in sorted(held)),
        )


def _offset_rows(picture: Picture, _: Rows) -> _Rows:
    owners = {
        (topic, number): member
        for member in picture["members"]
        for topic, numbers in member["partitions"].items()
        for number in numbers
    }
    for offset in picture["offsets"]:
        owner = owners.get((offset["topic"], offset["partition"]), {})
        yield (
            picture["group_id"],
            offset["topic"],
            offset["partition"],
            offset["offset"],
            None if offset["leader_epoch"] in (None, -1) else offset["leader_epoch"],
            owner.get("member_id"),
            owner.get("client_host"),
            owner.get("client_id"),
            _time(offset["commit_timestamp_ms"]),
            offset["metadata"],
        )


def _time(at_ms: int | None) -> str | None:
    return None if at_ms is None or at_ms < 0 else timestamp(at_ms)


_VIEWS: Final[Mapping[View, tuple[tuple[str, ...], Callable[[Picture, Rows], _Rows]]]] = {
    View.STATE: (
        (
            "GROUP",
            "COORDINATOR (ID)",
            "ASSIGNMENT-STRATEGY",
            "STATE",
            "#MEMBERS",
            "GENERATION",
            "SINCE",
        ),
        _state_rows,
    ),
    View.MEMBERS: (
        (
            "GROUP",
            "CONSUMER-ID",
            "GROUP-INSTANCE-ID",
            "HOST",
            "CLIENT-ID",
            "#PARTITIONS",
            "ASSIGNMENT",
        ),
        _member_rows,
    ),
    View.OFFSETS: (
        (
            "GROUP",
            "TOPIC",
            "PARTITION",
            "CURRENT-OFFSET",
            "LEADER-EPOCH",
            "CONSUMER-ID",
            "HOST",
            "CLIENT-ID",
            "COMMITTED",
            "METADATA",
        ),
        _offset_rows,
    ),
}
