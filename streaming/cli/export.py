"""``groupreplay export``: flags, and the life of the exporter's process.

Knows flags and signals; must not import anything heavy at the top, because ``--help`` is made from here.
"""

from __future__ import annotations

import threading
from pathlib import Path

import click

from groupreplay.streaming.cli.options import (
    cluster_options,
    display_options,
    duration,
    find_cluster,
    need_cluster,
    option,
    sink_options,
)


def listen_address(value: str) -> tuple[str, int]:
    """``127.0.0.1:9408`` or ``[::1]:9408``."""
    host, colon, port = value.rpartition(":")
    if not colon or not port.isdecimal() or not host:
        raise click.BadParameter(f"{value!r} is not HOST:PORT; write 127.0.0.1:9408")
    return host.removeprefix("[").removesuffix("]"), int(port)


@click.command()
@cluster_options
@sink_options
@option("--events-topic", default="group-events", show_default=True, metavar="NAME")
@option("--states-topic", default="group-states", show_default=True, metavar="NAME")
@option("--job-topic", default="group-job", show_default=True, metavar="NAME")
@option(
    "--listen",
    type=listen_address,
    default="127.0.0.1:9408",
    show_default=True,
    metavar="HOST:PORT",
    help="Where to answer; port 0 takes a free one.",
)
@option(
    "--max-groups",
    type=click.IntRange(min=0),
    default=5_000,
    show_default=True,
    help="So many groups have gauges; conditions and counts are told of all.",
)
@option(
    "--heartbeat-timeout",
    type=duration,
    metavar="DURATION",
    help="Without a word for so long the job is down (30s); three triggers of the job by default.",
)
@display_options
@click.pass_context
def export(
    ctx: click.Context,
    *,
    bootstrap_server: str | None,
    command_config: Path | None,
    sink_bootstrap_server: str | None,
    sink_command_config: Path | None,
    events_topic: str,
    states_topic: str,
    job_topic: str,
    listen: tuple[str, int],
    max_groups: int,
    heartbeat_timeout: int | None,
) -> None:
    """Serve what the job's topics say to Prometheus: /metrics, and /healthz and /readyz beside it.

    Reads group-states, group-events and group-job on the cluster of the job's topics, without joining a group,
    and writes nothing. Several may run at once. docs/monitoring.md lists the metrics.
    """
    from groupreplay.streaming.base.clock import now_ms
    from groupreplay.streaming.base.signals import stop_requests
    from groupreplay.streaming.config.settings import TopicNames
    from groupreplay.streaming.exporter.collector import Limits
    from groupreplay.streaming.exporter.feed import SinkFeed
    from groupreplay.streaming.exporter.server import Exporter, open_server
    from groupreplay.streaming.kafka.clients import Connection

    sink = find_cluster(sink_bootstrap_server, sink_command_config)
    cluster = sink or need_cluster(bootstrap_server, command_config)
    topics = TopicNames(events=events_topic, states=states_topic, job=job_topic)
    timeout = None if heartbeat_timeout is None else heartbeat_timeout / 1000
    with stop_requests() as stop:
        # Asked once, so that a wrong address or login is an error and no silence.
        Connection(cluster).cluster_id()
        feed = SinkFeed(cluster, topics, now_ms)
        limits = Limits(max_groups=max_groups, timeout_seconds=timeout)
        server = open_server(Exporter(feed, limits, now_ms), *listen)
        feed.start()
        threading.Thread(target=server.serve_forever, name="groupreplay-http", daemon=True).start()
        host, port = server.server_address[:2]
        shown = f"[{host!s}]" if ":" in str(host) else str(host)
        click.echo(f"groupreplay: metrics on http://{shown}:{port}/metrics", err=True)
        while not stop.wait(1.0):
            pass
        server.shutdown()
        feed.close()
    ctx.exit(stop.exit_code)
