"""One run of an engine on its store, with everything around it that a run owes the world: claim, heartbeat, prober."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from socket import gethostname

from groupreplay.state.conditions.job_blind import GRANT_DESCRIBE
from groupreplay.state.events.event import gap_event
from groupreplay.state.policy.context import OFFSETS_TOPIC, Context
from groupreplay.streaming.base.background import Background
from groupreplay.streaming.base.clock import BrokerClock
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.base.process import StopRequest
from groupreplay.streaming.config.logs import StatusReport, log_settings, report_progress
from groupreplay.streaming.config.rules_file import RulesWatch
from groupreplay.streaming.config.settings import RunSettings
from groupreplay.streaming.contract.messages import OutputRow, OwnerClaim
from groupreplay.streaming.contract.probe_messages import Rights, RoundSummary
from groupreplay.streaming.engine.json_messages import claim_row, event_row
from groupreplay.streaming.engine.probe_rows import ProbeFilter
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.log_check import LogEnds, last_records
from groupreplay.streaming.kafka.log_watch import LogLostError, LogWatch, is_same_topic, lost_log
from groupreplay.streaming.kafka.output_topics import create_missing
from groupreplay.streaming.kafka.publisher import MessageLimits, Publisher
from groupreplay.streaming.prober.service import ProberProcess, ProberTask
from groupreplay.streaming.run.context import QuerySettings
from groupreplay.streaming.run.cost_watch import CostWatch
from groupreplay.streaming.run.document_sync import DocumentSync, KafkaDocuments, SyncedRun
from groupreplay.streaming.run.heartbeat import HeartbeatWriter
from groupreplay.streaming.run.identity import Identity, first_identity
from groupreplay.streaming.run.incident_watch import IncidentWatch, WrittenTopics
from groupreplay.streaming.run.interface import Engine, Store
from groupreplay.streaming.run.outage import Outage
from groupreplay.streaming.run.own_conditions import OwnConditions
from groupreplay.streaming.run.single_run import SingleRun
from groupreplay.streaming.run.state_rebuild import state_rebuild
from groupreplay.streaming.run.status import JobIdentity, JobReport, show_first_read
from groupreplay.streaming.run.topic_owner import TopicOwner
from groupreplay.streaming.sinks.job_topic import OwnTopics

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunParts:
    """What all runs of one process share.

    ``partitions`` are those of the offsets topic, ``location`` is the store of the settings. ``engine`` makes the
    engine for a store and a number of partitions. ``clock`` learns the brokers' time from the heartbeats. ``outage``
    waits for clusters and disk. ``publisher`` writes to the sink in the main thread: a new one would take a moment
    longer for its first message, which is the claim.
    """

    settings: RunSettings
    engine: Callable[[Store, int], Engine[JobRun]]
    rules: RulesWatch
    partitions: int
    clock: BrokerClock
    owner: TopicOwner
    location: str
    outage: Outage
    publisher: Publisher


class JobRun:
    """One run on one store, which may be a place inside the store of the settings.

    What is public is there for the engine: ``stop``, ``report`` and ``clock`` (the brokers' time), ``limits`` (the
    largest message by topic), ``outage`` (waits, and says so), and the methods.
    """

    def __init__(self, parts: RunParts, store: Store, identity: Identity, stop: StopRequest) -> None:
        self._parts = parts
        self._settings = settings = parts.settings
        self._store = store
        self._identity = identity
        self._engine = parts.engine(store, parts.partitions)
        self.stop, self.clock, self.outage = stop, parts.clock, parts.outage
        self.report = JobReport(
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
                hides_names=settings.redaction is not None,
            ),
            retries_quarantined=settings.retry_quarantined,
            tasks=self._engine.tasks_ended,
        )
        self._rights: Rights = "unknown"
        self._present = QuerySettings(
            settings=settings, identity=identity, rules=parts.rules, clock=parts.clock, report=self.report
        )
        self.limits = MessageLimits(settings.sink_cluster, settings.topics)
        self._log_watch = self._new_log_watch()
        self._heartbeat = self._heartbeat_writer()
        self._documents = self._document_sync()
        self._documents_thread = self._documents.background()
        self._status = StatusReport()
        self._conditions = self._own_conditions()
        self.report.single_run = self._single_run() if settings.once else None
        self._prober = self._prober_process() if settings.probe else None

    def supervise(self) -> None:
        """Returns when the job was stopped, or a single run has ended.

        Raises:
            LogLostError: a part of the log was deleted before the query had read it.
            GroupReplayError: the query has failed for good.
        """
        lost = self.lost_log()
        if lost is not None:
            raise lost
        with self.stop.patient():
            self._claim_and_run()
        single_run = self.report.single_run
        if single_run is not None and single_run.has_ended():
            report_progress(single_run.last_words(self.report.records, self.report.events))

    def _claim_and_run(self) -> None:
        self._parts.owner.claim(
            self._own_claim(), lambda claim: self._publish(self._settings.topics.job, claim_row(claim))
        )
        self._documents.prepare()
        self._publish_gap()
        with self._beside_the_query():
            try:
                self._engine.run(self)
            finally:
                self._status.close()

    @contextmanager
    def _beside_the_query(self) -> Iterator[None]:
        """Everything that goes on beside the query, also while that is stopped."""
        threads = [
            self._heartbeat.background(),
            self._documents_thread,
            self._conditions.background(),
            self._log_watch.background(),
            self._incidents().background(),
            *self._costs(),
        ]
        for thread in threads:
            thread.start(at_once=thread is self._documents_thread)
        if self._prober is not None:
            self._prober.start()
        try:
            yield
        finally:
            # First what others read: after a signal there may be no time for the rest.
            self.report.stopped = True
            heartbeat, *others = threads
            heartbeat.close()
            if self._prober is not None:
                self._prober.close()
            for thread in others:
                thread.close()

    def _single_run(self) -> SingleRun:
        settings = self._settings
        return SingleRun(
            clock=self.clock.now_ms,
            settle_seconds=settings.trigger_seconds,
            is_probing=settings.probe,
            is_synced=lambda: self._documents.is_done,
        )

    def begin(self) -> Context:
        """The settings of a query that starts now; it keeps them to its end."""
        return self._present.begin()

    def started(self) -> None:
        """A query reads: it gets a heartbeat to read, and the documents are compared soon."""
        self._heartbeat.wake_query()
        self._documents_thread.wake()

    def has_changed(self) -> bool:
        """Whether the query must start again for its settings."""
        return self._present.changed()

    def has_ended(self) -> bool:
        """Whether a single run has done its work."""
        single_run = self.report.single_run
        return single_run is not None and single_run.has_ended()

    def replaced(self) -> GroupReplayError | None:
        """The error when another run has taken over."""
        return self._parts.owner.replaced()

    def must_end(self) -> GroupReplayError | None:
        """Why this run must end now, as far as that is known already."""
        return self.replaced() or self._log_watch.found()

    def show(self, line: str) -> None:
        """Prints a line about what has happened."""
        report_progress(line)

    def show_status(self) -> None:
        """Shows where the run stands; call it every second."""
        now_ms = self.clock.now_ms()
        self._status(self.report.step(now_ms), self.report.line(now_ms))

    def create_missing_topics(self) -> str | None:
        """What was done about missing topics, if anything; raises GroupReplayError when one cannot be created."""
        created = create_missing(Connection(self._settings.sink_cluster), self._settings.topics)
        return f"output topics were deleted, and are created again: {', '.join(created)}" if created else None

    def lost_log(self) -> LogLostError | None:
        """The part of the log that is gone, by a question to the brokers; None also while none answers."""
        try:
            return self._compare_log()
        except GroupReplayError as error:
            log.warning("cannot check whether the log is complete: %s", error)
            return None

    @property
    def probe_filter(self) -> ProbeFilter:
        """Which messages of the topic of probes concern this run."""
        return ProbeFilter(
            topic=self._settings.topics.probes,
            cluster_id=self._identity.cluster_id,
            job_id=self._identity.job_id,
            run_id=self.report.identity.run_id,
        )

    def _own_claim(self) -> OwnerClaim:
        own = self.report.identity
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

    def _compare_log(self) -> LogLostError | None:
        # A connection of its own, because two threads ask.
        source, place, marks = Connection(self._settings.source), self._store, self._log_watch.marks()
        return lost_log(place.read_to(), self._identity, source, planned=place.planned_to(), marks=marks)

    def _new_log_watch(self) -> LogWatch:
        source = Connection(self._settings.source)
        return LogWatch(
            era=self._identity.era,
            is_same=lambda: is_same_topic(self._identity, source),
            lost=self._compare_log,
            last_records=lambda ends: last_records(source, OFFSETS_TOPIC, ends),
            load=self._store.log_marks,
            store=self._store.note_log_marks,
        )

    def _publish_gap(self) -> None:
        """Writes why the state is built anew; once more when the job was killed before its first batch."""
        gap, settings = self._identity.gap, self._settings
        if gap is None or self._store.started():
            return
        at_ms = self._identity.first_start_ms
        context = Context(cluster_id=self._identity.cluster_id, era=self._identity.event_era)
        self._publish(settings.topics.events, event_row(gap_event(gap, at_ms), context, self.clock.now_ms()))

    def _publish(self, topic: str, row: OutputRow) -> None:
        from confluent_kafka import KafkaException

        sink = self._settings.sink_cluster
        try:
            self._parts.publisher.publish_row(topic, row)
        except KafkaException as error:
            raise Connection(sink).explain(error, topic) from None

    def _heartbeat_writer(self) -> HeartbeatWriter:
        # Connections of its own, because it runs in another thread.
        source, publisher = Connection(self._settings.source), Publisher(self._settings.sink_cluster)
        probes, clock, partitions = self._settings.topics.probes, self.clock, self._parts.partitions
        ends = LogEnds(source, OFFSETS_TOPIC, partitions)

        def publish(topic: str, key: bytes, value: bytes) -> None:
            appended = publisher.publish(topic, [(key, value)])
            # Of one topic only: another broker may lead the other, and its clock may differ.
            if topic == probes:
                clock.note(appended)

        return HeartbeatWriter(
            report=self.report,
            topics=self._settings.topics,
            partitions=partitions,
            ends=lambda: self._log_watch.note(ends.stable()),
            high_watermarks=ends.high_watermarks,
            progress=lambda: self._engine.progress(self.report.last_batch_id),
            publish=publish,
            clock=clock,
        )

    def _own_conditions(self) -> OwnConditions:
        settings = self._settings
        # Connections of its own, because it runs in another thread.
        sink, publisher = Connection(settings.sink_cluster), Publisher(settings.sink_cluster)
        return OwnConditions(
            messages=OwnTopics(sink, settings.topics),
            topics=settings.topics,
            probe_filter=self.probe_filter,
            report=self.report,
            context=self._present.present,
            publish=publisher.publish_row,
            clock=self.clock.now_ms,
        )

    def _incidents(self) -> IncidentWatch:
        settings, partitions, read_to = self._settings, self._parts.partitions, self.report.read
        messages = WrittenTopics.of(settings.sink_cluster, settings.topics)
        source, sink, rebuild = settings.source, settings.sink_cluster, None
        if settings.redaction is None:  # Those from whom names are hidden may read the topic of probes.
            rebuild = state_rebuild(source, sink, self.probe_filter, partitions, read_to)
        return messages.watch(self.report, self._present.present, self.clock.now_ms, self._store, rebuild)

    def _costs(self) -> Iterator[Background]:
        if self._settings.ends and self._prober is not None:
            parts, present = self._parts, self._present.present
            yield CostWatch.of(self._settings, parts.partitions, present, self.clock.now_ms).background()

    def _document_sync(self) -> DocumentSync:
        settings, identity = self._settings, self._identity
        return DocumentSync(
            run=SyncedRun(
                cluster_id=identity.cluster_id,
                run_id=self.report.identity.run_id,
                partitions=self._parts.partitions,
                probes=settings.topics.probes,
                is_only_writer=self._parts.owner.last_job_id in (None, identity.job_id),
            ),
            # Connections of its own, because it runs in another thread.
            source=KafkaDocuments(settings.source, settings.sink_cluster, settings.topics),
            progress=self.report,
            load=self._store.synced,
            store=self._store.note_synced,
            is_empty=lambda: not self._store.started(),
            show=report_progress,
        )

    def _prober_process(self) -> ProberProcess:
        settings, (level, form) = self._settings, log_settings()
        task = ProberTask(
            source=settings.source,
            sink=settings.sink_cluster,
            topic=settings.topics.probes,
            cluster_id=self._identity.cluster_id,
            interval_seconds=settings.probe_interval_seconds,
            ends_interval_seconds=settings.ends_interval_seconds if settings.ends else None,
            job_id=self._identity.job_id,
            log_level=level,
            log_format=form,
        )
        return ProberProcess(task, on_round=self._take_round, on_exit=self._count_prober_end, stop=self.stop)

    def _take_round(self, summary: RoundSummary) -> None:
        if summary.rights == "missing" and self._rights != "missing":
            log.warning("the prober cannot see all groups; grant it: %s", GRANT_DESCRIBE)
        self._rights = summary.rights
        self.report.last_round = summary
        if self.report.single_run is not None:
            self.report.single_run.round_reported()

    def _count_prober_end(self) -> None:
        self.report.prober_restarts += 1


def run_until_stopped(parts: RunParts, store: Store, wanted: Identity, stop: StopRequest) -> None:
    """Makes one run after the other: a new one, with a state built from the log, when a part of the log is lost.

    ``wanted`` is the identity of a store whose first start is now.
    """
    while not stop.made:
        place = store.latest()
        if not place.started():
            source, most = Connection(parts.settings.source), parts.settings.max_offsets_per_trigger
            show_first_read(source, parts.partitions, most)
        identity = place.claim(wanted)
        try:
            JobRun(parts, place, identity, stop).supervise()
        except LogLostError as lost:
            if identity.gap is not None and not place.started():
                raise  # A loss before the first batch would repeat for ever.
            report_progress(f"{lost.what} ({lost.where}): the state is built anew")
            wanted = first_identity(lost.topic, wanted.probes, parts.clock.now_ms())
            parts = replace(parts, partitions=lost.topic.partitions)
            store.begin_anew(identity, lost.gap, wanted)
