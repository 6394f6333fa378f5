"""``groupreplay list``: all groups and their states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import click

from groupreplay.streaming.cli.command import with_settings
from groupreplay.streaming.cli.flag_values import duration
from groupreplay.streaming.cli.inputs import GroupsQuery, exit_code, need_connection, replaying
from groupreplay.streaming.cli.options import flag, names_flag


@dataclass(frozen=True, slots=True, kw_only=True)
class ListSettings(GroupsQuery):
    """The flags of ``list``; ``expiring`` in milliseconds."""

    states: Sequence[str] = names_flag("Only groups in these states, for example stable,empty.", "--state")
    expiring: int | None = flag(
        "Only groups with offsets that expire within this time, for example 24h.",
        type=duration,
        metavar="DURATION",
    )


@with_settings("list", ListSettings)
def command(settings: ListSettings) -> int:
    """Print all groups, as kafka-consumer-groups.sh --list does, from the offsets topic alone.

    RISK is the worst active condition; groupreplay describe --state --verbose shows all of them. With
    --expiring, prints only groups whose committed offsets the broker may remove within that time, the earliest
    first; with --with-lag also how many records a consumer would then read again, or skip, depending on
    auto.offset.reset.
    """
    from groupreplay.streaming.inspection import group_list
    from groupreplay.streaming.inspection.fail_on import Findings
    from groupreplay.streaming.inspection.groups import choose, live_groups
    from groupreplay.streaming.inspection.lag import log_bounds, with_lag

    if settings.with_lag and settings.expiring is None:
        raise click.UsageError("--with-lag needs --expiring: it measures the groups that --expiring selects.")
    findings = Findings(settings.fail_on)
    with replaying(settings) as (replay, rows):
        groups = live_groups(replay, rows, findings)
    groups = choose(groups, types=settings.types, states=settings.states)
    if settings.expiring is None:
        table, documents = group_list.list_table(groups), map(group_list.summary, groups)
    else:
        groups = group_list.expiring(groups, replay.latest_ms + settings.expiring)
        groups = with_lag(groups, log_bounds(groups, need_connection(rows))) if settings.with_lag else groups
        table, documents = group_list.expiring_table(groups), map(group_list.expiring_summary, groups)
    settings.table.print([table], documents, settings.output, zone=settings.zone)
    return exit_code(findings.lines(groups, replay))
