"""``groupreplay capture``: copy the offsets topic into a file, or show what such a file knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import click

from groupreplay.app.cli.cluster_flags import ClusterFlags, ProbesFlags, cluster_flags, probes_flags
from groupreplay.app.cli.command import with_settings
from groupreplay.app.cli.file_settings import giving_way
from groupreplay.app.cli.inputs import columns_flag
from groupreplay.app.cli.options import file_flag, flag, force_flag
from groupreplay.app.cli.table_flags import TableFlags, table_flags


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureSettings:
    """The flags of ``capture``; ``duration`` in seconds."""

    source: ClusterFlags = cluster_flags()
    output_file: Path | None = file_flag("Capture file to write.", "-o")
    force: bool = force_flag()
    duration: float = flag(
        "After the copy, continue for this long with new records.",
        type=click.FloatRange(min=0),
        default=0.0,
        show_default=False,
        metavar="SECONDS",
    )
    probes: ProbesFlags = probes_flags()
    show: Path | None = file_flag("Print the metadata of this capture, or of a folder of captures, and end.")
    column_names: Mapping[str, str] = columns_flag()
    table: TableFlags = table_flags()
    output: Literal["table", "json"] = flag(
        "Output format of --show.", "--output", type=click.Choice(("table", "json")), default="table"
    )


@with_settings("capture", CaptureSettings)
def command(settings: CaptureSettings) -> None:
    """Copy the current content of the offsets topic into a Parquet file.

    Includes the prober's answers if there are any, and what the cluster says about itself: retention, release,
    configuration of the topic, names of topics. The file appears when it is complete. With --duration the copy
    continues with new records; Ctrl-C then ends it early and keeps the records read so far.
    """
    settings = replace(settings, **giving_way({"output_file": None, "show": None}))
    if (settings.output_file is None) == (settings.show is None):
        raise click.UsageError("Give either -o FILE or --show FILE.")
    if settings.output_file is None:
        assert settings.show is not None
        _show(settings.show, settings)
        return
    from groupreplay.app.inspection.capture import CapturePlan, capture
    from groupreplay.app.text.terminal import Progress

    cluster = settings.source.need()
    plan = CapturePlan(
        cluster=cluster,
        path=settings.output_file,
        probes=settings.probes.place(cluster),
        follow_seconds=settings.duration,
        force=settings.force,
    )
    with Progress("records copied") as progress:
        count = capture(plan, progress=progress)
    click.echo(f"{count:,} records in {settings.output_file}", err=True)


def _show(path: Path, settings: CaptureSettings) -> None:
    import json

    import msgspec

    from groupreplay.app.inspection.capture import describe_capture
    from groupreplay.app.text.terminal import Progress, escape_json, safe_line

    with Progress("records read") as progress:
        found = describe_capture(path, settings.column_names, progress)
    if settings.output == "json":
        click.echo(escape_json(json.dumps(msgspec.to_builtins(found), ensure_ascii=False, indent=2)))
        return
    for name, value in found.rows():
        click.echo(safe_line(f"{name:35}  {value}"))
    click.echo()
    settings.table.print([found.extents_table()], [], "table")
