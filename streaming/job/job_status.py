"""The status of the job: its document in ``group-job`` and its line on the terminal, from the query's progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from groupreplay import __version__
from groupreplay.state.display.phrases import timestamp
from groupreplay.state.policy.context import OFFSETS_TOPIC
from groupreplay.streaming.contract.job_document import (
    STOPPED,
    JobDocument,
    Lag,
    LastBatch,
    LastProbe,
    RulesStatus,
)
from groupreplay.streaming.contract.output import Output
from groupreplay.streaming.contract.probe_messages import RoundSummary
from groupreplay.streaming.engine.packing.record_counts import as_counts
from groupreplay.streaming.engine.probe_rows import COUNTS
from groupreplay.streaming.spark.query import (
    OBSERVED,
    OBSERVED_PROBES,
    OBSERVED_READ,
    QUARANTINED,
    UNMISSED,
    UNWRITTEN,
)
from groupreplay.streaming.spark.source import offsets_read

#: A job that is behind by at most this, or by three triggers, counts as caught up.
_CAUGHT_UP_WITHIN_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class JobIdentity:
    """Fields that do not change while the job runs."""

    cluster_id: str
    era: str
    job_id: str
    run_id: str
    first_start_ms: int
    started_ms: int
    trigger_seconds: float
    host: str = ""
    checkpoint: str = ""


@dataclass(slots=True)
class JobReport:
    """The job as its driver sees it. Counters start at 0 with the process.

    ``ends`` are the ends of the log's partitions, as last read. ``rules_changes`` counts how often the job took
    changed rules, ``rules_error`` is why it refused the present file. ``last_round`` is the prober's last round, None
    before the first one and with ``--no-probe``; ``retries_quarantined``: this run tries quarantined groups again;
    ``prober_restarts`` counts the restarts of its process. ``announced_ms``: the caught-up time of the last heartbeat
    that was written; ``stopped``: the run has ended.
    """

    identity: JobIdentity
    retries_quarantined: bool = False
    caught_up_ms: int | None = None
    ends: Mapping[int, int] = field(default_factory=dict)
    restarts: int = 0
    last_error: str | None = None
    rules_changes: int = 0
    rules_error: str | None = None
    last_round: RoundSummary | None = None
    prober_restarts: int = 0
    announced_ms: int | None = None
    stopped: bool = False
    _last_batch: Mapping[str, Any] | None = None
    _counters: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            (
                *("batches", "records", *(one.value for one in Output), UNMISSED, QUARANTINED, UNWRITTEN),
                *COUNTS,
            ),
            0,
        )
    )
    _record_types: Counter[str] = field(default_factory=Counter)
    _first_lag: int | None = None

    @property
    def last_batch_id(self) -> int | None:
        """The last batch that was counted."""
        return None if self._last_batch is None else int(self._last_batch["batchId"])

    @property
    def unmissed_expired(self) -> int:
        """Events about offsets that expired in groups that do not matter."""
        return self._counters[UNMISSED]

    @property
    def dead_letters(self) -> int:
        """Records that could not be read."""
        return self._counters[Output.DEAD_LETTERS.value]

    @property
    def quarantined(self) -> int:
        """Groups that this run has set aside."""
        return self._counters[QUARANTINED]

    def take(self, progresses: Iterable[Mapping[str, Any]]) -> None:
        """Counts finished batches, each once, in their order; each is Spark's own JSON of its progress."""
        for progress in progresses:
            if self.last_batch_id is not None and progress["batchId"] <= self.last_batch_id:
                continue
            self._last_batch = progress
            self._counters["batches"] += 1
            self._counters["records"] += sum(
                source["numInputRows"]
                for source in progress["sources"]
                if OFFSETS_TOPIC in (source["endOffset"] or ())
            )
            observed = progress.get("observedMetrics", {})
            self._record_types.update(as_counts(observed.get(OBSERVED_READ, {})))
            for name, count in observed.get(OBSERVED, {}).items():
                self._counters[name] += count
            for name, count in observed.get(OBSERVED_PROBES, {}).items():
                self._counters[name] += count or 0

    def read(self) -> dict[int, int]:
        """The next offset of each partition of the log after the last finished batch."""
        return offsets_read(self._last_batch)

    def read_of(self, topic: str) -> dict[int, int]:
        """The same for another source of the query."""
        return offsets_read(self._last_batch, topic)

    def lag(self) -> dict[int, int]:
        """Offsets between the last finished batch and the end of each partition."""
        read = self.read()
        return {partition: max(0, end - read.get(partition, 0)) for partition, end in self.ends.items()}

    def phase(self, now_ms: int) -> str:
        """``starting``, ``catching_up``, ``caught_up`` or ``stopped``."""
        if self.stopped:
            return STOPPED
        if self._last_batch is None:
            return "starting"
        within_ms = max(_CAUGHT_UP_WITHIN_MS, 3_000 * self.identity.trigger_seconds)
        if self.caught_up_ms is None or now_ms - self.caught_up_ms > within_ms:
            return "catching_up"
        return "caught_up"

    def document(self, now_ms: int, clock_off_ms: int | None = None) -> JobDocument:
        """The value for ``group-job``."""
        lag = self.lag()
        return JobDocument(
            **asdict(self.identity),
            topic=OFFSETS_TOPIC,
            version=__version__,
            heartbeat_ms=now_ms,
            phase=self.phase(now_ms),
            caught_up_ms=self.caught_up_ms,
            lag=Lag(sum(lag.values()), {str(partition): lag[partition] for partition in sorted(lag)}),
            batch=_last_batch(self._last_batch),
            state_rows=_state_rows(self._last_batch),
            counters=dict(self._counters),
            record_types=dict(sorted(self._record_types.items())),
            restarts=self.restarts,
            last_error=self.last_error,
            rules=RulesStatus(self.rules_changes, self.rules_error),
            prober_restarts=self.prober_restarts,
            prober=_last_probe(self.last_round),
            clock_off_ms=clock_off_ms,
        )

    def line(self, now_ms: int) -> str:
        """One line for a person."""
        lag = sum(self.lag().values())
        if self._last_batch is None:
            return "starting: no batch has finished yet"
        batch = f"last batch {_seconds(self._last_batch):.1f} s"
        events = f"{self._counters[Output.EVENTS.value]:,} events so far"
        if self.phase(now_ms) == "caught_up":
            assert self.caught_up_ms is not None
            return f"caught up to {timestamp(self.caught_up_ms)}, {batch}, {events}"
        self._first_lag = max(lag, self._first_lag or 1)
        done = 100 * (self._first_lag - lag) // self._first_lag
        return f"catching up: {done}% read, {lag:,} records to go, {batch}, {events}"


def _seconds(progress: Mapping[str, Any]) -> float:
    return float(progress["durationMs"].get("triggerExecution", progress["batchDuration"])) / 1000


def _last_batch(progress: Mapping[str, Any] | None) -> LastBatch | None:
    if progress is None:
        return None
    return LastBatch(id=progress["batchId"], seconds=_seconds(progress), rows=progress["numInputRows"])


def _last_probe(last: RoundSummary | None) -> LastProbe | None:
    if last is None:
        return None
    brokers = {str(number): error for number, error in last.brokers.items()}
    return LastProbe(round_ms=last.taken_ms, rights=last.rights, brokers=brokers, groups=last.groups)


def _state_rows(progress: Mapping[str, Any] | None) -> int:
    operators = progress["stateOperators"] if progress else []
    return sum(int(operator["numRowsTotal"]) for operator in operators)
