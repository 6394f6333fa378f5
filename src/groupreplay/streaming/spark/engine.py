"""Spark's query as the engine of a run: starts it and keeps it running.

The supervisor waits for the end of outages, gives up on permanent failures, and stops the query between batches.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from groupreplay.streaming.base.errors import GroupReplayError, PassingError
from groupreplay.streaming.base.memory import FreedMemory
from groupreplay.streaming.base.process import StopRequest
from groupreplay.streaming.config.settings import RunSettings
from groupreplay.streaming.run.interface import Batch
from groupreplay.streaming.run.outage import Outage
from groupreplay.streaming.run.status import JobReport
from groupreplay.streaming.spark.checkpoint import Checkpoint
from groupreplay.streaming.spark.faults import (
    MOST_FAILURES,
    WAITING,
    Remedy,
    explained,
    failure_text,
    headline,
    is_concurrent,
    is_only_unreported,
    remedy,
)
from groupreplay.streaming.spark.operator import Job
from groupreplay.streaming.spark.progress import BatchProgress, BatchSize, finished_batch, tasks_ended
from groupreplay.streaming.spark.query import (
    OBSERVED,
    ReadTasks,
    TopicPlan,
    counters,
    messages,
    output_rows,
    start,
)
from groupreplay.streaming.spark.session import quiet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from groupreplay.streaming.run.job_run import JobRun

log = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.5
_BATCH_POLL_SECONDS: Final = 0.05
_LINE_SECONDS: Final = 1.0
#: A batch that takes this long may wait for a broker: Kafka's clients say so only after minutes.
_STUCK_SECONDS: Final = 20.0
#: How often missing topics are looked for while batches finish: a topic that nothing is written to delays none.
_TOPICS_SECONDS: Final = 60.0
#: After a batch of so many rows this process has memory to give back.
_MANY_ROWS: Final = 1_000
#: How long a stop waits for the end of a batch, and then for Spark to cancel it. The next start repeats the batch.
_GRACE_SECONDS: Final = 1.0
_CANCEL_SECONDS: Final = 12.0
#: After a signal: nothing follows that the query could disturb.
_SHORT_CANCEL_SECONDS: Final = 0.5

_WAITED_FOR: Final = frozenset(WAITING) - {Remedy.TOPIC, Remedy.RETRY}
#: How long a failed query waits for the claim of another run that may have caused the failure.
_CLAIM_SECONDS: Final = 10.0


class _NotStartedError(Exception):
    """A query could not be started; its cause is the failure."""


@dataclass(slots=True, kw_only=True)
class Supervisor:
    """Runs one query after the other until a stop is requested, or there is nothing more to do.

    ``begin`` starts the query on the ``checkpoint``; ``renew``: why the query must end between two batches and
    start again, None: it need not; ``hopeless`` is why its present batch will never end, as far as that is
    known; ``outage`` waits until clusters and disk work; ``repair`` does what can
    be done about a failure, and returns what it did; ``lost`` returns the error when the log is no longer the one that
    was read, ``replaced`` when another run has taken over, ``must_end`` either, as far as it is known already;
    ``has_ended``: whether a single run has done its work, which then requests the stop itself; ``quieten`` silences the
    JVM before a batch is cancelled; ``show`` prints a line; ``show_status`` is called every second.
    """

    begin: Callable[[], Any]
    checkpoint: str
    renew: Callable[[], str | None]
    hopeless: Callable[[], str | None]
    report: JobReport
    stop: StopRequest
    outage: Outage
    repair: Callable[[Remedy], str | None]
    lost: Callable[[], GroupReplayError | None]
    must_end: Callable[[], GroupReplayError | None]
    replaced: Callable[[], GroupReplayError | None]
    has_ended: Callable[[], bool]
    quieten: Callable[[], None]
    show: Callable[[str], None]
    show_status: Callable[[], None]
    _failures: int = field(default=0, init=False)
    _batch_before: int | None = field(default=None, init=False)
    #: Whether the query was started again without a failure, and has not finished a batch since.
    _is_excused: bool = field(default=False, init=False)

    def run(self) -> None:
        """Returns when a stop was requested and done.

        Raises:
            GroupReplayError: the query failed three times without a finished batch, and not for something that
                passes; or the log is no longer the one that was read; or another run has taken over.
        """
        while not self.stop.made:
            self._batch_before = self.report.last_batch_id
            self._require_owner()
            try:
                query = self._begin()
                self.report.query_started()
                if self._watch(query):
                    continue
                failure = query.exception()
            except _NotStartedError as error:
                failure = error.__cause__
            self._note_progress()
            text = "it ended without an error" if failure is None else failure_text(failure)
            if not self._excuse(text):
                self._recover(text)

    def _begin(self) -> Any:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            return self.begin()
        except (Py4JJavaError, PySparkException, PassingError) as error:
            raise _NotStartedError from error

    def _watch(self, query: Any) -> bool:
        """Waits for the end of the query; whether the supervisor ended it, for good or to start it again."""
        next_line = time.monotonic() + _LINE_SECONDS
        stuck_at = time.monotonic() + _STUCK_SECONDS
        topics_at = time.monotonic() + _TOPICS_SECONDS
        while query.isActive:
            if self.stop.wait(_POLL_SECONDS):
                self._end(query)
                return True
            if self._note_progress():
                stuck_at = time.monotonic() + _STUCK_SECONDS
            if time.monotonic() >= min(stuck_at, topics_at):
                if self._look_around(is_stuck=time.monotonic() >= stuck_at):
                    self._cancel(query)
                    return True
                stuck_at = max(stuck_at, time.monotonic() + _STUCK_SECONDS)
                topics_at = time.monotonic() + _TOPICS_SECONDS
            ended = self.must_end()
            if ended is not None:
                self._end(query)
                raise ended
            if self.has_ended():
                self.quieten()
                self._pause_query(query)
                self.stop.make()
                return True
            if reason := self.renew():
                self.show(reason)
                self._pause_query(query)
                return True
            if time.monotonic() >= next_line:
                self.show_status()
                next_line = time.monotonic() + _LINE_SECONDS
        return self.stop.made

    def _require_owner(self, seconds: float = 0.0) -> None:
        """Raises when another run has taken over; waits up to this time for its claim."""
        deadline = time.monotonic() + seconds
        while True:
            replaced = self.replaced()
            if replaced is not None:
                raise replaced
            if time.monotonic() >= deadline or self.stop.wait(_POLL_SECONDS):
                return

    def _pause_query(self, query: Any) -> None:
        """Ends the query after its batch, however long that takes; a stop request is served at once."""
        batch = self.report.last_batch_id
        while self._is_in_batch_after(query, batch):
            if self.stop.wait(_BATCH_POLL_SECONDS):
                self._end(query)
                return
        _stop_quietly(query)

    def _is_in_batch_after(self, query: Any, batch: int | None) -> bool:
        """Whether the batch that follows this one is not finished.

        A batch that is longer than the trigger is followed at once, so that the query never seems to be idle. The next
        batch, which has just begun, is then repeated.
        """
        return bool(query.isActive and query.status["isTriggerActive"] and self.report.last_batch_id == batch)

    def _end(self, query: Any) -> None:
        deadline, batch = time.monotonic() + _GRACE_SECONDS, self.report.last_batch_id
        while self._is_in_batch_after(query, batch) and time.monotonic() < deadline:
            time.sleep(_BATCH_POLL_SECONDS)
        self.quieten()
        self._cancel(query)

    def _cancel(self, query: Any) -> None:
        # A source that waits for a broker cannot be interrupted: bound the wait for it.
        stopping = threading.Thread(target=_stop_quietly, args=(query,), daemon=True)
        stopping.start()
        stopping.join(_CANCEL_SECONDS if self.stop.signal_number is None else _SHORT_CANCEL_SECONDS)

    def _note_progress(self) -> bool:
        """Whether a batch has finished: that ends an outage, and failures count anew."""
        if self.report.last_batch_id == self._batch_before:
            return False
        self._batch_before = self.report.last_batch_id
        self._failures = 0
        self._is_excused = False
        self.outage.over()
        return True

    def _look_around(self, *, is_stuck: bool) -> bool:
        """Creates missing topics while the query goes on, and reports what else a batch may wait for.

        Returns whether the query must start again, because it would wait for ever.
        """
        if is_stuck:
            self.outage.note()
        try:
            repaired = self.repair(Remedy.TOPIC)
            hopeless = self.hopeless() if is_stuck else None
        except GroupReplayError as error:
            log.debug("nothing can be repaired now: %s", error)
            return False
        if repaired is not None:
            self.show(repaired)
        if hopeless is not None:
            self.show(f"{hopeless}, the query is started again")
        return hopeless is not None

    def _excuse(self, text: str) -> bool:
        """Whether the query has only to be started again: it has finished a batch, which it could not report.

        Once for each batch that is reported: the next query plans its own.
        """
        if self._is_excused or not is_only_unreported(text):
            return False
        log.info(
            "the batch that a former query had begun is finished; the query is started again (SPARK-55271)"
        )
        self._is_excused = True
        return True

    def _recover(self, text: str) -> None:
        """Repairs what can be repaired, or waits before the next try; raises when there is none."""
        self.report.restarts += 1
        self.report.last_error = headline(text)
        self.report.query_failed(headline(text))
        self._require_owner(_CLAIM_SECONDS if is_concurrent(text) else 0.0)
        helps, hindrance = remedy(text), self.outage.hindrance()
        if hindrance is None or not hindrance.is_sure:
            try:
                repaired = self.repair(helps)
            except GroupReplayError as error:
                self.outage.wait(f"{error.what}, retrying")
                return
            if repaired is not None:
                self.show(f"{repaired}, retrying: {headline(text)}")
                return
        if hindrance is not None or helps in _WAITED_FOR:
            reason = WAITING[helps] if hindrance is None else hindrance.what
            self.outage.wait(f"{reason}, retrying: {headline(text)}")
            return
        lost = self.lost()
        if lost is not None:
            raise lost
        self._failures += 1
        log.warning("the query failed (%d of %d): %s", self._failures, MOST_FAILURES, headline(text))
        if self._failures >= MOST_FAILURES:
            raise explained(text, self.checkpoint)
        self.stop.wait(2.0 ** (self._failures - 1))


def _stop_quietly(query: Any) -> None:
    try:
        query.stop()
    except Exception as error:  # the query ends either way
        log.debug("the query did not stop cleanly: %s", error)


@dataclass(slots=True, kw_only=True)
class SparkEngine:
    """The ``Engine`` of one run; ``location`` is its checkpoint, ``batches`` has those of all queries of a session."""

    spark: SparkSession
    settings: RunSettings
    location: str
    log: TopicPlan
    probes: TopicPlan
    batches: BatchProgress
    read_tasks: ReadTasks = field(init=False)
    batch_size: BatchSize = field(init=False)
    freed_memory: FreedMemory = field(default_factory=lambda: FreedMemory(_MANY_ROWS), init=False)
    _query: StreamingQuery | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.read_tasks = ReadTasks(self.spark, self.settings.shuffle_partitions, self.log.partitions)
        self.batch_size = BatchSize(self.settings.max_offsets_per_trigger, self.settings.once)

    def progress(self, after: int | None) -> Sequence[Batch]:
        """See ``Engine.progress``."""
        if self._query is None:
            return []
        finished = [finished_batch(progress) for progress in self.batches.after(self._query, after)]
        for batch in finished:
            self.batch_size.learn(batch)
            self.freed_memory.note(batch.rows)
        return finished

    def tasks_ended(self) -> tuple[int, int] | None:
        """See ``Engine.tasks_ended``."""
        return tasks_ended(self.spark)

    def run(self, run: JobRun) -> None:
        """See ``Engine.run``."""
        Supervisor(
            begin=lambda: self._start(run),
            checkpoint=self.location,
            renew=lambda: self._renewal(run),
            hopeless=run.limits.fallen,
            report=run.report,
            stop=run.stop,
            outage=run.outage,
            repair=lambda helps: self._repair(run, helps),
            lost=run.lost_log,
            must_end=run.must_end,
            replaced=run.replaced,
            has_ended=run.has_ended,
            quieten=lambda: quiet(self.spark),
            show=run.show,
            show_status=run.show_status,
        ).run()

    def _start(self, run: JobRun) -> StreamingQuery:
        settings, context = self.settings, run.begin()
        rows = output_rows(
            self.spark,
            log=self.log,
            probes=self.probes,
            probe_filter=run.probe_filter,
            job=Job(
                context=context,
                topics=settings.topics,
                started_ms=run.clock.now_ms(),
                # The batch that ends a single run must find every timer due.
                retry_ms=0 if settings.once else round(settings.trigger_seconds * 1000),
                limits=run.limits.read(),
            ),
            max_offsets_per_trigger=self.batch_size.plan(),
            read_tasks=self.read_tasks.plan(),
        )
        counted = rows.observe(OBSERVED, *counters(settings.topics))
        here = replace(settings, checkpoint=self.location)
        self._query = start(messages(counted), here, run.limits.batch_bytes)
        run.started()
        return self._query

    def _renewal(self, run: JobRun) -> str | None:
        """Why the query must be planned again: a plan has the settings and the cluster of its start."""
        if run.has_changed():
            return "the settings have changed, continuing with the new ones"
        return self.read_tasks.growth() or self.batch_size.change()

    def _repair(self, run: JobRun, helps: Remedy) -> str | None:
        """What was done about a failure, if anything; raises GroupReplayError when a topic cannot be created."""
        if helps is Remedy.WORKER and self._can_change_source():
            # Each query of our source starts a process within Spark's 10 s; the connector needs none.
            self.log = replace(self.log, by_connector=True)
            return "Spark's connector reads the log from now on"
        created = run.create_missing_topics()
        if created is None and helps in (Remedy.SMALLER, Remedy.REPLICAS):
            return run.limits.tighten(is_refused=helps is Remedy.SMALLER)
        return created

    def _can_change_source(self) -> bool:
        is_free = self.settings.log_source == "auto" and not self.log.by_connector
        return is_free and not Checkpoint(self.spark, self.location).is_ahead()
