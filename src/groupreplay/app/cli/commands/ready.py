"""``groupreplay ready``: may groups move to the rebalance protocol of KIP-848 or of KIP-1071, and what is in the way?

Imports nothing heavy at the top: ``--help`` loads this module.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from groupreplay.app.cli.command import with_settings
from groupreplay.app.cli.inputs import StateQuery, exit_code, log_read, replaying
from groupreplay.app.cli.options import flag, groups_flag
from groupreplay.app.cli.printing_flags import print_heading

if TYPE_CHECKING:
    from groupreplay.timeline.protocol_faults import Target
    from groupreplay.timeline.readiness import BrokerFacts, Readiness


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadySettings(StateQuery):
    """The flags of ``ready``."""

    to: str = flag(
        "The protocol: consumer (KIP-848), or streams (KIP-1071) for Kafka Streams applications.",
        "--to",
        type=click.Choice(["consumer", "streams"]),
        required=True,
    )
    groups: Sequence[str] = groups_flag("Only this group")


@with_settings("ready", ReadySettings)
def command(settings: ReadySettings) -> int:
    """Print whether groups may move to another rebalance protocol, and what is in the way.

    blocked: the brokers refuse it as the group is now. changes: the clients have to change something first. half_way:
    some members have moved. Exits with 6 if a group is blocked. docs/ready.md has the verdicts and their sources.
    """
    from groupreplay.app.cli.nothing_found import no_group
    from groupreplay.app.inspection import readiness
    from groupreplay.app.inspection.groups import absent, choose, live_groups
    from groupreplay.streaming.engine.group_choice import GroupChoice
    from groupreplay.timeline.protocol_faults import Target

    at, choice, to = settings.at_range(), GroupChoice(settings.groups), Target(settings.to)
    last = readiness.LastMembers(at.until_ms)
    with replaying(settings, at, choice) as (replay, rows):
        noted = dataclasses.replace(rows, batches=last.noted(rows.batches))
        groups = choose(live_groups(replay, noted), types=settings.types)
    # Streams groups keep no session of their clients.
    asked = [group["group_id"] for group in groups] if to is Target.CONSUMER else []
    brokers = readiness.broker_facts(replay.context, rows.connection, asked)
    answers = readiness.all_readiness(groups, last, to, brokers)
    print_heading(at, settings.output)
    _print(settings, answers, to, brokers)
    log, missing = log_read(rows, settings.zone), absent(choice, [group["group_id"] for group in groups])
    return exit_code(_blocked(answers), no_group(missing, choice, log.where, log.text()) if missing else None)


def _print(settings: ReadySettings, answers: Sequence[Readiness], to: Target, brokers: BrokerFacts) -> None:
    from groupreplay.app.inspection.readiness import readiness_table, summary_lines
    from groupreplay.timeline.readiness import NOT_IN_THE_LOG

    is_table = settings.output == "table"
    settings.table.print(
        [readiness_table(answers)], answers, settings.output, zone=settings.zone, by_group=True, stacks=True
    )
    if answers:
        for line in (*summary_lines(answers, to, brokers), NOT_IN_THE_LOG[to]):
            click.echo(line, err=not is_table)


def _blocked(answers: Sequence[Readiness]) -> dict[str, list[str]]:
    """What keeps each blocked group from moving."""
    from groupreplay.timeline.readiness import Verdict

    return {
        answer.group_id: [each.fact for each in answer.findings if each.verdict is Verdict.BLOCKED]
        for answer in answers
        if answer.verdict is Verdict.BLOCKED
    }
