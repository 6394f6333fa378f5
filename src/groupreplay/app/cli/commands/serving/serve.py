"""``groupreplay serve``: pages, an API and metrics from the job's topics."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from groupreplay.app.cli.command import with_settings
from groupreplay.app.cli.file_settings import is_typed
from groupreplay.app.cli.flags import ClusterFlags, cluster_flags, redaction_flags, sink_flags, topic_flags
from groupreplay.app.cli.options import duration, file_flag, flag, pairs_flag, repeated_flag
from groupreplay.app.cli.serving_flags import MetricFlags, listen_flag, metric_flags

if TYPE_CHECKING:
    from groupreplay.app.serve.watched_cluster import ClusterToServe, WatchedCluster
    from groupreplay.state.policy.redaction import Redaction
    from groupreplay.streaming.config.settings import TopicNames

#: The flags that name one cluster, in click.
_CLUSTER: Final = (
    "bootstrap_server",
    "command_config",
    "sink_bootstrap_server",
    "sink_command_config",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """The flags of ``serve``; ``history`` in milliseconds, ``history_size`` in MiB."""

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
    listen: tuple[str, int] = listen_flag(
        "Address of the HTTP server; port 0 takes a free port. One that other machines reach needs "
        "--auth-token-file."
    )
    auth_token_file: Path | None = file_flag(
        "File with the token that the API requires. Metrics and health need none."
    )
    allowed_hosts: Sequence[str] = repeated_flag(
        "Name by which browsers reach the server, for example that of a proxy; may be repeated.",
        "--allowed-host",
        "NAME",
    )
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
    metrics: MetricFlags = metric_flags()
    redaction: Redaction | None = redaction_flags()


@with_settings("serve", ServeSettings)
def command(settings: ServeSettings) -> int:
    """Serve a page of all groups and a page of each group, an API, /metrics, /healthz and /readyz.

    Reads group-states, group-events and group-job, and __consumer_offsets for the page of a group, without joining a
    consumer group; writes nothing to Kafka. docs/serve.md has the pages, the API, and who may read them.
    """
    from groupreplay.app.exporter.http_server import open_server
    from groupreplay.app.serve.application import serve_application
    from groupreplay.app.serve.guard import need_token
    from groupreplay.streaming.base.clock import now_ms
    from groupreplay.streaming.base.signals import stop_requests
    from groupreplay.streaming.kafka.clients import Connection

    token = need_token(settings.listen[0], settings.auth_token_file)
    served = _served(settings)
    with stop_requests() as stop, ExitStack() as parts:
        if len(served) == 1:
            # Asked once at the start, so that a wrong address or login is an error here. One of several clusters must
            # not keep the others from being served: its part of the pages says why it cannot be read.
            Connection(served[0].sink).cluster_id()
        folder = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="groupreplay-serve-")))
        clusters = [_open(settings, one, folder, alone=len(served) == 1) for one in served]
        for cluster in clusters:
            parts.callback(cluster.close)
        host, port = settings.listen
        application = serve_application(clusters, now_ms, token=token, hosts=[*settings.allowed_hosts, host])
        server = open_server(application, host, port)
        for cluster in clusters:
            cluster.start()
        server.start()
        click.echo(f"groupreplay: pages on http://{server.address}/ and metrics on /metrics", err=True)
        if token is not None:
            click.echo("groupreplay: to log in, append #token=TOKEN to the address of a page", err=True)
        while not stop.wait(1.0):
            pass
        for cluster in clusters:
            cluster.streams.close()
        server.close()
    return stop.exit_code


def _open(settings: ServeSettings, served: ClusterToServe, folder: Path, *, alone: bool) -> WatchedCluster:
    from groupreplay.app.serve.history.writer import Bounds
    from groupreplay.app.serve.watched_cluster import WatchedCluster
    from groupreplay.streaming.base.clock import now_ms

    path = settings.history_file or folder / "history.db"
    if not alone:
        path = path.with_name(f"{path.stem}-{served.name}{path.suffix}")
    return WatchedCluster(
        served,
        path,
        Bounds(age_ms=settings.history, size_bytes=settings.history_size << 20),
        settings.metrics.limits(),
        now_ms,
        redaction=settings.redaction,
    )


def _served(settings: ServeSettings) -> list[ClusterToServe]:
    """The clusters, in the order of the flags.

    Raises:
        UsageError: none is named, one is named in both ways, or a flag is about a cluster that is not served.
        GroupReplayError: a properties file cannot be used.
    """
    from groupreplay.app.serve.watched_cluster import ClusterToServe
    from groupreplay.streaming.config.settings import TopicNames

    named = [name for name in _CLUSTER if is_typed(name)]
    if not settings.clusters or (named and not is_typed("cluster")):
        source = settings.source.find()
        sink = settings.sink.find() or settings.source.need()
        return [ClusterToServe(name="kafka", source=source or sink, sink=sink, topics=settings.topics)]
    if named:
        raise click.UsageError("Give either --cluster NAME=FILE or --bootstrap-server, not both.")
    known = settings.clusters.keys()
    if strangers := ({*settings.cluster_sinks} | {*settings.cluster_prefixes}) - known:
        raise click.UsageError(f"There is no --cluster {min(strangers)}=FILE.")
    found = []
    for name, file in settings.clusters.items():
        if not name.replace("-", "").replace("_", "").replace(".", "").isalnum() or len(name) > 64:
            raise click.UsageError(f"{name!r} is no name for a cluster: use letters, digits, . _ and -.")
        source = ClusterFlags(command_config=Path(file)).need()
        elsewhere = settings.cluster_sinks.get(name)
        sink = source if elsewhere is None else ClusterFlags(command_config=Path(elsewhere)).need()
        topics = settings.topics
        if prefix := settings.cluster_prefixes.get(name):
            topics = TopicNames(
                **{kind: f"{prefix}{getattr(TopicNames(), kind)}" for kind in TopicNames.__dataclass_fields__}
            )
        found.append(ClusterToServe(name=name, source=source, sink=sink, topics=topics))
    return found
