"""``groupreplay lag``: how far groups are behind, in records and in time, now or at any moment.

Imports nothing heavy at the top: ``--help`` loads this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from groupreplay.app.cli.command import with_settings
from groupreplay.app.cli.flags import retention_flags, rules_file_flag
from groupreplay.app.cli.inputs import (
    LogInput,
    exit_code,
    log_and_probes_flags,
    log_read,
    reading,
    warn_of_losses,
)
from groupreplay.app.cli.options import (
    TABLE_FORMATS,
    duration,
    flag,
    groups_flag,
    output_flag,
    time_flag,
    time_zone_flag,
)
from groupreplay.app.cli.printing_flags import (
    TableFlags,
    TimeRange,
    given_flags,
    point_or_range,
    print_heading,
    table_flags,
)
from groupreplay.app.text.times import GivenTime
from groupreplay.streaming.base.clock import TimeZone
from groupreplay.streaming.base.errors import GroupReplayError

if TYPE_CHECKING:
    from groupreplay.app.inspection.lag_history import LagRow
    from groupreplay.app.text.tables import OutputFormat
    from groupreplay.streaming.config.rules_file import RulesSource
    from groupreplay.streaming.config.settings import RetentionFlags
    from groupreplay.streaming.engine.group_choice import GroupChoice
    from groupreplay.streaming.sources.source import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class LagSettings:
    """The flags of ``lag``; ``step`` in milliseconds."""

    log: LogInput = log_and_probes_flags()
    retention: RetentionFlags = retention_flags()
    groups: Sequence[str] = groups_flag("Only this group")
    topics: Sequence[str] = flag(
        "Only this topic, an id or a glob; may be repeated.", "--topic", multiple=True
    )
    at: GivenTime | None = time_flag("The lag at this time.")
    since: GivenTime | None = time_flag("The lag over time, from this time on.")
    until: GivenTime | None = time_flag("Before this time; without --since the lag then.")
    step: int | None = flag(
        "With --since: the time between two rows; by default about thirty rows.",
        type=duration,
        metavar="DURATION",
    )
    zone: TimeZone = time_zone_flag()
    rules: RulesSource = rules_file_flag()
    output: OutputFormat = output_flag(*TABLE_FORMATS)
    table: TableFlags = table_flags()


@with_settings("lag", LagSettings)
def command(settings: LagSettings) -> int:
    """Print how far groups are behind: in records, and in time since the end passed the committed offset.

    The ends of partitions are those that the prober has recorded (docs/lag.md), and on a live cluster also those of
    now. With --since the lag over time, a row for each group and topic. What is not known is empty, with the reason.
    """
    from groupreplay.app.inspection.lag_history import current_table, history_table
    from groupreplay.streaming.engine.group_choice import GroupChoice

    times = point_or_range(settings.at, settings.since, settings.until, settings.zone, settings.log.end)
    choice, is_history = GroupChoice(settings.groups), settings.since is not None
    rows, read, has_ends = (_history if is_history else _current)(settings, times, choice)
    if not has_ends:
        click.echo(
            "the lag is not known: no prober has recorded the ends of partitions here (docs/lag.md)", err=True
        )
    asked = given_flags({"--group": settings.groups, "--topic": settings.topics}, times)
    log = log_read(read, settings.zone)
    nothing = log.nothing("committed offset", asked, choice, shown=rows)
    if rows or settings.output != "table":
        print_heading(times, settings.output)
        table = (history_table if is_history else current_table)(rows)
        settings.table.print([table], rows, settings.output, zone=settings.zone, by_group=True)
    return exit_code({}, nothing)


_Answer = tuple[Sequence["LagRow"], "Rows", bool]


def _current(settings: LagSettings, times: TimeRange, choice: GroupChoice) -> _Answer:
    """The rows at one moment, what was read, and whether any ends are known."""
    from groupreplay.app.inspection.group_lag import GroupLags
    from groupreplay.app.inspection.groups import live_groups
    from groupreplay.app.inspection.lag_history import current_rows
    from groupreplay.app.text.terminal import safe_line
    from groupreplay.streaming.engine.group_choice import GroupChoice
    from groupreplay.streaming.engine.replay import Replay
    from groupreplay.streaming.sources.recorded_ends import recorded_ends
    from groupreplay.streaming.sources.source import context_of

    until_ms = times.until_ms
    with reading(settings.log) as read:
        ends, rows = recorded_ends(read)
        context = context_of(rows, settings.retention, policy=settings.rules.load())
        replay = Replay(context, choice, until_ms=until_ms, now_ms=rows.complete_until(until_ms))
        groups = live_groups(replay, rows)
    warn_of_losses(replay)
    lags = GroupLags(ends, until_ms or replay.latest_ms)
    if rows.connection is not None and until_ms is None:
        try:
            lags = lags.with_now(groups, rows.connection)
        except GroupReplayError as error:
            click.echo(safe_line(f"the ends of now are not known: {error.what}"), err=True)
    return current_rows(groups, lags, GroupChoice(settings.topics)), rows, bool(ends)


def _history(settings: LagSettings, times: TimeRange, choice: GroupChoice) -> _Answer:
    """The rows of many moments, what was read, and whether any ends are known."""
    from groupreplay.app.inspection.lag_history import history_rows, moments
    from groupreplay.streaming.contract.log import LogExtent
    from groupreplay.streaming.engine.group_choice import GroupChoice
    from groupreplay.streaming.engine.group_log import GroupLogs
    from groupreplay.streaming.sources.recorded_ends import recorded_ends

    with reading(settings.log) as read:
        ends, rows = recorded_ends(read)
        for _ in rows.probes:
            pass
        extent, group_logs = LogExtent(), GroupLogs(choice)
        for _ in group_logs.reading(extent.reading(rows.batches)):
            pass
    logs = {group: log.commits() for group, log in group_logs.logs.items()}
    until_ms = times.until_ms or rows.complete_ms or extent.last_ms or 0
    assert times.since_ms is not None
    at = moments(times.since_ms, max(times.since_ms, until_ms), settings.step)
    return list(history_rows(logs, ends, GroupChoice(settings.topics), at)), rows, bool(ends)
