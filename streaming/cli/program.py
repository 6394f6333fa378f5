"""The program ``groupreplay``: its commands, the configuration file, errors and exit codes.

Knows where each command lives and loads only the one that is asked for; must not know what it does. Exit
codes: 0 done, 1 unexpected, 2 usage, 3 no connection or login, 4 not authorised, 5 a problem in the data, 6
something was found that ``--fail-on`` names, 130 interrupted, 141 the reader of our output went away, 143
terminated.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

import click

from groupreplay import __version__
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.cli.options import Display, display_options, option

INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
TERMINATED: Final = 143

_CLUSTER: Final = "groupreplay.streaming.cli.commands"
_READING: Final = "groupreplay.streaming.cli.reading"


class _Entry(NamedTuple):
    """Where a command is, and its line in the overview (its own help is with the command)."""

    module: str
    attribute: str
    summary: str


COMMANDS: Final[Mapping[str, _Entry]] = {
    "demo": _Entry(
        "groupreplay.streaming.demo.demo", "demo", "A broker, consumers and the job on this machine."
    ),
    "run": _Entry(_CLUSTER, "run", "The job: read the offsets topic, write what happened to topics."),
    "check": _Entry(
        "groupreplay.streaming.cli.checking",
        "check",
        "Whether the job can run: rights, topics, Java, clocks.",
    ),
    "probe": _Entry(_CLUSTER, "probe", "Ask the brokers which classic groups are rebalancing now."),
    "replay": _Entry(_READING, "replay", "Events of a capture or a live topic, without Spark."),
    "list": _Entry(_READING, "list_groups", "Groups and their states, from the log alone."),
    "describe": _Entry(_READING, "describe", "Offsets, members or state of groups."),
    "events": _Entry(_CLUSTER, "events", "The events that the job has written, and those that come."),
    "export": _Entry(
        "groupreplay.streaming.cli.export", "export", "Metrics for Prometheus, from the job's topics."
    ),
    "decode": _Entry(_READING, "decode", "Records as the JSON that Kafka's formatters print."),
    "capture": _Entry(_CLUSTER, "capture", "Copy the offsets topic into a file."),
    "simulate": _Entry(
        "groupreplay.streaming.cli.simulate",
        "simulate",
        "A capture of simulated groups, and the truth about them.",
    ),
    "coordinator": _Entry(_CLUSTER, "coordinator", "Where a group's records are and who leads them."),
    "schema": _Entry(_CLUSTER, "schema", "The JSON Schemas of the events."),
}
#: Other names of commands, which the overview leaves out.
ALIASES: Final[Mapping[str, str]] = {"watch": "events"}


class Program(click.Group):
    """The group of all commands; turns every error into one message and one exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order of the overview."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = getattr(importlib.import_module(entry.module), entry.attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command by its own name, so that its part of the configuration holds under an alias, too."""
        return super().resolve_command(ctx, [ALIASES.get(args[0], args[0]), *args[1:]])

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The overview, without importing a command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command with our log lines going to stderr."""
        ctx.ensure_object(Display).configure_logs()
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # Caught before click sees it, which would end with 1 as if something had failed.
            _silence_stdout()
            ctx.exit(BROKEN_PIPE)

    def main(self, args: Sequence[str] | None = None, *_: Any, **extra: Any) -> NoReturn:
        """Parse, run, and leave the process with the exit code."""
        display = Display()
        extra.update(standalone_mode=False, obj=display, prog_name="groupreplay")
        try:
            code = super().main(args, **extra)
        except click.ClickException as error:
            error.show()
            code = error.exit_code
        except (click.Abort, KeyboardInterrupt):
            code = INTERRUPTED
        except Exception as error:
            code = _report(error, debug=display.debug)
        sys.exit(code if isinstance(code, int) else ExitCode.OK)


def _report(error: Exception, *, debug: bool) -> int:
    from groupreplay.streaming.text.terminal import print_error

    if debug:
        import traceback

        from groupreplay.streaming.config.logs import without_secrets

        click.echo(without_secrets("".join(traceback.format_exception(error))), err=True)
    print_error(error)
    return error.exit_code if isinstance(error, GroupReplayError) else ExitCode.UNEXPECTED


def _silence_stdout() -> None:
    # The interpreter flushes stdout at its end and would complain about the closed pipe once more.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _load_config(ctx: click.Context, _: click.Parameter, path: Path | None) -> None:
    from groupreplay.streaming.config.config_file import default_path, load_defaults

    if path is None:
        path = default_path()
        if not path.exists():
            return
    program = ctx.command
    assert isinstance(program, click.Group)
    settings = {name: _settings(ctx, program, name) for name in program.list_commands(ctx)}
    ctx.default_map = load_defaults(path, settings)


def _settings(ctx: click.Context, program: click.Group, name: str) -> dict[str, str]:
    """The flags of a command, as the file names them, and what click calls their values."""
    command = program.get_command(ctx, name)
    assert command is not None
    shared = {param.name for param in program.params}
    return {
        next(flag for flag in param.opts if flag.startswith("--")).lstrip("-").replace("-", "_"): str(
            param.name
        )
        for param in command.params
        if isinstance(param, click.Option) and param.name not in shared
    }


@click.command(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    is_eager=True,
    expose_value=False,
    callback=_load_config,
    help="Defaults for flags, in TOML.",
)
@display_options
@click.version_option(__version__, prog_name="groupreplay")
def cli() -> None:
    """Say what happened to every consumer group of a Kafka cluster, from its __consumer_offsets topic.

    Answers go to stdout, all else to stderr. Every flag can be given as an environment variable, too:
    GROUPREPLAY_BOOTSTRAP_SERVER for --bootstrap-server.
    """


def main() -> NoReturn:
    """The console script."""
    for stream in (sys.stdout, sys.stderr):
        # Where the locale has no UTF-8, escapes are better than a crash in the middle of an answer.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    cli.main()
