"""The tables of ``describe``: one for each of Kafka's tools that describes one of the groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from groupreplay.app.inspection.describe_columns import COLUMNS, DescribeLine, DescribeView, KafkaTool
from groupreplay.app.inspection.groups import Description
from groupreplay.app.text.terminal import Table

if TYPE_CHECKING:
    from groupreplay.streaming.kafka.clients import TopicIdentity


def describe_tables(
    groups: Sequence[Description],
    view: DescribeView,
    identity: TopicIdentity | None,
    *,
    verbose: bool,
    order: str = "member",
    log_ends: Mapping[tuple[str, int], int] = MappingProxyType({}),
) -> list[Table]:
    """One table per tool.

    ``order`` of offsets: ``member`` (the order of Kafka's tool: the member with most partitions first, partitions
    without an owner last), ``topic``, or ``expires`` (the earliest first). ``identity`` names the coordinators; None
    for a capture. ``log_ends`` are those of partitions that have an owner and perhaps no committed offset.
    """
    tables = []
    for tool in KafkaTool:
        chosen = [group for group in groups if group["type"] in tool.value]
        if chosen or (tool is KafkaTool.CONSUMER and not groups):
            columns = [column for column in COLUMNS[tool, view] if column.verbose in (None, verbose)]
            lines = [line for group in chosen for line in _lines(view, group, identity, log_ends)]
            ordered = _ordered(lines, order) if view is DescribeView.OFFSETS else lines
            cells = [tuple(column.cell(line) for column in columns) for line in ordered]
            tables.append(Table(tuple(column.heading for column in columns), cells))
    return tables


def _expiry(line: DescribeLine) -> tuple[bool, int]:
    """Sort key: the earliest expiry first, offsets that do not expire last."""
    at_ms = line.offset.get("expires_at_ms")
    return at_ms is None, at_ms or 0


def _ordered(lines: Sequence[DescribeLine], order: str) -> Sequence[DescribeLine]:
    if order == "expires":
        return sorted(lines, key=_expiry)
    if order == "topic":
        return lines
    owned = Counter((one.group["group_id"], one.member.get("member_id")) for one in lines)
    places = dict[tuple[str, str | None], int]()
    for key in _members(lines):
        places[key] = len(places)

    def by_member(one: DescribeLine) -> tuple[str, bool, int, int]:
        group_id, member_id = one.group["group_id"], one.member.get("member_id")
        count = owned[group_id, member_id]
        return group_id, member_id is None, -count, places.get((group_id, member_id), 0)

    return sorted(lines, key=by_member)


def _members(lines: Sequence[DescribeLine]) -> Iterator[tuple[str, str]]:
    """Group and member id, in the order of the groups' members."""
    for group in {one.group["group_id"]: one.group for one in lines}.values():
        for member in group["members"]:
            yield group["group_id"], member["member_id"]


def _lines(
    view: DescribeView,
    group: Description,
    identity: TopicIdentity | None,
    log_ends: Mapping[tuple[str, int], int],
) -> Iterator[DescribeLine]:
    if view is DescribeView.STATE:
        yield DescribeLine(group, identity)
    elif view is DescribeView.MEMBERS:
        yield from (DescribeLine(group, identity, member) for member in group["members"])
    else:
        yield from _offset_lines(group, identity, log_ends)


def _offset_lines(
    group: Description, identity: TopicIdentity | None, log_ends: Mapping[tuple[str, int], int]
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
        bare = {"topic": topic, "partition": number, "log_end_offset": log_ends.get((topic, number))}
        offset = committed.get((topic, number), bare)
        yield DescribeLine(group, identity, owners.get((topic, number), {}), offset)
