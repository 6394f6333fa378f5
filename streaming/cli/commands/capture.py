"""``groupreplay capture``: copy the offsets topic into a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from groupreplay.streaming.cli.cluster_flags import ClusterFlags, ProbesFlags, cluster_flags, probes_flags
from groupreplay.streaming.cli.command import with_settings
from groupreplay.streaming.cli.options import file_flag, flag


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureSettings:
    """The flags of ``capture``; ``duration`` in seconds."""

    source: ClusterFlags = cluster_flags()
    output_file: Path = file_flag("Capture file to write.", "-o", required=True)
    duration: float = flag(
        "After the copy, continue for this long with new records.",
        type=click.FloatRange(min=0),
        default=0.0,
        show_default=False,
        metavar="SECONDS",
    )
    probes: ProbesFlags = probes_flags()


@with_settings("capture", CaptureSettings)
def command(settings: CaptureSettings) -> None:
    """Copy the current content of the offsets topic into a Parquet file.

    Includes the prober's answers if there are any. The file appears when it is complete. With --duration the
    copy continues with new records; Ctrl-C then ends it early and keeps the records read so far.
    """
    from groupreplay.streaming.inspection.capture import capture
    from groupreplay.streaming.text.terminal import Progress

    cluster = settings.source.need()
    with Progress("records copied") as progress:
        count = capture(
            cluster,
            settings.output_file,
            probes=settings.probes.place(cluster),
            follow_seconds=settings.duration,
            progress=progress,
        )
    click.echo(f"{count:,} records in {settings.output_file}", err=True)
