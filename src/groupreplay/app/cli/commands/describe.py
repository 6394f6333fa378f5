"""``groupreplay describe``: offsets, members, state, history or states of groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from groupreplay.app.cli.command import giving_way, is_typed, with_settings
from groupreplay.app.cli.inputs import (
    GroupsQuery,
    LogInput,
    exit_code,
    history_flags,
    lag_asked_for,
    log_read,
    need_connection,
    reading,
    replaying,
    warn_of_assumptions,
)
from groupreplay.app.cli.options import (
    Decorator,
    declared_as,
    flag,
    groups_flag,
    severity_flag,
    switch,
    time_flag,
)
from groupreplay.app.cli.printing_flags import TimeRange, given_flags, print_heading, time_range
from groupreplay.app.text.times import GivenTime
from groupreplay.streaming.base.errors import GroupReplayError

if TYPE_CHECKING:
    from groupreplay.app.cli.nothing_found import Nothing
    from groupreplay.app.inspection.group_lag import Description, GroupLags
    from groupreplay.app.inspection.history import HistoryRow
    from groupreplay.app.inspection.state_history import StateRow
    from groupreplay.app.text.tables import Table
    from groupreplay.state import Context
    from groupreplay.streaming.engine.group_choice import GroupChoice
    from groupreplay.streaming.sources.source import Rows


_PastRow = TypeVar("_PastRow", "HistoryRow", "StateRow")


def _view(name: str, text: str, **attributes: Any) -> Decorator[Any]:
    return click.option(f"--{name}", "view", flag_value=name, help=text, **attributes)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeSettings(GroupsQuery):
    """The flags of ``describe``; ``view`` is offsets, members, state, history or states."""

    log: LogInput = history_flags()
    groups: Sequence[str] = groups_flag("Group to describe")
    all_groups: bool = switch("Describe all groups.")
    view: str = declared_as(
        _view("offsets", "Offsets (the default).", default="offsets"),
        _view("members", "Members and the number of their partitions."),
        _view("state", "Coordinator, assignor, state, number of members."),
        _view("history", "Events: when, what, which members, and why."),
        _view("states", "All states over time, with the bounds of their begins (docs/states.md)."),
    )
    since: GivenTime | None = time_flag("With --history and --states: only what was at or after this time.")
    until: GivenTime | None = time_flag("With --history and --states: only what was before this time.")
    min_severity: str = severity_flag("With --history: lowest severity to print.")
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
    settings = _that_apply(settings)
    past = _PAST.get(settings.view)
    if settings.all_groups == bool(settings.groups):
        raise click.UsageError("Give either --group or --all-groups.")
    if past is not None and settings.fail_on:
        raise click.UsageError(f"--fail-on needs the current state of groups: leave out --{settings.view}.")
    if past is None and (settings.since or settings.until or settings.min_severity != "info"):
        raise click.UsageError(
            "--since, --until and --min-severity need --history or --states; --at TIME shows one point in time."
        )
    if settings.view == "states" and settings.min_severity != "info":
        raise click.UsageError("--min-severity needs --history: states have no severity.")
    answer = (past or _current)(settings)
    if answer.documents or settings.output != "table":
        _print(settings, answer)
    return exit_code(answer.findings, answer.nothing)


def _that_apply(settings: DescribeSettings) -> DescribeSettings:
    """Without what was not typed and does not apply: it stands in the configuration file, for other calls."""
    empty = {"groups": (), "all_groups": False}
    settings = replace(settings, **giving_way(empty, groups="group"))
    if settings.view in _PAST and settings.fail_on:
        settings = replace(settings, **giving_way({"view": "offsets", "fail_on": ()}))
    unused: dict[str, Any] = {} if settings.view in _PAST else {"since": None, "until": None}
    unused |= {} if settings.view == "history" else {"min_severity": "info"}
    return replace(settings, **{name: value for name, value in unused.items() if not is_typed(name)})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """What is printed, the findings of ``--fail-on`` by group, and the line about what was not found."""

    tables: Sequence[Table]
    documents: Sequence[object]
    findings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    nothing: Nothing | None = None
    times: TimeRange


def _current(settings: DescribeSettings) -> _Shown:
    """The groups in the chosen view, and what ``--fail-on`` finds."""
    from groupreplay.app.inspection.describe import DescribeView, describe_tables
    from groupreplay.app.inspection.group_lag import GroupLags
    from groupreplay.app.inspection.groups import Findings, absent, choose, live_groups, remains
    from groupreplay.app.text.terminal import safe_line
    from groupreplay.streaming.engine.group_choice import GroupChoice
    from groupreplay.streaming.sources.recorded_ends import recorded_ends

    findings = Findings(settings.fail_on)
    choice = GroupChoice(settings.groups)
    at = settings.at_range()
    with replaying(settings, at, choice) as (replay, read):
        ends, rows = recorded_ends(read)
        is_offsets = settings.view == DescribeView.OFFSETS
        groups = live_groups(replay, rows, findings, with_remains=is_offsets)
    chosen = choose(groups, types=settings.types)
    lags = _lags(settings, at, chosen, rows, GroupLags(ends, at.until_ms or replay.latest_ms))
    chosen = lags.beside(chosen)
    lines = findings.lines(chosen, replay)
    # A group that has lost its offsets may already be deleted.
    for line in filter(None, map(remains, chosen)):
        click.echo(safe_line(line), err=True)
    if chosen and is_offsets:
        _warn_of_pending(replay.context, chosen)
        warn_of_assumptions(replay.context, rows, history=False, groups=chosen)
    missing = absent(choice, {*(group["group_id"] for group in groups), *lines})
    tables = describe_tables(
        chosen,
        DescribeView(settings.view),
        rows.identity,
        # --columns may name one of the columns of --verbose.
        verbose=settings.verbose or bool(settings.table.columns),
        order=settings.sort,
        lags=lags,
    )
    kinds = (f"{group['type']} {group['state']}" for group in groups)
    nothing = _nothing(settings, at, rows, choice, missing, kinds, chosen)
    return _Shown(tables=tables, documents=chosen, findings=lines, nothing=nothing, times=at)


def _warn_of_pending(context: Context, groups: Sequence[Description]) -> None:
    """Report on stderr the commits of open transactions."""
    from groupreplay.app.text.terminal import safe_line

    for group in groups:
        for commit in context.pending.get(group["group_id"], ()):
            click.echo(safe_line(f"{group['group_id']}: {commit.text()}"), err=True)


def _lags(
    settings: DescribeSettings, at: TimeRange, groups: Sequence[Description], rows: Rows, lags: GroupLags
) -> GroupLags:
    """With the ends of now: with --with-lag, and for the offsets of a live cluster.

    Ends of now say nothing about the offsets of an earlier time.
    """
    from groupreplay.app.text.terminal import safe_line

    if at.until_ms is not None:
        return lags
    if lag_asked_for(settings, rows):
        return lags.with_now(groups, need_connection(rows))
    if rows.connection is None or settings.view != "offsets":
        return lags
    try:
        return lags.with_now(groups, rows.connection)
    except GroupReplayError as error:
        click.echo(safe_line(f"the ends of the partitions and the lag are not known: {error.what}"), err=True)
        return lags


def _nothing(
    settings: DescribeSettings,
    times: TimeRange,
    rows: Rows,
    choice: GroupChoice,
    missing: Sequence[str],
    kinds: Iterable[str],
    shown: Sequence[object],
) -> Nothing | None:
    """The line about what was not found; None if everything was."""
    from groupreplay.app.cli.nothing_found import groups_read

    asked = given_flags({"--group": settings.groups, "--type": settings.types}, times, settings.min_severity)
    what = {"history": "event", "states": "state"}.get(settings.view, "group")
    log = log_read(rows, settings.zone)
    return log.nothing(what, asked, choice, shown=shown, missing=missing, contents=groups_read(kinds, log))


def _history(settings: DescribeSettings) -> _Shown:
    """The events of the groups, as rows."""
    from groupreplay.app.inspection.history import history, history_between, history_table
    from groupreplay.state import Severity
    from groupreplay.streaming.engine.group_choice import GroupChoice

    choice, times = GroupChoice(settings.groups), _times(settings)
    with replaying(settings, settings.at_range(), choice, member_events=True) as (replay, rows):
        everything = history(replay, rows)
    least = Severity[settings.min_severity.upper()]
    chosen = history_between(_of_types(settings, everything), times.since_ms, times.until_ms, least)
    if chosen:
        sessions = ((row.group_type, row.assumed) for row in chosen)
        warn_of_assumptions(replay.context, rows, sessions=sessions)
    return _past(settings, times, rows, choice, history_table(chosen), everything, chosen)


def _states(settings: DescribeSettings) -> _Shown:
    """The states of the groups over time, as rows."""
    from groupreplay.app.inspection.state_history import state_rows, state_table, states_between
    from groupreplay.streaming.engine.group_choice import GroupChoice

    choice, times = GroupChoice(settings.groups), _times(settings)
    with reading(settings.log) as rows:
        everything = state_rows(rows, choice, until_ms=settings.at_range().until_ms)
    chosen = states_between(_of_types(settings, everything), times.since_ms, times.until_ms)
    return _past(settings, times, rows, choice, state_table(chosen), everything, chosen)


def _times(settings: DescribeSettings) -> TimeRange:
    return time_range(settings.since, settings.until, settings.zone, settings.log.end)


def _of_types(settings: DescribeSettings, rows: Iterable[_PastRow]) -> list[_PastRow]:
    return [row for row in rows if not settings.types or row.group_type in settings.types]


def _past(
    settings: DescribeSettings,
    times: TimeRange,
    rows: Rows,
    choice: GroupChoice,
    table: Table,
    everything: Sequence[HistoryRow | StateRow],
    chosen: Sequence[HistoryRow | StateRow],
) -> _Shown:
    """The answer of a view with rows about the past: ``everything`` before and ``chosen`` after the filters."""
    from groupreplay.app.inspection.groups import absent

    types = {row.group_id: row.group_type for row in everything}
    nothing = _nothing(settings, times, rows, choice, absent(choice, types), types.values(), chosen)
    return _Shown(tables=[table], documents=chosen, nothing=nothing, times=times)


def _print(settings: DescribeSettings, answer: _Shown) -> None:
    print_heading(answer.times, settings.output)
    settings.table.print(
        answer.tables,
        answer.documents,
        settings.output,
        zone=settings.zone,
        by_group=True,
        stacks=settings.verbose,
    )


#: The views with rows about the past.
_PAST: Final = {"history": _history, "states": _states}
