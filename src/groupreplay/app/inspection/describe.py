"""The tables of ``describe``: one for each of Kafka's tools that describes one of the groups.

Kafka's columns come first and in Kafka's order, so that scripts written for those tools keep working; then additional
ones. What the offsets topic does not hold stays empty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from groupreplay.app.inspection.group_lag import Description, time_lag_text
from groupreplay.app.inspection.groups import conditions_cell, generation
from groupreplay.app.text.tables import Cell, Moment, Table, moment
from groupreplay.state.phrases import milliseconds
from groupreplay.state.plausible_times import LATEST_MS

if TYPE_CHECKING:
    from groupreplay.app.inspection.group_lag import GroupLags
    from groupreplay.streaming.kafka.topic_identity import TopicIdentity


class DescribeView(str, Enum):
    """The views of ``describe`` that Kafka's tools also have."""

    OFFSETS = "offsets"
    MEMBERS = "members"
    STATE = "state"


class KafkaTool(Enum):
    """Kafka's describing tools, by the group types that each describes."""

    CONSUMER = ("classic", "consumer")
    SHARE = ("share",)
    STREAMS = ("streams",)


@dataclass(frozen=True, slots=True)
class DescribeLine:
    """The data of one table row: a group, and one of its members or offsets."""

    group: Description
    identity: TopicIdentity | None
    member: Description = field(default_factory=dict)
    offset: Description = field(default_factory=dict)


class Column(NamedTuple):
    """``verbose`` None: always shown; True: only with --verbose; False: only without it.

    ``if_any``: only shown if one of its cells has a value.
    """

    heading: str
    cell: Callable[[DescribeLine], Cell]
    verbose: bool | None = None
    if_any: bool = False


def _partitions(partitions: Mapping[str, Sequence[int]] | None) -> str | None:
    """``orders:0,1;payments:0``."""
    topics = sorted((partitions or {}).items())
    return ";".join(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in topics) or None


def _tasks(tasks: Mapping[str, Sequence[int]] | None, before: str = "") -> str:
    """``ACTIVE:0:[0,1];STANDBY:1:[0];``; names of standby and warm-up tasks contain their role."""
    roles: dict[str, str] = {}
    for name, numbers in sorted((tasks or {}).items()):
        subtopology, _, role = name.removesuffix(")").partition(" (")
        role = role.upper() or "ACTIVE"
        roles[role] = roles.get(role, f"{before}{role}:") + f"{subtopology}:[{','.join(map(str, numbers))}];"
    return "".join(roles[role] for role in ("ACTIVE", "STANDBY", "WARMUP") if role in roles)


def _upgraded(line: DescribeLine) -> str | None:
    if line.group["type"] == "classic":
        return None
    return "false" if line.member["member_protocol"] == "classic" else "true"


def _worker(line: DescribeLine) -> str | None:
    """``http://host:8083 offset 5 sink:[0,1]``: URL, config offset, connectors and tasks of a Connect worker."""
    worker = line.member["connect"]
    if worker is None:
        return None
    tasks = worker["tasks"] or {}
    running = sorted({*(worker["connectors"] or ()), *tasks})
    parts = [f"{name}:[{','.join(map(str, tasks.get(name, ())))}]" for name in running]
    return " ".join([worker["url"], f"offset {worker['config_offset']}", *parts])


def _leads(line: DescribeLine) -> str | None:
    leads = line.member["is_leader"]
    return None if leads is None else str(leads).lower()


def _subscription(line: DescribeLine) -> str | None:
    topics = line.member["topics"]
    return None if topics is None else ",".join(topics)


def _timeout(value_ms: int | None) -> str | None:
    return None if value_ms is None else milliseconds(value_ms)


def _rebalance_timeout(line: DescribeLine) -> str | None:
    """That of the member; of a classic group the largest one is waited for."""
    timeout = _timeout(line.member["rebalance_timeout_ms"])
    sets_it = line.group["rebalance_timeout_member"] == line.member.get("member_id")
    return f"{timeout} (the group's)" if timeout and sets_it else timeout


def _strategy(line: DescribeLine) -> str | None:
    """Kafka's tool prints the broker's default where no member asks for an assignor; it is in no record."""
    protocol = line.group["protocol"]
    unasked = protocol is None and line.group["type"] == "consumer" and line.group["members"]
    return "(broker default)" if unasked else protocol


def _expiry(offset: Description) -> Cell:
    """When it expires, or may expire; ``never`` if the client that committed it has asked for that."""
    may_ms = offset.get("may_expire_at_ms")
    if offset.get("expires_at_ms") is None and may_ms is not None and may_ms >= 0:
        return ("perhaps ", Moment(may_ms))
    if offset.get("expires_at_ms") is None and (offset.get("expire_timestamp_ms") or 0) > LATEST_MS:
        return "never"
    return moment(offset.get("expires_at_ms"))


def _group(name: str, heading: str, *, verbose: bool | None = None) -> Column:
    return Column(heading, lambda line: line.group[name], verbose)


def _member(name: str, heading: str, *, verbose: bool | None = None) -> Column:
    return Column(heading, lambda line: line.member.get(name), verbose)


def _offset(name: str, heading: str, *, verbose: bool | None = None) -> Column:
    return Column(heading, lambda line: line.offset.get(name), verbose)


_GROUP: Final = _group("group_id", "GROUP")
_COORDINATOR: Final = Column(
    "COORDINATOR (ID)",
    lambda line: None if line.identity is None else line.identity.coordinator_of(line.group["group_id"]),
)
_STATE: Final = _group("state", "STATE")
_GROUP_EPOCH: Final = _group("group_epoch", "GROUP-EPOCH", verbose=True)
_MEMBER_COUNT: Final = Column("#MEMBERS", lambda line: len(line.group["members"]))
_SINCE: Final = Column("SINCE", lambda line: moment(line.group["since_ms"]))
_HISTORY: Final = _group("history", "HISTORY", verbose=True)
_CONDITIONS: Final = Column("CONDITIONS", lambda line: conditions_cell(line.group), True)
_HELD: Final = Column("#PARTITIONS", lambda line: sum(map(len, line.member["partitions"].values())))
_TARGET: Final = Column("TARGET-ASSIGNMENT", lambda line: _partitions(line.member["target_partitions"]), True)
_MEMBER_STATE: Final = _member("state", "MEMBER-STATE", verbose=True)
_PARTITION: Final = (_GROUP, _offset("topic", "TOPIC"), _offset("partition", "PARTITION"))
_LEADER_EPOCH: Final = _offset("leader_epoch", "LEADER-EPOCH", verbose=True)
_EXPIRES: Final = Column("EXPIRES", lambda line: _expiry(line.offset))
#: What decides about the expiry.
_RULE: Final = (
    _offset("expiry_rule", "EXPIRY-RULE", verbose=True),
    _offset("expiry_base", "KEPT-SINCE", verbose=True),
)
_IF_LOST: Final = (
    _offset("earliest_replays", "EARLIEST-REPLAYS", verbose=True),
    _offset("latest_skips", "LATEST-SKIPS", verbose=True),
)
#: Beside Kafka's LAG; without ends of partitions there is nothing to say.
_TIME_LAG: Final = (
    Column(
        "TIME-LAG",
        lambda line: time_lag_text(line.offset.get("time_lag_least_ms"), line.offset.get("time_lag_most_ms")),
        if_any=True,
    ),
    Column("LAG-NOTES", lambda line: "; ".join(line.offset.get("lag_notes", ())), if_any=True),
)
_COMMITTED: Final = Column("COMMITTED", lambda line: moment(line.offset.get("commit_timestamp_ms")))

#: Kafka's columns in the order of ConsumerGroupCommand, ShareGroupCommand and StreamsGroupCommand of 4.3, then the
#: additional ones.
COLUMNS: Final[Mapping[tuple[KafkaTool, DescribeView], Sequence[Column]]] = {
    (KafkaTool.CONSUMER, DescribeView.STATE): (
        *(_GROUP, _COORDINATOR, Column("ASSIGNMENT-STRATEGY", _strategy), _STATE, _GROUP_EPOCH),
        _group("target_epoch", "TARGET-ASSIGNMENT-EPOCH", verbose=True),
        *(
            _MEMBER_COUNT,
            Column("GENERATION", lambda line: generation(line.group)),
            _SINCE,
            _HISTORY,
            _CONDITIONS,
        ),
    ),
    (KafkaTool.SHARE, DescribeView.STATE): (
        *(_GROUP, _COORDINATOR, _STATE, _GROUP_EPOCH),
        _group("target_epoch", "ASSIGNMENT-EPOCH", verbose=True),
        *(_MEMBER_COUNT, _SINCE, _HISTORY, _CONDITIONS),
    ),
    (KafkaTool.STREAMS, DescribeView.STATE): (
        *(_GROUP, _COORDINATOR, _STATE, _GROUP_EPOCH),
        _group("target_epoch", "TARGET-ASSIGNMENT-EPOCH", verbose=True),
        *(_MEMBER_COUNT, _SINCE, _HISTORY),
        *(_group("topology_epoch", "TOPOLOGY-EPOCH", verbose=True), _CONDITIONS),
    ),
    (KafkaTool.CONSUMER, DescribeView.MEMBERS): (
        *(_GROUP, _member("member_id", "CONSUMER-ID"), _member("instance_id", "GROUP-INSTANCE-ID")),
        *(_member("client_host", "HOST"), _member("client_id", "CLIENT-ID"), _HELD),
        _member("epoch", "CURRENT-EPOCH", verbose=True),
        Column("CURRENT-ASSIGNMENT", lambda line: _partitions(line.member["partitions"]), True),
        *(_group("target_epoch", "TARGET-EPOCH", verbose=True), _TARGET),
        *(Column("UPGRADED", _upgraded, True), _MEMBER_STATE),
        Column("REVOKING", lambda line: _partitions(line.member["revoking"]), True),
        *(_member("rack_id", "RACK", verbose=True), Column("CONNECT", _worker, True)),
        *(Column("LEADER", _leads, True), Column("SUBSCRIPTION", _subscription, True)),
        Column("SESSION-TIMEOUT", lambda line: _timeout(line.member["session_timeout_ms"]), True),
        Column("REBALANCE-TIMEOUT", _rebalance_timeout, True),
    ),
    (KafkaTool.SHARE, DescribeView.MEMBERS): (
        *(_GROUP, _member("member_id", "CONSUMER-ID"), _member("client_host", "HOST")),
        *(_member("client_id", "CLIENT-ID"), _HELD),
        _member("epoch", "MEMBER-EPOCH", verbose=True),
        Column("ASSIGNMENT", lambda line: _partitions(line.member["partitions"])),
        *(_TARGET, _MEMBER_STATE, _member("rack_id", "RACK", verbose=True)),
    ),
    (KafkaTool.STREAMS, DescribeView.MEMBERS): (
        *(_GROUP, _group("target_epoch", "TARGET-ASSIGNMENT-EPOCH", verbose=True)),
        *(_group("topology_epoch", "TOPOLOGY-EPOCH", verbose=True), _member("member_id", "MEMBER")),
        _member("member_protocol", "MEMBER-PROTOCOL", verbose=True),
        *(_member("epoch", "MEMBER-EPOCH", verbose=True), _member("process_id", "PROCESS")),
        _member("client_id", "CLIENT-ID"),
        Column("ASSIGNMENTS", lambda line: _tasks(line.member["partitions"]), False),
        Column(
            "ASSIGNMENTS",
            lambda line: (
                _tasks(line.member["partitions"]) + _tasks(line.member["target_partitions"], "TARGET-")
            ),
            True,
        ),
        _MEMBER_STATE,
        Column("REVOKING", lambda line: _tasks(line.member["revoking"]), True),
        _member("client_host", "HOST", verbose=True),
        _member("instance_id", "GROUP-INSTANCE-ID", verbose=True),
        _member("rack_id", "RACK", verbose=True),
    ),
    (KafkaTool.CONSUMER, DescribeView.OFFSETS): (
        *(*_PARTITION, _LEADER_EPOCH, _offset("offset", "CURRENT-OFFSET")),
        *(_offset("log_end_offset", "LOG-END-OFFSET"), _offset("lag", "LAG")),
        *(_member("member_id", "CONSUMER-ID"), _member("client_host", "HOST")),
        *(_member("client_id", "CLIENT-ID"), _COMMITTED, _offset("metadata", "METADATA"), _EXPIRES),
        *(*_RULE, *_IF_LOST, *_TIME_LAG),
    ),
    (KafkaTool.SHARE, DescribeView.OFFSETS): (
        *(*_PARTITION, _LEADER_EPOCH),
        # These are in __share_group_state.
        *(Column("START-OFFSET", lambda _: None), Column("LAG", lambda _: None)),
    ),
    (KafkaTool.STREAMS, DescribeView.OFFSETS): (
        *(*_PARTITION, _offset("offset", "CURRENT-OFFSET", verbose=True), _LEADER_EPOCH),
        *(_offset("log_end_offset", "LOG-END-OFFSET", verbose=True), _offset("lag", "OFFSET-LAG")),
        *(_offset("offset", "CURRENT-OFFSET", verbose=False), _COMMITTED, _offset("metadata", "METADATA")),
        *(_EXPIRES, *_RULE, *_IF_LOST, *_TIME_LAG),
    ),
}


def describe_tables(
    groups: Sequence[Description],
    view: DescribeView,
    identity: TopicIdentity | None,
    *,
    verbose: bool,
    order: str = "member",
    lags: GroupLags | None = None,
) -> list[Table]:
    """One table per tool.

    ``order`` of offsets: ``member`` (the order of Kafka's tool: the member with most partitions first, partitions
    without an owner last), ``topic``, or ``expires`` (the earliest first). ``identity`` names the coordinators; None
    for a capture. ``lags``: for partitions that have an owner and perhaps no committed offset.
    """
    tables = []
    for tool in KafkaTool:
        chosen = [group for group in groups if group["type"] in tool.value]
        if chosen or (tool is KafkaTool.CONSUMER and not groups):
            columns = [column for column in COLUMNS[tool, view] if column.verbose in (None, verbose)]
            lines = [line for group in chosen for line in _lines(view, group, identity, lags)]
            ordered = _ordered(lines, order) if view is DescribeView.OFFSETS else lines
            tables.append(_table(columns, ordered))
    return tables


def _table(columns: Sequence[Column], lines: Sequence[DescribeLine]) -> Table:
    filled = [
        (column.heading, cells)
        for column in columns
        if any(cells := [column.cell(line) for line in lines]) or not column.if_any
    ]
    return Table(
        tuple(heading for heading, _ in filled), list(zip(*(cells for _, cells in filled), strict=True))
    )


def _expiry_order(line: DescribeLine) -> tuple[bool, int]:
    """Sort key: the earliest expiry first, offsets that do not expire last."""
    at_ms = line.offset.get("expires_at_ms")
    return at_ms is None, at_ms or 0


def _ordered(lines: Sequence[DescribeLine], order: str) -> Sequence[DescribeLine]:
    if order == "expires":
        return sorted(lines, key=_expiry_order)
    if order == "topic":
        return lines
    owned = Counter((line.group["group_id"], line.member.get("member_id")) for line in lines)
    places: dict[tuple[str, str | None], int] = {who: place for place, who in enumerate(_members(lines))}

    def by_member(line: DescribeLine) -> tuple[str, bool, int, int]:
        group_id, member_id = line.group["group_id"], line.member.get("member_id")
        count = owned[group_id, member_id]
        return group_id, member_id is None, -count, places.get((group_id, member_id), 0)

    return sorted(lines, key=by_member)


def _members(lines: Sequence[DescribeLine]) -> Iterator[tuple[str, str]]:
    """Group and member id, in the order of the groups' members."""
    for group in {line.group["group_id"]: line.group for line in lines}.values():
        for member in group["members"]:
            yield group["group_id"], member["member_id"]


def _lines(
    view: DescribeView, group: Description, identity: TopicIdentity | None, lags: GroupLags | None
) -> Iterator[DescribeLine]:
    if view is DescribeView.STATE:
        yield DescribeLine(group, identity)
    elif view is DescribeView.MEMBERS:
        yield from (DescribeLine(group, identity, member) for member in group["members"])
    else:
        yield from _offset_lines(group, identity, lags)


def _offset_lines(
    group: Description, identity: TopicIdentity | None, lags: GroupLags | None
) -> Iterator[DescribeLine]:
    """Every partition that has a committed offset or an owner."""
    # Members of a streams group own tasks, which are named by subtopology and not by topic.
    members = () if group["type"] in KafkaTool.STREAMS.value else group["members"]
    owners = {
        (topic, number): member
        for member in members
        for topic, numbers in member["partitions"].items()
        for number in numbers
    }
    committed = {(offset["topic"], offset["partition"]): offset for offset in group["offsets"]}
    for topic, number in sorted({*owners, *committed}):
        offset = committed.get((topic, number)) or _uncommitted(topic, number, lags)
        yield DescribeLine(group, identity, owners.get((topic, number), {}), offset)


def _uncommitted(topic: str, partition: int, lags: GroupLags | None) -> Description:
    bare = {"topic": topic, "partition": partition}
    if not lags:
        return bare
    lag = lags.of(topic, partition, None)
    return {**bare, "log_end_offset": lag.end, "lag_notes": lag.notes}
