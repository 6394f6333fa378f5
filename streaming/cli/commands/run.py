"""``groupreplay run``: the Spark job."""

from __future__ import annotations

from typing import Any

import click

from groupreplay.streaming.cli.cluster_flags import (
    ClusterFlags,
    cluster_options,
    retention_options,
    sink_options,
    topic_options,
)
from groupreplay.streaming.cli.display import Display, display_options
from groupreplay.streaming.cli.options import file_option, option, pairs_option
from groupreplay.streaming.cli.policy_flags import redact_options, rules_options


@click.command("run")
@cluster_options
@option(
    "--checkpoint",
    metavar="FOLDER",
    required=True,
    help="Checkpoint folder of the query, on storage that survives restarts.",
)
@sink_options
@topic_options()
@option(
    "--trigger",
    "trigger_seconds",
    type=float,
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between micro-batches.",
)
@option("--master", help="Spark master; by default local, or the one given to spark-submit.")
@option("--backfill-events", is_flag=True, help="On the first start, also emit events of the past.")
@option("--member-events", is_flag=True, help="Also emit member.joined, member.left and member.updated.")
@option(
    "--retry-quarantined",
    is_flag=True,
    help="Process groups again that were set aside after an exception; otherwise only after an upgrade.",
)
@option(
    "--probe/--no-probe",
    default=True,
    show_default=True,
    help="Ask the brokers which classic groups are rebalancing.",
)
@option(
    "--probe-interval",
    "probe_interval_seconds",
    type=float,
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two probes.",
)
@pairs_option("--label", "labels", help="Label to add to every event; may be repeated.")
@redact_options
@rules_options
@retention_options
@option(
    "--max-offsets-per-trigger",
    type=int,
    default=2_000_000,
    show_default=True,
    help="Maximum number of offsets per micro-batch.",
)
@option(
    "--shuffle-partitions",
    type=int,
    default=4,
    show_default=True,
    help="Number of state partitions; a checkpoint keeps the number of its first start.",
)
@file_option("--ivy-settings", help="Ivy settings for downloading Spark's jars, for example from a mirror.")
@pairs_option("--spark-conf", help="Additional Spark configuration property; may be repeated.")
@display_options
@click.pass_obj
@click.pass_context
def command(
    ctx: click.Context, display: Display, /, *, source: ClusterFlags, sink: ClusterFlags, **flags: Any
) -> None:
    """Run the job until it is stopped: SIGTERM and Ctrl-C end it between two micro-batches.

    Reads __consumer_offsets without joining a consumer group, and writes the events and state of every group
    to five topics. Topics that do not exist are created if the login may do so. The job can be stopped at any
    time and started again on the same checkpoint.
    """
    from groupreplay.streaming.config.settings import RunSettings
    from groupreplay.streaming.job.run import run

    level = display.log_level.upper()
    settings = RunSettings(
        source=source.need(),
        sink=sink.find(),
        log_level="WARN" if level == "WARNING" else level,
        **flags,
    )
    ctx.exit(run(settings))
