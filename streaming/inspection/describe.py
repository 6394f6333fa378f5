"""The tables of ``describe``: one for each of Kafka's tools that describes one of the groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from groupreplay.streaming.inspection.describe_columns import COLUMNS, DescribeLine, DescribeView, KafkaTool
from groupreplay.streaming.inspection.groups import Description
from groupreplay.streaming.kafka.clients import TopicIdentity
from groupreplay.streaming.text.terminal import Table


def describe_tables(
    groups: Sequence[Description],
    view: DescribeView,
    identity: TopicIdentity | None,
    *,
    verbose: bool,
    by_expiry: bool = False,
) -> list[Table]:
    """One table per tool; ``by_expiry`` puts the offsets that expire first at the top.

    ``identity`` names the coordinators; None for a capture.
    """
    tables = []
    for tool in KafkaTool:
        chosen = [group for group in groups if group["type"] in tool.value]
        if chosen or (tool is KafkaTool.CONSUMER and not groups):
            columns = [column for column in COLUMNS[tool, view] if column.verbose in (None, verbose)]
            lines = (line for group in chosen for line in _lines(view, group, identity))
            ordered = sorted(lines, key=_expiry) if by_expiry else lines
            cells = [tuple(column.cell(line) for column in columns) for line in ordered]
            tables.append(Table(tuple(column.heading for column in columns), cells))
    return tables


def _expiry(line: DescribeLine) -> tuple[bool, int]:
    """Sort key: the earliest expiry first, offsets that do not expire last."""
    at_ms = line.offset.get("expires_at_ms")
    return at_ms is None, at_ms or 0


def _lines(view: DescribeView, group: Description, identity: TopicIdentity | None) -> Iterator[DescribeLine]:
    if view is DescribeView.STATE:
        yield DescribeLine(group, identity)
    elif view is DescribeView.MEMBERS:
        yield from (DescribeLine(group, identity, member) for member in group["members"])
    else:
        yield from _offset_lines(group, identity)


def _offset_lines(group: Description, identity: TopicIdentity | None) -> Iterator[DescribeLine]:
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
        offset = committed.get((topic, number), {"topic": topic, "partition": number})
        yield DescribeLine(group, identity, owners.get((topic, number), {}), offset)
