"""``groupreplay timeline``: the timeline document of a group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import click

from groupreplay.app.cli.command import with_settings
from groupreplay.app.cli.options import flag, output_flag
from groupreplay.app.cli.pictures import PictureQuery, need_timeline, picture_source
from groupreplay.streaming.base.errors import ExitCode


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineSettings(PictureQuery):
    """The flags of ``timeline``."""

    group: str = flag(
        "The group: its id, or a glob that matches no other.", "--group", required=True, metavar="GLOB"
    )
    output: Literal["json"] = output_flag("json")


@with_settings("timeline", TimelineSettings)
def command(settings: TimelineSettings) -> int:
    """Print the timeline of a group: states, generations, members, partitions, commits, conditions and events.

    groupreplay report draws it; groupreplay schema timeline prints its JSON Schema.
    """
    import msgspec

    from groupreplay.app.text.terminal import escape_json

    times = settings.times()
    source = picture_source(settings, times, "timeline", ["--group", settings.group])
    document = need_timeline(settings, times, settings.group, source)
    if isinstance(document, ExitCode):
        return document
    click.echo(escape_json(msgspec.json.encode(document).decode()))
    return ExitCode.OK
