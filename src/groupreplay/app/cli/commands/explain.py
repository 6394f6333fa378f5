"""``groupreplay explain``: why a group is in its state, what was wrong and because of whom, and what to do first.

Imports nothing heavy at the top: ``--help`` loads this module.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from groupreplay.app.cli.command import with_settings
from groupreplay.app.cli.flags import retention_flags, rules_file_flag, runbook_flag
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
    point_or_range,
    print_heading,
    table_flags,
    text_width,
)
from groupreplay.app.text.times import GivenTime
from groupreplay.streaming.base.clock import TimeZone

if TYPE_CHECKING:
    from groupreplay.app.inspection.explain import Explanation
    from groupreplay.app.text.tables import OutputFormat
    from groupreplay.streaming.config.rules_file import RulesSource
    from groupreplay.streaming.config.settings import RetentionFlags
    from groupreplay.streaming.engine.group_choice import GroupChoice
    from groupreplay.streaming.sources.source import Rows
    from groupreplay.timeline.incident_forms import SevereIncident


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainSettings:
    """The arguments and the flags of ``explain``."""

    names: Sequence[str] = group_names()
    groups: Sequence[str] = groups_flag("Only this group, as GROUP")
    all_groups: bool = switch("The incidents across groups, then the groups with a problem, the worst first.")
    worst: int = flag(
        "With --all-groups: so many groups are explained.", type=click.IntRange(0, 200), default=10
    )
    log: LogInput = history_flags()
    retention: RetentionFlags = retention_flags()
    at: GivenTime | None = time_flag("The group at this time: later records are ignored.")
    since: GivenTime | None = time_flag(
        "Explain this time and later; what was before counts, but is not told."
    )
    until: GivenTime | None = time_flag("Later records are ignored.")
    zone: TimeZone = time_zone_flag()
    complete_since: GivenTime | None = complete_since_flag()
    rules: RulesSource = rules_file_flag(runbook=runbook_flag())
    last: int = flag(
        "So many rebalances are listed, the last ones.", type=click.IntRange(1, 1_000), default=5
    )
    processes: int | None = processes_flag(
        "With --all-groups: so many processes share the work on a long log; without it one for each CPU."
    )
    verbose: bool = switch("With the evidence of each sentence: events, records, answers of the brokers.")
    output: OutputFormat = output_flag("table", "json", "jsonl")
    table: TableFlags = table_flags()


@with_settings("explain", ExplainSettings)
def command(settings: ExplainSettings) -> int:
    """Explain a group: the cause, the chain that followed from it, and what to do first.

    GROUP is an id, or a glob. Each sentence is proven by the log or the brokers, inferred with its sum, or rests on a
    number that is named; what is not known is said. Below are the tables that it rests on: the states that led to the
    present one, the last rebalances, and what becomes of the committed offsets. With --all-groups the incidents come
    first: what began in many groups at once, and what these share.
    """
    choice = named_or_all(settings.names, settings.groups, settings.all_groups)
    times = point_or_range(settings.at, settings.since, settings.until, settings.zone, settings.log.end)
    return _all_groups(settings, times) if settings.all_groups else _groups(settings, times, choice)


def _groups(settings: ExplainSettings, times: TimeRange, choice: GroupChoice) -> int:
    explanations, rows = _explanations(settings, times, choice)
    asked, log = given_flags({"GROUP": choice.patterns}, times), log_read(rows, settings.zone)
    nothing = log.nothing("record that can be read", asked, choice, shown=explanations)
    if explanations or settings.output != "table":
        _print(settings, times, (), explanations)
    return exit_code({}, nothing)


def _all_groups(settings: ExplainSettings, times: TimeRange) -> int:
    """Reads the log twice: for the incidents and the order of the groups, and for the worst ones."""
    from groupreplay.app.cli.nothing_found import no_such
    from groupreplay.app.report.overview import all_strips

    with opened_history(settings, complete_since=settings.complete_since) as (rows, context):
        end_ms = rows.complete_until(times.until_ms)
        last_ms = _last_ms(settings, times)
        overview = all_strips(rows, context, times.since_ms, last_ms, end_ms, settings.processes)
    log = log_read(rows, settings.zone)
    if not overview.strips:
        return exit_code({}, no_such("group", given_flags({}, times), log.where, log.text()))
    worst = [strip.group_id for strip in overview.strips if strip.tone != "ok"][: settings.worst]
    until = replace(times, until_ms=times.until_ms or overview.until_ms)
    explanations = _explanations(settings, until, frozenset(worst))[0] if worst else []
    explanations.sort(key=lambda explained: worst.index(explained.group_id))
    _print(settings, times, overview.incidents, explanations)
    return exit_code({}, None)


def _last_ms(settings: ExplainSettings, times: TimeRange) -> int | None:
    """A record of the moment itself counts, as in describe."""
    return times.until_ms if times.until_ms is None or settings.at is None else times.until_ms + 1


def _explanations(
    settings: ExplainSettings, times: TimeRange, groups: Container[str]
) -> tuple[list[Explanation], Rows]:
    """The explanations of these groups, by name; reports on stderr what was assumed and what was lost.

    Raises:
        GroupReplayError: the log cannot be read.
    """
    from groupreplay.app.inspection.explain import explanation
    from groupreplay.app.report.timelines import TimelineQuery, timeline_inputs, timeline_source
    from groupreplay.app.text.event_text import text_of
    from groupreplay.timeline.group_timeline import timeline_document

    until_ms = times.until_ms
    source = timeline_source(settings.log.source(), [], since_ms=times.since_ms, until_ms=until_ms)
    with opened_history(settings, complete_since=settings.complete_since) as (rows, context):
        query = TimelineQuery(
            groups=groups,
            source=source,
            since_ms=times.since_ms,
            until_ms=_last_ms(settings, times),
            end_ms=rows.complete_until(until_ms),
        )
        inputs, replay = timeline_inputs(rows, context, query)
    documents = [timeline_document(given, text_of) for given in inputs]
    described: dict[str | None, Any] = {group.group_id: group.describe() for group in replay.groups()}
    warn_of_history(replay, rows, ((each.group_type, each.basis.assumed) for each in documents))
    retention_ms = context.assumed_retention_ms
    return [
        explanation(document, described.get(document.group_id), retention_ms, settings.last)
        for document in documents
    ], rows


def _print(
    settings: ExplainSettings,
    times: TimeRange,
    incidents: Sequence[SevereIncident],
    explanations: Sequence[Explanation],
) -> None:
    from groupreplay.app.inspection.explain import explanation_lines, explanation_tables, incident_lines

    if settings.output != "table":
        settings.table.print([], [*incidents, *explanations], settings.output, zone=settings.zone)
        return
    print_heading(times, settings.output)
    width = text_width()
    for incident in incidents:
        for line in incident_lines(incident, width):
            click.echo(line)
    for number, told in enumerate(explanations):
        if number or incidents:
            click.echo()
        for line in explanation_lines(told, settings.zone, verbose=settings.verbose, width=width):
            click.echo(line)
        for question, table in explanation_tables(told):
            if table.rows:
                click.echo(f"\n{question}")
                settings.table.print(
                    [table], [], settings.output, zone=settings.zone, by_group=True, stacks=True
                )
