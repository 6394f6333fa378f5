"""``groupreplay replay``: the events of a capture or a live topic, without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import click

from groupreplay.streaming.cli.cluster_flags import retention_flags
from groupreplay.streaming.cli.command import with_settings
from groupreplay.streaming.cli.display import display
from groupreplay.streaming.cli.inputs import (
    LogInput,
    context_of,
    log_and_probes_flags,
    open_rows,
    warn_of_losses,
    with_probes,
)
from groupreplay.streaming.cli.options import output_flag, repeated_flag, time_flag, time_zone_flag
from groupreplay.streaming.cli.policy_flags import (
    labels_flag,
    member_events_flag,
    need_event_types,
    redaction_flags,
    rules_flags,
)
from groupreplay.streaming.cli.time_range import point_ms, time_range
from groupreplay.streaming.text.given_time import GivenTime
from groupreplay.streaming.text.time_zone import TimeZone

if TYPE_CHECKING:
    from groupreplay.state.policy.redaction import Redaction
    from groupreplay.streaming.config.rules_file import RulesSource
    from groupreplay.streaming.config.settings import RetentionFlags

_COLOURS: Final = {"WARN": "yellow", "ERROR": "red", "OK": "green"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """The flags of ``replay``."""

    log: LogInput = log_and_probes_flags()
    retention: RetentionFlags = retention_flags()
    groups: Sequence[str] = repeated_flag("Only this group; may be repeated.", "--group", "GROUP")
    types: Sequence[str] = repeated_flag(
        "Only these events, for example rebalance.completed; may be repeated.", "--type", "EVENT"
    )
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
def command(settings: ReplaySettings) -> None:
    """Print the events of all groups ordered by time, as the job would emit them, without Spark.

    jsonl prints the job's CloudEvents, one per line. The job has read every record since its first start; here
    --complete-since states since when none is missing.
    """
    from groupreplay.streaming.engine.replay import Filter, Replay, events_in_order
    from groupreplay.streaming.text.terminal import Progress

    policy = settings.rules.load()
    types = need_event_types(settings.types)
    times = time_range(settings.since, settings.until, settings.zone, settings.log.end)
    wanted = Filter(types=types, since_ms=times.since_ms, until_ms=times.until_ms)
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
        replay = Replay(context, settings.groups or None)
        events = events_in_order(replay.feed(rows), wanted)
        _print_events(events, progress.close, settings.output, colour=display().colour)
    warn_of_losses(replay)


def _print_events(events: Iterable[bytes], before: Callable[[], None], output: str, *, colour: bool) -> None:
    from groupreplay.streaming.text.event_text import line_of
    from groupreplay.streaming.text.terminal import escape_json

    for value in events:
        before()
        if output == "jsonl":
            click.echo(escape_json(value.decode()))
        else:
            event = json.loads(value)
            line = line_of(event)
            text = f"{event['time'][:10]} {line.plain()}"
            click.echo(click.style(text, fg=_COLOURS.get(line.label)) if colour else text)
