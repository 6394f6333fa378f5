"""The finished batches of a query, and how many offsets of the log the next ones may read.

Batches come as Spark's JSON, by the public listener or, where that is known, from the JVM. A batch calls Python once
for each group that it has records of. Two million offsets are ten calls or two million, and a call takes from 0.1 to
2 ms (docs/scaling.md), so no fixed number of offsets bounds the time of a batch: it reads as many as were applied in
half a minute. While it lasts, no other group is evaluated.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from groupreplay.state.phrases import timestamp_ms
from groupreplay.state.policy.context import OFFSETS_TOPIC
from groupreplay.streaming.contract.messages import StateCost
from groupreplay.streaming.engine.packing.key_columns import as_counts
from groupreplay.streaming.run.interface import Batch
from groupreplay.streaming.spark.internals import has_known_internals
from groupreplay.streaming.spark.log_offsets import between, of_topics
from groupreplay.streaming.spark.query import OBSERVED, OBSERVED_PROBES, OBSERVED_READ

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


#: As many batches as Spark itself remembers.
_REMEMBERED: Final = 100
#: The phase that all others are parts of.
_WHOLE: Final = "triggerExecution"
#: The first batch, before anything is known of the log: within a minute on two cores if each offset is another group.
_FIRST: Final = 100_000
#: Below, the fixed costs of a batch are most of it.
_FEWEST: Final = 10_000
_LONG_SECONDS: Final = 60.0
#: Times of batches are whole milliseconds.
_LEAST_SECONDS: Final = 0.001
_WANTED_SECONDS: Final = 30.0
#: A batch with this share of the bound was bounded by it: each partition gives whole offsets.
_FULL: Final = 0.9
#: A larger batch needs another plan, which loads the state again: not for less than this factor.
_WORTH: Final = 2.0


class BatchProgress(Protocol):
    """What the queries of a session have read."""

    def after(self, query: StreamingQuery, known: int | None) -> list[Mapping[str, Any]]:
        """Spark's JSON of the batches after the one with this number, as far as they are remembered.

        Earlier ones may be among them; ``known`` None selects the last batch only.
        """

    def close(self) -> None:
        """Takes no further batches."""


def batch_progress(spark: SparkSession, *, plain: bool) -> BatchProgress:
    """The reader of progress for this session; ``plain``: by Spark's public interface alone."""
    if plain or not has_known_internals(spark.version):
        return listened_progress(spark)
    from groupreplay.streaming.spark.internals.jvm import JavaProgress

    return JavaProgress()


def finished_batch(progress: Mapping[str, Any]) -> Batch:
    """What a run needs of Spark's report of a batch."""
    event_time, sources = progress.get("eventTime") or {}, progress["sources"]
    of_log = [one for one in sources if OFFSETS_TOPIC in (one["endOffset"] or ())]
    # Spark 3.5 has no ``batchDuration``.
    took_ms = progress["durationMs"].get(_WHOLE, progress.get("batchDuration", 0))
    observed = progress.get("observedMetrics", {})
    counts, types = Counter(observed.get(OBSERVED, {})), as_counts(observed.get(OBSERVED_READ, {}))
    counts.update({name: count or 0 for name, count in observed.get(OBSERVED_PROBES, {}).items()})
    # Of a log that is packed where it is read, Spark counts the packed rows.
    records = sum(types.values())
    return Batch(
        number=int(progress["batchId"]),
        started_ms=_milliseconds(progress["timestamp"]),
        seconds=took_ms / 1_000,
        rows=records + sum(one["numInputRows"] for one in sources if one not in of_log),
        records=records,
        read_to={topic: read for one in sources for topic, read in of_topics(one["endOffset"] or {}).items()},
        counts=counts,
        record_types=types,
        groups=sum(int(operator["numRowsTotal"]) for operator in progress["stateOperators"]),
        evaluated_to_ms=_milliseconds(event_time.get("watermark")),
        caught_up_ms=_milliseconds(event_time.get("max")),
        phases={name: took / 1_000 for name, took in progress["durationMs"].items() if name != _WHOLE},
        state=_state_cost(progress["stateOperators"]),
        # Where the first batch began is not in its report.
        log_offsets=next((_offsets_of(one) for one in of_log if one.get("startOffset")), None),
    )


def _offsets_of(source: Mapping[str, Any]) -> int:
    start, end = (of_topics(source[name])[OFFSETS_TOPIC] for name in ("startOffset", "endOffset"))
    return between(start, end)


def _state_cost(operators: Sequence[Mapping[str, Any]]) -> StateCost | None:
    """The job has one operator with a state; Spark counts calls for timers as removals."""
    if len(operators) != 1:
        return None
    (one,) = operators
    of_store = one.get("customMetrics", {})
    load_ms = of_store.get("rocksdbLoadLatencyMs")
    return StateCost(
        written=one.get("numRowsUpdated", 0),
        memory_bytes=one.get("memoryUsedBytes", 0),
        update_seconds=one.get("allUpdatesTimeMs", 0) / 1_000,
        timer_seconds=one.get("allRemovalsTimeMs", 0) / 1_000,
        commit_seconds=one.get("commitTimeMs", 0) / 1_000,
        load_seconds=None if load_ms is None else load_ms / 1_000,
        loaded=of_store.get("rocksdbNumLoadedFromDfs"),
    )


def _milliseconds(text: str | None) -> int:
    """A time in Spark's reports, in milliseconds since 1970; -1 for none."""
    at_ms = timestamp_ms(text)
    return -1 if at_ms is None else at_ms


def tasks_ended(spark: SparkSession) -> tuple[int, int] | None:
    """How many tasks of the present stage have ended, of how many; None while none runs."""
    from py4j.protocol import Py4JError

    with suppress(Py4JError, OSError):  # the JVM may be ending
        tracker = spark.sparkContext.statusTracker()
        stages = map(tracker.getStageInfo, tracker.getActiveStageIds())
        return next(((one.numCompletedTasks, one.numTasks) for one in stages if one is not None), None)
    return None


def listened_progress(spark: SparkSession) -> BatchProgress:
    """The batches that a ``StreamingQueryListener`` is told of, from now on."""
    from py4j.protocol import Py4JError
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):
        """Keeps the last batches of all queries of the session."""

        def __init__(self) -> None:
            self._batches: deque[tuple[str, dict[str, Any]]] = deque(maxlen=_REMEMBERED)

        def onQueryStarted(self, event: Any) -> None:  # noqa: N802
            """Nothing is known of a query that has just begun."""

        def onQueryIdle(self, event: Any) -> None:  # noqa: N802
            """No batch was run."""

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
            """Its batches stay known."""

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            """Called by the JVM, in a thread of its own, after each batch."""
            self._batches.append((str(event.progress.runId), json.loads(event.progress.json)))

        def after(self, query: StreamingQuery, known: int | None) -> list[Mapping[str, Any]]:
            """See ``BatchProgress.after``."""
            mine = [batch for run, batch in tuple(self._batches) if run == str(query.runId)]
            if known is None or not mine or mine[-1]["batchId"] <= known + 1:
                return list(mine[-1:])
            return list(mine)

        def close(self) -> None:
            """Takes no further batches; a JVM that has ended calls nobody."""
            with suppress(Py4JError, OSError):
                spark.streams.removeListener(self)

    listener = Listener()
    spark.streams.addListener(listener)
    return listener


@dataclass(slots=True)
class BatchSize:
    """The bound of the next plan, from the batches of the one before.

    ``most`` is that of the settings. A single run begins with it: no group waits for its next batch.
    """

    most: int
    is_single_run: bool = False
    _planned: int = 0
    _wanted: int = field(init=False)
    _offsets: int = 0
    _seconds: float = 0.0

    def __post_init__(self) -> None:
        self._wanted = self.most if self.is_single_run else min(self.most, _FIRST)

    def plan(self) -> int:
        """The number for a plan that is made now."""
        self._planned = self._wanted
        return self._planned

    def learn(self, batch: Batch) -> None:
        """Takes the pace of a batch that read as much as it was allowed to; of others the offsets decide nothing.

        The pace is one of offsets, because compaction has removed the records of many. They are counted: the plan may
        be a later one than that of the batch.
        """
        offsets = batch.records if batch.log_offsets is None else batch.log_offsets
        if offsets < self._planned * _FULL:
            return
        self._offsets, self._seconds = offsets, batch.seconds
        in_time = int(offsets * _WANTED_SECONDS / max(batch.seconds, _LEAST_SECONDS))
        if batch.seconds > _LONG_SECONDS or in_time >= self._planned * _WORTH:
            self._wanted = min(self.most, max(in_time, _FEWEST))

    def change(self) -> str | None:
        """Why the query must be planned again; None: it need not."""
        if self._wanted == self._planned:
            return None
        return (
            f"a batch of {self._offsets:,} offsets took {self._seconds:.0f} s, "
            f"continuing with at most {self._wanted:,} in a batch"
        )
