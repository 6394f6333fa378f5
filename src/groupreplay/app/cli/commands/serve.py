"""``groupreplay serve``: pages, an API and metrics from the job's topics, or metrics only."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from groupreplay.app.cli.assistants import assistants_of
from groupreplay.app.cli.command import is_typed, typed_words, with_settings
from groupreplay.app.cli.flags import (
    ClusterFlags,
    allowed_hosts_flag,
    cluster_flags,
    public_url_flag,
    redaction_flags,
    sink_flags,
    token_file_flag,
    topic_flags,
)
from groupreplay.app.cli.options import duration, file_flag, flag, listen_address, pairs_flag, switch

if TYPE_CHECKING:
    from groupreplay.app.exporter.feed import Limits
    from groupreplay.app.exporter.lag_watch import LagWatch
    from groupreplay.app.exporter.server import Exporter
    from groupreplay.app.serve.watched_cluster import ClusterToServe, WatchedCluster
    from groupreplay.state.policy.context import Redaction
    from groupreplay.streaming.config.settings import TopicNames

#: The flags that name one cluster, in click.
_CLUSTER: Final = ("bootstrap_server", "command_config", "sink_bootstrap_server", "sink_command_config")
#: The flags that have no meaning without pages, by their names in click.
_OF_PAGES: Final[Mapping[str, str]] = {
    "auth_token_file": "--auth-token-file",
    "allowed_host": "--allowed-host",
    "history": "--history",
    "history_file": "--history-file",
    "history_size": "--history-size",
    "mcp": "--mcp",
    "public_url": "--public-url",
    "redact": "--redact",
    "redact_key_file": "--redact-key-file",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """The flags of ``serve``; ``history`` and ``heartbeat_timeout`` in milliseconds, ``history_size`` in MiB."""

    source: ClusterFlags = cluster_flags()
    sink: ClusterFlags = sink_flags()
    topics: TopicNames = topic_flags("events", "states", "job", "probes")
    clusters: Mapping[str, str] = pairs_flag(
        "One of several clusters to serve: a name, and Kafka client properties with bootstrap.servers; may be "
        "repeated.",
        "--cluster",
        metavar="NAME=FILE",
    )
    cluster_sinks: Mapping[str, str] = pairs_flag(
        "Kafka client properties of the cluster of the job's topics, if that is another cluster; may be repeated.",
        "--cluster-sink",
        metavar="NAME=FILE",
    )
    cluster_prefixes: Mapping[str, str] = pairs_flag(
        "Topic prefix of one of several clusters; may be repeated.", "--cluster-prefix", metavar="NAME=TEXT"
    )
    metrics_only: bool = switch("Serve /metrics, /healthz and /readyz only: no pages, no API, no history.")
    mcp: bool = switch(
        "Answer assistants at /api/mcp (Model Context Protocol), where the job hides no names; not with --redact."
    )
    listen: tuple[str, int] = flag(
        "Address of the HTTP server; port 0 takes a free port. One that other machines reach needs "
        "--auth-token-file or --metrics-only.",
        type=listen_address,
        default="127.0.0.1:9408",
        metavar="HOST:PORT",
    )
    auth_token_file: Path | None = token_file_flag()
    allowed_hosts: Sequence[str] = allowed_hosts_flag()
    history: int = flag(
        "How long events stay in the history.", type=duration, default="7d", metavar="DURATION"
    )
    history_file: Path | None = file_flag(
        "SQLite file of the history, by default a temporary file; several clusters have one file each, with -NAME."
    )
    history_size: int = flag(
        "Largest size of the history's file, in MiB; above it the oldest events are removed.",
        type=click.IntRange(min=16, max=1_000_000),
        default=1_024,
        metavar="MIB",
    )
    max_groups: int = flag(
        "Maximum number of groups with series of their own in the metrics; those with conditions come first.",
        type=click.IntRange(min=0, max=200_000),
        default=5_000,
    )
    heartbeat_timeout: int | None = flag(
        "Report the job as down after this time without a heartbeat, for example 30s; by default three triggers of "
        "the job.",
        type=duration,
        metavar="DURATION",
    )
    lag: bool = flag(
        "Measure the lag of all groups twice a minute, by the ends that the prober records and the committed offsets "
        "that the brokers return.",
        "--lag/--no-lag",
        default=True,
    )
    partition_metrics: bool = switch("Series of lag for each partition in place of each topic.")
    kafka_exporter_names: bool = switch(
        "Lag also under the names of kafka_exporter, for dashboards that use them; a series for each partition."
    )
    public_url: str | None = public_url_flag(
        "Address by which people reach these pages; alerts then link to the page of their group."
    )
    redaction: Redaction | None = redaction_flags()

    def limits(self) -> Limits:
        """What the metrics show."""
        from groupreplay.app.exporter.feed import Limits

        timeout = None if self.heartbeat_timeout is None else self.heartbeat_timeout / 1000
        return Limits(
            max_groups=self.max_groups,
            timeout_seconds=timeout,
            public_url=self.public_url or "",
            by_partition=self.partition_metrics,
            kafka_exporter_names=self.kafka_exporter_names,
        )


class _Site(NamedTuple):
    """What is served: an application, what makes its sources read, and what ends its streams."""

    application: Any
    start: Sequence[Callable[[], None]]
    end_streams: Sequence[Callable[[], None]]


@with_settings("serve", ServeSettings)
def command(settings: ServeSettings) -> int:
    """Serve a page of all groups and a page of each group, an API, /metrics, /healthz and /readyz.

    Reads group-states, group-events and group-job, for lag also group-probes and the committed offsets of the groups,
    and __consumer_offsets for the page of a group, without joining a consumer group; writes nothing to Kafka. With
    --metrics-only it has no pages, and stores nothing.
    docs/serve.md has the pages, the API, and who may read them; docs/monitoring.md lists the metrics.
    """
    from groupreplay.app.exporter.http_server import open_server
    from groupreplay.streaming.base.process import stop_requests
    from groupreplay.streaming.kafka.clients import Connection

    token = _token(settings)
    clusters = _clusters(settings)
    before, _ = typed_words()
    assistants = assistants_of(clusters, before) if settings.mcp and not settings.metrics_only else None
    with stop_requests() as stop, ExitStack() as parts:
        if len(clusters) == 1:
            # Asked once at the start, so that a wrong address or login is an error here. One of several clusters must
            # not keep the others from being served: its part of the pages says why it cannot be read.
            Connection(clusters[0].sink).cluster_id()
        site = (
            _metrics(settings, clusters, parts)
            if settings.metrics_only
            else _pages(settings, clusters, parts, token, assistants)
        )
        server = open_server(site.application, *settings.listen)
        for start in (*site.start, server.start):
            start()
        say_address(server.address, token, has_pages=not settings.metrics_only)
        while not stop.wait(1.0):
            pass
        for end in (*site.end_streams, server.close):
            end()
    return stop.exit_code


def say_address(address: str, token: str | None, *, has_pages: bool = True) -> None:
    """Where the pages and metrics are, and how to log in."""
    pages = f"pages on http://{address}/ and " if has_pages else ""
    click.echo(f"groupreplay: {pages}metrics on http://{address}/metrics", err=True)
    if token is not None:
        click.echo("groupreplay: to log in, append #token=TOKEN to the address of a page", err=True)


def _token(settings: ServeSettings) -> str | None:
    """The token that the API requires; None: none is needed, or there is no API.

    Raises:
        UsageError: a flag that is typed has no meaning without pages.
        GroupReplayError: the file has no token, or other machines could read pages without one.
    """
    from groupreplay.app.serve.guard import need_token

    if settings.mcp and settings.redaction is not None:
        raise click.UsageError(
            "--mcp cannot be given with --redact: an answer to an assistant would show what is hidden."
        )
    if not settings.metrics_only:
        return need_token(settings.listen[0], settings.auth_token_file)
    if useless := [name for parameter, name in _OF_PAGES.items() if is_typed(parameter)]:
        raise click.UsageError(f"{useless[0]} has no meaning with --metrics-only.")
    return None


def _metrics(settings: ServeSettings, clusters: Sequence[ClusterToServe], parts: ExitStack) -> _Site:
    """Metrics, health and readiness."""
    from groupreplay.app.exporter.server import exporter_application, exporter_of

    made = {cluster.name: _exporter(settings, cluster, parts) for cluster in clusters}
    exporters = {name: exporter for name, (exporter, _) in made.items()}
    starts = [start for _, begins in made.values() for start in begins]
    return _Site(exporter_application(exporter_of(exporters)), starts, ())


def _exporter(
    settings: ServeSettings, cluster: ClusterToServe, parts: ExitStack
) -> tuple[Exporter, Sequence[Callable[[], None]]]:
    """The exporter of a cluster, and what makes it read; closed by ``parts``."""
    from groupreplay.app.exporter.feed import SinkFeed
    from groupreplay.app.exporter.server import Exporter
    from groupreplay.app.serve.broker_watch import BrokerWatch
    from groupreplay.streaming.base.clock import now_ms

    feed = SinkFeed(cluster.sink, cluster.topics, now_ms)
    watch = BrokerWatch(cluster.sink, lambda: feed.places, now_ms)
    parts.callback(feed.close)
    parts.callback(watch.close)
    lag_watch = _lag_watch(settings, cluster)
    starts = [feed.start, watch.start]
    if lag_watch is not None:
        parts.callback(lag_watch.close)
        starts.append(lag_watch.start)
    lags = (lambda: None) if lag_watch is None else (lambda: lag_watch.measured)
    exporter = Exporter(feed, settings.limits(), now_ms, lambda: watch.answers.error, lags)
    return exporter, starts


def _lag_watch(settings: ServeSettings, cluster: ClusterToServe) -> LagWatch | None:
    from groupreplay.app.exporter.lag_watch import EndsInTopic, LagWatch
    from groupreplay.streaming.base.clock import now_ms

    if not settings.lag:
        return None
    ends = EndsInTopic(cluster.source, cluster.sink, cluster.topics.probes, now_ms)
    return LagWatch(cluster.source, ends, now_ms, settings.max_groups)


def _pages(
    settings: ServeSettings,
    clusters: Sequence[ClusterToServe],
    parts: ExitStack,
    token: str | None,
    assistants: Mapping[str, Any] | None,
) -> _Site:
    """Pages, API and metrics.

    Raises:
        GroupReplayError: the history's file cannot be used.
    """
    from groupreplay.app.serve.application import serve_application
    from groupreplay.streaming.base.clock import now_ms

    folder = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="groupreplay-serve-")))
    watched = [_watched(settings, cluster, folder, alone=len(clusters) == 1) for cluster in clusters]
    for cluster in watched:
        parts.callback(cluster.close)
    hosts = [*settings.allowed_hosts, settings.listen[0]]
    application = serve_application(watched, now_ms, token=token, hosts=hosts, assistants=assistants)
    return _Site(
        application, [cluster.start for cluster in watched], [cluster.streams.close for cluster in watched]
    )


def _watched(
    settings: ServeSettings, cluster: ClusterToServe, folder: Path, *, alone: bool
) -> WatchedCluster:
    from groupreplay.app.serve.history.writer import Bounds
    from groupreplay.app.serve.watched_cluster import WatchedCluster
    from groupreplay.streaming.base.clock import now_ms

    path = settings.history_file or folder / "history.db"
    if not alone:
        path = path.with_name(f"{path.stem}-{cluster.name}{path.suffix}")
    return WatchedCluster(
        cluster,
        path,
        Bounds(age_ms=settings.history, size_bytes=settings.history_size << 20),
        settings.limits(),
        now_ms,
        redaction=settings.redaction,
        lag_watch=_lag_watch(settings, cluster),
    )


def _clusters(settings: ServeSettings) -> list[ClusterToServe]:
    """The clusters, in the order of the flags.

    Raises:
        UsageError: none is named, one is named in both ways, or a flag is about a cluster that is not served.
        GroupReplayError: a properties file cannot be used.
    """
    named = [name for name in _CLUSTER if is_typed(name)]
    if not settings.clusters or (named and not is_typed("cluster")):
        return [_unnamed_cluster(settings)]
    if named:
        raise click.UsageError("Give either --cluster NAME=FILE or --bootstrap-server, not both.")
    if strangers := ({*settings.cluster_sinks} | {*settings.cluster_prefixes}) - settings.clusters.keys():
        raise click.UsageError(f"There is no --cluster {min(strangers)}=FILE.")
    return [_named_cluster(settings, name, Path(file)) for name, file in settings.clusters.items()]


def _unnamed_cluster(settings: ServeSettings) -> ClusterToServe:
    from groupreplay.app.serve.watched_cluster import ClusterToServe

    source = settings.source.find()
    sink_flags = settings.sink if settings.sink.find() else settings.source
    source_flags = settings.source if source else sink_flags
    sink = sink_flags.need()
    return ClusterToServe(
        name="kafka",
        source=source or sink,
        sink=sink,
        topics=settings.topics,
        source_file=source_flags.command_config,
        sink_file=sink_flags.command_config,
    )


def _named_cluster(settings: ServeSettings, name: str, file: Path) -> ClusterToServe:
    from groupreplay.app.serve.watched_cluster import ClusterToServe
    from groupreplay.streaming.config.settings import TopicNames

    if not name.replace("-", "").replace("_", "").replace(".", "").isalnum() or len(name) > 64:
        raise click.UsageError(f"{name!r} is no name for a cluster: use letters, digits, . _ and -.")
    source = ClusterFlags(command_config=file).need()
    sink_file = Path(settings.cluster_sinks.get(name, file))
    sink = source if sink_file == file else ClusterFlags(command_config=sink_file).need()
    topics = settings.topics
    if prefix := settings.cluster_prefixes.get(name):
        topics = TopicNames(
            **{kind: f"{prefix}{getattr(TopicNames(), kind)}" for kind in TopicNames.__dataclass_fields__}
        )
    return ClusterToServe(
        name=name, source=source, sink=sink, topics=topics, source_file=file, sink_file=sink_file
    )
