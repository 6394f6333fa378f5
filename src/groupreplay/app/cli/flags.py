"""Flags that several commands share: clusters, topics and retention; rules, redaction, labels and event types.

Imports nothing heavy: ``--help`` loads this module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from groupreplay.app.cli.options import file_flag, flag, group, pair, pairs_flag, repeated_flag, switch
from groupreplay.streaming.base.errors import did_you_mean

if TYPE_CHECKING:
    from groupreplay.state.policy.broker_log import BrokerLog
    from groupreplay.state.policy.context import Redaction
    from groupreplay.streaming.config.rules_file import RulesSource
    from groupreplay.streaming.config.settings import Cluster, RetentionFlags, TopicNames
    from groupreplay.streaming.sources.topic import ProbesPlace

_PROPERTY: Final = "--broker-property"
#: Kafka's settings of sessions are integers of 32 bits.
_INT_MAX: Final = 2**31 - 1
_TOPIC_HELP: Final = {
    "events": "Topic of the events.",
    "states": "Compacted topic with one document per group.",
    "dead_letters": "Topic of records that cannot be decoded.",
    "job": "Topic of the job's status and events.",
    "probes": "Topic of the prober's answers.",
}


@dataclass(frozen=True, slots=True)
class ClusterFlags:
    """A bootstrap server and a Kafka client properties file; either may name the cluster."""

    bootstrap_server: str | None = None
    command_config: Path | None = None

    def find(self) -> Cluster | None:
        """The named cluster; None when neither the flag nor the file names one.

        Raises:
            GroupReplayError: the properties file cannot be used.
        """
        from groupreplay.streaming.config.properties import load_properties
        from groupreplay.streaming.config.settings import Cluster

        properties = load_properties(self.command_config)
        servers = self.bootstrap_server or properties.bootstrap_servers
        return Cluster(bootstrap_servers=servers, properties=properties.settings) if servers else None

    def need(self) -> Cluster:
        """The named cluster.

        Raises:
            UsageError: no cluster is named.
            GroupReplayError: the properties file cannot be used.
        """
        cluster = self.find()
        if cluster is None:
            raise click.UsageError("No cluster is named: give --bootstrap-server HOST:PORT.")
        return cluster


def cluster_flags() -> Any:
    """A field with the cluster to connect to."""
    return group(
        ClusterFlags,
        bootstrap_server=flag("Cluster to connect to.", metavar="HOST:PORT"),
        command_config=file_flag("Kafka client properties for the connection (security, timeouts)."),
    )


def sink_flags() -> Any:
    """A field with the cluster of the job's topics."""
    return group(
        ClusterFlags,
        bootstrap_server=flag(
            "Cluster of the job's topics, if it is not the source cluster.",
            "--sink-bootstrap-server",
            metavar="HOST:PORT",
        ),
        command_config=file_flag(
            "Kafka client properties for the cluster of the job's topics.", "--sink-command-config"
        ),
    )


def _topic_flag(kind: str, text: str) -> Any:
    name = kind.replace("_", "-")
    return flag(text, f"--{name}-topic", default=f"group-{name}", metavar="NAME")


def _prefix_flag() -> Any:
    return flag(
        "Begin the default names of the job's topics with this text: a set of topics of its own.",
        "--topic-prefix",
        default="",
        show_default=False,
        metavar="TEXT",
    )


def topic_flags(*kinds: str) -> Any:
    """A field with the ``TopicNames``; flags for these of the job's topics, by default for all, and for a prefix."""
    flags = {kind: _topic_flag(kind, _TOPIC_HELP[kind]) for kind in kinds or _TOPIC_HELP}
    return group(_topic_names, prefix=_prefix_flag(), **flags)


def _topic_names(prefix: str, **names: str) -> TopicNames:
    from groupreplay.streaming.config.settings import TopicNames

    return TopicNames(**_all_names(prefix, **names))


def _all_names(prefix: str, **names: str) -> dict[str, str]:
    """The names of all five topics; the prefix applies to those that no flag names."""
    ctx = click.get_current_context()
    named = {
        kind: name
        for kind, name in names.items()
        if ctx.get_parameter_source(f"{kind}_topic") is not ParameterSource.DEFAULT
    }
    defaults = {kind: f"{prefix}group-{kind.replace('_', '-')}" for kind in _TOPIC_HELP}
    return {**defaults, **named}


@dataclass(frozen=True, slots=True)
class ProbesFlags:
    """The topic with the prober's answers and its cluster; ``asked_for`` when a flag names one of them."""

    topic: str
    sink: ClusterFlags
    asked_for: bool

    def place(self, source: Cluster) -> ProbesPlace:
        """The topic, on the source cluster unless the flags name another one."""
        from groupreplay.streaming.sources.topic import ProbesPlace

        return ProbesPlace(self.sink.find() or source, self.topic, self.asked_for)


@dataclass(frozen=True, slots=True)
class BrokerLogFlags:
    """Log files of brokers, as paths or globs; ``pattern`` None: their layout is one of those that are known."""

    paths: Sequence[str] = ()
    pattern: str | None = None

    def read(self, cluster_id: str) -> BrokerLog:
        """What they say about the groups of this cluster.

        Raises:
            UsageError: there is no such file, or the pattern cannot be used.
            GroupReplayError: a file cannot be read, has no known layout, or is of another cluster.
        """
        from groupreplay.state.policy.broker_log import BrokerLog

        if not self.paths:
            return BrokerLog()
        from groupreplay.streaming.broker_log.layouts import PatternError, layout
        from groupreplay.streaming.broker_log.reader import read_broker_logs
        from groupreplay.streaming.sources.source import UNKNOWN_CLUSTER

        try:
            given = None if self.pattern is None else layout(self.pattern)
        except PatternError as error:
            raise click.UsageError(
                f"--broker-log-pattern {self.pattern!r} cannot be used: {error}."
            ) from None
        files = list(dict.fromkeys(chain.from_iterable(map(_files, self.paths))))
        return read_broker_logs(files, given, None if cluster_id == UNKNOWN_CLUSTER else cluster_id)


def _files(path: str) -> list[Path]:
    from glob import glob

    files = [Path(name) for name in sorted([path] if Path(path).exists() else glob(path))]
    if not files:
        raise click.UsageError(f"--broker-log {path}: there is no such file.")
    return files


def broker_log_flags() -> Any:
    """A field with the ``BrokerLogFlags``."""
    return group(
        BrokerLogFlags,
        paths=repeated_flag(
            "Log file of a broker (server.log, kafka-authorizer.log; plain or .gz), or a glob in quotes: it proves why "
            "rebalances began and members left; may be repeated.",
            "--broker-log",
            "FILE",
        ),
        pattern=flag(
            "Conversion pattern of these files in the broker's log4j file, if it is none of the usual ones.",
            "--broker-log-pattern",
            metavar="PATTERN",
        ),
    )


def _probes(prefix: str, topic: str, sink: ClusterFlags) -> ProbesFlags:
    ctx = click.get_current_context()
    flags = ("probes_topic", "topic_prefix", "sink_bootstrap_server", "sink_command_config")
    asked_for = any(ctx.get_parameter_source(name) is not ParameterSource.DEFAULT for name in flags)
    return ProbesFlags(_all_names(prefix, probes=topic)["probes"], sink, asked_for)


def probes_flags() -> Any:
    """A field with the ``ProbesFlags``."""
    text = "Topic of the prober's answers; read together with the offsets topic."
    return group(_probes, prefix=_prefix_flag(), topic=_topic_flag("probes", text), sink=sink_flags())


def _retention(
    broker_release: str | None, broker_property: Mapping[str, str], **values: int | None
) -> RetentionFlags:
    from groupreplay.streaming.config.retention import parsed_release
    from groupreplay.streaming.config.settings import RetentionFlags

    release = None if broker_release is None else parsed_release(broker_release)
    if broker_release is not None and release is None:
        raise click.BadParameter(
            f"{broker_release!r} is no release of Kafka; give two numbers, such as 3.9.",
            param_hint="'--broker-release'",
        )
    return RetentionFlags(
        broker_release=release, session_settings=_session_settings(broker_property), **values
    )


def _session_settings(properties: Mapping[str, str]) -> dict[str, int]:
    """The settings of sessions by Kafka's names.

    Raises:
        BadParameter: another name, no number, or two that no broker accepts together.
    """
    from groupreplay.streaming.config.retention import SESSIONS

    hint = f"'{_PROPERTY}'"
    settings = {}
    for name, text in properties.items():
        if name not in chain(*SESSIONS.values()):
            kinds = ", ".join(chain(*SESSIONS.values()))
            raise click.BadParameter(f"{name!r} is not read; give one of {kinds}.", param_hint=hint)
        if not (text.isdecimal() and text.isascii() and 0 < int(text) < _INT_MAX):
            what = f"{name}={text} is no time of Kafka; give milliseconds, such as {name}=45000."
            raise click.BadParameter(what, param_hint=hint)
        settings[name] = int(text)
    for timeout, *shorter in SESSIONS.values():
        for name, more_ms in zip(shorter, (0, 1), strict=True):
            needed_ms = settings.get(name, 0) + more_ms
            if settings.get(timeout, needed_ms) < needed_ms:
                what = f"no broker starts with {name}={settings[name]} and a shorter session"
                raise click.BadParameter(f"{what}; give {timeout}={needed_ms} or more.", param_hint=hint)
    return settings


def retention_flags() -> Any:
    """A field with the ``RetentionFlags``."""
    return group(
        _retention,
        retention_minutes=flag(
            "offsets.retention.minutes of the brokers; by default a broker is asked, else 7 days.",
            type=click.IntRange(min=1),
        ),
        check_interval_ms=flag(
            "offsets.retention.check.interval.ms of the brokers; by default a broker is asked.",
            "--retention-check-interval-ms",
            type=click.IntRange(min=1),
        ),
        broker_release=flag(
            "Kafka release of the brokers, such as 2.8: the rules of expiry differ. By default a broker is asked, else "
            "3.2 or later.",
            metavar="RELEASE",
        ),
        broker_property=pairs_flag(
            "A setting of the brokers for sessions by Kafka's name, such as group.consumer.session.timeout.ms=60000; "
            "by default a broker is asked, else Kafka's defaults; may be repeated.",
            _PROPERTY,
        ),
    )


def _rules(**values: Any) -> RulesSource:
    from groupreplay.streaming.config.rules_file import RulesSource

    return RulesSource(**values)


def rules_file_flag(**more: Any) -> Any:
    """A field with the rules of a file, and of these other fields."""
    text = "Rules for groups: thresholds, labels, groups to ignore (docs/cli.md)."
    return group(_rules, path=file_flag(text, "--rules"), **more)


def runbook_flag() -> Any:
    """A field with the address of the runbook."""
    text = "Page that events and reports link to, with a section for each condition; overrides the file."
    return flag(text, "--runbook-url", metavar="ADDRESS")


def rules_flags() -> Any:
    """A field with the rules of a file and single thresholds."""
    return rules_file_flag(
        thresholds=flag(
            "Set one number of the rules for all groups, for example rebalance.stuck.threshold_ms=3000; overrides the "
            "file; may be repeated.",
            "--rule",
            type=pair,
            multiple=True,
            metavar="NUMBER=VALUE",
        ),
        runbook=runbook_flag(),
    )


def _page_address(text: str) -> str:
    if not re.fullmatch(r"https?://[^\s/?#]+(/[^\s?#]*)?", text):
        raise click.BadParameter(f"{text!r} is no address of pages; write https://groups.example.com")
    return text.rstrip("/")


def token_file_flag() -> Any:
    """A field with the file of the token that pages and API require."""
    return file_flag("File with the token that the API requires. Metrics and health need none.")


def allowed_hosts_flag() -> Any:
    """A field with the names by which browsers reach the server."""
    return repeated_flag(
        "Name by which browsers reach the server, for example that of a proxy; may be repeated.",
        "--allowed-host",
        "NAME",
    )


def public_url_flag(help_text: str) -> Any:
    """A field with the address of the live pages, as others reach them; None: it is not known."""
    return flag(help_text, "--public-url", type=_page_address, metavar="URL")


def _redaction(redact: str | None, redact_key_file: Path | None) -> Redaction | None:
    if redact is None and redact_key_file is None:
        return None
    from groupreplay.streaming.config.settings import need_redaction

    return need_redaction(redact, redact_key_file)


def redaction_flags() -> Any:
    """A field with the ``Redaction``, None without its flags."""
    text = "Replace these by a keyed hash (comma-separated): hosts, client-id, member-id, instance-id."
    return group(
        _redaction,
        redact=flag(text, metavar="WHAT"),
        redact_key_file=file_flag("Secret key of the hashes, at least 16 bytes."),
    )


def member_events_flag() -> Any:
    """A field that is true if events about members are asked for."""
    return switch("Also emit member.joined, member.updated, and member.left of severity INFO.")


def labels_flag() -> Any:
    """A field with the labels of all events."""
    return pairs_flag("Label to add to every event; may be repeated.", "--label")


def need_event_types(names: Sequence[str]) -> frozenset[str] | None:
    """The CloudEvents types of events by name; None for all events.

    Raises:
        UsageError: there is no event of that name.
    """
    from groupreplay.state.output.envelope import EVENTS, event_type

    names_of_events = [event.NAME for event in EVENTS]
    for name in names:
        if name not in names_of_events:
            near = [event for event in names_of_events if name in event.split(".")]
            hint = f"did you mean {' or '.join(near)}? " if near else did_you_mean(name, names_of_events)
            raise click.UsageError(
                f"There is no event {name!r}; {hint}there are {', '.join(names_of_events)}."
            )
    return frozenset(map(event_type, names)) or None
