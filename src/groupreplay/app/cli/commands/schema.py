"""``groupreplay schema``: the JSON Schemas of the events, of traces and of timelines."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import click

from groupreplay.app.cli.command import with_settings
from groupreplay.app.cli.options import declared_as, flag, force_flag
from groupreplay.streaming.base.atomic_files import atomic_file, require_new


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaSettings:
    """The argument and the flags of ``schema``."""

    event: str | None = declared_as(click.argument("event", required=False))
    output_folder: Path | None = flag(
        "Write one file per event into this folder.", "-o", type=click.Path(path_type=Path), metavar="FOLDER"
    )
    force: bool = force_flag()


@with_settings("schema", SchemaSettings)
def command(settings: SchemaSettings) -> None:
    """Print the JSON Schema of EVENT (for example rebalance.completed), or of all events by name.

    The name trace-file stands for a line of simulate --trace, and timeline for the document of groupreplay timeline.
    """
    from groupreplay.coordinator.trace_entries import TRACE_FILE, trace_schema
    from groupreplay.state.output.schemas import json_schemas
    from groupreplay.timeline.document import TIMELINE, timeline_schema

    event, schemas = settings.event, json_schemas()
    others = {TRACE_FILE: trace_schema, TIMELINE: timeline_schema}
    if event in others:
        schemas = {event: others[event]()}
    if event is not None and event not in schemas:
        raise click.UsageError(f"There is no event {event!r}; there are {', '.join(schemas)}.")
    if settings.output_folder is None:
        click.echo(json.dumps(schemas if event is None else schemas[event], indent=2))
        return
    names = schemas if event is None else [event]
    paths = {name: settings.output_folder / f"{name}.json" for name in names}
    require_new(paths.values(), force=settings.force)
    settings.output_folder.mkdir(parents=True, exist_ok=True)
    for name, path in paths.items():
        with atomic_file(path, "schema", force=settings.force) as file:
            file.write(json.dumps(schemas[name], indent=2) + "\n")
        click.echo(str(path), err=True)
