"""``run``: checks everything the job needs, then runs the query until the process is asked to stop."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from socket import gethostname
from typing import TYPE_CHECKING, Final, NamedTuple

from groupreplay.state.phrases import timestamp
from groupreplay.streaming.base.clock import BrokerClock
from groupreplay.streaming.base.errors import GroupReplayError, PassingError
from groupreplay.streaming.base.process import StopRequest, in_worker, stop_requests
from groupreplay.streaming.config.logs import report_progress
from groupreplay.streaming.config.rules_file import RulesWatch
from groupreplay.streaming.config.settings import RunSettings, TopicNames
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.output_topics import ensure_topics
from groupreplay.streaming.kafka.publisher import Publisher
from groupreplay.streaming.kafka.rights import require, sink_rights, source_rights
from groupreplay.streaming.kafka.topic_identity import TopicIdentity
from groupreplay.streaming.prober.service import read_clock
from groupreplay.streaming.run.handover import Handover
from groupreplay.streaming.run.identity import Identity, check_identity, first_identity
from groupreplay.streaming.run.interface import Store
from groupreplay.streaming.run.job_run import RunParts, run_until_stopped
from groupreplay.streaming.run.outage import Hindrance, Outage, job_hindrance
from groupreplay.streaming.run.standby import JobHistory, Standby, Turns, begin_after
from groupreplay.streaming.run.topic_owner import OtherRunError, TopicOwner
from groupreplay.streaming.sinks.job_topic import JobTopic, RunMessage
from groupreplay.streaming.spark import preflight
from groupreplay.streaming.spark.checkpoint import LOCK_SECONDS, Checkpoint, local_folder
from groupreplay.streaming.spark.checkpoint_files import has_driver, has_run, holder_of, in_folder, in_use
from groupreplay.streaming.spark.engine import SparkEngine
from groupreplay.streaming.spark.progress import BatchProgress, batch_progress
from groupreplay.streaming.spark.query import TopicPlan
from groupreplay.streaming.spark.session import (
    close,
    jvm_has_ended,
    quiet,
    require_jvm,
    require_no_query,
    spark_session,
    unquiet,
    use_local_files,
)
from groupreplay.streaming.spark.worker_check import WorkerTrial

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

#: The sockets of a JVM that is killed close before the process has ended.
_JVM_END_SECONDS: Final = 2.0
#: A driver that was asked to end has ended after 3 s.
_DRIVER_END_SECONDS: Final = 4.0


def run(settings: RunSettings, adopt: Callable[[], Handover] | None = None) -> int:
    """Runs the job until SIGTERM or Ctrl-C, or until a single run has ended; returns the exit code.

    That is 128 + the signal's number, or 0 for a single run. ``adopt`` reads what a new checkpoint begins after.

    Raises:
        GroupReplayError: the job cannot start, or has failed for good.
    """
    # Until there is a query nothing has to be finished.
    with stop_requests(patience_seconds=0) as stop:
        return in_worker(partial(_run, settings, stop, adopt))


def _run(settings: RunSettings, stop: StopRequest, adopt: Callable[[], Handover] | None) -> int:
    rules = RulesWatch(settings.rules)
    preflight.check_machine(settings)
    with ExitStack() as stack:

        @cache
        def session() -> _Started:
            report_progress("starting Spark")
            spark = stack.enter_context(_session(settings))
            return _Started(spark, WorkerTrial(spark))

        def hindrance() -> Hindrance | None:
            is_started = session.cache_info().currsize > 0
            return job_hindrance(
                settings, Checkpoint(session().spark, settings.checkpoint) if is_started else None
            )

        outage = Outage(hindrance=hindrance, stop=stop, show=report_progress)
        while not stop.made:
            try:
                _try(settings, rules, stop, session, outage, adopt)
            except PassingError as error:
                if not stop.made and not _has_run(settings, session):
                    raise
                outage.wait(f"waiting to start, because {error.what} ({error.where})")
        return stop.exit_code


class _Started(NamedTuple):
    """Spark, and the trial of its workers, which goes on beside the rest of the start."""

    spark: SparkSession
    workers: WorkerTrial


def _require_unlocked(settings: RunSettings, stop: StopRequest) -> None:
    """Refuses to start beside another job on this checkpoint before Spark is started for nothing.

    Waits for a former run that is about to end. ``--standby`` waits for the other one by itself.
    """
    folder = local_folder(settings.checkpoint, settings.spark_conf)
    if folder is None or settings.standby:
        return
    begun = time.monotonic()
    while not stop.made and (owner := holder_of(folder)) is not None:
        patience = _DRIVER_END_SECONDS if has_driver(folder) else LOCK_SECONDS
        if time.monotonic() - begun > patience:
            raise in_use(settings.checkpoint, owner)
        stop.wait(0.2)


def _has_run(settings: RunSettings, session: Callable[[], _Started]) -> bool:
    """Whether a query has run on the checkpoint; asks without a broker, and for a local folder without Spark."""
    folder = local_folder(settings.checkpoint, settings.spark_conf)
    if folder is not None:
        return has_run(in_folder(folder))
    return Checkpoint(session().spark, settings.checkpoint).started()


def _try(
    settings: RunSettings,
    rules: RulesWatch,
    stop: StopRequest,
    session: Callable[[], _Started],
    outage: Outage,
    adopt: Callable[[], Handover] | None,
) -> None:
    """Checks, then runs; raises ``PassingError`` when a cluster or the disk goes away before the query runs."""
    _require_unlocked(settings, stop)
    source, sink = Connection(settings.source), Connection(settings.sink_cluster)
    require(source, source_rights(probe=False, ask_retention=False))
    topic = preflight.offsets_topic(source)
    partitions = _sink_topics(sink, settings)
    job_topic = JobTopic(sink, settings.topics.job, partitions[settings.topics.job])
    with ExitStack() as stack:
        stack.enter_context(closing(job_topic))
        spark, workers = session()
        log_plan = preflight.log_plan(settings, spark, source, topic.partitions)
        preflight.check_plan(spark, source, log_plan)
        preflight.check_line(spark)
        checkpoint = Checkpoint(spark, settings.checkpoint)
        if checkpoint.is_plain:
            use_local_files(spark, settings)
        progress = stack.enter_context(closing(batch_progress(spark, plain=settings.plain_spark)))
        process = _Process(settings, spark, rules, checkpoint, log_plan, partitions, stop, outage, progress)
        if settings.standby:
            workers.need(stop)
            job_topic.close()
            _run_in_turns(process, topic)
            return
        # Before the first time is written: that of the first start decides which events are emitted.
        ready = process.ready(topic)
        workers.need(stop)
        parts = process.parts(TopicOwner(messages=job_topic, stop=stop, show=report_progress), ready)
        with checkpoint.locked():
            _require_free_topics(parts.owner, checkpoint, settings)
            if adopt is not None:
                _begin_after_watch(adopt, checkpoint, ready, settings.topics)
            run_until_stopped(parts, checkpoint, ready.identity(), stop)


@dataclass(frozen=True, slots=True)
class _Ready:
    """What a run must know of the brokers before its claim; ``probes`` are cluster and topic of the second source."""

    topic: TopicIdentity
    probes: str
    clock: BrokerClock
    publisher: Publisher

    def identity(self) -> Identity:
        """That of a checkpoint whose first start is now."""
        return first_identity(self.topic, self.probes, self.clock.now_ms())


@dataclass(frozen=True, slots=True)
class _Process:
    """What is made once, before the first query; ``partitions`` are those of the job's topics."""

    settings: RunSettings
    spark: SparkSession
    rules: RulesWatch
    checkpoint: Checkpoint
    log_plan: TopicPlan
    partitions: Mapping[str, int]
    stop: StopRequest
    outage: Outage
    progress: BatchProgress

    def ready(self, topic: TopicIdentity) -> _Ready:
        """Asks the brokers of the job's topics for the rest; writes one message to learn their time."""
        publisher = Publisher(self.settings.sink_cluster)
        clock = _broker_clock(publisher, self.settings.topics.probes, topic.cluster_id)
        return _Ready(topic, self.probes(), clock, publisher)

    def probes(self) -> str:
        """Cluster and topic of the second source."""
        sink, probes = Connection(self.settings.sink_cluster), self.settings.topics.probes
        return f"{sink.identify(probes).cluster_id}/{probes}"

    def parts(self, owner: TopicOwner, ready: _Ready) -> RunParts:
        """What the runs from now on share."""
        return RunParts(
            settings=self.settings,
            engine=self.engine,
            rules=self.rules,
            partitions=ready.topic.partitions,
            clock=ready.clock,
            owner=owner,
            location=self.checkpoint.location,
            outage=self.outage,
            publisher=ready.publisher,
        )

    def engine(self, store: Store, partitions: int) -> SparkEngine:
        """Spark's query on a checkpoint, for an offsets topic with so many partitions."""
        settings, probes = self.settings, self.settings.topics.probes
        checkpoint = Checkpoint(self.spark, store.location)
        held = checkpoint.state_partitions()
        if held not in (None, settings.shuffle_partitions):
            log.warning(
                "the checkpoint keeps %d partitions of the state, --shuffle-partitions %d is without effect; a job "
                "with --standby on a new --checkpoint has that number and goes on where this one ends",
                held,
                settings.shuffle_partitions,
            )
        return SparkEngine(
            spark=self.spark,
            settings=settings,
            location=store.location,
            log=replace(preflight.continued_plan(settings, self.log_plan, checkpoint), partitions=partitions),
            probes=TopicPlan(cluster=settings.sink_cluster, topic=probes, partitions=self.partitions[probes]),
            batches=self.progress,
        )


def _run_in_turns(process: _Process, topic: TopicIdentity) -> None:
    """Works whenever no other run does, and stands by beside one that does."""
    settings, checkpoint, stop = process.settings, process.checkpoint, process.stop
    known = checkpoint.latest().known()
    if known is not None:
        check_identity(known, first_identity(topic, process.probes(), 0), checkpoint.location)

    def ready() -> _Ready:
        # The topic may have been created again while this process waited.
        return process.ready(preflight.offsets_topic(Connection(settings.source)))

    def turn(owner: TopicOwner, history: JobHistory) -> None:
        with checkpoint.lock() as lock:
            checked = Standby(
                owner=owner,
                take_lock=lock.take,
                lock_owner=lock.owner,
                has_ended=_ended_runs(checkpoint),
                require_alive=lambda: require_jvm(process.spark),
                ready=ready,
                stop=stop,
                show=report_progress,
            ).wait()
            if checked is not None:
                _take_turn(process, owner, history, checked)

    def job_topic() -> JobTopic:
        job = settings.topics.job
        return JobTopic(Connection(settings.sink_cluster), job, process.partitions[job])

    Turns(topic=job_topic, run=turn, stop=stop, show=report_progress).take()


def _take_turn(process: _Process, owner: TopicOwner, history: JobHistory, ready: _Ready) -> None:
    """Goes on where the last run ended."""
    parts, wanted = process.parts(owner, ready), ready.identity()
    begin_after(history.owner, process.checkpoint, wanted)
    try:
        run_until_stopped(parts, process.checkpoint, wanted, process.stop)
    except OtherRunError:
        # The lock is given back after this, and the next turn starts a query of the same name.
        require_no_query(process.spark)
        unquiet(process.spark, process.settings)
        raise


def _sink_topics(sink: Connection, settings: RunSettings) -> dict[str, int]:
    """The partitions of the job's topics, which are created if they are missing."""
    # Before and after: a topic that the login may not see would appear to be missing.
    require(sink, sink_rights(settings.topics))
    partitions = ensure_topics(sink, settings.topics)
    require(sink, sink_rights(settings.topics))
    return partitions


def _broker_clock(publisher: Publisher, probes: str, cluster_id: str) -> BrokerClock:
    """The brokers' time; if it cannot be learned now, the heartbeats do it later."""
    from confluent_kafka import KafkaException

    clock = BrokerClock()
    try:
        read_clock(publisher, probes, cluster_id, clock)
    except (KafkaException, GroupReplayError) as error:
        log.warning("the brokers' time is not known yet, the clock of this machine is used: %s", error)
    return clock


def _require_free_topics(owner: TopicOwner, checkpoint: Checkpoint, settings: RunSettings) -> None:
    """Refuses to start beside another run, before anything is written to a new checkpoint.

    A former run on this checkpoint has ended, because its lock is free.
    """
    if checkpoint.is_lockable:
        owner.forget_ended(_ended_runs(checkpoint))
    if not settings.take_over:
        owner.require_free()


def _begin_after_watch(
    adopt: Callable[[], Handover], checkpoint: Checkpoint, ready: _Ready, topics: TopicNames
) -> None:
    """The first start goes on where a watch has ended; later ones where the checkpoint has."""
    if checkpoint.latest().known() is not None:
        report_progress("--adopt has no effect: the checkpoint goes on")
        return
    # First: a run that is killed before the claim does both again, and answers that are repeated change nothing.
    handed_over = adopt()
    former = handed_over.give(ready.topic, ready.publisher, topics)
    if handed_over.incidents is not None:
        checkpoint.note_incidents(handed_over.incidents)
    begin_after(former, checkpoint, ready.identity())
    report_progress(
        f"goes on after the watch, which has handed over all events until {timestamp(former.emitted_to_ms)}"
    )


def _ended_runs(checkpoint: Checkpoint) -> Callable[[RunMessage], bool]:
    """Whether a run must have ended because this process holds the lock of the checkpoint."""

    def has_ended(message: RunMessage) -> bool:
        # Asked now: another process may have begun the state anew meanwhile. A copy of a checkpoint has the same job
        # id, and a lock of its own.
        known = checkpoint.latest().known() if checkpoint.is_lockable else None
        place = (message.job_id, message.host, message.checkpoint)
        return known is not None and place == (known.job_id, gethostname(), checkpoint.location)

    return has_ended


@contextmanager
def _session(settings: RunSettings) -> Iterator[SparkSession]:
    spark = spark_session(settings)
    # Not before: without pyspark there is no py4j.
    from py4j.protocol import Py4JError

    try:
        yield spark
    except (Py4JError, OSError) as error:
        if not jvm_has_ended(spark, _JVM_END_SECONDS):
            raise
        raise GroupReplayError(
            "the JVM of Spark has ended",
            fix="start again: the job continues after the last finished batch; if it was killed for its memory, "
            "make that larger or set --spark-conf spark.driver.memory",
        ) from error
    finally:
        if not jvm_has_ended(spark):
            quiet(spark)
            close(spark)
