"""``groupreplay check``: whether the job can run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import click

from groupreplay.app.cli.cluster_flags import (
    ClusterFlags,
    cluster_flags,
    retention_flags,
    sink_flags,
    topic_flags,
)
from groupreplay.app.cli.command import with_settings
from groupreplay.app.cli.display import display
from groupreplay.app.cli.flag_values import listen_address
from groupreplay.app.cli.options import TABLE_FORMATS, file_flag, flag, output_flag

if TYPE_CHECKING:
    from groupreplay.app.check.result import CheckResult, CheckSettings
    from groupreplay.app.text.tables import OutputFormat

_COLOURS: Final = {"ok": "green", "warning": "yellow", "failed": "red", "skipped": "cyan"}


def _settings(
    source: ClusterFlags, sink: ClusterFlags, output: OutputFormat, **values: Any
) -> tuple[CheckSettings, OutputFormat]:
    from groupreplay.app.check.result import CheckSettings

    return CheckSettings(source=source.need(), sink=sink.find(), **values), output


@with_settings(
    "check",
    _settings,
    source=cluster_flags(),
    checkpoint=flag("Also check this checkpoint of the job.", metavar="FOLDER"),
    sink=sink_flags(),
    topics=topic_flags(),
    probe=flag("Whether the job will run with the prober.", "--probe/--no-probe", default=True),
    retention=retention_flags(),
    timeout_seconds=flag(
        "Maximum time of each check.",
        "--timeout",
        type=click.FloatRange(min=1),
        default=30.0,
        metavar="SECONDS",
    ),
    listen=flag(
        "Also check who can read what serve or export answer on this address.",
        type=listen_address,
        metavar="HOST:PORT",
    ),
    auth_token_file=file_flag("File with the token of serve, for --listen."),
    output=output_flag(*TABLE_FORMATS),
)
def command(given: tuple[CheckSettings, OutputFormat]) -> int:
    """Check everything that `run` needs, with the same flags, and print how to fix what is missing.

    Checks the connection, rights (with the kafka-acls.sh command for each missing one), the offsets topic,
    open transactions, clocks, retention, the job's topics, Java, versions, and the checkpoint. Changes
    nothing. Exits with 0 if the job can run, even if there are warnings.
    """
    from groupreplay.app.check.checklist import exit_code, run_checks
    from groupreplay.app.text.tables import Table, show

    settings, output = given
    if output == "table":
        results = list(_printed(run_checks(settings), colour=display().colour))
    else:
        results = list(run_checks(settings))
        cells = [(one.status.value, one.check, one.found, one.fix) for one in results]
        table = Table(("STATUS", "CHECK", "FOUND", "FIX"), cells)
        show(table, [one.document() for one in results], output)
    return exit_code(results)


def _printed(results: Iterable[CheckResult], *, colour: bool) -> Iterable[CheckResult]:
    """The same results, each printed when it arrives; its fix below it, unwrapped so that it can be copied.

    What was skipped is printed at the end, in one line for each reason.
    """
    from groupreplay.app.check.result import Status
    from groupreplay.app.text.terminal import safe_line

    def line(status: str, text: str) -> None:
        label = status.ljust(8)
        click.echo(f"{click.style(label, fg=_COLOURS[status]) if colour else label} {safe_line(text)}")

    skipped: dict[str, list[str]] = {}
    for one in results:
        if one.status is Status.SKIPPED:
            skipped.setdefault(one.found, []).append(one.check)
        else:
            line(one.status.value, f"{one.check}: {one.found}")
        for command in (one.fix or "").splitlines():
            click.echo(f"         {safe_line(command)}")
        yield one
    for reason, names in skipped.items():
        line(Status.SKIPPED.value, f"{_together(names)}: {reason}")


def _together(names: Iterable[str]) -> str:
    """Names of checks, those of rights by what they are about: ``Write, Describe on topic group-events; clock``."""
    operations: dict[str, list[str]] = {}
    for name in names:
        operation, on, resource = name.partition(" on ")
        operations.setdefault(on + resource, []).append(operation)
    return "; ".join(f"{', '.join(found)}{resource}" for resource, found in operations.items())
