"""``groupreplay export``: the metrics of the job's topics for Prometheus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from groupreplay.app.cli.command import with_settings
from groupreplay.app.cli.flags import ClusterFlags, cluster_flags, sink_flags, topic_flags
from groupreplay.app.cli.serving_flags import MetricFlags, listen_flag, metric_flags

if TYPE_CHECKING:
    from groupreplay.streaming.config.settings import TopicNames


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSettings:
    """The flags of ``export``."""

    source: ClusterFlags = cluster_flags()
    sink: ClusterFlags = sink_flags()
    topics: TopicNames = topic_flags("events", "states", "job")
    listen: tuple[str, int] = listen_flag("Address of the HTTP server; port 0 takes a free port.")
    metrics: MetricFlags = metric_flags()


@with_settings("export", ExportSettings)
def command(settings: ExportSettings) -> int:
    """Serve metrics only, without pages: /metrics, with /healthz and /readyz, from the job's topics.

    Reads group-states, group-events and group-job on the cluster of the job's topics, without joining a
    consumer group, and writes nothing. Several exporters may run at once. docs/monitoring.md lists the metrics.
    """
    from groupreplay.app.exporter.feed import SinkFeed
    from groupreplay.app.exporter.http_server import open_server
    from groupreplay.app.exporter.server import Exporter, exporter_application
    from groupreplay.streaming.base.clock import now_ms
    from groupreplay.streaming.base.signals import stop_requests
    from groupreplay.streaming.kafka.clients import Connection

    cluster = settings.sink.find() or settings.source.need()
    with stop_requests() as stop:
        # Asked once at the start, so that a wrong address or login is an error here.
        Connection(cluster).cluster_id()
        feed = SinkFeed(cluster, settings.topics, now_ms)
        exporter = Exporter(feed, settings.metrics.limits(), now_ms)
        server = open_server(exporter_application(exporter), *settings.listen)
        feed.start()
        server.start()
        click.echo(f"groupreplay: metrics on http://{server.address}/metrics", err=True)
        while not stop.wait(1.0):
            pass
        server.close()
        feed.close()
    return stop.exit_code
