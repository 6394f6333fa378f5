"""``groupreplay report``: what happened to a group, or to all groups, as one file to send on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import click

from groupreplay.app.cli.command import with_settings
from groupreplay.app.cli.file_settings import giving_way
from groupreplay.app.cli.inputs import log_read, nothing_found
from groupreplay.app.cli.options import file_flag, flag, force_flag, switch
from groupreplay.app.cli.pictures import (
    PictureQuery,
    need_timeline,
    opened,
    picture_source,
    timelines_of,
)
from groupreplay.app.cli.time_range import TimeRange, given_flags
from groupreplay.streaming.base.errors import ExitCode
from groupreplay.streaming.base.files import atomic_file, is_written_into, require_new

_WORST: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSettings(PictureQuery):
    """The flags of ``report``."""

    group: str | None = flag("The group: its id, or a glob that matches no other.", "--group", metavar="GLOB")
    all_groups: bool = switch("An overview of all groups, and the worst ones in full.")
    worst: int = flag(
        "With --all-groups: how many groups are shown in full.", type=click.IntRange(0, 200), default=_WORST
    )
    path: Path = file_flag(
        "File to write: .html, or .svg for the picture of one group.", "-o", "--path", required=True
    )
    force: bool = force_flag()


@with_settings("report", ReportSettings)
def command(settings: ReportSettings) -> int:
    """Draw what happened to a group as one HTML file that needs no network, or its picture as SVG.

    Verdict, states, generations, members, partitions by owner, commits, conditions and events on one time axis. The
    file opens from disk in a browser and can be attached to a ticket; it contains names of groups, clients and hosts
    unless --redact hides them.
    """
    settings = replace(settings, **giving_way({"group": None, "all_groups": False}))
    if settings.all_groups == (settings.group is not None):
        raise click.UsageError("Give either --group or --all-groups.")
    kind = settings.path.suffix.lower()
    if not kind and is_written_into(settings.path):
        kind = ".html"
    if kind not in (".html", ".htm", ".svg"):
        raise click.UsageError("-o must end with .html or .svg.")
    if kind == ".svg" and settings.all_groups:
        raise click.UsageError("An SVG shows one group: give --group instead of --all-groups.")
    require_new([settings.path], force=settings.force)
    times = settings.times()
    text = (
        _overview(settings, times)
        if settings.group is None
        else _one_group(settings, times, settings.group, kind)
    )
    if isinstance(text, ExitCode):
        return text
    with atomic_file(settings.path, "report", force=settings.force) as file:
        file.write(text)
    click.echo(f"{settings.path} ({len(text.encode()) / 1e6:.1f} MB)", err=True)
    return ExitCode.OK


def _one_group(settings: ReportSettings, times: TimeRange, group: str, kind: str) -> str | ExitCode:
    from groupreplay.app.report.fitting import GROUP_BYTES

    source = picture_source(settings, times, "report", ["--group", group, "-o", settings.path.name])
    document = need_timeline(settings, times, group, source, GROUP_BYTES)
    if isinstance(document, ExitCode):
        return document
    if kind == ".svg":
        from groupreplay.app.report.svg import timeline_svg

        return timeline_svg(document)
    from groupreplay.app.report.page import report_page

    return report_page(document)


def _overview(settings: ReportSettings, times: TimeRange) -> str | ExitCode:
    """Reads the log twice: for the strips of all groups, and for the worst ones in full."""
    from groupreplay.app.cli.nothing_found import no_such
    from groupreplay.app.report.fitting import ALL_BYTES, island_bytes
    from groupreplay.app.report.overview import all_strips, groups_overview, that_fit
    from groupreplay.app.report.page import report_page
    from groupreplay.timeline.limits import TimelineLimits

    source = picture_source(settings, times, "report", ["--all-groups", "-o", settings.path.name])
    with opened(settings, times) as log:
        source = replace(source, cluster_id=log.rows.cluster_id, topic_id=log.rows.era)
        found = all_strips(log.rows, log.context, times.since_ms, times.until_ms, log.end_ms)
    if not found.strips:
        where = log_read(log.rows, settings.zone)
        # No file is written, which was asked for.
        return nothing_found(replace(no_such("group", given_flags({}, times), [], where), is_selection=True))
    worst = [one.group_id for one in found.strips[: settings.worst]]
    times = replace(times, until_ms=times.until_ms or found.until_ms)
    limits = TimelineLimits().of_many(len(worst))
    # A group of a live topic may be gone by now.
    room = ALL_BYTES - island_bytes(groups_overview(found, [], source, frozenset(worst)))
    timelines = (
        timelines_of(settings, times, frozenset(worst), source, limits, most_bytes=room) if worst else []
    )
    timelines.sort(key=lambda one: worst.index(one.group_id))
    shown = that_fit(timelines, room)
    return report_page(groups_overview(found, shown, source, too_large=len(timelines) - len(shown)))
