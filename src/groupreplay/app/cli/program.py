"""The program ``groupreplay``: its commands, the configuration file, errors and exit codes.

Imports only the command that is called. Exit codes: those of ``ExitCode``, 128 + the number of the signal that has
ended the command (129, 130, 143), and 141 if stdout was closed by its reader.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

import click

from groupreplay.app.cli.command import Display, display_options, hint, misspelt_variables, unknown_command
from groupreplay.app.cli.options import option
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, needing_extra, unusable
from groupreplay.streaming.base.process import StoppedBySignal, has_begun, hide_pandas, present, watch_signals
from groupreplay.version import __version__

INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141


class Entry(NamedTuple):
    """A command: ``place`` is its module below ``commands`` and its name there; ``line`` that of the overview."""

    place: str
    line: str


#: The sections of the overview by what a person wants, each with its commands; both in the order of the overview.
SECTIONS: Final[Mapping[str, Mapping[str, Entry]]] = {
    "Run the job": {
        "run": Entry("run:run_command", "Run the job: read the offsets topic, write events and states."),
        "serve": Entry("serve:command", "Serve live pages, an API and metrics from the job's topics."),
        "events": Entry("events:events_command", "Print the events that the job has written; can follow."),
    },
    "Look now": {
        "watch": Entry(
            "watch:command", "Follow a cluster in this process: events, pages and metrics, read-only."
        ),
        "list": Entry("list:command", "List groups and their states, from the offsets topic alone."),
        "describe": Entry("describe:command", "Describe offsets, members, state or history of groups."),
        "lag": Entry(
            "lag:command", "Print how far groups are behind, in records and in time; also over time."
        ),
        "explain": Entry("explain:command", "Explain a group: cause, chain, and what to do first."),
        "advise": Entry(
            "advise:command", "Print which settings would have helped a group, and what deployments cost."
        ),
        "ready": Entry(
            "ready:command", "Print whether groups may move to KIP-848 or KIP-1071, and what is in the way."
        ),
        "probe": Entry("run:probe_command", "Ask the brokers which classic groups are rebalancing now."),
        "coordinator": Entry(
            "records:coordinator_command", "Print a group's partition of the offsets topic and its leader."
        ),
    },
    "Look back": {
        "replay": Entry(
            "events:replay_command", "Print the events of a capture or a live topic, without Spark."
        ),
        "whatif": Entry(
            "whatif:command", "Play a group's history with other settings, and print the differences."
        ),
        "report": Entry(
            "report:report_command", "Draw what happened to a group, or to all, as one HTML file; or as JSON."
        ),
        "decode": Entry("records:decode_command", "Print records as the JSON that Kafka's formatters print."),
        "capture": Entry("records:capture_command", "Copy the offsets topic into a file."),
        "offsets-file": Entry(
            "events:offsets_file_command", "Print the offsets before an event, for Kafka's --from-file."
        ),
    },
    "Connect": {
        "mcp": Entry("mcp:command", "Answer assistants that speak the Model Context Protocol; reads only."),
    },
    "Try out": {
        "demo": Entry("demo:command", "Run a broker, consumers and the job on this machine."),
        "simulate": Entry("simulate:command", "Write a capture of simulated groups, and their true states."),
    },
    "Set up": {
        "check": Entry("setup:check_command", "Check whether the job can run: rights, topics, Java, clocks."),
        "bundle": Entry("setup:bundle_command", "Write an archive of groupreplay for spark-submit."),
        "schema": Entry("setup:schema_command", "Print the JSON Schemas of the events."),
    },
}
#: All commands, by name.
COMMANDS: Final[Mapping[str, Entry]] = {
    name: entry for entries in SECTIONS.values() for name, entry in entries.items()
}
_NAME_WIDTH: Final = max(map(len, COMMANDS))
#: The extras of the package that a command needs. Those that read captures need kafka for a live cluster only.
NEEDED_EXTRAS: Final[Mapping[str, Sequence[str]]] = {
    "demo": ("kafka", "spark"),
    "run": ("kafka", "spark"),
    "check": ("kafka",),
    "probe": ("kafka",),
    "events": ("kafka",),
    "watch": ("kafka",),
    "serve": ("kafka", "serve"),
    "capture": ("kafka",),
    "mcp": ("mcp",),
    "bundle": ("spark",),
}
#: The commands that load the job's code, and pandas with it.
_WITH_PANDAS: Final = {"check", *(name for name, extras in NEEDED_EXTRAS.items() if "spark" in extras)}


class Program(click.Group):
    """The group of all commands; turns every error into one message and one exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order of the overview."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command; imports its module."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].place.partition(":")
        command: click.Command = getattr(
            importlib.import_module(f"groupreplay.app.cli.commands.{module}"), name
        )
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command; an unknown one is refused with the names that are like it."""
        # A flag that does not exist has an error of its own.
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(unknown_command(args[0], list(COMMANDS)))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The overview; imports no command."""
        for title, entries in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{_NAME_WIDTH}}", entry.line) for name, entry in entries.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, with log lines on stderr."""
        ctx.ensure_object(Display).configure_logs()
        for line in misspelt_variables(os.environ, lambda: self._variables(ctx)):
            click.echo(line, err=True)
        try:
            code = super().invoke(ctx)
            # Here, and not by the interpreter at its end, which would print a traceback.
            sys.stdout.flush()
            return code
        except ModuleNotFoundError as error:
            raise needing_extra(error, NEEDED_EXTRAS.get(ctx.invoked_subcommand or "", ())) from error
        except BrokenPipeError:
            # Caught here because click would exit with 1.
            _silence_stdout()
            ctx.exit(BROKEN_PIPE)

    def _variables(self, ctx: click.Context) -> set[str]:
        """The environment variables of all settings; imports every command."""
        commands = [self, *filter(None, (self.get_command(ctx, name) for name in COMMANDS))]
        variables = {str(param.envvar) for command in commands for param in command.params}
        return {*variables, "GROUPREPLAY_CACHE"}

    def main(self, args: Sequence[str] | None = None, *_: Any, **extra: Any) -> NoReturn:
        """Parse, run, and exit with the exit code."""
        display = Display()
        extra.update(standalone_mode=False, obj=display, prog_name="groupreplay")
        try:
            code = super().main(args, **extra)
        except click.ClickException as error:
            error.show()
            if isinstance(error, click.UsageError) and (line := hint(error)) is not None:
                click.echo(line, err=True)
            code = error.exit_code
        except StoppedBySignal as stopped:
            code = 128 + stopped.number
        except (click.Abort, KeyboardInterrupt):
            code = INTERRUPTED
        except Exception as error:
            code = _report(error, debug=display.debug)
        _end(code if isinstance(code, int) else ExitCode.OK)


def _end(code: int) -> NoReturn:
    """Exits; after a signal with the sentence about it, unless the command has ended as it would have without one."""
    ending = present()
    if ending is None:
        sys.exit(code)
    if ending.number is not None and code not in (ExitCode.OK, BROKEN_PIPE):
        code = 128 + ending.number
        ending.say()
    ending.leave(code)


def _report(error: Exception, *, debug: bool) -> int:
    from groupreplay.app.text.terminal import print_error

    if has_begun() and not debug:
        # The JVM or a reader was ended by the same signal, for example.
        return ExitCode.UNEXPECTED
    if debug:
        import traceback

        from groupreplay.streaming.config.logs import without_secrets

        click.echo(without_secrets("".join(traceback.format_exception(error))), err=True)
    # Stderr may be on a full disk, too: the exit code says it.
    with suppress(OSError):
        print_error(error)
    return error.exit_code if isinstance(error, GroupReplayError) else ExitCode.UNEXPECTED


def _silence_stdout() -> None:
    # At exit the interpreter flushes stdout, which would fail again on the closed pipe.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Stdout(io.TextIOWrapper):
    """Stdout whose errors can be told from those of other files: its disk is full, or the caller has closed it."""

    def write(self, text: str) -> int:
        """As ``TextIOWrapper``."""
        with _writing():
            return super().write(text)

    def flush(self) -> None:
        """As ``TextIOWrapper``."""
        with _writing():
            super().flush()


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        _silence_stdout()
        # Not BrokenPipeError, because click would exit with 1.
        raise click.exceptions.Exit(BROKEN_PIPE) from None
    except OSError as error:
        _silence_stdout()
        raise unusable(
            f"cannot write the output, {error.strerror}", "stdout", "check where stdout goes"
        ) from error


def _load_config(ctx: click.Context, _: click.Parameter, path: Path | None) -> None:
    from groupreplay.app.cli.command import file_settings
    from groupreplay.streaming.config.config_file import default_path, load_defaults

    if path is None:
        path = default_path()
        if not path.exists():
            return
    program = ctx.command
    assert isinstance(program, click.Group)
    ctx.default_map = load_defaults(path, *file_settings(ctx, program))


@click.command(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    is_eager=True,
    expose_value=False,
    callback=_load_config,
    help="Configuration file with defaults for flags (TOML).",
)
@display_options
@click.version_option(__version__, prog_name="groupreplay")
def cli() -> None:
    """Report what happened to every consumer group of a Kafka cluster, from its __consumer_offsets topic.

    Results go to stdout, messages to stderr. Most flags can also be set as environment variables, for example
    GROUPREPLAY_BOOTSTRAP_SERVER for --bootstrap-server.
    """


def main() -> NoReturn:
    """The program, in a process of its own."""
    if _WITH_PANDAS.isdisjoint(sys.argv):
        hide_pandas()
    # Without UTF-8 in the locale, print escapes instead of failing in the middle of the output.
    escapes = "backslashreplace"
    sys.stderr.reconfigure(errors=escapes)  # type: ignore[union-attr]
    encoding, is_terminal = sys.stdout.encoding, sys.stdout.isatty()
    sys.stdout = _Stdout(sys.stdout.detach(), encoding, escapes, line_buffering=is_terminal)  # type: ignore[union-attr]
    try:
        watch_signals(_say)
        cli.main()
    except StoppedBySignal as stopped:
        # It came before the command had begun, when it had ended, or while its error was printed.
        ending = present()
        assert ending is not None
        ending.say()
        ending.leave(128 + stopped.number)


def _say(sentence: str) -> None:
    from groupreplay.streaming.config.logs import last_words

    last_words(sentence)
