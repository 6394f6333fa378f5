"""``groupreplay list``: all groups and their states."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from groupreplay.app.cli.command import with_settings
from groupreplay.app.cli.inputs import (
    GroupsQuery,
    exit_code,
    lag_asked_for,
    log_read,
    need_connection,
    replaying,
    warn_of_assumptions,
)
from groupreplay.app.cli.options import duration, flag, groups_flag, known_names_flag
from groupreplay.app.cli.printing_flags import TimeRange, given_flags, print_heading

if TYPE_CHECKING:
    from groupreplay.app.cli.nothing_found import LogRead, Nothing
    from groupreplay.app.inspection.group_lag import Description, GroupLags
    from groupreplay.app.text.tables import Table
    from groupreplay.streaming.engine.group_choice import GroupChoice


def _group_states() -> list[str]:
    from groupreplay.codecs.kafka_terms import group_states

    return group_states()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListSettings(GroupsQuery):
    """The flags of ``list``; ``expiring`` in milliseconds."""

    states: Sequence[str] = known_names_flag(
        "Only groups in these states, for example stable,empty.", "--state", known=_group_states
    )
    groups: Sequence[str] = groups_flag("Only this group")
    partitions: Sequence[int] = flag(
        "Only groups whose records are in this partition of the offsets topic; may be repeated.",
        "--partition",
        type=click.IntRange(min=0),
        multiple=True,
    )
    expiring: int | None = flag(
        "Only groups with offsets that expire within this time, for example 24h.",
        type=duration,
        metavar="DURATION",
    )


@with_settings("list", ListSettings)
def command(settings: ListSettings) -> int:
    """Print all groups, as kafka-consumer-groups.sh --list does, from the offsets topic alone.

    RISK is the worst active condition; groupreplay describe --state --verbose shows all of them. LAG and
    TIME-LAG are shown if a prober has recorded the ends of partitions, or with --with-lag. With --expiring,
    prints only groups whose committed offsets the broker may remove within that time, the earliest first; with
    --with-lag also how many records a consumer would then read again, or skip, depending on auto.offset.reset.
    If nothing expires within that time, it says so and exits with 5.
    """
    from groupreplay.app.inspection import groups as inspected
    from groupreplay.app.inspection.group_lag import GroupLags
    from groupreplay.app.inspection.records import noting_groups
    from groupreplay.streaming.engine.group_choice import GroupChoice
    from groupreplay.streaming.sources.recorded_ends import recorded_ends

    findings, at = inspected.Findings(settings.fail_on), settings.at_range()
    choice = GroupChoice(settings.groups)
    with replaying(settings, at, choice, partitions=settings.partitions) as (replay, read):
        # A prober's answers are about groups of all partitions.
        noted = GroupChoice()
        ends, rows = recorded_ends(read)
        batches = noting_groups(rows.batches, noted) if settings.partitions else rows.batches
        existing = inspected.live_groups(replay, dataclasses.replace(rows, batches=batches), findings)
    if settings.partitions:
        existing = _seen(existing, noted)
    groups = inspected.choose(existing, types=settings.types, states=settings.states)
    lags = GroupLags(ends, at.until_ms or replay.latest_ms)
    if settings.expiring is not None:
        groups = inspected.expiring(groups, replay.latest_ms + settings.expiring)
    # Ends of now say nothing about the offsets of an earlier time.
    if at.until_ms is None and lag_asked_for(settings, rows):
        lags = lags.with_now(groups, need_connection(rows))
    if settings.expiring is not None and groups:
        warn_of_assumptions(replay.context, rows, history=False)
    table, listed = _table(groups, lags, is_expiry=settings.expiring is not None)
    if groups or settings.output != "table":
        print_heading(at, settings.output)
        settings.table.print([table], listed, settings.output, zone=settings.zone)
    nothing = _nothing(settings, at, choice, existing, groups, log_read(rows, settings.zone))
    return exit_code(findings.lines(groups, replay), nothing)


def _seen(groups: Sequence[dict[str, Any]], noted: GroupChoice) -> list[dict[str, Any]]:
    """The groups that were seen."""
    ids = set(noted.seen)
    return [group for group in groups if group["group_id"] in ids]


def _table(
    groups: Sequence[Description], lags: GroupLags, *, is_expiry: bool
) -> tuple[Table, Sequence[object]]:
    from groupreplay.app.inspection import groups as inspected

    if is_expiry:
        expiring = [inspected.expiring_row(group) for group in lags.beside(groups)]
        return inspected.expiring_table(expiring), expiring
    rows = [inspected.group_row(group, lags) for group in groups]
    return inspected.list_table(rows, with_lag=bool(lags)), rows


def _nothing(
    settings: ListSettings,
    at: TimeRange,
    choice: GroupChoice,
    existing: Sequence[Mapping[str, Any]],
    shown: Sequence[Mapping[str, Any]],
    log: LogRead,
) -> Nothing | None:
    """The line about what was not found; None if everything was."""
    from groupreplay.app.cli.nothing_found import groups_read, no_group, no_such
    from groupreplay.app.inspection.groups import absent
    from groupreplay.state.phrases import milliseconds

    missing = absent(choice, [group["group_id"] for group in existing])
    if missing:
        return no_group(missing, choice, log.where, log.text())
    if shown:
        return None
    asked = given_flags(
        {
            "--group": settings.groups,
            "--type": settings.types,
            "--state": settings.states,
            "--partition": [str(number) for number in settings.partitions],
        },
        at,
    )
    asked += [] if settings.expiring is None else [f"--expiring {milliseconds(settings.expiring)}"]
    kinds = (f"{group['type']} {group['state']}" for group in existing)
    return no_such("group", asked, log.where, groups_read(kinds, log))
