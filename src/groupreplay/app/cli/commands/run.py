"""``groupreplay run`` and ``probe``: the Spark job, and its prober alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from groupreplay.app.cli.command import display, giving_way, with_settings
from groupreplay.app.cli.flags import (
    ClusterFlags,
    cluster_flags,
    labels_flag,
    member_events_flag,
    redaction_flags,
    retention_flags,
    rules_flags,
    sink_flags,
    topic_flags,
)
from groupreplay.app.cli.options import TABLE_FORMATS, file_flag, flag, output_flag, pairs_flag, switch
from groupreplay.app.cli.printing_flags import TableFlags, table_flags
from groupreplay.streaming.base.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from groupreplay.app.text.tables import OutputFormat, Table
    from groupreplay.streaming.config.settings import RunSettings, TopicNames
    from groupreplay.streaming.contract.probe_messages import GroupAnswer

_LOG_SOURCES = ("auto", "connector", "python")


def _settings(source: ClusterFlags, sink: ClusterFlags, **values: Any) -> RunSettings:
    from groupreplay.streaming.config.settings import RunSettings

    level = display().log_level.upper()
    values |= giving_way({"standby": False, "once": False})
    return RunSettings(
        source=source.need(), sink=sink.find(), log_level="WARN" if level == "WARNING" else level, **values
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
    adopt=file_flag("On the first start, go on after a watch that has ended: the file of its --state."),
    once=switch("Read what is there, write all of it, and end; for schedulers. Not with --standby."),
    probe=flag("Ask the brokers which classic groups are rebalancing.", "--probe/--no-probe", default=True),
    probe_interval_seconds=flag(
        "Time between two probes.", "--probe-interval", type=float, default=10.0, metavar="SECONDS"
    ),
    ends=flag(
        "Let the prober record the ends of partitions, for lag at any time.", "--ends/--no-ends", default=True
    ),
    ends_interval_seconds=flag(
        "Time between two records of the ends.",
        "--ends-interval",
        type=float,
        default=30.0,
        metavar="SECONDS",
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
    log_source=flag(
        "What reads the log: Spark's Kafka connector, or groupreplay in Spark's workers (python), which takes less "
        "time and needs Spark 4.2 or later and the extra logs. auto: python, where all workers are on this machine and "
        "can.",
        type=click.Choice(_LOG_SOURCES),
        default=_LOG_SOURCES[0],
    ),
)
def run_command(settings: RunSettings) -> int:
    """Run the job until it is stopped: SIGTERM and Ctrl-C end it within three seconds.

    Reads __consumer_offsets without joining a consumer group, and writes the events and state of every group
    to five topics. Topics that do not exist are created if the login may do so. The job can be stopped at any
    time and started again on the same checkpoint. With --once it ends by itself, with exit code 0, when everything
    that was written before its start has been read and evaluated.
    """
    from groupreplay.streaming.spark.job import run
    from groupreplay.streaming.watch.handover import handover

    if settings.adopt is None:
        return run(settings)
    return run(settings, partial(handover, settings.adopt, with_incidents=settings.redaction is None))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSettings:
    """The flags of ``probe``; ``interval`` in seconds."""

    source: ClusterFlags = cluster_flags()
    sink: ClusterFlags = sink_flags()
    topics: TopicNames = topic_flags("probes")
    interval: float = flag(
        "Time between two probes.", type=click.FloatRange(min=1), default=10.0, metavar="SECONDS"
    )
    ends: bool = flag("Record the ends of partitions, for lag at any time.", "--ends/--no-ends", default=True)
    ends_interval: float = flag(
        "Time between two records of the ends.", type=click.FloatRange(min=1), default=30.0, metavar="SECONDS"
    )
    once: bool = switch("Probe once, print the answers, and write nothing.")
    output: OutputFormat = output_flag(*TABLE_FORMATS)
    table: TableFlags = table_flags()


@with_settings("probe", ProbeSettings)
def probe_command(settings: ProbeSettings) -> int:
    """Ask the brokers which classic groups are rebalancing now, which the offsets topic does not show.

    Writes the answers to the topic group-probes at a fixed interval, and the job reads them there. Also records
    the ends of partitions there, for lag. The job does the same itself unless it runs with --no-probe. With
    --once the answers are printed instead and nothing is written. Rebalances of Kafka Connect workers are not
    visible to this command.
    """
    from groupreplay.streaming.prober import service
    from groupreplay.streaming.prober.prober import check_round, round_documents

    source = settings.source.need()
    if settings.once:
        taken = service.probe_once(source)
        table, documents = answers_table(taken.answers), round_documents(taken)
        settings.table.print([table], documents, settings.output)
        check_round(taken.summary)
        return ExitCode.OK
    sink, ends_interval = settings.sink.find() or source, settings.ends_interval if settings.ends else None
    return service.probe(source, sink, settings.topics, settings.interval, ends_interval)


def answers_table(answers: Iterable[GroupAnswer]) -> Table:
    """The answers of one round, a row for each group that is rebalancing."""
    from groupreplay.app.text.tables import Table

    rows = []
    for answer in answers:
        names = [member.instance_id or f"{member.client_id}{member.client_host}" for member in answer.members]
        rows.append((answer.group_id, answer.broker, answer.state, len(names), ", ".join(names)))
    return Table(("GROUP", "BROKER", "STATE", "#MEMBERS", "MEMBERS"), rows)
