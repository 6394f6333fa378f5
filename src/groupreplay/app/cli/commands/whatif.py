"""``groupreplay whatif``: what a group's history would have been with other settings.

Imports nothing heavy at the top: ``--help`` loads this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from groupreplay.app.cli.command import with_settings
from groupreplay.app.cli.flags import retention_flags, rules_file_flag
from groupreplay.app.cli.histories import opened_history
from groupreplay.app.cli.inputs import LogInput, exit_code, history_flags, log_read, warn_of_losses
from groupreplay.app.cli.options import flag, output_flag, pairs_flag, time_flag, time_zone_flag
from groupreplay.app.cli.printing_flags import (
    TableFlags,
    TimeRange,
    given_flags,
    print_heading,
    table_flags,
    time_range,
)
from groupreplay.app.text.times import GivenTime
from groupreplay.streaming.base.clock import TimeZone

if TYPE_CHECKING:
    from groupreplay.app.text.tables import OutputFormat
    from groupreplay.app.whatif.question import Question
    from groupreplay.state import Context
    from groupreplay.streaming.config.rules_file import RulesSource
    from groupreplay.streaming.config.settings import RetentionFlags
    from groupreplay.streaming.engine.group_choice import GroupChoice
    from groupreplay.streaming.sources.source import Rows
    from groupreplay.timeline.group_history import GroupHistory
    from groupreplay.timeline.whatif.answer import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfSettings:
    """The flags of ``whatif``."""

    log: LogInput = history_flags()
    retention: RetentionFlags = retention_flags()
    group: str = flag("The group, by its id.", "--group", required=True, metavar="GROUP")
    changed: Mapping[str, str] = pairs_flag(
        "Another setting, of the clients or of the brokers, by Kafka's name, such as session.timeout.ms=10000; may be "
        "repeated.",
        "--set",
        metavar="NAME=VALUE",
    )
    recorded: Mapping[str, str] = pairs_flag(
        "A setting that the group really had and that no record has, such as heartbeat.interval.ms=1000; may be "
        "repeated.",
        "--recorded",
        metavar="NAME=VALUE",
    )
    draws: int = flag(
        "So many plays with either settings, each with other values of what the log does not show.",
        type=click.IntRange(10, 1_000),
        default=50,
    )
    seed: int = flag("The same seed gives the same answer.", type=int, default=0)
    since: GivenTime | None = time_flag("Only what happened from this time on.")
    until: GivenTime | None = time_flag("Later records are ignored.")
    zone: TimeZone = time_zone_flag()
    rules: RulesSource = rules_file_flag()
    output: OutputFormat = output_flag("table", "json")
    table: TableFlags = table_flags()


@with_settings("whatif", WhatIfSettings)
def command(settings: WhatIfSettings) -> int:
    """Play the recorded history of a group with other settings, and print the differences.

    Who came, left, hung and committed is taken from the log, and played by a model of Kafka's coordinator with the
    recorded settings and with the other settings. Only what the recorded settings reproduce is answered: rebalances,
    how long partitions stood still, partitions moved, offsets lost. docs/whatif.md has the settings and the limits.
    """
    from groupreplay.app.text.terminal import Progress
    from groupreplay.streaming.engine.group_choice import GroupChoice

    times = time_range(settings.since, settings.until, settings.zone, settings.log.end)
    question, choice = _question(settings, times), GroupChoice([settings.group])
    histories, context, rows = _read(settings, times, choice)
    if settings.group not in histories:
        asked, log = given_flags({"--group": [settings.group]}, times), log_read(rows, settings.zone)
        return exit_code({}, log.nothing("record that can be read", asked, choice, shown=()))
    with Progress("plays") as progress:
        answer = question.answer(histories[settings.group], context, progress)
    _print(settings, times, answer)
    return exit_code({}, None)


def _question(settings: WhatIfSettings, times: TimeRange) -> Question:
    """The question that the flags ask.

    Raises:
        UsageError: nothing is asked.
        GroupReplayError: a setting is unknown, or its value is not allowed.
    """
    from groupreplay.app.whatif.question import Question, asked_settings

    if not settings.changed:
        raise click.UsageError(
            "Nothing is asked: give --set NAME=VALUE, such as --set group.instance.id=auto."
        )
    return Question(
        changed=asked_settings(settings.changed, "--set"),
        stated=asked_settings(settings.recorded, "--recorded"),
        draws=settings.draws,
        seed=settings.seed,
        since_ms=times.since_ms,
    )


def _read(
    settings: WhatIfSettings, times: TimeRange, choice: GroupChoice
) -> tuple[Mapping[str, GroupHistory], Context, Rows]:
    """The histories of the group; reports on stderr what was lost.

    Raises:
        GroupReplayError: the log cannot be read.
    """
    from groupreplay.app.whatif.plays import group_histories

    with opened_history(settings) as (rows, context):
        end_ms = rows.complete_until(times.until_ms)
        histories, replay = group_histories(rows, context, choice, until_ms=times.until_ms, end_ms=end_ms)
    warn_of_losses(replay)
    return histories, context, rows


def _print(settings: WhatIfSettings, times: TimeRange, answer: Answer) -> None:
    from groupreplay.app.text.terminal import safe_line
    from groupreplay.app.whatif.answer_table import answer_table, summary_lines

    print_heading(times, settings.output)
    is_table = settings.output == "table"
    for line in summary_lines(answer, settings.zone):
        click.echo(safe_line(line), err=not is_table)
    settings.table.print([answer_table(answer)], [answer], settings.output, zone=settings.zone, stacks=True)
