"""``run``: looks at everything first, then keeps the query going until somebody says stop.

Knows the order of the parts and hands each what it needs; must not know how any of them works.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from groupreplay.state.events.job_events import gap_event
from groupreplay.state.job.job_watch import GRANT_DESCRIBE
from groupreplay.state.policy.context import OFFSETS_TOPIC, Context
from groupreplay.state.policy.rules import Policy
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.base.signals import StopRequest, stop_requests
from groupreplay.streaming.config.logs import log_settings, report_progress
from groupreplay.streaming.config.rules_file import RulesWatch
from groupreplay.streaming.config.settings import Cluster, RunSettings
from groupreplay.streaming.contract.probe_messages import Rights, RoundSummary
from groupreplay.streaming.engine.advance import event_row
from groupreplay.streaming.engine.probe_rows import ProbeFilter
from groupreplay.streaming.job import preflight
from groupreplay.streaming.job.data_loss import LogLostError, lost_log
from groupreplay.streaming.job.heartbeat import Heartbeat, HeartbeatThread
from groupreplay.streaming.job.job_status import JobIdentity, JobReport
from groupreplay.streaming.job.supervisor import Supervisor
from groupreplay.streaming.kafka.clients import Connection, TopicIdentity
from groupreplay.streaming.kafka.output_topics import ensure_topics
from groupreplay.streaming.kafka.publisher import Publisher
from groupreplay.streaming.kafka.retention import Retention, RetentionWatch
from groupreplay.streaming.kafka.rights import require, sink_rights, source_rights
from groupreplay.streaming.prober.prober_process import ProberProcess, ProberTask
from groupreplay.streaming.spark.batches import batches_after
from groupreplay.streaming.spark.checkpoint import Checkpoint, Identity
from groupreplay.streaming.spark.operator import Job
from groupreplay.streaming.spark.query import observed, output_rows
from groupreplay.streaming.spark.session import close, jvm_has_ended, quiet, spark_session, use_local_files
from groupreplay.streaming.spark.sink import messages, start
from groupreplay.streaming.spark.source import TopicPlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

#: An event counts as late when it is emitted this long, or three triggers, after it happened.
_LATE_MS: Final = 60_000
_ANSWER_SECONDS: Final = 10.0
#: The sockets of a JVM that is killed close before it is gone.
_MOMENT_SECONDS: Final = 2.0


def run(settings: RunSettings) -> int:
    """Runs the job until SIGTERM or Ctrl-C; returns the exit code (128 + the signal's number).

    Raises:
        GroupReplayError: the job cannot start, or has failed for good.
    """
    rules = RulesWatch(settings.rules)
    with stop_requests() as stop:
        source, sink = Connection(settings.source), Connection(settings.sink_cluster)
        require(source, source_rights(probe=False, ask_retention=False))
        topic = preflight.offsets_topic(source)
        # Before and after: a topic that is not to be seen would look as if it were missing.
        require(sink, sink_rights(settings.topics))
        partitions = ensure_topics(sink, settings.topics)
        require(sink, sink_rights(settings.topics))
        with _session(settings) as spark:
            plan = TopicPlan(cluster=settings.source, topic=OFFSETS_TOPIC, partitions=topic.partitions)
            preflight.check_plan(spark, source, plan)
            checkpoint = Checkpoint(spark, settings.checkpoint)
            if checkpoint.is_plain:
                use_local_files(spark, settings)
            with checkpoint.locked():
                sink_id = sink.identify(settings.topics.probes).cluster_id
                probes = TopicPlan(
                    cluster=settings.sink_cluster,
                    topic=settings.topics.probes,
                    partitions=partitions[settings.topics.probes],
                )
                wanted = _identity(topic, sink_id, settings)
                while not stop.made:
                    place = checkpoint.latest()
                    identity = place.claim(wanted)
                    try:
                        _Run(settings, spark, place, identity, plan, probes, rules, stop).supervise()
                    except LogLostError as lost:
                        if identity.gap is not None and not place.started():
                            raise  # Losing it again before the first batch would go on for ever.
                        report_progress(f"{lost.what} ({lost.where}): the state is built anew")
                        wanted = _identity(lost.topic, sink_id, settings)
                        plan = replace(plan, partitions=lost.topic.partitions)
                        checkpoint.begin_anew(identity, lost.gap, wanted)
        return stop.exit_code


class _Run:
    """One run of the job on its own checkpoint."""

    def __init__(
        self,
        settings: RunSettings,
        spark: SparkSession,
        checkpoint: Checkpoint,
        identity: Identity,
        log_plan: TopicPlan,
        probes_plan: TopicPlan,
        rules: RulesWatch,
        stop: StopRequest,
    ) -> None:
        # Where the state was begun anew, the query's checkpoint is a folder inside.
        self._settings = replace(settings, checkpoint=checkpoint.location)
        self._checkpoint = checkpoint
        self._spark = spark
        self._identity = identity
        self._log_plan = log_plan
        self._probes_plan = probes_plan
        self._rules = rules
        self._retention = RetentionWatch(
            settings.retention, lambda: Connection(settings.source), clock=now_ms
        )
        self._stop = stop
        self._query: StreamingQuery | None = None
        self._report = JobReport(
            JobIdentity(
                cluster_id=identity.cluster_id,
                era=identity.event_era,
                job_id=identity.job_id,
                run_id=str(uuid.uuid4()),
                first_start_ms=identity.first_start_ms,
                started_ms=now_ms(),
                trigger_seconds=settings.trigger_seconds,
            )
        )
        self._rights: Rights = "unknown"
        self._pulse = HeartbeatThread(self._heartbeat())
        self._probing = self._prober() if settings.probe else None

    def supervise(self) -> None:
        """Returns when the job was stopped; raises when it has failed for good, LogLostError if that is why."""
        lost = self._lost()
        if lost is not None:
            raise lost
        self._say_gap()
        self._pulse.start()
        if self._probing is not None:
            self._probing.start()
        try:
            Supervisor(
                self._begin,
                checkpoint=self._settings.checkpoint,
                renew=self._renew,
                report=self._report,
                stop=self._stop,
                reachable=lambda: all(map(_answers, (self._settings.source, self._settings.sink_cluster))),
                lost=self._lost,
                quieten=lambda: quiet(self._spark),
                tell=report_progress,
                clock=now_ms,
            ).run()
        finally:
            if self._probing is not None:
                self._probing.close()
            self._pulse.close()

    def _lost(self) -> LogLostError | None:
        """What is gone of the log; None while nobody can tell."""
        identity = self._identity
        try:
            source = Connection(self._settings.source)
            return lost_log(self._checkpoint.read_to(), identity.era, identity.partitions, source)
        except GroupReplayError as error:
            log.warning("whether the log is whole cannot be told: %s", error)
            return None

    def _say_gap(self) -> None:
        """Says why the state is begun anew; again, when the job was killed before its first batch."""
        gap, settings = self._identity.gap, self._settings
        if gap is None or self._checkpoint.started():
            return
        at_ms = self._identity.first_start_ms
        context = Context(cluster_id=self._identity.cluster_id, era=self._identity.event_era)
        row = event_row(gap_event(gap, at_ms), context, now_ms())
        Publisher(settings.sink_cluster).publish(
            settings.topics.events, [(row.key, row.value or b"")], row.headers
        )

    def _renew(self) -> bool:
        """Whether the query has to begin again, with other rules or another retention."""
        # Both have to be asked: each remembers what it has told.
        changed = any([self._rules.changed(), self._retention.changed()])
        self._report.rules_error = self._rules.error
        return changed

    def _begin(self) -> StreamingQuery:
        # Counted only now: until here the query before went on with the old ones.
        self._report.rules_changes = self._rules.changes
        rows = output_rows(
            self._spark,
            log=self._log_plan,
            watch=self._probes_plan,
            audience=ProbeFilter(
                topic=self._probes_plan.topic,
                cluster_id=self._identity.cluster_id,
                job_id=self._identity.job_id,
                run_id=self._report.identity.run_id,
            ),
            job=Job(
                context=_context(
                    self._identity,
                    self._settings,
                    self._rules.policy,
                    self._retention.known,
                    Connection(self._settings.source).topic_names(),
                ),
                topics=self._settings.topics,
                retry_ms=round(self._settings.trigger_seconds * 1000),
            ),
            max_offsets_per_trigger=self._settings.max_offsets_per_trigger,
        )
        self._query = start(messages(observed(rows, self._settings.topics)), self._settings)
        self._pulse.wake_query()
        return self._query

    def _heartbeat(self) -> Heartbeat:
        # Connections of its own: it is another thread.
        source, publisher = Connection(self._settings.source), Publisher(self._settings.sink_cluster)
        return Heartbeat(
            self._report,
            self._settings.topics,
            ends=lambda: source.end_offsets(self._log_plan.topic, self._log_plan.partitions),
            progress=self._progress,
            publish=lambda topic, key, value: publisher.publish(topic, [(key, value)]),
            clock=now_ms,
        )

    def _prober(self) -> ProberProcess:
        settings, (level, form) = self._settings, log_settings()
        task = ProberTask(
            source=settings.source,
            sink=settings.sink_cluster,
            topic=settings.topics.probes,
            cluster_id=self._identity.cluster_id,
            interval_seconds=settings.probe_interval_seconds,
            job_id=self._identity.job_id,
            log_level=level,
            log_format=form,
        )
        return ProberProcess(task, on_round=self._take_round, on_exit=self._count_prober_end, stop=self._stop)

    def _take_round(self, taken: RoundSummary) -> None:
        if taken.rights == "missing" and self._rights != "missing":
            log.warning("the prober cannot see all groups; grant it: %s", GRANT_DESCRIBE)
        self._rights = taken.rights
        self._report.last_round = taken

    def _count_prober_end(self) -> None:
        self._report.prober_restarts += 1

    def _progress(self) -> list[Mapping[str, Any]]:
        """The batches that were finished since the last one known to the report."""
        return [] if self._query is None else batches_after(self._query, self._report.last_batch_id)


@contextmanager
def _session(settings: RunSettings) -> Iterator[SparkSession]:
    from py4j.protocol import Py4JError

    spark = spark_session(settings)
    try:
        yield spark
    except (Py4JError, OSError) as error:
        if not jvm_has_ended(spark, _MOMENT_SECONDS):
            raise
        raise GroupReplayError(
            "the JVM of Spark has ended",
            fix="start again: the job goes on after the last finished batch; if it was killed for its memory, "
            "make that larger or set --spark-conf spark.driver.memory",
        ) from error
    finally:
        if not jvm_has_ended(spark):
            quiet(spark)
            close(spark)


def _identity(topic: TopicIdentity, sink_id: str, settings: RunSettings) -> Identity:
    return Identity(
        cluster_id=topic.cluster_id,
        era=topic.era,
        partitions=topic.partitions,
        probes=f"{sink_id}/{settings.topics.probes}",
        first_start_ms=now_ms(),
    )


def _context(
    identity: Identity,
    settings: RunSettings,
    policy: Policy,
    retention: Retention,
    topic_names: Mapping[str, str],
) -> Context:
    return Context(
        cluster_id=identity.cluster_id,
        era=identity.event_era,
        emit_since_ms=0 if settings.backfill_events else identity.first_start_ms,
        # A checkpoint begins with the whole topic, so from then on nothing of a group was missed.
        complete_since_ms=identity.first_start_ms,
        catch_up_after_ms=max(_LATE_MS, round(3_000 * settings.trigger_seconds)),
        topic_names=topic_names,
        member_events=settings.member_events,
        probing=settings.probe,
        labels=dict(settings.labels),
        redaction=settings.redaction,
        policy=policy,
        **retention.for_context(),
    )


def _answers(cluster: Cluster) -> bool:
    from confluent_kafka import KafkaException

    try:
        Connection(cluster).admin().list_topics(timeout=_ANSWER_SECONDS)
    except (KafkaException, GroupReplayError) as error:
        log.debug("%s does not answer: %s", cluster.bootstrap_servers, error)
        return False
    return True
