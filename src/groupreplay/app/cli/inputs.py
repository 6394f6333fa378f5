"""The input of commands that read the offsets topic: a capture file or a live cluster, with the prober's answers.

Imports nothing heavy at the top: ``--help`` loads this module.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from groupreplay.app.cli.file_settings import is_typed
from groupreplay.app.cli.flags import (
    ClusterFlags,
    ProbesFlags,
    cluster_flags,
    probes_flags,
    retention_flags,
    rules_file_flag,
)
from groupreplay.app.cli.options import (
    TABLE_FORMATS,
    file_flag,
    group,
    known_names_flag,
    names_flag,
    output_flag,
    pairs_flag,
    switch,
    time_flag,
    time_zone_flag,
)
from groupreplay.app.cli.table_flags import TableFlags, table_flags
from groupreplay.app.cli.time_range import DataEnd, TimeRange, live_end, time_range
from groupreplay.app.text.times import GivenTime
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.base.time_zones import TimeZone

if TYPE_CHECKING:
    from groupreplay.app.cli.nothing_found import LogRead, Nothing
    from groupreplay.app.text.tables import OutputFormat
    from groupreplay.state import Context
    from groupreplay.streaming.config.rules_file import RulesSource
    from groupreplay.streaming.config.settings import RetentionFlags
    from groupreplay.streaming.engine.replay import Replay
    from groupreplay.streaming.kafka.clients import Connection
    from groupreplay.streaming.kafka.topic_reader import ProgressCallback, Rows


#: Key in the context of a command: its assumptions were reported.
_ASSUMED: Final = "groupreplay.assumed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogInput:
    """A capture (``from_file``) or a live cluster (``source``); ``probes`` None: probes are not read.

    ``columns``: see ``read_captures``.
    """

    from_file: Sequence[Path]
    source: ClusterFlags
    columns: Mapping[str, str] = field(default_factory=dict)
    probes: ProbesFlags | None = None

    def end(self) -> DataEnd:
        """The last record of the capture, or now.

        Raises:
            GroupReplayError: the capture cannot be read, or has no records.
        """
        if not self.from_file:
            return live_end()
        from groupreplay.app.inspection.capture_end import last_record_ms

        topic = "" if self.probes is None else self.probes.topic
        found = last_record_ms(self.from_file, topic, self.columns)
        if found is None:
            raise GroupReplayError(
                "there are no records, so no age or time of day can count back from the last one",
                where=", ".join(map(str, self.from_file)),
                fix="give another capture",
                exit_code=ExitCode.DATA,
            )
        return DataEnd(at_ms=found, is_live=False)


def log_flags(**more: Any) -> Any:
    """A field with a ``LogInput`` of these flags and of ``more``."""
    from_file = file_flag("Capture file, or a folder of them; may be repeated.", multiple=True)
    return group(LogInput, from_file=from_file, columns=columns_flag(), source=cluster_flags(), **more)


def columns_flag() -> Any:
    """A field with the names of columns in captures of other writers: name in a capture -> name in the file."""
    return pairs_flag(
        "A column that has another name in the capture, such as offset=kafka_offset; may be repeated.",
        "--column",
    )


def log_and_probes_flags() -> Any:
    """A field with a ``LogInput`` that includes the probes."""
    return log_flags(probes=probes_flags())


def _group_types() -> list[str]:
    from groupreplay.codecs.kafka_terms import GroupType

    return [kind.value for kind in GroupType]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsQuery:
    """The flags that ``list`` and ``describe`` share."""

    log: LogInput = log_and_probes_flags()
    retention: RetentionFlags = retention_flags()
    types: Sequence[str] = known_names_flag(
        "Only groups of these types: classic,consumer,share,streams.", "--type", known=_group_types
    )
    with_lag: bool = switch(
        "Ask the cluster for the log start and end offsets of partitions, as describe --offsets of a cluster does."
    )
    at: GivenTime | None = time_flag("State at this time: later records are ignored.")
    zone: TimeZone = time_zone_flag()
    fail_on: Sequence[str] = names_flag(
        "Exit with 6 when one of these conditions is active, for example stuck,storm,expired."
    )
    rules: RulesSource = rules_file_flag()
    output: OutputFormat = output_flag(*TABLE_FORMATS)
    table: TableFlags = table_flags()

    def at_range(self) -> TimeRange:
        """The range up to ``--at``; ``--at now`` is no bound."""
        return replace(time_range(None, self.at, self.zone, self.log.end), until_flag="--at")


@contextmanager
def replaying(
    query: GroupsQuery,
    at: TimeRange,
    groups: Container[str] | None = None,
    *,
    partitions: Sequence[int] = (),
    member_events: bool = False,
) -> Iterator[tuple[Replay, Rows]]:
    """A replay up to ``at`` (``query.at_range()``) and its rows.

    Shows progress, and reports undecodable records at the end.

    The state of a live topic is evaluated at the current time, even if nothing was written recently; that of a
    capture at the time it was taken, or at its last record if the file does not have that time.
    """
    from groupreplay.streaming.engine.replay import Replay

    policy = query.rules.load()
    at_ms = at.until_ms
    with reading(query.log, partitions) as (rows, is_probed):
        context = context_of(
            rows, retention=query.retention, policy=policy, probing=is_probed, member_events=member_events
        )
        replay = Replay(context, groups, until_ms=at_ms, now_ms=complete_until(rows, at_ms))
        yield replay, rows
    warn_of_losses(replay)


@contextmanager
def reading(log: LogInput, partitions: Sequence[int] = ()) -> Iterator[tuple[Rows, bool]]:
    """The records, and whether a prober was active while they were written; shows progress."""
    from groupreplay.app.text.terminal import Progress

    with Progress("records read") as progress:
        yield with_probes(open_rows(log, partitions, progress=progress))


def with_probes(rows: Rows) -> tuple[Rows, bool]:
    """The same rows, and whether a prober was active while they were written."""
    from groupreplay.streaming.prober.probes_topic import shows_rounds

    is_probed, probes = shows_rounds(rows.probes)
    return replace(rows, probes=probes), is_probed


def lag_asked_for(query: GroupsQuery, rows: Rows) -> bool:
    """Whether ``--with-lag`` is to be obeyed: in the configuration file it applies to live clusters only."""
    return query.with_lag and (rows.connection is not None or is_typed("with_lag"))


def need_connection(rows: Rows) -> Connection:
    """The cluster that the rows come from, for --with-lag.

    Raises:
        UsageError: the rows come from a capture.
    """
    if rows.connection is None:
        raise click.UsageError("--with-lag asks a cluster: give --bootstrap-server instead of --from-file.")
    return rows.connection


def context_of(rows: Rows, *, retention: RetentionFlags, **settings: Any) -> Context:
    """The context of the groups in these rows, with the names of topics that records hold only by id."""
    from groupreplay.state import Context
    from groupreplay.streaming.kafka.retention import effective_retention

    names = rows.connection.topic_names() if rows.connection else rows.topic_names
    settings |= effective_retention(retention, rows.connection, rows.retention).for_context()
    return Context(cluster_id=rows.cluster_id, era=rows.era, topic_names=names, **settings)


def complete_until(rows: Rows, until_ms: int | None) -> int | None:
    """The time up to which the log is complete, but not after ``until_ms``; None if that is not known."""
    if rows.complete_ms is None:
        return None
    return rows.complete_ms if until_ms is None else min(rows.complete_ms, until_ms)


def warn_of_assumptions(
    context: Context,
    rows: Rows,
    *,
    history: bool = True,
    groups: Sequence[Mapping[str, Any]] | None = None,
) -> None:
    """Report on stderr what was assumed, once in a command; ``history``: rebalances are shown, not only expiries.

    To be called if something is shown. That a live cluster has no prober is no news to those who run it. ``groups`` are
    the only ones that are shown: the release may not matter for any of their offsets.
    """
    from groupreplay.state.policy.context import NEWEST_RULES
    from groupreplay.streaming.kafka.retention import contradiction

    assumed = []
    if context.retention_ms is None:
        assumed.append("committed offsets are kept for 7 days (--retention-minutes)")
    if context.broker_release is None and (groups is None or _needs_release(groups)):
        assumed.append(f"the brokers have the rules of Kafka {NEWEST_RULES} (--broker-release)")
    if history and rows.connection is None and not context.probing:
        assumed.append("no prober asked the brokers, so rebalances of classic groups are seen when they end")
    said = click.get_current_context().meta
    if said.get(_ASSUMED):
        return
    said[_ASSUMED] = True
    if assumed:
        source = "the brokers do not say" if rows.connection else "the capture does not say"
        click.echo(f"assumed, because {source}: {'; '.join(assumed)}", err=True)
    if odd := contradiction(context.retention_ms, context.retention_check_interval_ms):
        click.echo(odd, err=True)


def _needs_release(groups: Sequence[Mapping[str, Any]]) -> bool:
    return any(offset["expiry_assumed_release"] for group in groups for offset in group["offsets"])


def open_rows(
    log: LogInput,
    partitions: Sequence[int] = (),
    groups: Collection[str] | None = None,
    *,
    progress: ProgressCallback,
) -> Rows:
    """The records to read, with the probes if ``log`` asks for them; they are counted in the extent of the rows.

    Of a live topic only the partitions of these ``groups``, None: of all. A capture does not say how many partitions
    its topic had, so there the reader has to leave out the others.

    Raises:
        UsageError: neither a capture nor a cluster is named.
        GroupReplayError: the capture or the cluster cannot be read.
    """
    from groupreplay.streaming.kafka.topic_reader import counted, read_topic

    if log.from_file:
        from groupreplay.app.inspection.capture_file import read_captures

        topic = "" if log.probes is None else log.probes.topic
        return counted(
            read_captures(
                log.from_file, partitions, probes_topic=topic, columns=log.columns, progress=progress
            )
        )
    cluster = log.source.find()
    if cluster is None:
        raise click.UsageError("Nothing to read: give --from-file FILE or --bootstrap-server host:port.")
    rows = counted(read_topic(cluster, partitions, groups=groups, progress=progress))
    if log.probes is None:
        return rows
    from groupreplay.streaming.prober.probes_topic import open_probes

    found = open_probes(log.probes.place(cluster))
    return replace(rows, probes=found.batches if found else (), probes_topic=log.probes.topic)


def warn_of_losses(replay: Replay) -> None:
    """Report on stderr how many records could not be used and how many groups were set aside, if there are any."""
    if replay.dead_letters:
        click.echo(
            f"{replay.dead_letters} records could not be decoded; groupreplay decode shows which", err=True
        )
    if replay.quarantined:
        click.echo(
            f"{replay.quarantined} groups were quarantined: groupreplay failed on their records (group.quarantined)",
            err=True,
        )


def log_read(log: LogInput, rows: Rows, zone: TimeZone) -> LogRead:
    """What was read, for a line that nothing was found in it."""
    from groupreplay.app.cli.nothing_found import LogRead

    where = ", ".join(map(str, log.from_file)) or f"the live topic of cluster {rows.cluster_id}"
    return LogRead(where, rows.extent, zone)


def exit_code(found: Mapping[str, Sequence[str]], nothing: Nothing | None = None) -> int:
    """Print the findings by group, and the line about an empty answer; 6 with findings, otherwise that of the line."""
    from groupreplay.app.text.terminal import safe_line

    for group_id, lines in sorted(found.items()):
        click.echo(safe_line(f"found: {group_id}: {'; '.join(lines)}"), err=True)
    missing = ExitCode.OK if nothing is None else nothing_found(nothing)
    return ExitCode.FOUND if found else missing


def nothing_found(nothing: Nothing) -> ExitCode:
    """Print the line about an empty answer on stderr; 5 if flags have selected nothing, 0 if there is nothing."""
    from groupreplay.app.text.terminal import safe_line

    click.echo(safe_line(nothing.line()), err=True)
    return ExitCode.DATA if nothing.is_selection else ExitCode.OK
