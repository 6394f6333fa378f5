"""``groupreplay report``: what happened to a group, or to all groups, as one file to send on.

Imports nothing heavy at the top: ``--help`` loads this module.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from groupreplay.app.cli.command import giving_way, is_typed, with_settings
from groupreplay.app.cli.flags import redaction_flags, retention_flags, rules_flags
from groupreplay.app.cli.histories import opened_history, warn_of_history
from groupreplay.app.cli.inputs import LogInput, history_flags, log_read, nothing_found
from groupreplay.app.cli.options import (
    complete_since_flag,
    file_flag,
    flag,
    force_flag,
    pairs_flag,
    processes_flag,
    switch,
    time_flag,
    time_zone_flag,
)
from groupreplay.app.cli.printing_flags import TimeRange, given_flags, time_range
from groupreplay.app.text.times import GivenTime
from groupreplay.streaming.base.clock import TimeZone
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.base.files import atomic_file, is_written_into, require_new

if TYPE_CHECKING:
    from groupreplay.app.report.overview import AllStrips
    from groupreplay.app.report.timelines import ReadGroups
    from groupreplay.state import Context
    from groupreplay.state.policy.context import Redaction
    from groupreplay.streaming.config.rules_file import RulesSource
    from groupreplay.streaming.config.settings import RetentionFlags
    from groupreplay.streaming.engine.group_choice import GroupChoice
    from groupreplay.streaming.engine.replay import Replay
    from groupreplay.streaming.sources.source import Rows
    from groupreplay.timeline.document import TimelineDocument, TimelineSource

_WORST: Final = 50
#: Endings of ``-o`` with which a file holds one group.
_OF_ONE_GROUP: Final = (".svg", ".json")
_KINDS: Final = (".html", ".htm", *_OF_ONE_GROUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSettings:
    """The flags of ``report``."""

    log: LogInput = history_flags()
    retention: RetentionFlags = retention_flags()
    since: GivenTime | None = time_flag("Show this time and later; what was before counts, but is not shown.")
    until: GivenTime | None = time_flag("Later records are ignored.")
    zone: TimeZone = time_zone_flag()
    complete_since: GivenTime | None = complete_since_flag()
    trace: Sequence[Path] = file_flag(
        "Trace of a simulation (simulate --trace), whose requests are marked; may be repeated.", multiple=True
    )
    redaction: Redaction | None = redaction_flags()
    rules: RulesSource = rules_flags()
    group: str | None = flag("The group: its id, or a glob that matches no other.", "--group", metavar="GLOB")
    all_groups: bool = switch("An overview of all groups, and the worst ones in full.")
    worst: int = flag(
        "With --all-groups: how many groups are shown in full.", type=click.IntRange(0, 200), default=_WORST
    )
    processes: int | None = processes_flag(
        "With --all-groups: so many processes share the work on a long log; without it one for each CPU."
    )
    whatif: Mapping[str, str] = pairs_flag(
        "With --group: also draw what another setting would have made of the history, as whatif answers it; "
        "may be repeated.",
        "--whatif",
        metavar="NAME=VALUE",
    )
    path: Path = file_flag(
        "File to write: .html; of one group also .svg, its picture, or .json, the document that both draw.",
        "-o",
        "--path",
        required=True,
    )
    force: bool = force_flag()

    def kind(self) -> str:
        """The ending of the file.

        Raises:
            UsageError: there is no report of that kind.
        """
        kind = self.path.suffix.lower()
        if not kind and is_written_into(self.path):
            return ".html"
        if kind not in _KINDS:
            raise click.UsageError("-o must end with .html, .svg or .json.")
        if kind in _OF_ONE_GROUP and self.group is None:
            raise click.UsageError(f"A file *{kind} shows one group: give --group instead of --all-groups.")
        return kind


@with_settings("report", ReportSettings)
def report_command(settings: ReportSettings) -> int:
    """Draw what happened to a group as one HTML file that needs no network, or its picture as SVG.

    Verdict, states, generations, members, partitions by owner, commits, conditions and events on one time axis. The
    file opens from disk in a browser and can be attached to a ticket; it contains names of groups, clients and hosts
    unless --redact hides them. With -o FILE.json the document itself is written; groupreplay schema timeline prints
    its JSON Schema.
    """
    from groupreplay.state.phrases import data_size

    settings = replace(settings, **giving_way({"group": None, "all_groups": False}))
    if settings.all_groups == (settings.group is not None):
        raise click.UsageError("Give either --group or --all-groups.")
    if settings.all_groups:
        if is_typed("whatif"):
            raise click.UsageError("--whatif is about one group: give --group instead of --all-groups.")
        settings = replace(settings, whatif={})
    kind = settings.kind()
    require_new([settings.path], force=settings.force)
    times = time_range(settings.since, settings.until, settings.zone, settings.log.end)
    text = (
        _overview(settings, times)
        if settings.group is None
        else _one_group(settings, times, settings.group, kind)
    )
    if isinstance(text, ExitCode):
        return text
    with atomic_file(settings.path, "report", force=settings.force) as file:
        file.write(text)
    click.echo(f"{settings.path} ({data_size(len(text.encode()))})", err=True)
    return ExitCode.OK


def _one_group(settings: ReportSettings, times: TimeRange, group: str, kind: str) -> str | ExitCode:
    """The text of the file about one group."""
    from groupreplay.app.report.page import GROUP_BYTES, report_page, timeline_svg

    asked = [word for name, value in settings.whatif.items() for word in ("--whatif", f"{name}={value}")]
    source = _source(settings, times, ["--group", group, *asked, "-o", settings.path.name])
    document = _need_timeline(settings, times, group, source, None if kind == ".json" else GROUP_BYTES)
    if isinstance(document, ExitCode):
        return document
    if kind == ".json":
        return _json(document)
    return timeline_svg(document) if kind == ".svg" else report_page(document)


def _json(document: TimelineDocument) -> str:
    import msgspec

    from groupreplay.app.text.terminal import escape_json

    return escape_json(msgspec.json.encode(document).decode()) + "\n"


def _overview(settings: ReportSettings, times: TimeRange) -> str | ExitCode:
    """Reads the log twice: for the strips of all groups, and for the worst ones in full, with the advice on all."""
    from groupreplay.app.cli.nothing_found import no_such
    from groupreplay.app.report.overview import all_strips

    source = _source(settings, times, ["--all-groups", "-o", settings.path.name])
    with _opened(settings) as (rows, context):
        source = replace(source, cluster_id=rows.cluster_id, topic_id=rows.era)
        end_ms = rows.complete_until(times.until_ms)
        overview = all_strips(rows, context, times.since_ms, times.until_ms, end_ms, settings.processes)
    if not overview.strips:
        log = log_read(rows, settings.zone)
        # No file is written, which was asked for.
        nothing = no_such("group", given_flags({}, times), log.where, log.text())
        return nothing_found(replace(nothing, is_selection=True))
    return _drawn_overview(
        settings, replace(times, until_ms=times.until_ms or overview.until_ms), overview, source
    )


def _drawn_overview(
    settings: ReportSettings, times: TimeRange, overview: AllStrips, source: TimelineSource
) -> str:
    """The page of these strips."""
    from groupreplay.app.report.advice import advice_of, advised_groups
    from groupreplay.app.report.overview import MOST_ADVISED, groups_overview, that_fit, with_advice
    from groupreplay.app.report.page import ALL_BYTES, island_bytes, report_page
    from groupreplay.timeline.advice.deployments import TEAM
    from groupreplay.timeline.limits import TimelineLimits

    worst = [strip.group_id for strip in overview.strips[: settings.worst]]
    if not worst:
        return report_page(groups_overview(overview, [], source))
    is_advised = len(overview.strips) <= MOST_ADVISED
    groups = frozenset(strip.group_id for strip in overview.strips) if is_advised else frozenset(worst)
    read, rows = _read(settings, times, groups, source, settings.processes)
    advice = advice_of([advised_groups(read)], times.since_ms, TEAM)
    # A group of a live topic may be gone by now.
    found = {advised.group_id: advised for advised in advice.groups}
    shown = [found[group_id] for group_id in worst if group_id in found]
    overview = with_advice(overview, advice) if is_advised else overview
    room = ALL_BYTES - island_bytes(groups_overview(overview, [], source, frozenset(worst)))
    timelines = read.documents(shown, TimelineLimits().of_many(len(worst)), room)
    _warn(read.replay, rows, timelines)
    fitting = that_fit(timelines, room)
    return report_page(groups_overview(overview, fitting, source, too_large=len(timelines) - len(fitting)))


def _opened(settings: ReportSettings) -> AbstractContextManager[tuple[Rows, Context]]:
    return opened_history(settings, complete_since=settings.complete_since, redaction=settings.redaction)


def _source(settings: ReportSettings, times: TimeRange, words: Sequence[str]) -> TimelineSource:
    from groupreplay.app.report.timelines import timeline_source

    return timeline_source(
        settings.log.source(),
        [*_deciding(settings), *words],
        since_ms=times.since_ms,
        until_ms=times.until_ms,
        redaction=settings.redaction,
    )


def _deciding(settings: ReportSettings) -> list[str]:
    """The other flags that decide what is drawn; files by their names, because a page is sent on."""
    kept, rules, logs = settings.retention, settings.rules, settings.log.broker_logs
    since, release = settings.complete_since, kept.broker_release
    pairs: list[tuple[str, object]] = [
        *(("--broker-log", Path(path).name) for path in logs.paths),
        ("--broker-log-pattern", logs.pattern),
        ("--retention-minutes", kept.retention_minutes),
        ("--retention-check-interval-ms", kept.check_interval_ms),
        ("--broker-release", release and ".".join(map(str, release))),
        *(("--broker-property", f"{name}={value}") for name, value in kept.session_settings.items()),
        ("--complete-since", None if since is None else since.text),
        *(("--trace", path.name) for path in settings.trace),
        ("--rules", None if rules.path is None else rules.path.name),
        *(("--rule", f"{name}={value}") for name, value in rules.thresholds),
        ("--runbook-url", rules.runbook),
        ("--worst", settings.worst if settings.all_groups and settings.worst != _WORST else None),
    ]
    return [word for name, value in pairs if value is not None for word in (name, str(value))]


def _need_timeline(
    settings: ReportSettings, times: TimeRange, group: str, source: TimelineSource, most_bytes: int | None
) -> TimelineDocument | ExitCode:
    """The timeline of the one group with this id or of this glob; reports undecodable records on stderr.

    If there is none, or if several groups match, it prints a line that says so, and returns the exit code.

    Raises:
        GroupReplayError: the log cannot be read.
    """
    from groupreplay.app.cli.nothing_found import names_of
    from groupreplay.streaming.engine.group_choice import GroupChoice
    from groupreplay.timeline.advice.group_advice import group_advice

    choice = GroupChoice([group])
    read, rows = _read(settings, times, _FirstGroup(choice), source)
    timelines = read.documents(
        [group_advice(read.history(given)) for given in read.inputs], most_bytes=most_bytes
    )
    _warn(read.replay, rows, timelines)
    log = log_read(rows, settings.zone)
    if len(choice.matched) > 1:
        raise GroupReplayError(
            f"{len(choice.matched)} groups match {group!r}: {names_of(choice.matched)}",
            fix="give one of them, or report --all-groups",
            exit_code=ExitCode.USAGE,
        )
    asked = given_flags({"--group": [group]}, times)
    nothing = log.nothing("record that can be read", asked, choice, shown=timelines)
    if nothing is not None:
        return nothing_found(nothing)
    return _with_whatif(settings, times, read, timelines[0])


def _with_whatif(
    settings: ReportSettings, times: TimeRange, read: ReadGroups, document: TimelineDocument
) -> TimelineDocument:
    """The document with the answer to ``--whatif``, if it is asked.

    Raises:
        GroupReplayError: the history cannot be played, or a setting is unknown or has no effect on it.
    """
    if not settings.whatif:
        return document
    from groupreplay.app.text.terminal import Progress
    from groupreplay.app.whatif.question import USUAL_DRAWS, Question, asked_settings
    from groupreplay.timeline.event_reading import read_events
    from groupreplay.timeline.group_history import GroupHistory

    changed = asked_settings(settings.whatif, "--whatif")
    question = Question(
        changed=changed, stated={}, draws=USUAL_DRAWS, seed=0, since_ms=times.since_ms, flag="--whatif"
    )
    (given,) = read.inputs
    history = GroupHistory(
        group_id=given.group_id, events=read_events(given.events), commits=given.commits, end_ms=given.end_ms
    )
    with Progress("plays") as progress:
        return replace(document, whatif=question.comparison(history, read.context, progress))


class _FirstGroup:
    """The first group of a choice that is asked about: logs of all groups that match a glob would fill the memory."""

    def __init__(self, choice: GroupChoice) -> None:
        self._choice = choice
        self._first: str | None = None

    def __contains__(self, group_id: object) -> bool:
        assert isinstance(group_id, str)
        if group_id not in self._choice:
            return False
        self._first = self._first or group_id
        return group_id == self._first


def _read(
    settings: ReportSettings,
    times: TimeRange,
    groups: Container[str],
    source: TimelineSource,
    processes: int | None = 1,
) -> tuple[ReadGroups, Rows]:
    """Those of these groups that the log contains, and the rows that were read.

    Raises:
        GroupReplayError: the log cannot be read.
    """
    from groupreplay.app.report.timelines import TimelineQuery, read_groups, read_trace

    trace = read_trace(settings.trace, groups)
    with _opened(settings) as (rows, context):
        query = TimelineQuery(
            groups=groups,
            source=replace(source, cluster_id=rows.cluster_id, topic_id=rows.era),
            since_ms=times.since_ms,
            until_ms=times.until_ms,
            end_ms=rows.complete_until(times.until_ms),
            trace=trace,
            processes=processes,
        )
        return read_groups(rows, context, query), rows


def _warn(replay: Replay, rows: Rows, timelines: Sequence[TimelineDocument]) -> None:
    warn_of_history(replay, rows, ((each.group_type, each.basis.assumed) for each in timelines))
