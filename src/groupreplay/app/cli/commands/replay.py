"""``groupreplay replay``: the events of a capture or a live topic, without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import click

from groupreplay.app.cli.cluster_flags import retention_flags
from groupreplay.app.cli.command import with_settings
from groupreplay.app.cli.display import display
from groupreplay.app.cli.inputs import (
    LogInput,
    context_of,
    log_and_probes_flags,
    log_read,
    nothing_found,
    open_rows,
    warn_of_assumptions,
    warn_of_losses,
    with_probes,
)
from groupreplay.app.cli.options import (
    groups_flag,
    output_flag,
    repeated_flag,
    severity_flag,
    time_flag,
    time_zone_flag,
)
from groupreplay.app.cli.policy_flags import (
    labels_flag,
    member_events_flag,
    need_event_types,
    redaction_flags,
    rules_flags,
)
from groupreplay.app.cli.time_range import TimeRange, event_headings, given_flags, point_ms, time_range
from groupreplay.app.text.times import GivenTime
from groupreplay.streaming.base.errors import ExitCode
from groupreplay.streaming.base.time_zones import TimeZone

if TYPE_CHECKING:
    from groupreplay.app.cli.nothing_found import LogRead
    from groupreplay.state.policy.redaction import Redaction
    from groupreplay.streaming.config.rules_file import RulesSource
    from groupreplay.streaming.config.settings import RetentionFlags
    from groupreplay.streaming.engine.event_tally import EventTally
    from groupreplay.streaming.engine.group_choice import GroupChoice

_COLOURS: Final = {"WARN": "yellow", "ERROR": "red", "OK": "green"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """The flags of ``replay``."""

    log: LogInput = log_and_probes_flags()
    retention: RetentionFlags = retention_flags()
    groups: Sequence[str] = groups_flag("Only this group")
    types: Sequence[str] = repeated_flag(
        "Only these events, for example rebalance.completed; may be repeated.", "--type", "EVENT"
    )
    min_severity: str = severity_flag()
    since: GivenTime | None = time_flag("Only events at or after this time.")
    until: GivenTime | None = time_flag("Only events before this time.")
    zone: TimeZone = time_zone_flag()
    member_events: bool = member_events_flag()
    complete_since: GivenTime | None = time_flag(
        "No record since this time is missing: a first commit after it proves that the group is new."
    )
    labels: Mapping[str, str] = labels_flag()
    redaction: Redaction | None = redaction_flags()
    rules: RulesSource = rules_flags()
    output: Literal["table", "jsonl"] = output_flag("table", "jsonl")


@with_settings("replay", ReplaySettings)
def command(settings: ReplaySettings) -> int:
    """Print the events of all groups ordered by time, as the job would emit them, without Spark.

    jsonl prints the job's CloudEvents, one per line. The job has read every record since its first start; here
    --complete-since states since when none is missing.
    """
    from groupreplay.app.text.terminal import Progress
    from groupreplay.state import Severity
    from groupreplay.streaming.engine.event_tally import EventTally
    from groupreplay.streaming.engine.group_choice import GroupChoice
    from groupreplay.streaming.engine.replay import Filter, Replay, events_in_order

    policy = settings.rules.load()
    types = need_event_types(settings.types)
    times = time_range(settings.since, settings.until, settings.zone, settings.log.end)
    least_severity = Severity[settings.min_severity.upper()]
    tally = EventTally(
        Filter(types=types, since_ms=times.since_ms, until_ms=times.until_ms, least_severity=least_severity)
    )
    choice = GroupChoice(settings.groups)
    with Progress("records read") as progress:
        rows, is_probed = with_probes(open_rows(settings.log, progress=progress))
        context = context_of(
            rows,
            retention=settings.retention,
            policy=policy,
            probing=is_probed,
            complete_since_ms=point_ms(settings.complete_since, settings.zone, settings.log.end),
            member_events=settings.member_events,
            labels=settings.labels,
            redaction=settings.redaction,
        )
        replay = Replay(context, choice)
        _print_events(events_in_order(replay.feed(rows), tally), progress.close, times, settings.output)
    warn_of_losses(replay)
    if tally.shown:
        warn_of_assumptions(context, rows)
    return _exit_code(settings, times, choice, tally, log_read(settings.log, rows, settings.zone))


def _print_events(events: Iterable[bytes], before: Callable[[], None], times: TimeRange, output: str) -> None:
    if output == "jsonl":
        _print_jsonl(events, before)
    else:
        _print_lines(events, before, times, colour=display().colour)


def _exit_code(
    settings: ReplaySettings, times: TimeRange, choice: GroupChoice, tally: EventTally, log: LogRead
) -> int:
    """Say what was not found; 5 if anything was not."""
    from groupreplay.app.cli.nothing_found import no_event, no_group

    if choice.unmatched:
        return nothing_found(no_group(choice.unmatched, choice, log))
    if tally.shown:
        return ExitCode.OK
    asked = given_flags({"--group": settings.groups, "--type": settings.types}, times, settings.min_severity)
    return nothing_found(no_event(asked, tally, log))


def _print_jsonl(events: Iterable[bytes], before: Callable[[], None]) -> None:
    from groupreplay.app.text.terminal import escape_json

    for value in events:
        before()
        click.echo(escape_json(value.decode()))


def _print_lines(
    events: Iterable[bytes], before: Callable[[], None], times: TimeRange, *, colour: bool
) -> None:
    from groupreplay.app.text.event_text import line_of

    for number, value in enumerate(events):
        before()
        if number == 0:
            for heading in event_headings(times):
                click.echo(click.style(heading, bold=True) if colour else heading)
        line = line_of(json.loads(value), times.zone)
        text = line.plain()
        click.echo(click.style(text, fg=_COLOURS.get(line.label)) if colour else text)
