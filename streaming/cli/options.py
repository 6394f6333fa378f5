"""Flags that several commands share, and how every flag gets its environment variable.

Knows click and our naming rules; must not know what a command does. Imports nothing heavy: ``--help`` is made
from here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast

import click
from click.core import ParameterSource

from groupreplay.streaming.base.clock import now_ms

if TYPE_CHECKING:
    from groupreplay.streaming.config.settings import Cluster
    from groupreplay.streaming.prober.probe_log import ProbesPlace

_F = TypeVar("_F", bound=Callable[..., Any])

ENVIRONMENT_PREFIX: Final = "GROUPREPLAY_"
TOPIC_KINDS: Final = ("events", "states", "dead_letters", "job", "probes")
TABLE_FORMATS: Final = ("table", "json", "jsonl", "csv")
#: Units of a duration or an age, in milliseconds.
_UNITS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
LOG_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")


@dataclass(slots=True)
class Display:
    """How to talk to the person, from flags that stand before or behind the command's name."""

    debug: bool = False
    no_color: bool = False
    log_level: str = "WARNING"
    log_format: Literal["text", "json"] = "text"

    def configure_logs(self) -> None:
        """Send log lines to stderr as asked."""
        from groupreplay.streaming.config.logs import configure_logs

        configure_logs("DEBUG" if self.debug else self.log_level.upper(), self.log_format)

    @property
    def colour(self) -> bool:
        """Whether stdout may be coloured."""
        import sys

        from groupreplay.streaming.text.terminal import is_colour_terminal

        return is_colour_terminal(sys.stdout, no_color=self.no_color)


def option(*names: str, **attributes: Any) -> Callable[[_F], _F]:
    """A click option that is also read from ``GROUPREPLAY_`` and its name."""
    long = next(name for name in names if name.startswith("--"))
    variable = ENVIRONMENT_PREFIX + long.split("/")[0].lstrip("-").replace("-", "_").upper()
    return click.option(*names, envvar=variable, **attributes)


def moment(value: str | int) -> int:
    """Milliseconds since 1970: that number, ISO 8601 (UTC unless it says otherwise), or ``2h`` for so long ago."""
    text = str(value)
    if text.lstrip("-").isdigit():
        return int(text)
    if text[:-1].isdigit() and text[-1] in _UNITS:
        return now_ms() - int(text[:-1]) * _UNITS[text[-1]]
    try:
        at = datetime.fromisoformat(text.removesuffix("Z").removesuffix("z"))
    except ValueError:
        what = f"{text!r} is no time; write 2026-01-31T02:00:00Z, epoch milliseconds, or 2h for two hours ago"
        raise click.BadParameter(what) from None
    if at.tzinfo is None:
        at = at.replace(tzinfo=timezone.utc)
    return round(at.timestamp() * 1000)


def duration(value: str) -> int:
    """Milliseconds of ``90s``, ``30m``, ``24h`` or ``7d``."""
    text = value.strip()
    if text[-1:] not in _UNITS or not text[:-1].isdigit():
        raise click.BadParameter(f"{text!r} is no duration; write 24h, 7d, 30m or 90s")
    return int(text[:-1]) * _UNITS[text[-1]]


def names(value: str) -> tuple[str, ...]:
    """Names with commas between them, as Kafka's tools take them."""
    return tuple(name.strip() for name in value.split(",") if name.strip())


def pair(value: str) -> tuple[str, str]:
    """``KEY=VALUE``."""
    key, equals, text = value.partition("=")
    if not key or not equals:
        raise click.BadParameter(f"{value!r} is not KEY=VALUE")
    return key, text


def display_options(command: _F) -> _F:
    """Flags that are taken before and behind the command's name."""
    hidden: dict[str, Any] = {"callback": _remember, "expose_value": False}
    levels = click.Choice(LOG_LEVELS, case_sensitive=False)
    shared = [
        option("--debug", is_flag=True, default=None, help="Show tracebacks and debug log lines.", **hidden),
        option("--no-color", is_flag=True, default=None, help="Plain output, also on a terminal.", **hidden),
        option("--log-level", type=levels, help="Of log lines on stderr; WARNING by default.", **hidden),
        option("--log-format", type=click.Choice(("text", "json")), help="Of log lines on stderr.", **hidden),
    ]
    for decorate in reversed(shared):
        command = decorate(command)
    return command


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    # Behind the command's name only what was typed counts: the rest has been read in front of it.
    typed = ctx.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE
    if value is not None and (ctx.parent is None or typed):
        display = ctx.ensure_object(Display)
        setattr(display, str(param.name), value)
        display.configure_logs()


def rules_options(command: _F) -> _F:
    """``--rules``, and ``--rule`` for single numbers."""
    command = option(
        "--rule",
        "rule_numbers",
        type=pair,
        multiple=True,
        metavar="NUMBER=VALUE",
        help="One number for all groups, over the file: rebalance.stuck.threshold_ms=3000.",
    )(command)
    return rules_option(command)


def rules_option(command: _F) -> _F:
    """``--rules``."""
    return option(
        "--rules",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Policy for groups: thresholds, labels, what to ignore (docs/cli.md).",
    )(command)


def cluster_options(command: _F) -> _F:
    """``--bootstrap-server`` and ``--command-config``."""
    command = option(
        "--command-config",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Kafka client properties for the connection (security, timeouts).",
    )(command)
    return option("--bootstrap-server", metavar="HOST:PORT", help="The cluster to ask.")(command)


def sink_options(command: _F) -> _F:
    """``--sink-bootstrap-server`` and ``--sink-command-config``: the cluster of the job's topics."""
    command = option(
        "--sink-command-config",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Its client properties.",
    )(command)
    return option(
        "--sink-bootstrap-server", metavar="HOST:PORT", help="The cluster of the job's topics, if another."
    )(command)


@dataclass(frozen=True, slots=True)
class ProbesChoice:
    """Where the probes are that somebody wants to be read; ``asked_for`` when a flag says so."""

    topic: str
    bootstrap_server: str | None
    command_config: Path | None
    asked_for: bool

    def place(self, source: Cluster) -> ProbesPlace:
        """The topic, on the cluster that is read unless another is named."""
        from groupreplay.streaming.prober.probe_log import ProbesPlace

        sink = find_cluster(self.bootstrap_server, self.command_config)
        return ProbesPlace(sink or source, self.topic, self.asked_for)


def probes_options(command: _F) -> _F:
    """``--probes-topic`` and the cluster it is on, as one ``ProbesChoice`` named ``probes``."""

    @wraps(command)
    def chosen(
        *args: Any,
        probes_topic: str,
        sink_bootstrap_server: str | None,
        sink_command_config: Path | None,
        **rest: Any,
    ) -> Any:
        ctx = click.get_current_context()
        flags = ("probes_topic", "sink_bootstrap_server", "sink_command_config")
        asked_for = any(ctx.get_parameter_source(name) is not ParameterSource.DEFAULT for name in flags)
        probes = ProbesChoice(probes_topic, sink_bootstrap_server, sink_command_config, asked_for)
        return command(*args, probes=probes, **rest)

    decorated = option(
        "--probes-topic",
        default="group-probes",
        show_default=True,
        metavar="NAME",
        help="Where the prober's answers are; read beside the log.",
    )(sink_options(chosen))
    return cast("_F", decorated)


def retention_options(command: _F) -> _F:
    """``--retention-minutes`` and ``--retention-check-interval-ms``, as ``RetentionFlags`` named ``retention``."""

    @wraps(command)
    def chosen(
        *args: Any, retention_minutes: int | None, retention_check_interval_ms: int | None, **rest: Any
    ) -> Any:
        from groupreplay.streaming.config.retention import RetentionFlags

        flags = RetentionFlags(
            retention_minutes=retention_minutes, check_interval_ms=retention_check_interval_ms
        )
        return command(*args, retention=flags, **rest)

    decorated = option(
        "--retention-minutes",
        type=click.IntRange(min=1),
        help="How long brokers keep offsets; else the broker is asked, else 7 days are assumed.",
    )(
        option(
            "--retention-check-interval-ms",
            type=click.IntRange(min=1),
            help="How often brokers look for offsets to remove; else the broker is asked.",
        )(chosen)
    )
    return cast("_F", decorated)


def redact_options(command: _F) -> _F:
    """``--redact`` and ``--redact-key-file``, as a ``Redaction`` or None named ``redaction``."""

    @wraps(command)
    def chosen(*args: Any, redact: str | None, redact_key_file: Path | None, **rest: Any) -> Any:
        if redact is None and redact_key_file is None:
            return command(*args, redaction=None, **rest)
        from groupreplay.streaming.config.redaction_key import need_redaction

        return command(*args, redaction=need_redaction(redact, redact_key_file), **rest)

    decorated = option(
        "--redact",
        metavar="WHAT",
        help="Show a keyed hash instead of: hosts, client-id, member-id, instance-id (with commas).",
    )(
        option(
            "--redact-key-file",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="The key of those hashes, 16 bytes or more that nobody can guess.",
        )(chosen)
    )
    return cast("_F", decorated)


def input_options(command: _F) -> _F:
    """A capture or a live cluster."""
    command = cluster_options(command)
    return option(
        "--from-file",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="A capture, or a folder of them; may be repeated.",
    )(command)


def output_option(*choices: str) -> Callable[[_F], _F]:
    """``-o``, with the first choice as default."""
    return option(
        "-o", "--output", type=click.Choice(choices), default=choices[0], show_default=True, help="Format."
    )


def topic_options(command: _F) -> _F:
    """The names of the five topics of the job."""

    def collect(ctx: click.Context, param: click.Parameter, value: str) -> None:
        ctx.params.setdefault("topics", {})[str(param.name).removesuffix("_topic")] = value

    for kind in reversed(TOPIC_KINDS):
        command = option(
            f"--{kind.replace('_', '-')}-topic",
            default=f"group-{kind.replace('_', '-')}",
            show_default=True,
            metavar="NAME",
            expose_value=False,
            callback=collect,
        )(command)
    return command


def need_event_types(names: Sequence[str]) -> frozenset[str] | None:
    """The CloudEvents types of events by name; None for all of them."""
    from groupreplay.state.output.catalogue import EVENTS
    from groupreplay.state.output.envelope import event_type

    known = [event.NAME for event in EVENTS]
    for name in names:
        if name not in known:
            raise click.UsageError(f"There is no event {name!r}; there are {', '.join(known)}.")
    return frozenset(map(event_type, names)) or None


def find_cluster(bootstrap_server: str | None, command_config: Path | None) -> Cluster | None:
    """The cluster that the flags name, if they do; the properties file may name it, too.

    Raises:
        GroupReplayError: the properties file cannot be used.
    """
    from groupreplay.streaming.config.properties import load_properties
    from groupreplay.streaming.config.settings import Cluster

    properties = load_properties(command_config)
    servers = bootstrap_server or properties.bootstrap_servers
    return Cluster(bootstrap_servers=servers, properties=properties.settings) if servers else None


def need_cluster(bootstrap_server: str | None, command_config: Path | None) -> Cluster:
    """The same, where there must be one."""
    cluster = find_cluster(bootstrap_server, command_config)
    if cluster is None:
        raise click.UsageError("No cluster is named: give --bootstrap-server host:port.")
    return cluster
