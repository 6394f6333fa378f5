"""``groupreplay run``: the Spark job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupreplay.app.cli.cluster_flags import (
    ClusterFlags,
    cluster_flags,
    retention_flags,
    sink_flags,
    topic_flags,
)
from groupreplay.app.cli.command import with_settings
from groupreplay.app.cli.display import display
from groupreplay.app.cli.file_settings import giving_way
from groupreplay.app.cli.options import file_flag, flag, pairs_flag, switch
from groupreplay.app.cli.policy_flags import (
    labels_flag,
    member_events_flag,
    redaction_flags,
    rules_flags,
)

if TYPE_CHECKING:
    from groupreplay.streaming.config.settings import RunSettings


def _settings(source: ClusterFlags, sink: ClusterFlags, **values: Any) -> RunSettings:
    from groupreplay.streaming.config.settings import RunSettings

    level = display().log_level.upper()
    values |= giving_way({"standby": False, "once": False})
    return RunSettings(
        source=source.need(),
        sink=sink.find(),
        log_level="WARN" if level == "WARNING" else level,
        **values,
    )


@with_settings(
    "run",
    _settings,
    source=cluster_flags(),
    checkpoint=flag(
        "Checkpoint folder of the query, on storage that survives restarts.", metavar="FOLDER", required=True
    ),
    sink=sink_flags(),
    topics=topic_flags(),
    trigger_seconds=flag(
        "Time between micro-batches.", "--trigger", type=float, default=10.0, metavar="SECONDS"
    ),
    master=flag("Spark master; by default local, or the one given to spark-submit."),
    backfill_events=switch("On the first start, also emit events of the past."),
    member_events=member_events_flag(),
    retry_quarantined=switch(
        "Process groups again that were set aside after an exception; otherwise only after an upgrade."
    ),
    take_over=switch("Replace another job that writes to the same topics: it ends, and this one starts."),
    standby=switch(
        "Wait beside another job that writes to the same topics, and go on when it is gone; without one, start at once."
    ),
    once=switch("Read what is there, write all of it, and end; for schedulers. Not with --standby."),
    probe=flag("Ask the brokers which classic groups are rebalancing.", "--probe/--no-probe", default=True),
    probe_interval_seconds=flag(
        "Time between two probes.", "--probe-interval", type=float, default=10.0, metavar="SECONDS"
    ),
    labels=labels_flag(),
    redaction=redaction_flags(),
    rules=rules_flags(),
    retention=retention_flags(),
    max_offsets_per_trigger=flag("Maximum number of offsets per micro-batch.", type=int, default=2_000_000),
    shuffle_partitions=flag(
        "Number of state partitions; a checkpoint keeps the number of its first start.", type=int, default=4
    ),
    ivy_settings=file_flag("Ivy settings for downloading Spark's jars, for example from a mirror."),
    spark_conf=pairs_flag("Additional Spark configuration property; may be repeated."),
    plain_spark=switch(
        "Use Spark's public interface only, which costs more time; for a release whose inner parts have changed."
    ),
)
def command(settings: RunSettings) -> int:
    """Run the job until it is stopped: SIGTERM and Ctrl-C end it within three seconds.

    Reads __consumer_offsets without joining a consumer group, and writes the events and state of every group
    to five topics. Topics that do not exist are created if the login may do so. The job can be stopped at any
    time and started again on the same checkpoint. With --once it ends by itself, with exit code 0, when everything
    that was written before its start has been read and evaluated.
    """
    from groupreplay.streaming.spark.job import run

    return run(settings)
