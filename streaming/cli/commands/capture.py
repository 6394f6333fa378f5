"""``groupreplay capture``: copy the offsets topic into a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from groupreplay.streaming.cli.cluster_flags import (
    ClusterFlags,
    ProbesFlags,
    cluster_options,
    probes_options,
)
from groupreplay.streaming.cli.display import display_options
from groupreplay.streaming.cli.options import file_option, option


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureSettings:
    """The flags of ``capture``; ``duration`` in seconds."""

    source: ClusterFlags
    output_file: Path
    duration: float
    probes: ProbesFlags


@click.command("capture")
@cluster_options
@file_option("-o", "--output-file", required=True, help="Capture file to write.")
@option(
    "--duration",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="After the copy, continue for this long with new records.",
)
@probes_options
@display_options
def command(**flags: Any) -> None:
    """Copy the current content of the offsets topic into a Parquet file.

    Includes the prober's answers if there are any. The file appears when it is complete. With --duration the
    copy continues with new records; Ctrl-C then ends it early and keeps the records read so far.
    """
    from groupreplay.streaming.inspection.capture import capture
    from groupreplay.streaming.text.terminal import Progress

    settings = CaptureSettings(**flags)
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
