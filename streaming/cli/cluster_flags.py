"""Flags that name clusters and topics.

Imports nothing heavy: ``--help`` loads this module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.core import ParameterSource

from groupreplay.streaming.cli.options import file_option, option, option_group

if TYPE_CHECKING:
    from groupreplay.streaming.config.settings import Cluster, RetentionFlags, TopicNames
    from groupreplay.streaming.prober.probes_topic import ProbesPlace

_F = TypeVar("_F", bound=Callable[..., Any])

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
            raise click.UsageError("No cluster is named: give --bootstrap-server host:port.")
        return cluster


cluster_options: Final = option_group(
    "source",
    ClusterFlags,
    option("--bootstrap-server", metavar="HOST:PORT", help="Cluster to connect to."),
    file_option("--command-config", help="Kafka client properties for the connection (security, timeouts)."),
)


def _sink(sink_bootstrap_server: str | None, sink_command_config: Path | None) -> ClusterFlags:
    return ClusterFlags(sink_bootstrap_server, sink_command_config)


sink_options: Final = option_group(
    "sink",
    _sink,
    option(
        "--sink-bootstrap-server",
        metavar="HOST:PORT",
        help="Cluster of the job's topics, if it is not the source cluster.",
    ),
    file_option("--sink-command-config", help="Kafka client properties for the cluster of the job's topics."),
)


def topic_options(*kinds: str) -> Callable[[_F], _F]:
    """Flags that name these of the job's topics (all by default), as one ``TopicNames`` named ``topics``."""
    return option_group(
        "topics",
        _topic_names,
        *(
            option(
                f"--{kind.replace('_', '-')}-topic",
                default=f"group-{kind.replace('_', '-')}",
                show_default=True,
                metavar="NAME",
                help=_TOPIC_HELP[kind],
            )
            for kind in kinds or _TOPIC_HELP
        ),
    )


def _topic_names(
    *,
    events_topic: str | None = None,
    states_topic: str | None = None,
    dead_letters_topic: str | None = None,
    job_topic: str | None = None,
    probes_topic: str | None = None,
) -> TopicNames:
    from groupreplay.streaming.config.settings import TopicNames

    names = {
        "events": events_topic,
        "states": states_topic,
        "dead_letters": dead_letters_topic,
        "job": job_topic,
        "probes": probes_topic,
    }
    return TopicNames(**{kind: name for kind, name in names.items() if name is not None})


@dataclass(frozen=True, slots=True)
class ProbesFlags:
    """The topic with the prober's answers and its cluster; ``asked_for`` when a flag names one of them."""

    topic: str
    sink: ClusterFlags
    asked_for: bool

    def place(self, source: Cluster) -> ProbesPlace:
        """The topic, on the source cluster unless the flags name another one."""
        from groupreplay.streaming.prober.probes_topic import ProbesPlace

        return ProbesPlace(self.sink.find() or source, self.topic, self.asked_for)


def _probes(probes_topic: str, sink: ClusterFlags) -> ProbesFlags:
    ctx = click.get_current_context()
    flags = ("probes_topic", "sink_bootstrap_server", "sink_command_config")
    asked_for = any(ctx.get_parameter_source(name) is not ParameterSource.DEFAULT for name in flags)
    return ProbesFlags(probes_topic, sink, asked_for)


probes_options: Final = option_group(
    "probes",
    _probes,
    option(
        "--probes-topic",
        default="group-probes",
        show_default=True,
        metavar="NAME",
        help="Topic of the prober's answers; read together with the offsets topic.",
    ),
    sink_options,
)


def _retention(retention_minutes: int | None, retention_check_interval_ms: int | None) -> RetentionFlags:
    from groupreplay.streaming.config.settings import RetentionFlags

    return RetentionFlags(retention_minutes=retention_minutes, check_interval_ms=retention_check_interval_ms)


retention_options: Final = option_group(
    "retention",
    _retention,
    option(
        "--retention-minutes",
        type=click.IntRange(min=1),
        help="offsets.retention.minutes of the brokers; by default a broker is asked, else 7 days.",
    ),
    option(
        "--retention-check-interval-ms",
        type=click.IntRange(min=1),
        help="offsets.retention.check.interval.ms of the brokers; by default a broker is asked.",
    ),
)
