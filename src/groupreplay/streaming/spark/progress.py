"""The finished batches of a query as Spark's JSON, by the public listener or, where that is known, from the JVM."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
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
