"""``groupreplay explain``: why a group is in its state, what was wrong and because of whom, and what to do first.

Imports nothing heavy at the top: ``--help`` loads this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import click

from groupreplay.app.cli.command import with_settings
from groupreplay.app.cli.flags import retention_flags, rules_file_flag, runbook_flag
from groupreplay.app.cli.inputs import (
    LogInput,
    exit_code,
    log_and_probes_flags,
    log_read,
    reading,
    warn_of_assumptions,
    warn_of_losses,
)
from groupreplay.app.cli.options import declared_as, flag, output_flag, switch, time_flag, time_zone_flag
from groupreplay.app.cli.printing_flags import (
    TableFlags,
    TimeRange,
    given_flags,
    point_ms,
    print_heading,
    table_flags,
    time_range,
)
from groupreplay.app.text.times import GivenTime
from groupreplay.streaming.base.clock import TimeZone

if TYPE_CHECKING:
    from groupreplay.app.inspection.explain import Explanation
    from groupreplay.app.text.tables import OutputFormat
    from groupreplay.streaming.config.rules_file import RulesSource
    from groupreplay.streaming.config.settings import RetentionFlags
    from groupreplay.streaming.engine.group_choice import GroupChoice
    from groupreplay.streaming.engine.replay import Replay
    from groupreplay.streaming.sources.source import Rows
    from groupreplay.timeline.document import TimelineDocument

#: Columns of text where stdout is no terminal.
_WIDTH: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainSettings:
    """The argument and the flags of ``explain``."""

    group: str = declared_as(click.argument("group"))
    log: LogInput = log_and_probes_flags()
    retention: RetentionFlags = retention_flags()
    at: GivenTime | None = time_flag("The group at this time: later records are ignored.")
    since: GivenTime | None = time_flag(
        "Explain this time and later; what was before counts, but is not told."
    )
    until: GivenTime | None = time_flag("Later records are ignored.")
    zone: TimeZone = time_zone_flag()
    complete_since: GivenTime | None = time_flag(
        "No record since this time is missing: a first commit after it proves that the group is new."
    )
    rules: RulesSource = rules_file_flag(runbook=runbook_flag())
    last: int = flag(
        "So many rebalances are listed, the last ones.", type=click.IntRange(1, 1_000), default=5
    )
    verbose: bool = switch("With the evidence of each sentence: events, records, answers of the brokers.")
    output: OutputFormat = output_flag("table", "json", "jsonl")
    table: TableFlags = table_flags()


@with_settings("explain", ExplainSettings)
def command(settings: ExplainSettings) -> int:
    """Explain a group: the cause, the chain that followed from it, and what to do first.

    GROUP is an id, or a glob. Each sentence is proven by the log or the brokers, inferred with its sum, or rests on a
    number that is named; what is not known is said. Below are the tables that it rests on: the states that led to the
    present one, the last rebalances, and what becomes of the committed offsets.
    """
    from groupreplay.app.cli.nothing_found import no_group, no_such
    from groupreplay.streaming.engine.group_choice import GroupChoice

    if settings.at is not None and (settings.since or settings.until):
        raise click.UsageError("Give either --at TIME, or --since and --until.")
    choice, times = GroupChoice([settings.group]), _times(settings)
    explanations, rows = _explanations(settings, times, choice)
    log = log_read(rows, settings.zone)
    nothing = None
    if choice.unmatched:
        nothing = no_group(choice.unmatched, choice, log.where, log.text())
    elif not explanations:
        asked = given_flags({"GROUP": [settings.group]}, times)
        nothing = no_such("record that can be read", asked, log.where, log.text())
    if explanations or settings.output != "table":
        _print(settings, times, explanations)
    return exit_code({}, nothing)


def _times(settings: ExplainSettings) -> TimeRange:
    if settings.at is not None:
        at = time_range(None, settings.at, settings.zone, settings.log.end)
        return replace(at, until_flag="--at")
    return time_range(settings.since, settings.until, settings.zone, settings.log.end)


def _explanations(
    settings: ExplainSettings, times: TimeRange, choice: GroupChoice
) -> tuple[list[Explanation], Rows]:
    """The explanations of the groups that match, by name; reports on stderr what was assumed and what was lost.

    Raises:
        GroupReplayError: the log cannot be read.
    """
    from groupreplay.app.inspection.explain import explanation
    from groupreplay.app.report.timelines import TimelineQuery, group_timelines, timeline_source
    from groupreplay.streaming.sources.source import context_of

    until_ms = times.until_ms
    source = timeline_source(settings.log.source(), [], since_ms=times.since_ms, until_ms=until_ms)
    with reading(settings.log) as rows:
        context = context_of(
            rows,
            settings.retention,
            policy=settings.rules.load(),
            complete_since_ms=point_ms(settings.complete_since, settings.zone, settings.log.end),
            member_events=True,
        )
        query = TimelineQuery(
            groups=choice,
            source=source,
            since_ms=times.since_ms,
            # A record of the moment itself counts, as in describe.
            until_ms=until_ms if until_ms is None or settings.at is None else until_ms + 1,
            end_ms=rows.complete_until(until_ms),
        )
        documents, replay = group_timelines(rows, context, query)
    described: dict[str | None, Any] = {group.group_id: group.describe() for group in replay.groups()}
    _warn(replay, rows, documents)
    retention_ms = context.assumed_retention_ms
    return [
        explanation(document, described.get(document.group_id), retention_ms, settings.last)
        for document in documents
    ], rows


def _warn(replay: Replay, rows: Rows, documents: Sequence[TimelineDocument]) -> None:
    """Report on stderr what was lost, and what was assumed."""
    warn_of_losses(replay)
    if documents:
        sessions = ((document.group_type, document.basis.assumed) for document in documents)
        warn_of_assumptions(replay.context, rows, sessions=sessions)


def _print(settings: ExplainSettings, times: TimeRange, explanations: Sequence[Explanation]) -> None:
    import sys

    from groupreplay.app.inspection.explain import explanation_lines, explanation_tables
    from groupreplay.app.text.terminal import terminal_width

    if settings.output != "table":
        settings.table.print([], explanations, settings.output, zone=settings.zone)
        return
    print_heading(times, settings.output)
    width = terminal_width(sys.stdout) or _WIDTH
    for number, told in enumerate(explanations):
        if number:
            click.echo()
        for line in explanation_lines(told, settings.zone, verbose=settings.verbose, width=width):
            click.echo(line)
        for question, table in explanation_tables(told):
            if table.rows:
                click.echo(f"\n{question}")
                settings.table.print(
                    [table], [], settings.output, zone=settings.zone, by_group=True, stacks=True
                )
