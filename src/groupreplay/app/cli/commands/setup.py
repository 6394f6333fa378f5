"""``groupreplay check``, ``bundle`` and ``schema``: what is needed before the job runs and its events are read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

from groupreplay.app.cli.command import display, with_settings
from groupreplay.app.cli.flags import ClusterFlags, cluster_flags, retention_flags, sink_flags, topic_flags
from groupreplay.app.cli.options import (
    TABLE_FORMATS,
    declared_as,
    file_flag,
    flag,
    force_flag,
    listen_address,
)
from groupreplay.streaming.base.files import atomic_file, require_new

if TYPE_CHECKING:
    from groupreplay.app.check import CheckResult, CheckSettings
    from groupreplay.app.text.tables import OutputFormat

_KAFKA_USER: Final = "kafkauser"
_COLOURS: Final = {"ok": "green", "warning": "yellow", "failed": "red", "skipped": "cyan"}


def _settings(
    source: ClusterFlags, sink: ClusterFlags, output: str, **values: Any
) -> tuple[CheckSettings, str]:
    from groupreplay.app.check import CheckSettings

    return CheckSettings(source=source.need(), sink=sink.find(), **values), output


@with_settings(
    "check",
    _settings,
    source=cluster_flags(),
    checkpoint=flag("Also check this checkpoint of the job.", metavar="FOLDER"),
    sink=sink_flags(),
    topics=topic_flags(),
    probe=flag("Whether the job will run with the prober.", "--probe/--no-probe", default=True),
    ends=flag("Whether the prober will record the ends of partitions.", "--ends/--no-ends", default=True),
    retention=retention_flags(),
    timeout_seconds=flag(
        "Maximum time of each check.",
        "--timeout",
        type=click.FloatRange(min=1),
        default=30.0,
        metavar="SECONDS",
    ),
    listen=flag(
        "Also check who can read what serve answers on this address.",
        type=listen_address,
        metavar="HOST:PORT",
    ),
    auth_token_file=file_flag("File with the token of serve, for --listen."),
    output=flag(
        "Output format; kafkauser asks no broker, and prints users of Strimzi with all rights.",
        "-o",
        type=click.Choice((*TABLE_FORMATS, _KAFKA_USER)),
        default="table",
    ),
)
def check_command(answer: tuple[CheckSettings, str]) -> int:
    """Check everything that `run` needs, with the same flags, and print how to fix what is missing.

    Checks the connection, rights (with the kafka-acls.sh command for each missing one), the offsets topic,
    open transactions, clocks, retention, the job's topics, Java, versions, and the checkpoint. Changes
    nothing. Exits with 0 if the job can run, even if there are warnings.
    """
    from groupreplay.app.check.checklist import exit_code, run_checks
    from groupreplay.app.check.kafka_users import manifest
    from groupreplay.app.text.tables import Table, show

    settings, output = answer
    if output == _KAFKA_USER:
        click.echo(manifest(settings), nl=False)
        return 0
    if output == "table":
        results = list(_printed(run_checks(settings), colour=display().colour))
    else:
        results = list(run_checks(settings))
        cells = [(result.status.value, result.check, result.found, result.fix) for result in results]
        table = Table(("STATUS", "CHECK", "FOUND", "FIX"), cells)
        show(table, [result.document() for result in results], cast("OutputFormat", output))
    return exit_code(results)


def _printed(results: Iterable[CheckResult], *, colour: bool) -> Iterable[CheckResult]:
    """The same results, each printed when it arrives; its fix below it, unwrapped so that it can be copied.

    What was skipped is printed at the end, in one line for each reason.
    """
    from groupreplay.app.check import Status
    from groupreplay.app.text.terminal import safe_line

    def line(status: str, text: str) -> None:
        label = status.ljust(8)
        click.echo(f"{click.style(label, fg=_COLOURS[status]) if colour else label} {safe_line(text)}")

    skipped: dict[str, list[str]] = {}
    for result in results:
        if result.status is Status.SKIPPED:
            skipped.setdefault(result.found, []).append(result.check)
        else:
            line(result.status.value, f"{result.check}: {result.found}")
        for fix_line in (result.fix or "").splitlines():
            click.echo(f"         {safe_line(fix_line)}")
        yield result
    for reason, names in skipped.items():
        line(Status.SKIPPED.value, f"{_together(names)}: {reason}")


def _together(names: Iterable[str]) -> str:
    """Names of checks, those of rights by what they are about: ``Write, Describe on topic group-events; clock``."""
    operations: dict[str, list[str]] = {}
    for name in names:
        operation, on, resource = name.partition(" on ")
        operations.setdefault(on + resource, []).append(operation)
    return "; ".join(f"{', '.join(names)}{resource}" for resource, names in operations.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleSettings:
    """The flags of ``bundle``."""

    output_file: Path = file_flag(
        "Archive to write, *.tar.gz; job.py is written beside it.", "-o", required=True
    )
    spark: str = flag(
        "Spark of the platform: a line or a release, 3.5 or 3.5.4.", required=True, metavar="VERSION"
    )
    scala: str | None = flag("Scala of that Spark; by default 2.12 for 3.5, else 2.13.", metavar="VERSION")
    python: str | None = flag("Python of the platform, such as 3.11; by default this one.", metavar="VERSION")
    platform: str | None = flag(
        "Machine type of the platform; by default that of this machine.",
        type=click.Choice(("x86_64", "aarch64")),
    )
    force: bool = force_flag()


@with_settings("bundle", BundleSettings)
def bundle_command(settings: BundleSettings) -> None:
    """Write an archive of groupreplay and its libraries, and job.py; print the spark-submit lines.

    For a cluster whose machines have Python but not these libraries (docs/platforms.md). The archive can be for
    another Python and another machine type than those of this machine. pip downloads the libraries, with its own
    settings.
    """
    from groupreplay.app.bundle.archive import bundle_target, spark_release
    from groupreplay.app.bundle.builder import build_bundle

    spark = spark_release(settings.spark, settings.scala)
    target = bundle_target(settings.python, settings.platform, spark)
    bundle = build_bundle(settings.output_file, spark, target, force=settings.force)
    size = bundle.archive.stat().st_size / 1_000_000
    click.echo(
        f"{bundle.archive}: groupreplay and {len(bundle.wheels)} libraries, {size:.0f} MB; {bundle.program}",
        err=True,
    )
    click.echo(bundle.submission.script, nl=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaSettings:
    """The argument and the flags of ``schema``."""

    event: str | None = declared_as(click.argument("event", required=False))
    output_folder: Path | None = flag(
        "Write one file per event into this folder.", "-o", type=click.Path(path_type=Path), metavar="FOLDER"
    )
    force: bool = force_flag()


@with_settings("schema", SchemaSettings)
def schema_command(settings: SchemaSettings) -> None:
    """Print the JSON Schema of EVENT (for example rebalance.completed), or of all events by name.

    The name trace-file stands for a line of simulate --trace, and timeline for the document of report -o FILE.json.
    """
    from groupreplay.coordinator.trace_entries import TRACE_FILE, trace_schema
    from groupreplay.state.output.envelope import json_schemas
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
