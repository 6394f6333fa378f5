"""Spark's query as the engine of a run: starts it, follows its batches, and repairs what makes it fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from groupreplay.streaming.config.settings import RunSettings
from groupreplay.streaming.run.interface import Batch
from groupreplay.streaming.spark.faults import Remedy
from groupreplay.streaming.spark.operator import Job
from groupreplay.streaming.spark.progress import BatchProgress, finished_batch, tasks_ended
from groupreplay.streaming.spark.query import OBSERVED, TopicPlan, counters, messages, output_rows, start
from groupreplay.streaming.spark.session import quiet
from groupreplay.streaming.spark.supervisor import Supervisor

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from groupreplay.streaming.run.job_run import JobRun


@dataclass(slots=True, kw_only=True)
class SparkEngine:
    """The ``Engine`` of one run; ``location`` is its checkpoint, ``batches`` has those of all queries of a session."""

    spark: SparkSession
    settings: RunSettings
    location: str
    log: TopicPlan
    probes: TopicPlan
    batches: BatchProgress
    _query: StreamingQuery | None = field(default=None, init=False)

    def progress(self, after: int | None) -> Sequence[Batch]:
        """See ``Engine.progress``."""
        if self._query is None:
            return []
        return [finished_batch(progress) for progress in self.batches.after(self._query, after)]

    def tasks_ended(self) -> tuple[int, int] | None:
        """See ``Engine.tasks_ended``."""
        return tasks_ended(self.spark)

    def run(self, run: JobRun) -> None:
        """See ``Engine.run``."""
        Supervisor(
            begin=lambda: self._start(run),
            checkpoint=self.location,
            renew=run.has_changed,
            hopeless=run.limits.fallen,
            report=run.report,
            stop=run.stop,
            outage=run.outage,
            repair=lambda helps: _repair(run, helps),
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
            max_offsets_per_trigger=settings.max_offsets_per_trigger,
        )
        counted = rows.observe(OBSERVED, *counters(settings.topics))
        here = replace(settings, checkpoint=self.location)
        self._query = start(messages(counted), here, run.limits.batch_bytes)
        run.started()
        return self._query


def _repair(run: JobRun, helps: Remedy) -> str | None:
    """What was done about a failure, if anything; raises GroupReplayError when a topic cannot be created."""
    created = run.create_missing_topics()
    if created is None and helps in (Remedy.SMALLER, Remedy.REPLICAS):
        return run.limits.tighten(is_refused=helps is Remedy.SMALLER)
    return created
