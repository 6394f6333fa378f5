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
    from groupreplay.app.inspection.group_use import CommitLoads
    from groupreplay.app.inspection.groups import Findings
    from groupreplay.app.text.tables import Table
    from groupreplay.streaming.engine.group_choice import GroupChoice
    from groupreplay.streaming.engine.replay import Replay
    from groupreplay.streaming.sources.source import Rows


def _group_states() -> list[str]:
    from groupreplay.codecs.kafka_terms import group_states

    return group_states()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListSettings(GroupsQuery):
    """The flags of ``list``; ``expiring`` and ``unused`` in milliseconds."""

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
    topics: Sequence[str] = flag(
        "Only groups that read this topic, an id or a glob, a row for each topic; may be repeated.",
        "--topic",
        multiple=True,
    )
    unused: int | None = flag(
        "Only groups without members, and without a commit or another change within this time, for example 30d.",
        type=duration,
        metavar="DURATION",
    )
    sort: str = flag(
        "commits: what each group writes to the offsets topic, those with most commits a second first.",
        type=click.Choice(["group", "commits"]),
        default="group",
        show_default=True,
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

    With --topic, prints who reads the topic: the newest commit, and how many members own partitions of it. With
    --unused, groups that nobody uses; with --sort commits, what each group writes. Each of these flags also chooses
    groups for the others.
    """
    from groupreplay.app.inspection import groups as inspected
    from groupreplay.app.inspection.group_lag import GroupLags
    from groupreplay.app.inspection.group_use import CommitLoads
    from groupreplay.streaming.engine.group_choice import GroupChoice
    from groupreplay.streaming.sources.recorded_ends import recorded_ends

    findings, at = inspected.Findings(settings.fail_on), settings.at_range()
    choice = GroupChoice(settings.groups)
    with replaying(settings, at, choice, partitions=settings.partitions) as (replay, read):
        ends, rows = recorded_ends(read)
        loads = CommitLoads(at.until_ms) if settings.sort == "commits" else None
        existing = _existing(settings, replay, rows, findings, loads)
    groups = _chosen(settings, existing, replay.latest_ms)
    lags = GroupLags(ends, at.until_ms or replay.latest_ms)
    # Ends of now say nothing about the offsets of an earlier time.
    if at.until_ms is None and lag_asked_for(settings, rows):
        lags = lags.with_now(groups, need_connection(rows))
    if settings.expiring is not None and groups:
        warn_of_assumptions(replay.context, rows, history=False)
    table, listed = _table(settings, groups, lags, loads, replay.latest_ms)
    if groups or settings.output != "table":
        print_heading(at, settings.output)
        settings.table.print([table], listed, settings.output, zone=settings.zone)
    nothing = _nothing(settings, at, choice, existing, groups, log_read(rows, settings.zone))
    return exit_code(findings.lines(groups, replay), nothing)


def _existing(
    settings: ListSettings, replay: Replay, rows: Rows, findings: Findings, loads: CommitLoads | None
) -> list[dict[str, Any]]:
    """The groups at the end of the log; with ``--partition`` those whose records are there."""
    from groupreplay.app.inspection import groups as inspected
    from groupreplay.app.inspection.records import noting_groups
    from groupreplay.streaming.engine.group_choice import GroupChoice

    # A prober's answers are about groups of all partitions.
    noted = GroupChoice()
    batches = noting_groups(rows.batches, noted) if settings.partitions else rows.batches
    batches = batches if loads is None else loads.reading(batches)
    existing = inspected.live_groups(replay, dataclasses.replace(rows, batches=batches), findings)
    ids = set(noted.seen)
    return [group for group in existing if not settings.partitions or group["group_id"] in ids]


def _chosen(
    settings: ListSettings, existing: Sequence[dict[str, Any]], at_ms: int
) -> Sequence[dict[str, Any]]:
    """The groups that the flags choose, in their order; ``at_ms`` is the end of the log."""
    from groupreplay.app.inspection import group_use
    from groupreplay.app.inspection import groups as inspected
    from groupreplay.streaming.engine.group_choice import GroupChoice

    groups: Sequence[dict[str, Any]] = inspected.choose(
        existing, types=settings.types, states=settings.states
    )
    if settings.topics:
        groups = group_use.of_topics(groups, GroupChoice(settings.topics))
    if settings.unused is not None:
        groups = group_use.unused(groups, at_ms - settings.unused)
    return groups if settings.expiring is None else inspected.expiring(groups, at_ms + settings.expiring)


def _table(
    settings: ListSettings,
    groups: Sequence[Description],
    lags: GroupLags,
    loads: CommitLoads | None,
    at_ms: int,
) -> tuple[Table, Sequence[object]]:
    """The table that the flags ask for, and its rows."""
    from groupreplay.app.inspection import group_use
    from groupreplay.app.inspection import groups as inspected
    from groupreplay.streaming.engine.group_choice import GroupChoice

    if loads is not None:
        written = loads.rows(groups, at_ms)
        return group_use.load_table(written), written
    if settings.expiring is not None:
        expiring = [inspected.expiring_row(group) for group in lags.beside(groups)]
        return inspected.expiring_table(expiring), expiring
    if settings.unused is not None:
        unused = [group_use.unused_row(group, at_ms) for group in groups]
        return group_use.unused_table(unused), unused
    if settings.topics:
        readers = group_use.reader_rows(groups, GroupChoice(settings.topics), lags)
        return group_use.reader_table(readers, with_lag=bool(lags)), readers
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
    from groupreplay.app.cli.nothing_found import groups_read
    from groupreplay.app.inspection.groups import absent
    from groupreplay.state.phrases import milliseconds

    missing = absent(choice, [group["group_id"] for group in existing])
    asked = given_flags(
        {
            "--group": settings.groups,
            "--type": settings.types,
            "--state": settings.states,
            "--partition": [str(number) for number in settings.partitions],
            "--topic": settings.topics,
            "--unused": [] if settings.unused is None else [milliseconds(settings.unused)],
            "--expiring": [] if settings.expiring is None else [milliseconds(settings.expiring)],
        },
        at,
    )
    kinds = (f"{group['type']} {group['state']}" for group in existing)
    return log.nothing("group", asked, choice, shown=shown, missing=missing, contents=groups_read(kinds, log))
