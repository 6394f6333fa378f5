"""``groupreplay replay``: the events of a capture or a live topic, without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from groupreplay.streaming.cli.cluster_flags import retention_options
from groupreplay.streaming.cli.display import Display, display_options
from groupreplay.streaming.cli.flag_values import moment
from groupreplay.streaming.cli.inputs import (
    LogInput,
    context_of,
    log_and_probes_options,
    open_rows,
    warn_of_losses,
    with_probes,
)
from groupreplay.streaming.cli.options import option, output_option, pairs_option
from groupreplay.streaming.cli.policy_flags import need_event_types, redact_options, rules_options

if TYPE_CHECKING:
    from groupreplay.state.policy.redaction import Redaction
    from groupreplay.streaming.config.rules_file import RulesSource
    from groupreplay.streaming.config.settings import RetentionFlags

_COLOURS: Final = {"WARN": "yellow", "ERROR": "red"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """The flags of ``replay``; times in milliseconds since 1970."""

    log: LogInput
    retention: RetentionFlags
    groups: Sequence[str]
    types: Sequence[str]
    since: int | None
    until: int | None
    member_events: bool
    complete_since: int | None
    labels: Mapping[str, str]
    redaction: Redaction | None
    rules: RulesSource
    output: Literal["table", "jsonl"]


@click.command("replay")
@log_and_probes_options
@retention_options
@option("--group", "groups", multiple=True, metavar="GROUP", help="Only this group; may be repeated.")
@option(
    "--type",
    "types",
    multiple=True,
    metavar="EVENT",
    help="Only these events, for example rebalance.completed; may be repeated.",
)
@option("--since", type=moment, metavar="TIME", help="Only events at or after this time.")
@option("--until", type=moment, metavar="TIME", help="Only events before this time.")
@option("--member-events", is_flag=True, help="Also emit member.joined, member.left and member.updated.")
@option(
    "--complete-since",
    type=moment,
    metavar="TIME",
    help="No record since this time is missing: a first commit after it proves that the group is new.",
)
@pairs_option("--label", "labels", help="Label to add to every event; may be repeated.")
@redact_options
@rules_options
@output_option("table", "jsonl")
@display_options
@click.pass_obj
def command(display: Display, /, **flags: Any) -> None:
    """Print the events of all groups ordered by time, as the job would emit them, without Spark.

    jsonl prints the job's CloudEvents, one per line. The job has read every record since its first start; here
    --complete-since states since when none is missing.
    """
    from groupreplay.streaming.engine.replay import Filter, Replay, events_in_order
    from groupreplay.streaming.text.terminal import Progress

    settings = ReplaySettings(**flags)
    policy = settings.rules.load()
    wanted = Filter(types=need_event_types(settings.types), since_ms=settings.since, until_ms=settings.until)
    with Progress("records read") as progress:
        rows, is_probed = with_probes(open_rows(settings.log, progress=progress))
        context = context_of(
            rows,
            retention=settings.retention,
            policy=policy,
            probing=is_probed,
            complete_since_ms=settings.complete_since,
            member_events=settings.member_events,
            labels=settings.labels,
            redaction=settings.redaction,
        )
        replay = Replay(context, settings.groups or None)
        events = events_in_order(replay.feed(rows), wanted)
        _print_events(events, progress.close, settings.output, colour=display.colour)
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
            click.echo(click.style(text, fg=_COLOURS.get(line.severity)) if colour else text)
