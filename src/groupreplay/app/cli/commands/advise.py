"""``groupreplay advise``: which setting would have saved a group something, and what deployments cost.

Imports nothing heavy at the top: ``--help`` loads this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from groupreplay.app.cli.command import with_settings
from groupreplay.app.cli.flags import retention_flags, rules_file_flag
from groupreplay.app.cli.histories import opened_history, warn_of_history
from groupreplay.app.cli.inputs import LogInput, exit_code, history_flags, log_read
from groupreplay.app.cli.options import (
    complete_since_flag,
    flag,
    group_names,
    groups_flag,
    named_or_all,
    output_flag,
    processes_flag,
    switch,
    time_flag,
    time_zone_flag,
)
from groupreplay.app.cli.printing_flags import (
    TableFlags,
    TimeRange,
    given_flags,
    print_heading,
    table_flags,
    text_width,
    time_range,
)
from groupreplay.app.text.times import GivenTime
from groupreplay.streaming.base.clock import TimeZone

if TYPE_CHECKING:
    from groupreplay.app.report.advice import Advice, AdvisedGroups
    from groupreplay.app.report.timelines import TimelineQuery
    from groupreplay.app.text.tables import OutputFormat
    from groupreplay.state import Context
    from groupreplay.streaming.config.rules_file import RulesSource
    from groupreplay.streaming.config.settings import RetentionFlags
    from groupreplay.streaming.engine.group_choice import GroupChoice
    from groupreplay.streaming.engine.replay import Replay
    from groupreplay.streaming.sources.source import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviseSettings:
    """The arguments and the flags of ``advise``."""

    names: Sequence[str] = group_names()
    groups: Sequence[str] = groups_flag("Only this group, as GROUP")
    all_groups: bool = switch(
        "What all deployments cost, then the groups with findings, the largest effect first."
    )
    log: LogInput = history_flags()
    retention: RetentionFlags = retention_flags()
    since: GivenTime | None = time_flag(
        "Findings are about this time and later, for example 7d; deployments are compared with as long a time before."
    )
    until: GivenTime | None = time_flag("Later records are ignored.")
    zone: TimeZone = time_zone_flag()
    complete_since: GivenTime | None = complete_since_flag()
    rules: RulesSource = rules_file_flag()
    by: str = flag(
        "Deployments are added up by this label, which the rules give to groups.",
        metavar="LABEL",
        default="team",
    )
    processes: int | None = processes_flag(
        "With --all-groups of captures: so many processes replay a share of the groups each; without it one for each "
        "CPU if there is enough to read."
    )
    verbose: bool = switch(
        "With how each effect is computed, the events, and which kinds need a longer history."
    )
    output: OutputFormat = output_flag("table", "json", "jsonl")
    table: TableFlags = table_flags()


@with_settings("advise", AdviseSettings)
def command(settings: AdviseSettings) -> int:
    """Print which setting would have saved a group something, by its own history, and what its deployments cost.

    GROUP is an id, or a glob. Each finding has the span and the events that it rests on, what would have been saved, at
    least and at most, and the section of docs/advice.md that says when not to follow it. At most five a group, those of
    the largest effect first. A kind of advice that the history is too short for is named.
    """
    choice = named_or_all(settings.names, settings.groups, settings.all_groups)
    times = time_range(settings.since, settings.until, settings.zone, settings.log.end)
    advice, rows = _read(settings, times, choice)
    asked, log = given_flags({"GROUP": choice.patterns}, times), log_read(rows, settings.zone)
    nothing = log.nothing("group", asked, choice, shown=advice.groups)
    if advice.groups or settings.output != "table":
        _print(settings, times, advice)
    return exit_code({}, nothing)


def _read(settings: AdviseSettings, times: TimeRange, choice: GroupChoice) -> tuple[Advice, Rows]:
    """The advice on these groups; reports on stderr what was assumed and what was lost.

    Raises:
        GroupReplayError: the log cannot be read.
    """
    from groupreplay.app.report.advice import advice_of
    from groupreplay.app.report.timelines import TimelineQuery, timeline_source

    source = timeline_source(settings.log.source(), [], since_ms=times.since_ms, until_ms=times.until_ms)
    with opened_history(settings, complete_since=settings.complete_since) as (rows, context):
        query = TimelineQuery(
            groups=choice,
            source=source,
            since_ms=times.since_ms,
            until_ms=times.until_ms,
            end_ms=rows.complete_until(times.until_ms),
        )
        parts, replay = _parts(settings, rows, context, query)
    advice = advice_of(parts, times.since_ms, settings.by)
    warn_of_history(replay, rows, advice.assumed)
    return advice, rows


def _parts(
    settings: AdviseSettings, rows: Rows, context: Context, query: TimelineQuery
) -> tuple[Sequence[AdvisedGroups], Replay]:
    """What was found of the groups, in one part or, of all groups of a capture, by each process."""
    from groupreplay.app.report.advice import advised_groups
    from groupreplay.app.report.advice_shares import SharedReading, shared_advice, usual_processes
    from groupreplay.app.report.timelines import read_groups
    from groupreplay.app.text.terminal import Progress
    from groupreplay.streaming.sources.capture import CaptureSource

    source, processes = settings.log.source(), 1
    if settings.all_groups and isinstance(source, CaptureSource):
        processes = settings.processes or usual_processes(source)
    with Progress("groups advised") as progress:
        if processes > 1 and isinstance(source, CaptureSource):
            reading = SharedReading(source=source, rows=rows, context=context, query=query)
            return shared_advice(reading, processes, progress)
        read = read_groups(rows, context, query)
        return [advised_groups(read, progress)], read.replay


def _print(settings: AdviseSettings, times: TimeRange, advice: Advice) -> None:
    import textwrap

    from groupreplay.app.report.advice import advice_lines, deployment_lines, deployment_table, quiet_line

    if settings.output != "table":
        settings.table.print([], [*advice.sums, *advice.groups], settings.output, zone=settings.zone)
        return
    print_heading(times, settings.output)
    width = text_width()
    for line in deployment_lines(advice, settings.zone, width):
        click.echo(line)
    table = deployment_table(advice)
    if table.rows:
        settings.table.print([table], [], settings.output, zone=settings.zone)
    shown = [each for each in advice.groups if each.findings or not settings.all_groups]
    for number, advised in enumerate(shown):
        if number or advice.sums:
            click.echo()
        for line in advice_lines(advised, settings.zone, verbose=settings.verbose, width=width):
            click.echo(line)
    if settings.all_groups and (quiet := quiet_line(advice)) is not None:
        click.echo(
            ("\n" if shown or advice.sums else "") + textwrap.fill(quiet, width, break_on_hyphens=False)
        )
