"""One run of the query on its checkpoint, with the heartbeat, the prober and the supervisor around it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from socket import gethostname
from typing import TYPE_CHECKING, Any

from groupreplay.state.conditions.job_blind import GRANT_DESCRIBE
from groupreplay.state.events.job_events import gap_event
from groupreplay.state.policy.context import Context
from groupreplay.streaming.base.broker_clock import BrokerClock
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.base.signals import StopRequest
from groupreplay.streaming.config.logs import StatusReport, log_settings, report_progress
from groupreplay.streaming.config.rules_file import RulesWatch
from groupreplay.streaming.config.settings import RunSettings
from groupreplay.streaming.contract.job_document import OwnerClaim
from groupreplay.streaming.contract.output import OutputRow
from groupreplay.streaming.contract.probe_messages import Rights, RoundSummary
from groupreplay.streaming.engine.json_messages import claim_row, event_row
from groupreplay.streaming.engine.probe_rows import ProbeFilter
from groupreplay.streaming.job.data_loss import LogLostError, lost_log
from groupreplay.streaming.job.document_sync import DocumentSync, DocumentSyncThread, SyncedRun
from groupreplay.streaming.job.faults import Remedy
from groupreplay.streaming.job.heartbeat import HeartbeatThread, HeartbeatWriter
from groupreplay.streaming.job.job_status import JobIdentity, JobReport
from groupreplay.streaming.job.log_watch import LogWatch, LogWatchThread
from groupreplay.streaming.job.once.single_run import SingleRun
from groupreplay.streaming.job.outage import Outage
from groupreplay.streaming.job.own_conditions import OwnConditions, OwnConditionsThread
from groupreplay.streaming.job.query_settings import QuerySettings
from groupreplay.streaming.job.supervisor import Supervisor
from groupreplay.streaming.job.topic_owner import TopicOwner
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.log_check import last_records
from groupreplay.streaming.kafka.message_limits import MessageLimits
from groupreplay.streaming.kafka.output_topics import create_missing
from groupreplay.streaming.kafka.publisher import Publisher
from groupreplay.streaming.kafka.topic_ends import TopicEnds
from groupreplay.streaming.prober.prober_process import ProberProcess, ProberTask
from groupreplay.streaming.sinks.document_topics import KafkaDocuments
from groupreplay.streaming.sinks.own_topics import OwnTopics
from groupreplay.streaming.spark.batch_progress import BatchProgress, tasks_ended
from groupreplay.streaming.spark.checkpoint import Checkpoint
from groupreplay.streaming.spark.checkpoint_identity import Identity
from groupreplay.streaming.spark.operator import Job
from groupreplay.streaming.spark.query import OBSERVED, counters, output_rows
from groupreplay.streaming.spark.session import quiet
from groupreplay.streaming.spark.sink import messages, start
from groupreplay.streaming.spark.source import TopicPlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunParts:
    """What all runs of one process share.

    ``log`` and ``probes`` are the topics that the query reads, ``location`` is the checkpoint of the settings.
    ``clock`` learns the brokers' time from the heartbeats. ``outage`` waits for clusters and disk. ``progress`` has
    the batches of the queries. ``publisher`` writes to the sink in the main thread: a new one would take a moment
    longer for its first message, which is the claim.
    """

    settings: RunSettings
    spark: SparkSession
    rules: RulesWatch
    log: TopicPlan
    probes: TopicPlan
    clock: BrokerClock
    owner: TopicOwner
    location: str
    outage: Outage
    progress: BatchProgress
    publisher: Publisher


class QueryRun:
    """One run on one checkpoint, which may be a folder inside the checkpoint of the settings."""

    def __init__(
        self, parts: RunParts, checkpoint: Checkpoint, identity: Identity, stop: StopRequest
    ) -> None:
        self._parts = parts
        self._settings = settings = replace(parts.settings, checkpoint=checkpoint.location)
        self._checkpoint = checkpoint
        self._identity = identity
        self._stop = stop
        self._query: StreamingQuery | None = None
        self._report = JobReport(
            JobIdentity(
                cluster_id=identity.cluster_id,
                era=identity.event_era,
                job_id=identity.job_id,
                run_id=parts.owner.new_run(),
                first_start_ms=identity.first_start_ms,
                started_ms=parts.clock.now_ms(),
                trigger_seconds=settings.batch_seconds,
                host=gethostname(),
                checkpoint=parts.location,
            ),
            retries_quarantined=settings.retry_quarantined,
            tasks=lambda: tasks_ended(parts.spark),
        )
        self._rights: Rights = "unknown"
        self._query_settings = QuerySettings(
            settings=settings, identity=identity, rules=parts.rules, clock=parts.clock, report=self._report
        )
        self._limits = MessageLimits(settings.sink_cluster, settings.topics)
        self._log_watch = self._new_log_watch()
        self._log_watch_thread = LogWatchThread(self._log_watch)
        self._heartbeat = HeartbeatThread(self._heartbeat_writer())
        self._documents = DocumentSyncThread(self._document_sync)
        self._status = StatusReport()
        self._conditions = OwnConditionsThread(self._own_conditions())
        self._report.single_run = self._single_run() if settings.once else None
        self._prober = self._prober_process() if settings.probe else None

    def supervise(self) -> None:
        """Returns when the job was stopped, or a single run has ended.

        Raises:
            LogLostError: a part of the log was deleted before the query had read it.
            GroupReplayError: the query has failed for good.
        """
        lost = self._lost_log()
        if lost is not None:
            raise lost
        with self._stop.patient():
            self._claim_and_run()
        single_run = self._report.single_run
        if single_run is not None and single_run.has_ended():
            report_progress(single_run.last_words(self._report.records, self._report.events))

    def _claim_and_run(self) -> None:
        self._parts.owner.claim(self._own_claim(), self._write_claim)
        self._documents.sync.prepare()
        self._publish_gap()
        with self._beside_the_query():
            try:
                self._supervisor().run()
            finally:
                self._status.close()

    @contextmanager
    def _beside_the_query(self) -> Iterator[None]:
        """Everything that goes on beside the query, also while that is stopped."""
        self._heartbeat.start()
        self._log_watch_thread.start()
        self._documents.start()
        self._conditions.start()
        if self._prober is not None:
            self._prober.start()
        try:
            yield
        finally:
            # First what others read: after a signal there may be no time for the rest.
            self._report.stopped = True
            self._heartbeat.close()
            if self._prober is not None:
                self._prober.close()
            self._documents.close()
            self._conditions.close()
            self._log_watch_thread.close()

    def _supervisor(self) -> Supervisor:
        return Supervisor(
            begin=self._start_query,
            checkpoint=self._settings.checkpoint,
            renew=self._query_settings.changed,
            hopeless=self._limits.fallen,
            report=self._report,
            stop=self._stop,
            outage=self._parts.outage,
            repair=self._repair,
            lost=self._lost_log,
            cut=self._log_watch.found,
            replaced=self._parts.owner.replaced,
            has_ended=self._has_ended,
            quieten=lambda: quiet(self._parts.spark),
            show=report_progress,
            progress=self._status,
            clock=self._parts.clock.now_ms,
        )

    def _single_run(self) -> SingleRun:
        settings = self._settings
        return SingleRun(
            clock=self._parts.clock.now_ms,
            settle_seconds=settings.trigger_seconds,
            is_probing=settings.probe,
            is_synced=lambda: self._documents.sync.is_done,
        )

    def _has_ended(self) -> bool:
        single_run = self._report.single_run
        return single_run is not None and single_run.has_ended()

    def _own_claim(self) -> OwnerClaim:
        own = self._report.identity
        return OwnerClaim(
            cluster_id=own.cluster_id,
            job_id=own.job_id,
            run_id=own.run_id,
            host=own.host,
            checkpoint=own.checkpoint,
            started_ms=own.started_ms,
            era=own.era,
            first_start_ms=own.first_start_ms,
        )

    def _write_claim(self, claim: OwnerClaim) -> None:
        self._publish(self._settings.topics.job, claim_row(claim))

    def _lost_log(self) -> LogLostError | None:
        """The part of the log that is gone; None also while no broker answers."""
        try:
            return self._compare_log()
        except GroupReplayError as error:
            log.warning("cannot check whether the log is complete: %s", error)
            return None

    def _repair(self, helps: Remedy) -> str | None:
        """What was done about a failure, if anything; raises GroupReplayError when a topic cannot be created."""
        created = create_missing(Connection(self._settings.sink_cluster), self._settings.topics)
        if created:
            return f"output topics were deleted, and are created again: {', '.join(created)}"
        if helps in (Remedy.SMALLER, Remedy.REPLICAS):
            return self._limits.tighten(is_refused=helps is Remedy.SMALLER)
        return None

    def _compare_log(self) -> LogLostError | None:
        # A connection of its own, because two threads ask.
        source, place = Connection(self._settings.source), self._checkpoint
        marks = self._log_watch.marks()
        return lost_log(place.read_to(), self._identity, source, planned=place.planned_to(), marks=marks)

    def _new_log_watch(self) -> LogWatch:
        source = Connection(self._settings.source)
        return LogWatch(
            era=self._identity.era,
            lost=self._compare_log,
            last_records=lambda ends: last_records(source, self._parts.log.topic, ends),
            load=self._checkpoint.log_marks,
            store=self._checkpoint.note_log_marks,
        )

    def _publish_gap(self) -> None:
        """Writes why the state is built anew; once more when the job was killed before its first batch."""
        gap, settings = self._identity.gap, self._settings
        if gap is None or self._checkpoint.started():
            return
        at_ms = self._identity.first_start_ms
        context = Context(cluster_id=self._identity.cluster_id, era=self._identity.event_era)
        row = event_row(gap_event(gap, at_ms), context, self._parts.clock.now_ms())
        self._publish(settings.topics.events, row)

    def _publish(self, topic: str, row: OutputRow) -> None:
        from confluent_kafka import KafkaException

        sink = self._settings.sink_cluster
        try:
            self._parts.publisher.publish(topic, [(row.key, row.value or b"")], row.headers)
        except KafkaException as error:
            raise Connection(sink).explain(error, topic) from None

    def _start_query(self) -> StreamingQuery:
        settings, probes, context = self._settings, self._parts.probes, self._query_settings.begin()
        rows = output_rows(
            self._parts.spark,
            log=self._parts.log,
            probes=probes,
            probe_filter=self._probe_filter(),
            job=Job(
                context=context,
                topics=settings.topics,
                started_ms=self._parts.clock.now_ms(),
                # The batch that ends a single run must find every timer due.
                retry_ms=0 if settings.once else round(settings.trigger_seconds * 1000),
                limits=self._limits.read(),
            ),
            max_offsets_per_trigger=settings.max_offsets_per_trigger,
        )
        counted = rows.observe(OBSERVED, *counters(settings.topics))
        self._query = start(messages(counted), settings, self._limits.batch_bytes)
        self._heartbeat.wake_query()
        self._documents.check_soon()
        return self._query

    def _heartbeat_writer(self) -> HeartbeatWriter:
        # Connections of its own, because it runs in another thread.
        source, publisher = Connection(self._settings.source), Publisher(self._settings.sink_cluster)
        log_plan, probes, clock = self._parts.log, self._settings.topics.probes, self._parts.clock
        ends = TopicEnds(source, log_plan.topic, log_plan.partitions)

        def publish(topic: str, key: bytes, value: bytes) -> None:
            appended = publisher.publish(topic, [(key, value)])
            # Of one topic only: another broker may lead the other, and its clock may differ.
            if topic == probes:
                clock.note(appended)

        return HeartbeatWriter(
            report=self._report,
            topics=self._settings.topics,
            partitions=log_plan.partitions,
            ends=lambda: self._log_watch.note(ends.stable()),
            high_watermarks=ends.high_watermarks,
            progress=self._progress,
            publish=publish,
            clock=clock,
        )

    def _probe_filter(self) -> ProbeFilter:
        return ProbeFilter(
            topic=self._settings.topics.probes,
            cluster_id=self._identity.cluster_id,
            job_id=self._identity.job_id,
            run_id=self._report.identity.run_id,
        )

    def _own_conditions(self) -> OwnConditions:
        settings = self._settings
        # Connections of its own, because it runs in another thread.
        sink, publisher = Connection(settings.sink_cluster), Publisher(settings.sink_cluster)
        return OwnConditions(
            messages=OwnTopics(sink, settings.topics),
            topics=settings.topics,
            probe_filter=self._probe_filter(),
            report=self._report,
            context=self._query_settings.present,
            publish=lambda topic, row: publisher.publish(topic, [(row.key, row.value or b"")], row.headers),
            clock=self._parts.clock.now_ms,
        )

    def _document_sync(self, wait: Callable[[float], bool]) -> DocumentSync:
        settings, identity = self._settings, self._identity
        writers = (None, identity.job_id)
        return DocumentSync(
            run=SyncedRun(
                cluster_id=identity.cluster_id,
                run_id=self._report.identity.run_id,
                partitions=self._parts.log.partitions,
                probes=settings.topics.probes,
                is_only_writer=self._parts.owner.last_job_id in writers,
            ),
            # Connections of its own, because it runs in another thread.
            source=KafkaDocuments(settings.source, settings.sink_cluster, settings.topics),
            progress=self._report,
            load=self._checkpoint.synced,
            store=self._checkpoint.note_synced,
            is_empty=lambda: not self._checkpoint.started(),
            wait=wait,
            show=report_progress,
        )

    def _progress(self) -> list[Mapping[str, Any]]:
        """The batches that were finished since the last one known to the report."""
        if self._query is None:
            return []
        return self._parts.progress.after(self._query, self._report.last_batch_id)

    def _prober_process(self) -> ProberProcess:
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

    def _take_round(self, summary: RoundSummary) -> None:
        if summary.rights == "missing" and self._rights != "missing":
            log.warning("the prober cannot see all groups; grant it: %s", GRANT_DESCRIBE)
        self._rights = summary.rights
        self._report.last_round = summary
        if self._report.single_run is not None:
            self._report.single_run.round_reported()

    def _count_prober_end(self) -> None:
        self._report.prober_restarts += 1
