"""The command ``check``: its flags, and how its answers are printed.

Knows click and the four output formats; must not know what is asked. Imports nothing heavy at the top.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from groupreplay.streaming.cli.options import (
    TABLE_FORMATS,
    Display,
    cluster_options,
    display_options,
    find_cluster,
    need_cluster,
    option,
    output_option,
    retention_options,
    sink_options,
    topic_options,
)

if TYPE_CHECKING:
    from groupreplay.streaming.check.result import Result

_COLOURS = {"ok": "green", "warning": "yellow", "failed": "red", "skipped": "cyan"}


@click.command()
@cluster_options
@option("--checkpoint", metavar="FOLDER", help="Look at the job's checkpoint, too.")
@sink_options
@topic_options
@option("--probe/--no-probe", default=True, show_default=True, help="Whether the job will ask the brokers.")
@retention_options
@option(
    "--timeout",
    "timeout_seconds",
    type=click.FloatRange(min=1),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="For each check.",
)
@output_option(*TABLE_FORMATS)
@display_options
@click.pass_obj
@click.pass_context
def check(
    ctx: click.Context,
    display: Display,
    /,
    *,
    bootstrap_server: str | None,
    command_config: Path | None,
    sink_bootstrap_server: str | None,
    sink_command_config: Path | None,
    output: str,
    **settings: Any,
) -> None:
    """Look at everything that `run` needs, with its flags, and say what to do where something is missing.

    Connection, rights (with the kafka-acls.sh command for each that is missing), the offsets topic, open
    transactions, clocks, retention, the job's topics, Java, versions, the checkpoint. Nothing is changed.
    Ends with 0 when the job can run; warnings do not count.
    """
    from groupreplay.streaming.check.checklist import check as look
    from groupreplay.streaming.check.checklist import exit_code
    from groupreplay.streaming.check.result import CheckSettings
    from groupreplay.streaming.config.settings import TopicNames
    from groupreplay.streaming.text.terminal import Output, Table, show

    results = []
    topics = TopicNames(**settings.pop("topics"))
    source = need_cluster(bootstrap_server, command_config)
    sink = find_cluster(sink_bootstrap_server, sink_command_config)
    answers = look(CheckSettings(source=source, sink=sink, topics=topics, **settings))
    for result in _told(answers, colour=display.colour) if output == "table" else answers:
        results.append(result)
    if output == "table":
        ctx.exit(exit_code(results))
    rows = [(one.status.value, one.check, one.found, one.fix) for one in results]
    table = Table(("STATUS", "CHECK", "FOUND", "FIX"), rows)
    show(table, [one.document() for one in results], Output(output), colour=display.colour)
    ctx.exit(exit_code(results))


def _told(results: Iterable[Result], *, colour: bool) -> Iterable[Result]:
    """The same, each printed as it comes; remedies stand below, whole, so that they can be copied."""
    from groupreplay.streaming.text.terminal import safe_line

    for one in results:
        status = one.status.value.ljust(8)
        if colour:
            status = click.style(status, fg=_COLOURS[one.status.value])
        click.echo(f"{status} {safe_line(f'{one.check}: {one.found}')}")
        for line in (one.fix or "").splitlines():
            click.echo(f"         {safe_line(line)}")
        yield one
