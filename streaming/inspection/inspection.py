"""Groups as the tables of ``list`` and ``describe``, under the column names of Kafka's own tools.

Knows the fields of ``Group.describe()``; must not know how a table is drawn. Columns that Kafka's tools do
not have stand at the end, so that scripts written for those keep working; what the offsets topic does not
hold stays empty.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple

from groupreplay.state.display.phrases import timestamp
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.engine.replay import Replay
from groupreplay.streaming.inspection.fail_on import Findings, conditions_text, risk
from groupreplay.streaming.kafka.clients import TopicIdentity
from groupreplay.streaming.kafka.group_partition import coordinator_of
from groupreplay.streaming.kafka.topic_reader import Rows
from groupreplay.streaming.text.terminal import Cell, Table

Picture = Mapping[str, Any]


class DescribeView(str, Enum):
    """The tables of ``describe`` that Kafka's tools have, too."""

    OFFSETS = "offsets"
    MEMBERS = "members"
    STATE = "state"


def pictures(replay: Replay, rows: Rows, findings: Findings | None = None) -> list[dict[str, Any]]:
    """``Group.describe()`` of every group that lives at the end of the rows, by name; ``findings`` listens."""
    said = replay.feed(rows)
    for _ in said if findings is None else findings.hear(said):
        pass
    return living(replay)


def living(replay: Replay) -> list[dict[str, Any]]:
    """The same, where the rows have been fed already."""
    everything = (group.describe() for group in replay.groups())
    return [picture for picture in everything if picture["state"] != "Dead"]


def choose(
    found: Sequence[dict[str, Any]], *, types: Collection[str] = (), states: Collection[str] = ()
) -> list[dict[str, Any]]:
    """The groups of these types and in these states, in whatever case they are spelled; empty for all."""
    wanted_types = set(map(_plain, types))
    wanted_states = set(map(_plain, states))
    return [
        picture
        for picture in found
        if (not wanted_types or _plain(picture["type"]) in wanted_types)
        and (not wanted_states or _plain(picture["state"]) in wanted_states)
    ]


def _plain(name: str) -> str:
    """``NotReady``, ``notready`` and ``not_ready`` are the same."""
    return name.lower().replace("_", "")


def require(found: Collection[str], groups: Collection[str], where: str) -> None:
    """Raises GroupReplayError when one of the named groups is not among those found."""
    missing = sorted(set(groups) - set(found))
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
        "group_epoch": picture["group_epoch"],
        "risk": risk(picture),
    }


def list_table(found: Sequence[Picture]) -> Table:
    """One row a group; the groups of the newer kinds have their group epoch for a generation."""
    rows = [
        (
            *(one[name] for name in ("group_id", "type", "state", "members")),
            one["group_epoch"] if one["generation"] is None else one["generation"],
            _time(one["since_ms"]),
            one["risk"],
        )
        for one in map(summary, found)
    ]
    return Table(("GROUP", "TYPE", "STATE", "#MEMBERS", "GENERATION", "SINCE", "RISK"), rows)


class _Tool(Enum):
    """Which of Kafka's tools describes a group: each has columns of its own."""

    CONSUMER = ("classic", "consumer")
    SHARE = ("share",)
    STREAMS = ("streams",)


@dataclass(frozen=True, slots=True)
class _Line:
    """What one row of a table is made from: a group, and one of its members or partitions."""

    group: Picture
    identity: TopicIdentity | None
    member: Picture = field(default_factory=dict)
    offset: Picture = field(default_factory=dict)


class _Column(NamedTuple):
    """``verbose``: None in both forms, else only with (True) or only without --verbose (False)."""

    heading: str
    cell: Callable[[_Line], Cell]
    verbose: bool | None = None


def describe_tables(
    found: Sequence[Picture], view: DescribeView, rows: Rows, *, verbose: bool, by_expiry: bool = False
) -> list[Table]:
    """The chosen view of the groups, one table for each of Kafka's tools that would show one of them."""
    tables = []
    for tool in _Tool:
        groups = [picture for picture in found if picture["type"] in tool.value]
        if groups or (tool is _Tool.CONSUMER and not found):
            columns = [column for column in _COLUMNS[tool, view] if column.verbose in (None, verbose)]
            lines = (line for group in groups for line in _LINES[view](group, rows.identity))
            ordered = sorted(lines, key=_expiry) if by_expiry else lines
            cells = [tuple(column.cell(line) for column in columns) for line in ordered]
            tables.append(Table(tuple(column.heading for column in columns), cells))
    return tables


def _expiry(line: _Line) -> tuple[bool, int]:
    """What expires first comes first, what does not at the end."""
    at_ms = line.offset.get("expires_at_ms")
    return at_ms is None, at_ms or 0


def merged(tables: Sequence[Table]) -> Table:
    """All rows under the columns of all tables, for a format that has one heading only."""
    columns = tuple(dict.fromkeys(name for table in tables for name in table.columns))
    named = [dict(zip(table.columns, row, strict=True)) for table in tables for row in table.rows]
    return Table(columns, [tuple(row.get(name) for name in columns) for row in named])


def _group_lines(group: Picture, identity: TopicIdentity | None) -> Iterator[_Line]:
    yield _Line(group, identity)


def _member_lines(group: Picture, identity: TopicIdentity | None) -> Iterator[_Line]:
    return (_Line(group, identity, member) for member in group["members"])


def _offset_lines(group: Picture, identity: TopicIdentity | None) -> Iterator[_Line]:
    """Every partition that has a committed offset or an owner."""
    # What a streams group's members hold are tasks, which are named by subtopology and not by topic.
    members = () if group["type"] in _Tool.STREAMS.value else group["members"]
    owners = {
        (topic, number): member
        for member in members
        for topic, numbers in member["partitions"].items()
        for number in numbers
    }
    committed = {(offset["topic"], offset["partition"]): offset for offset in group["offsets"]}
    for topic, number in sorted({*owners, *committed}):
        offset = committed.get((topic, number), {"topic": topic, "partition": number})
        yield _Line(group, identity, owners.get((topic, number), {}), offset)


_LINES: Final[Mapping[DescribeView, Callable[[Picture, TopicIdentity | None], Iterator[_Line]]]] = {
    DescribeView.STATE: _group_lines,
    DescribeView.MEMBERS: _member_lines,
    DescribeView.OFFSETS: _offset_lines,
}


def _time(at_ms: int | None) -> str | None:
    return None if at_ms is None or at_ms < 0 else timestamp(at_ms)


def _partitions(held: Mapping[str, Sequence[int]] | None) -> str | None:
    """``orders:0,1;payments:0``."""
    return ";".join(f"{topic}:{','.join(map(str, held[topic]))}" for topic in sorted(held)) if held else None


def _tasks(held: Mapping[str, Sequence[int]] | None, before: str = "") -> str:
    """``ACTIVE:0:[0,1];STANDBY:1:[0];``; tasks that only keep a copy carry their role in their name."""
    roles: dict[str, str] = {}
    for name, numbers in sorted((held or {}).items()):
        subtopology, _, role = name.removesuffix(")").partition(" (")
        role = role.upper() or "ACTIVE"
        roles[role] = roles.get(role, f"{before}{role}:") + f"{subtopology}:[{','.join(map(str, numbers))}];"
    return "".join(roles[role] for role in ("ACTIVE", "STANDBY", "WARMUP") if role in roles)


def _upgraded(line: _Line) -> str | None:
    if line.group["type"] == "classic":
        return None
    return "false" if line.member["member_protocol"] == "classic" else "true"


def _worker(line: _Line) -> str | None:
    """``http://host:8083 offset 5 sink:[0,1]``: where a Connect worker is, and what it runs."""
    worker = line.member["connect"]
    if worker is None:
        return None
    tasks = worker["tasks"] or {}
    running = sorted({*(worker["connectors"] or ()), *tasks})
    parts = [f"{name}:[{','.join(map(str, tasks.get(name, ())))}]" for name in running]
    return " ".join([worker["url"], f"offset {worker['config_offset']}", *parts])


def _not_in_the_log(_: _Line) -> None:
    """What share groups have acknowledged, and the lag behind it."""


def _group(name: str, heading: str, *, verbose: bool | None = None) -> _Column:
    return _Column(heading, lambda line: line.group[name], verbose)


def _member(name: str, heading: str, *, verbose: bool | None = None) -> _Column:
    return _Column(heading, lambda line: line.member.get(name), verbose)


def _offset(name: str, heading: str, *, verbose: bool | None = None) -> _Column:
    return _Column(heading, lambda line: line.offset.get(name), verbose)


_GROUP: Final = _group("group_id", "GROUP")
_COORDINATOR: Final = _Column(
    "COORDINATOR (ID)", lambda line: coordinator_of(line.group["group_id"], line.identity)
)
_STATE: Final = _group("state", "STATE")
_GROUP_EPOCH: Final = _group("group_epoch", "GROUP-EPOCH", verbose=True)
_MEMBER_COUNT: Final = _Column("#MEMBERS", lambda line: len(line.group["members"]))
_SINCE: Final = _Column("SINCE", lambda line: _time(line.group["since_ms"]))
_HISTORY: Final = _group("history", "HISTORY", verbose=True)
_CONDITIONS: Final = _Column("CONDITIONS", lambda line: conditions_text(line.group), True)
_HELD: Final = _Column("#PARTITIONS", lambda line: sum(map(len, line.member["partitions"].values())))
_TARGET: Final = _Column(
    "TARGET-ASSIGNMENT", lambda line: _partitions(line.member["target_partitions"]), True
)
_MEMBER_STATE: Final = _member("state", "MEMBER-STATE", verbose=True)
_PLACE: Final = (_GROUP, _offset("topic", "TOPIC"), _offset("partition", "PARTITION"))
_LEADER_EPOCH: Final = _offset("leader_epoch", "LEADER-EPOCH", verbose=True)
_LOG_END: Final = "log_end_offset"
_EXPIRES: Final = _Column("EXPIRES", lambda line: _time(line.offset.get("expires_at_ms")))
_IF_LOST: Final = (
    _offset("earliest_replays", "EARLIEST-REPLAYS", verbose=True),
    _offset("latest_skips", "LATEST-SKIPS", verbose=True),
)
_COMMITTED: Final = _Column("COMMITTED", lambda line: _time(line.offset.get("commit_timestamp_ms")))

#: Kafka's columns in Kafka's order (ConsumerGroupCommand, ShareGroupCommand and StreamsGroupCommand of 4.3),
#: and behind them ours.
_COLUMNS: Final[Mapping[tuple[_Tool, DescribeView], Sequence[_Column]]] = {
    (_Tool.CONSUMER, DescribeView.STATE): (
        *(_GROUP, _COORDINATOR, _group("protocol", "ASSIGNMENT-STRATEGY"), _STATE, _GROUP_EPOCH),
        _group("target_epoch", "TARGET-ASSIGNMENT-EPOCH", verbose=True),
        *(_MEMBER_COUNT, _group("generation", "GENERATION"), _SINCE, _HISTORY, _CONDITIONS),
    ),
    (_Tool.SHARE, DescribeView.STATE): (
        *(_GROUP, _COORDINATOR, _STATE, _GROUP_EPOCH),
        _group("target_epoch", "ASSIGNMENT-EPOCH", verbose=True),
        *(_MEMBER_COUNT, _SINCE, _HISTORY, _CONDITIONS),
    ),
    (_Tool.STREAMS, DescribeView.STATE): (
        *(_GROUP, _COORDINATOR, _STATE, _GROUP_EPOCH),
        _group("target_epoch", "TARGET-ASSIGNMENT-EPOCH", verbose=True),
        *(_MEMBER_COUNT, _SINCE, _HISTORY),
        *(_group("topology_epoch", "TOPOLOGY-EPOCH", verbose=True), _CONDITIONS),
    ),
    (_Tool.CONSUMER, DescribeView.MEMBERS): (
        *(_GROUP, _member("member_id", "CONSUMER-ID"), _member("instance_id", "GROUP-INSTANCE-ID")),
        *(_member("client_host", "HOST"), _member("client_id", "CLIENT-ID"), _HELD),
        _member("epoch", "CURRENT-EPOCH", verbose=True),
        _Column("CURRENT-ASSIGNMENT", lambda line: _partitions(line.member["partitions"]), True),
        *(_group("target_epoch", "TARGET-EPOCH", verbose=True), _TARGET),
        *(_Column("UPGRADED", _upgraded, True), _MEMBER_STATE),
        _Column("REVOKING", lambda line: _partitions(line.member["revoking"]), True),
        *(_member("rack_id", "RACK", verbose=True), _Column("CONNECT", _worker, True)),
    ),
    (_Tool.SHARE, DescribeView.MEMBERS): (
        *(_GROUP, _member("member_id", "CONSUMER-ID"), _member("client_host", "HOST")),
        *(_member("client_id", "CLIENT-ID"), _HELD),
        _member("epoch", "MEMBER-EPOCH", verbose=True),
        _Column("ASSIGNMENT", lambda line: _partitions(line.member["partitions"])),
        *(_TARGET, _MEMBER_STATE, _member("rack_id", "RACK", verbose=True)),
    ),
    (_Tool.STREAMS, DescribeView.MEMBERS): (
        *(_GROUP, _group("target_epoch", "TARGET-ASSIGNMENT-EPOCH", verbose=True)),
        *(_group("topology_epoch", "TOPOLOGY-EPOCH", verbose=True), _member("member_id", "MEMBER")),
        _member("member_protocol", "MEMBER-PROTOCOL", verbose=True),
        *(_member("epoch", "MEMBER-EPOCH", verbose=True), _member("process_id", "PROCESS")),
        _member("client_id", "CLIENT-ID"),
        _Column("ASSIGNMENTS", lambda line: _tasks(line.member["partitions"]), False),
        _Column(
            "ASSIGNMENTS",
            lambda line: (
                _tasks(line.member["partitions"]) + _tasks(line.member["target_partitions"], "TARGET-")
            ),
            True,
        ),
        _MEMBER_STATE,
        _Column("REVOKING", lambda line: _tasks(line.member["revoking"]), True),
        _member("client_host", "HOST", verbose=True),
        _member("instance_id", "GROUP-INSTANCE-ID", verbose=True),
        _member("rack_id", "RACK", verbose=True),
    ),
    (_Tool.CONSUMER, DescribeView.OFFSETS): (
        *(*_PLACE, _LEADER_EPOCH, _offset("offset", "CURRENT-OFFSET")),
        *(_offset(_LOG_END, "LOG-END-OFFSET"), _offset("lag", "LAG")),
        *(_member("member_id", "CONSUMER-ID"), _member("client_host", "HOST")),
        *(
            _member("client_id", "CLIENT-ID"),
            _COMMITTED,
            _offset("metadata", "METADATA"),
            _EXPIRES,
            *_IF_LOST,
        ),
    ),
    (_Tool.SHARE, DescribeView.OFFSETS): (
        *(*_PLACE, _LEADER_EPOCH),
        *(_Column("START-OFFSET", _not_in_the_log), _Column("LAG", _not_in_the_log)),
    ),
    (_Tool.STREAMS, DescribeView.OFFSETS): (
        *(*_PLACE, _offset("offset", "CURRENT-OFFSET", verbose=True), _LEADER_EPOCH),
        *(_offset(_LOG_END, "LOG-END-OFFSET", verbose=True), _offset("lag", "OFFSET-LAG")),
        *(_offset("offset", "CURRENT-OFFSET", verbose=False), _COMMITTED, _offset("metadata", "METADATA")),
        *(_EXPIRES, *_IF_LOST),
    ),
}
