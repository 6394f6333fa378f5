"""``groupreplay describe``: offsets, members, state, history or states of groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.cli.command import with_settings
from groupreplay.streaming.cli.inputs import GroupsQuery, exit_code, need_connection, reading, replaying
from groupreplay.streaming.cli.options import Decorator, declared_as, flag, repeated_flag, switch

if TYPE_CHECKING:
    from groupreplay.streaming.inspection.groups import Description
    from groupreplay.streaming.inspection.lag import LogBounds
    from groupreplay.streaming.kafka.topic_reader import Rows
    from groupreplay.streaming.text.terminal import Table

    #: Tables, documents, and what ``--fail-on`` has found by group.
    _Answer = tuple[Sequence[Table], Sequence[Mapping[str, Any]], Mapping[str, Sequence[str]]]


def _view(name: str, text: str, **attributes: Any) -> Decorator[Any]:
    return click.option(f"--{name}", "view", flag_value=name, help=text, **attributes)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeSettings(GroupsQuery):
    """The flags of ``describe``; ``view`` is offsets, members, state, history or states."""

    groups: Sequence[str] = repeated_flag("Group to describe; may be repeated.", "--group", "GROUP")
    all_groups: bool = switch("Describe all groups.")
    view: str = declared_as(
        _view("offsets", "Offsets (the default).", default="offsets"),
        _view("members", "Members and the number of their partitions."),
        _view("state", "Coordinator, assignor, state, number of members."),
        _view("history", "Events: when, what, which members, and why."),
        _view("states", "All states over time, with the bounds of their begins (docs/states.md)."),
    )
    verbose: bool = switch("More columns: epochs, assignments and targets, leader epochs.")
    sort: str = flag(
        "Order of the offsets; member is that of Kafka's tool: the member with most partitions first.",
        type=click.Choice(("member", "topic", "expires")),
        default="member",
    )


@with_settings("describe", DescribeSettings)
def command(settings: DescribeSettings) -> int:
    """Print groups with the columns of Kafka's own tools, from the offsets topic alone.

    Each group type has the columns of the tool for that type. json and jsonl print everything known about each
    group, whatever the view; with --history and --states they print the rows of the table.
    """
    past = {"history": _history, "states": _states}.get(settings.view)
    if settings.all_groups == bool(settings.groups):
        raise click.UsageError("Give either --group or --all-groups.")
    if past is not None and settings.fail_on:
        raise click.UsageError(f"--fail-on needs the current state of groups: leave out --{settings.view}.")
    tables, documents, found = (past or _current)(settings)
    settings.table.print(
        tables,
        documents,
        settings.output,
        zone=settings.zone,
        by_group=True,
        stacks=settings.verbose,
    )
    return exit_code(found)


def _current(settings: DescribeSettings) -> _Answer:
    """The groups in the chosen view, and what ``--fail-on`` finds."""
    from groupreplay.streaming.inspection.describe import describe_tables
    from groupreplay.streaming.inspection.describe_columns import DescribeView
    from groupreplay.streaming.inspection.fail_on import Findings
    from groupreplay.streaming.inspection.groups import choose, live_groups, require
    from groupreplay.streaming.inspection.lag import with_lag

    findings = Findings(settings.fail_on)
    with replaying(settings, settings.groups or None) as (replay, rows):
        groups = live_groups(replay, rows, findings)
    chosen = choose(groups, types=settings.types)
    bounds = _log_bounds(settings, chosen, rows)
    chosen = with_lag(chosen, bounds)
    found = findings.lines(chosen, replay)
    # A group that has lost its offsets may already be deleted.
    require({*(group["group_id"] for group in groups), *found}, settings.groups, _where(settings, rows))
    tables = describe_tables(
        chosen,
        DescribeView(settings.view),
        rows.identity,
        # --columns may name one of the columns of --verbose.
        verbose=settings.verbose or bool(settings.table.columns),
        order=settings.sort,
        log_ends=bounds.ends,
    )
    return tables, chosen, found


def _log_bounds(settings: DescribeSettings, groups: Sequence[Description], rows: Rows) -> LogBounds:
    """The bounds of the partitions' logs: with --with-lag, and for the offsets of a live cluster.

    Ends of now say nothing about the offsets of an earlier time.
    """
    from groupreplay.streaming.inspection.lag import NO_BOUNDS, log_bounds
    from groupreplay.streaming.text.terminal import safe_line

    if settings.with_lag:
        return log_bounds(groups, need_connection(rows))
    is_now = settings.at_range().until_ms is None
    if rows.connection is None or settings.view != "offsets" or not is_now:
        return NO_BOUNDS
    try:
        return log_bounds(groups, rows.connection)
    except GroupReplayError as error:
        click.echo(safe_line(f"the ends of the partitions and the lag are not known: {error.what}"), err=True)
        return NO_BOUNDS


def _history(settings: DescribeSettings) -> _Answer:
    """The events of the groups, as rows."""
    from groupreplay.streaming.inspection.groups import require
    from groupreplay.streaming.inspection.history import history, history_table

    with replaying(settings, settings.groups or None, member_events=True) as (replay, rows):
        found = history(replay, rows)
    types = {name.lower() for name in settings.types}
    chosen = [row for row in found if not types or row["group_type"] in types]
    require({row["group_id"] for row in found}, settings.groups, _where(settings, rows))
    return [history_table(chosen)], chosen, {}


def _states(settings: DescribeSettings) -> _Answer:
    """The states of the groups over time, as rows."""
    from groupreplay.streaming.inspection.groups import require
    from groupreplay.streaming.inspection.state_history import state_rows, state_table

    with reading(settings.log) as (rows, _):
        found = state_rows(rows, set(settings.groups) or None, until_ms=settings.at_range().until_ms)
    types = {name.lower() for name in settings.types}
    chosen = [row for row in found if not types or row["group_type"] in types]
    require({row["group_id"] for row in found}, settings.groups, _where(settings, rows))
    return [state_table(chosen)], chosen, {}


def _where(settings: DescribeSettings, rows: Rows) -> str:
    return ", ".join(map(str, settings.log.from_file)) or rows.cluster_id
