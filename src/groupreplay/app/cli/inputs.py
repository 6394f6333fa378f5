"""The input of commands that read the offsets topic: from the flags to one ``RecordSource``.

Imports nothing heavy at the top: ``--help`` loads this module.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from groupreplay.app.cli.command import is_typed
from groupreplay.app.cli.flags import (
    BrokerLogFlags,
    ProbesFlags,
    broker_log_flags,
    cluster_flags,
    probes_flags,
    retention_flags,
    rules_file_flag,
)
from groupreplay.app.cli.options import (
    TABLE_FORMATS,
    file_flag,
    flag,
    group,
    known_names_flag,
    names_flag,
    output_flag,
    pairs_flag,
    switch,
    time_flag,
    time_zone_flag,
)
from groupreplay.app.cli.printing_flags import TableFlags, TimeRange, table_flags, time_range
from groupreplay.app.text.times import GivenTime
from groupreplay.streaming.base.clock import TimeZone
from groupreplay.streaming.base.errors import ExitCode

if TYPE_CHECKING:
    from groupreplay.app.cli.nothing_found import LogRead, Nothing
    from groupreplay.app.text.tables import OutputFormat
    from groupreplay.state import Context
    from groupreplay.streaming.config.rules_file import RulesSource
    from groupreplay.streaming.config.settings import RetentionFlags
    from groupreplay.streaming.contract.log import ProgressCallback
    from groupreplay.streaming.engine.replay import Replay
    from groupreplay.streaming.kafka.clients import Connection
    from groupreplay.streaming.sources.source import DataEnd, RecordSource, Rows


#: Key in the context of a command: its assumptions were reported.
_ASSUMED: Final = "groupreplay.assumed"


@dataclass(frozen=True, slots=True)
class SourceKind:
    """A kind of input: its flags, by name of field, and what makes a source of a ``LogInput``; None: none is named.

    ``parameter`` is the one that names it.
    """

    parameter: str
    flags: Callable[[], Mapping[str, Any]]
    make: Callable[[LogInput], RecordSource | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogInput:
    """The flags that name an input, by the names of ``KINDS``; ``probes`` None: the prober's answers are not read.

    ``broker_logs`` name the log files of brokers that are read beside it.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    probes: ProbesFlags | None = None
    broker_logs: BrokerLogFlags = field(default_factory=BrokerLogFlags)

    def source(self) -> RecordSource:
        """The input that the flags name; it is not opened.

        Raises:
            UsageError: they name none.
            GroupReplayError: the properties file of a cluster cannot be used.
        """
        if (named := self._named()) is not None:
            return named[1]
        raise click.UsageError(
            "Nothing to read: give --from-file FILE, --from-log-dir DIR or --bootstrap-server HOST:PORT."
        )

    def open(self, partitions: Sequence[int], progress: ProgressCallback) -> Rows:
        """The records of the input, with what log files of brokers say about them.

        Raises:
            UsageError: the flags name no input.
            GroupReplayError: the input or a log file cannot be read; also while iterating.
        """
        rows = self.source().open(partitions, progress=progress)
        return replace(rows, broker_log=self.broker_logs.read(rows.cluster_id))

    def recorded(self) -> RecordSource | None:
        """The input, for commands that do something else with a cluster; None: the flags name a cluster, or nothing."""
        named = self._named()
        return None if named is None or named[0] is _TOPIC else named[1]

    def _named(self) -> tuple[SourceKind, RecordSource] | None:
        # What was typed comes before what the configuration file has for all calls.
        for kind in sorted(KINDS, key=lambda kind: not is_typed(kind.parameter)):
            if (source := kind.make(self)) is not None:
                return kind, source
        return None

    def end(self) -> DataEnd:
        """See ``RecordSource``."""
        return self.source().end()


def _captures(log: LogInput) -> RecordSource | None:
    if not log.values.get("from_file"):
        return None
    from groupreplay.streaming.sources.capture import CaptureSource

    topic = "" if log.probes is None else log.probes.topic
    return CaptureSource(log.values["from_file"], log.values.get("columns", {}), topic)


def _topic(log: LogInput) -> RecordSource | None:
    if "source" not in log.values or (cluster := log.values["source"].find()) is None:
        return None
    from groupreplay.streaming.sources.topic import TopicSource

    return TopicSource(cluster, None if log.probes is None else log.probes.place(cluster))


def _log_folders(log: LogInput) -> RecordSource | None:
    if not log.values.get("from_log_dir"):
        return None
    from groupreplay.streaming.sources.log_folders import LogFolderSource

    topic = "" if log.probes is None else log.probes.topic
    return LogFolderSource(log.values["from_log_dir"], topic, log.values.get("read_uncommitted", False))


def _log_folder_flags() -> Mapping[str, Any]:
    from_log_dir = flag(
        "Folder of a broker's log.dirs, or a .tar of it; may be repeated, for other brokers.",
        type=click.Path(path_type=Path),
        multiple=True,
        metavar="DIR",
    )
    read_uncommitted = switch("With --from-log-dir, read what transactions wrote, however they ended.")
    return {"from_log_dir": from_log_dir, "read_uncommitted": read_uncommitted}


def _capture_flags() -> Mapping[str, Any]:
    from_file = file_flag("Capture file, or a folder of them; may be repeated.", multiple=True)
    columns = pairs_flag(
        "A column that has another name in the capture, such as offset=kafka_offset; may be repeated.",
        "--column",
    )
    return {"from_file": from_file, "columns": columns}


_TOPIC: Final = SourceKind("bootstrap_server", lambda: {"source": cluster_flags()}, _topic)
#: The kinds of input, in the order in which they count.
KINDS: Final = [
    SourceKind("from_file", _capture_flags, _captures),
    SourceKind("from_log_dir", _log_folder_flags, _log_folders),
    _TOPIC,
]


def log_flags(**more: Any) -> Any:
    """A field with a ``LogInput`` of the flags of all kinds, and of ``more``."""

    def made(
        probes: ProbesFlags | None = None, broker_logs: BrokerLogFlags | None = None, **values: Any
    ) -> LogInput:
        return LogInput(values=values, probes=probes, broker_logs=broker_logs or BrokerLogFlags())

    return group(made, **{name: part for kind in KINDS for name, part in kind.flags().items()}, **more)


def log_and_probes_flags() -> Any:
    """A field with a ``LogInput`` that includes the probes."""
    return log_flags(probes=probes_flags())


def history_flags() -> Any:
    """The same for commands that show what happened: also the log files of brokers."""
    return log_flags(probes=probes_flags(), broker_logs=broker_log_flags())


def group_types() -> list[str]:
    """The names of all types of groups."""
    from groupreplay.codecs.kafka_terms import GroupType

    return [kind.value for kind in GroupType]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateQuery:
    """The flags of a command that prints the groups as they are at a time."""

    log: LogInput = log_and_probes_flags()
    retention: RetentionFlags = retention_flags()
    types: Sequence[str] = known_names_flag(
        "Only groups of these types: classic,consumer,share,streams.", "--type", known=group_types
    )
    at: GivenTime | None = time_flag("State at this time: later records are ignored.")
    zone: TimeZone = time_zone_flag()
    rules: RulesSource = rules_file_flag()
    output: OutputFormat = output_flag(*TABLE_FORMATS)
    table: TableFlags = table_flags()

    def at_range(self) -> TimeRange:
        """The range up to ``--at``; ``--at now`` is no bound."""
        return replace(time_range(None, self.at, self.zone, self.log.end), until_flag="--at")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsQuery(StateQuery):
    """The flags that ``list`` and ``describe`` share."""

    with_lag: bool = switch(
        "Ask the cluster for the ends of partitions now, as describe --offsets of a cluster does; not with --at."
    )
    fail_on: Sequence[str] = names_flag(
        "Exit with 6 when one of these conditions is active, for example stuck,storm,expired."
    )


@contextmanager
def replaying(
    query: StateQuery,
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
    from groupreplay.streaming.sources.source import context_of

    policy = query.rules.load()
    at_ms = at.until_ms
    with reading(query.log, partitions) as rows:
        context = context_of(rows, query.retention, policy=policy, member_events=member_events)
        replay = Replay(context, groups, until_ms=at_ms, now_ms=rows.complete_until(at_ms))
        yield replay, rows
    warn_of_losses(replay)


@contextmanager
def reading(log: LogInput, partitions: Sequence[int] = ()) -> Iterator[Rows]:
    """The records of the input; shows progress."""
    from groupreplay.app.text.terminal import Progress

    with Progress("records read") as progress:
        yield log.open(partitions, progress)


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


def warn_of_assumptions(
    context: Context,
    rows: Rows,
    *,
    history: bool = True,
    groups: Sequence[Mapping[str, Any]] | None = None,
    sessions: Iterable[tuple[str, Mapping[str, int]]] = (),
) -> None:
    """Report on stderr what was assumed, once in a command; ``history``: rebalances are shown, not only expiries.

    To be called if something is shown. That a live cluster has no prober is no news to those who run it. ``groups`` are
    the only ones that are shown: the release may not matter for any of their offsets. ``sessions``: type of group and
    ``assumed`` of what is shown.
    """
    from groupreplay.state.policy.context import NEWEST_RULES
    from groupreplay.streaming.config.retention import contradiction

    assumed = []
    if context.retention_ms is None:
        assumed.append("committed offsets are kept for 7 days (--retention-minutes)")
    if context.broker_release is None and (groups is None or _needs_release(groups)):
        assumed.append(f"the brokers have the rules of Kafka {NEWEST_RULES} (--broker-release)")
    assumed += sorted(
        set(chain.from_iterable(_assumed_sessions(kind, numbers) for kind, numbers in sessions))
    )
    if history and rows.connection is None and not context.probing:
        assumed.append("no prober asked the brokers, so rebalances of classic groups are seen when they end")
    said = click.get_current_context().meta
    if said.get(_ASSUMED):
        return
    said[_ASSUMED] = True
    if assumed:
        source = "the brokers do not say" if rows.connection else f"the {rows.kind} does not say"
        click.echo(f"assumed, because {source}: {'; '.join(assumed)}", err=True)
    if odd := contradiction(context.retention_ms, context.retention_check_interval_ms):
        click.echo(odd, err=True)


#: What an event assumes of sessions, in words with the type of group, and the end of the setting's name.
_SESSION_WORDS: Final = {
    "session_timeout_ms": ("sessions of {} groups last", "session.timeout.ms"),
    "heartbeat_interval_ms": ("members of {} groups send heartbeats every", "heartbeat.interval.ms"),
}


def _assumed_sessions(group_type: str, numbers: Mapping[str, int]) -> Iterator[str]:
    from groupreplay.state.phrases import milliseconds

    for name, (words, setting) in _SESSION_WORDS.items():
        if name in numbers:
            flag = f"--broker-property group.{group_type}.{setting}=MS"
            yield f"{words.format(group_type)} {milliseconds(numbers[name])} ({flag})"


def _needs_release(groups: Sequence[Mapping[str, Any]]) -> bool:
    return any(offset["expiry_assumed_release"] for group in groups for offset in group["offsets"])


def warn_of_losses(replay: Replay) -> None:
    """Report on stderr how many records could not be used and how many groups were set aside, if there are any."""
    from groupreplay.state.phrases import counted, counted_verb

    if replay.dead_letters:
        letters = counted(replay.dead_letters, "record")
        click.echo(f"{letters} could not be decoded; groupreplay decode shows which", err=True)
    if replay.quarantined:
        groups = counted_verb(replay.quarantined, "group", "was", "were")
        click.echo(f"{groups} quarantined: groupreplay failed on the records (group.quarantined)", err=True)


def log_read(rows: Rows, zone: TimeZone) -> LogRead:
    """What was read, for a line that nothing was found in it."""
    from groupreplay.app.cli.nothing_found import LogRead

    return LogRead(rows.where, rows.extent, zone)


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
