"""``groupreplay schema``: the JSON Schemas of the events."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from groupreplay.streaming.cli.display import display_options
from groupreplay.streaming.cli.options import option


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaSettings:
    """The argument and the flag of ``schema``."""

    event: str | None
    output_folder: Path | None


@click.command("schema")
@click.argument("event", required=False)
@option(
    "-o",
    "--output-folder",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Write one file per event into this folder.",
)
@display_options
def command(**flags: Any) -> None:
    """Print the JSON Schema of EVENT (for example rebalance.completed), or of all events by name."""
    from groupreplay.state.output.schemas import json_schemas

    settings = SchemaSettings(**flags)
    event, schemas = settings.event, json_schemas()
    if event is not None and event not in schemas:
        raise click.UsageError(f"There is no event {event!r}; there are {', '.join(schemas)}.")
    if settings.output_folder is None:
        click.echo(json.dumps(schemas if event is None else schemas[event], indent=2))
        return
    settings.output_folder.mkdir(parents=True, exist_ok=True)
    for name in schemas if event is None else [event]:
        path = settings.output_folder / f"{name}.json"
        path.write_text(json.dumps(schemas[name], indent=2) + "\n", encoding="utf-8")
        click.echo(str(path), err=True)
