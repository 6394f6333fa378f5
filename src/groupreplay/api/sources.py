"""Where records come from, and how the functions of the Python face open them as the flags of the commands do.

A capture may also be of simulated groups: ``simulate``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from groupreplay.streaming.base.clock import UTC, epoch_ms
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, naming_extras, unusable
from groupreplay.streaming.config.retention import Brokers

if TYPE_CHECKING:
    from groupreplay.app.cli.printing_flags import TimeRange
    from groupreplay.state import Context
    from groupreplay.streaming.engine.group_choice import GroupChoice
    from groupreplay.streaming.engine.replay import Replay
    from groupreplay.streaming.sources.source import RecordSource, Rows


log = logging.getLogger("groupreplay")

Time: TypeAlias = datetime | int
_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where records come from; made by ``capture``, ``log_folders`` and ``topic``."""

    paths: tuple[Path, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    log_folders: tuple[Path, ...] = ()
    uncommitted: bool = False
    bootstrap_servers: str | None = None
    properties: Path | None = None
    probes_topic: str = "group-probes"


AnySource: TypeAlias = Source | str | Path | Sequence[str | Path]


def capture(*paths: str | Path, columns: Mapping[str, str] | None = None) -> Source:
    """Captures that belong together, or folders of them; ``columns``: name in a capture -> name in these files."""
    return Source(paths=tuple(map(Path, paths)), columns=dict(columns or {}))


def log_folders(*paths: str | Path, uncommitted: bool = False) -> Source:
    """Copies of ``log.dirs`` of one or several brokers of a cluster, or tar archives of them; needs the extra logs.

    ``uncommitted``: also what transactions wrote that were aborted or have not ended.
    """
    return Source(log_folders=tuple(map(Path, paths)), uncommitted=uncommitted)


def topic(
    bootstrap_servers: str, *, properties: str | Path | None = None, probes_topic: str = "group-probes"
) -> Source:
    """The live ``__consumer_offsets`` of a cluster; needs the extra kafka. Nothing joins a group.

    ``properties`` is a file of client properties with Kafka's names (security, timeouts). ``probes_topic`` has the
    answers of a prober, if there is one.
    """
    return Source(
        bootstrap_servers=bootstrap_servers,
        properties=None if properties is None else Path(properties),
        probes_topic=probes_topic,
    )


def public(function: _F) -> _F:
    """Usage errors of the commands and missing extras as ``GroupReplayError``."""

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        with naming_errors():
            return function(*args, **kwargs)

    return called  # type: ignore[return-value]


@contextmanager
def naming_errors() -> Iterator[None]:
    """What ``public`` does, for the rest of an iteration."""
    try:
        with naming_extras():
            yield
    except click.UsageError as error:
        raise GroupReplayError(error.message, exit_code=ExitCode.USAGE) from None


@dataclass(frozen=True, slots=True)
class OpenedLog:
    """A source whose rows can be read once, and the context of its groups."""

    source: RecordSource
    rows: Rows
    context: Context


def record_source(source: AnySource, *, probes: bool = True) -> RecordSource:
    """The input that the flags of the commands would name."""
    from groupreplay.app.cli.flags import ClusterFlags, ProbesFlags
    from groupreplay.app.cli.inputs import LogInput

    if not isinstance(source, Source):
        source = capture(*([source] if isinstance(source, str | Path) else source))
    if not source.paths and not source.log_folders and source.bootstrap_servers is None:
        raise unusable("no capture is named", None, "give a path, or groupreplay.topic('host:9092')")
    is_named = source.probes_topic != Source().probes_topic
    values = {
        "from_file": source.paths,
        "source": ClusterFlags(source.bootstrap_servers, source.properties),
        "columns": source.columns,
        "from_log_dir": source.log_folders,
        "read_uncommitted": source.uncommitted,
    }
    prober = ProbesFlags(source.probes_topic, ClusterFlags(), is_named) if probes else None
    return LogInput(values=values, probes=prober).source()


def open_log(
    source: AnySource, rules: str | Path | None, brokers: Brokers | None, **settings: Any
) -> OpenedLog:
    """The rows of a source with its probes, and the context that follows; ``settings`` are fields of ``Context``."""
    from groupreplay.streaming.config.rules_file import RulesSource
    from groupreplay.streaming.sources.source import context_of

    records = record_source(source)
    policy = RulesSource(path=None if rules is None else Path(rules)).load()
    rows = records.open()
    context = context_of(rows, (brokers or Brokers()).flags(), policy=policy, **settings)
    return OpenedLog(records, rows, context)


def finish(
    replay: Replay, choice: GroupChoice, opened: OpenedLog, missing: Iterable[str] | None = None
) -> None:
    """Logs what was lost; raises for groups that were asked for and are not there."""
    from groupreplay.state.phrases import counted, counted_verb

    if replay.dead_letters:
        letters = counted(replay.dead_letters, "record")
        log.warning("%s could not be decoded; decode() says which", letters)
    if replay.quarantined:
        groups = counted_verb(replay.quarantined, "group", "was", "were")
        log.warning("%s quarantined: groupreplay failed on the records", groups)
    need_groups(choice, opened.rows, choice.unmatched if missing is None else missing)


def need_groups(choice: GroupChoice, rows: Rows, missing: Iterable[str]) -> None:
    """Raises for groups that were asked for and are not in rows that were read."""
    from groupreplay.app.cli.inputs import log_read
    from groupreplay.app.cli.nothing_found import no_group

    if unmatched := list(missing):
        read = log_read(rows, UTC)
        text = no_group(unmatched, choice, read.where, read.text()).text
        raise GroupReplayError(text, exit_code=ExitCode.DATA)


def no_record(group: str, rows: Rows) -> GroupReplayError:
    """Rows that were read have no record of a group in the time that was asked for."""
    from groupreplay.app.cli.inputs import log_read
    from groupreplay.app.cli.nothing_found import no_such

    read = log_read(rows, UTC)
    text = no_such(f"record of {group!r} of this time that can be read", (), read.where, read.text()).text
    return GroupReplayError(text, exit_code=ExitCode.DATA)


def group_choice(group: str | Sequence[str]) -> GroupChoice:
    """The groups of one or several ids or globs; of none, all."""
    from groupreplay.streaming.engine.group_choice import GroupChoice

    return GroupChoice(several(group))


def several(names: str | Sequence[str]) -> Sequence[str]:
    """One name or several: a text is one, not its letters."""
    return [names] if isinstance(names, str) else names


def known_names(names: str | Sequence[str], known: Callable[[], Sequence[str]]) -> Sequence[str]:
    """The names as the flags of the commands take them. Raises click.UsageError: one is not ``known``."""
    from groupreplay.app.cli.options import names_of

    return names_of(known)(",".join(several(names)))


def point_ms(at: Time | None) -> int | None:
    """The milliseconds of a time; None without one."""
    return None if at is None else epoch_ms(at)


def time_range(since: Time | None, until: Time | None) -> TimeRange:
    """From one time on and before another.

    Raises:
        GroupReplayError: one of them is no time, or the second one is not after the first one.
    """
    from groupreplay.app.cli.printing_flags import TimeRange

    since_ms, until_ms = point_ms(since), point_ms(until)
    if since_ms is not None and until_ms is not None and until_ms <= since_ms:
        raise unusable("until is not after since", f"{since_ms} to {until_ms}", "give a later until")
    return TimeRange(since_ms=since_ms, until_ms=until_ms)


def several_groups(group: str, ids: Sequence[str]) -> GroupReplayError:
    """One group was asked for, and several have this id or match it."""
    from groupreplay.app.cli.nothing_found import names_of

    return unusable(f"{len(ids)} groups match {group!r}: {names_of(ids)}", None, "give the id of one of them")


@dataclass(frozen=True, slots=True)
class Simulation:
    """The capture of a simulation, the true states of its groups, and the number of records."""

    path: Path
    truth: Path
    records: int


@public
def simulate(
    scenario: str,
    path: str | Path,
    *,
    groups: int = 100,
    seconds: int = 600,
    seed: int = 0,
    probe_interval: int = 10,
    brokers: Mapping[str, str] | None = None,
    clients: Mapping[str, str] | None = None,
    force: bool = False,
) -> Simulation:
    """Write a capture of groups simulated with a model of Kafka's coordinator, and their true states beside it.

    >>> import groupreplay
    >>> simulation = groupreplay.simulate("steady", "night.parquet", groups=2, seconds=60)
    >>> simulation.truth.name, len(groupreplay.list_groups("night.parquet"))
    ('night.truth.jsonl', 2)

    ``scenario`` is one of ``groupreplay simulate --list``. ``brokers`` and
    ``clients`` are settings with Kafka's names. The same arguments give the same bytes.

    Raises:
        GroupReplayError: there is no such scenario or setting, a number is too small, or a file exists and ``force`` is
            false.
    """
    from groupreplay.app.simulate.files import simulation_plan, truth_path, write_simulation

    for name, number, least in (
        ("groups", groups, 1),
        ("seconds", seconds, 1),
        ("probe_interval", probe_interval, 0),
    ):
        if number < least:
            raise unusable(f"{name} is {number}", None, f"give {least} or more")
    plan = simulation_plan(
        scenario,
        brokers or {},
        clients or {},
        groups=groups,
        duration_ms=seconds * 1_000,
        seed=seed,
        probe_interval_ms=probe_interval * 1_000 or None,
    )
    records = write_simulation(plan, Path(path), force=force)
    return Simulation(Path(path), truth_path(Path(path)), records)
