"""The status of the job: its document in ``group-job`` and its line on the terminal, from the query's progress."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

from groupreplay.state.phrases import safe_text, timestamp
from groupreplay.state.policy.context import OFFSETS_TOPIC
from groupreplay.streaming.config.logs import report_progress
from groupreplay.streaming.contract.messages import (
    STOPPED,
    WAITING,
    JobDocument,
    Lag,
    LastBatch,
    LastProbe,
    Output,
    QueryStatus,
    RulesStatus,
)
from groupreplay.streaming.contract.probe_messages import ERROR_LIMIT, RoundSummary
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.run.interface import COUNTERS, QUARANTINED, UNMISSED, Batch
from groupreplay.streaming.run.single_run import SingleRun
from groupreplay.version import __version__

#: A job that is behind by at most this, or by three triggers, counts as caught up.
_CAUGHT_UP_WITHIN_MS: Final = 60_000
#: A query that is started again within this time was never away.
_RESTART_SECONDS: Final = 30.0
#: A query that finishes no batch for this long reads nothing: Spark itself may wait for ever. A first batch is long.
_BATCH_SECONDS: Final = 120.0
_FIRST_BATCH_SECONDS: Final = 300.0
#: So many triggers, or times of the last batch, are always allowed.
_BATCHES: Final = 3
#: A log has a line about a start this often.
_STEP_SECONDS: Final = 10.0


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
    hides_names: bool = False


@dataclass(slots=True)
class QueryHealth:
    """Whether a query reads the log, from its starts, failures and batches. ``seconds`` is a clock that nobody sets.

    It is stopped when no query runs for half a minute, or none has finished a batch for minutes. It stays stopped until
    a batch is finished: a query that fails again and again runs in between.
    """

    trigger_seconds: float
    seconds: Callable[[], float] = time.monotonic
    _error: str = field(default="", init=False)
    _batch_seconds: float | None = field(default=None, init=False)
    _batch_at: float | None = field(default=None, init=False)
    _ended_at: float | None = field(default=None, init=False)
    _stopped_at: float | None = field(default=None, init=False)
    _status: QueryStatus = field(default=QueryStatus(), init=False)

    def started(self) -> None:
        """A query was started."""
        self._ended_at = None

    def failed(self, headline: str) -> None:
        """The query has ended, and another one is started later."""
        self._error = headline[:ERROR_LIMIT]
        self._ended_at = self.seconds()

    def batch_finished(self, seconds: float) -> None:
        """A batch that took so long has finished just now."""
        self._batch_seconds, self._batch_at = seconds, self.seconds()
        self._stopped_at, self._error = None, ""

    @property
    def quiet_seconds(self) -> float:
        """How long ago the last batch was finished, or the run began: with the first question."""
        if self._batch_at is None:
            self._batch_at = self.seconds()
        return self.seconds() - self._batch_at

    def status(self, now_ms: int) -> QueryStatus:
        """The status at this time by the job's clock; ``since_ms`` and the error are those of its beginning."""
        if self._stopped_at is None:
            self._stopped_at = self._stopped_since()
        running = self._stopped_at is None
        if running != self._status.running or self._status.since_ms is None:
            at = self.seconds() if self._stopped_at is None else self._stopped_at
            since_ms = now_ms - round(1_000 * (self.seconds() - at))
            self._status = QueryStatus(running=running, since_ms=since_ms)
        error = None if running else self._error or None
        return QueryStatus(running=running, since_ms=self._status.since_ms, error=error)

    def _stopped_since(self) -> float | None:
        quiet, ended_at, now = self.quiet_seconds, self._ended_at, self.seconds()
        if ended_at is not None and now - ended_at >= _RESTART_SECONDS:
            return ended_at
        last = self._batch_seconds
        least = _FIRST_BATCH_SECONDS if last is None and not self._error else _BATCH_SECONDS
        allowed = max(least, _BATCHES * self.trigger_seconds, _BATCHES * (last or 0.0))
        return now - quiet if quiet >= allowed else None


#: A query may set a timer that it finds due ahead by ten seconds, or by three times as long as it has run (see
#: ``operator._trail_ms``); some more, because its first batch begins after it.
_LEAST_SETTLING_MS: Final = 30_000
_SETTLING: Final = 3


@dataclass(slots=True)
class Settling:
    """Whether a query has emitted what was due before it began, which it finds late: it is behind at first."""

    _begun_ms: int | None = None
    _settled_ms: int | None = None
    is_settled: bool = False

    def started(self) -> None:
        """A query was started."""
        self._begun_ms, self._settled_ms, self.is_settled = None, None, False

    def batch_finished(self, batch: Batch) -> None:
        """A batch of that query."""
        if self._begun_ms is None:
            self._begun_ms = batch.started_ms
        if self._settled_ms is None and batch.evaluated_to_ms >= self._begun_ms:
            behind_ms = batch.started_ms - self._begun_ms
            self._settled_ms = batch.started_ms + _LEAST_SETTLING_MS + _SETTLING * behind_ms
        self.is_settled |= self._settled_ms is not None and batch.started_ms >= self._settled_ms


@dataclass(slots=True)
class JobReport:
    """The job as its driver sees it. Counters start at 0 with the process.

    ``ends`` are the ends of the log's partitions, as last read. ``rules_changes`` counts how often the job took
    changed rules, ``rules_error`` is why it refused the present file. ``last_round`` is the prober's last round, None
    before the first one and with ``--no-probe``; ``retries_quarantined``: this run tries quarantined groups again;
    ``prober_restarts`` counts the restarts of its process. ``announced_ms``: the caught-up time of the last heartbeat
    that was written; ``stopped``: the run has ended. ``told_to``: the driver has published the events of the messages
    below this offset of the topic of probes itself. ``single_run`` is told of starts and batches (None: this
    run does not end by itself). ``tasks``: how many tasks of the present stage have ended, of how many.
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
    told_to: int = 0
    single_run: SingleRun | None = None
    seconds: Callable[[], float] = time.monotonic
    tasks: Callable[[], tuple[int, int] | None] = lambda: None
    query: QueryHealth = field(init=False)
    settling: Settling = field(default_factory=Settling)
    _last_batch: Batch | None = None
    _counters: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("batches", "records", *COUNTERS), 0)
    )
    _record_types: Counter[str] = field(default_factory=Counter)
    _first_lag: int | None = None

    def __post_init__(self) -> None:
        self.query = QueryHealth(self.identity.trigger_seconds, self.seconds)

    def query_started(self) -> None:
        """A query was started."""
        self.query.started()
        self.settling.started()
        if self.single_run is not None:
            self.single_run.query_started()

    def query_failed(self, headline: str) -> None:
        """The query has failed for this reason."""
        self.query.failed(headline)

    @property
    def last_batch_id(self) -> int | None:
        """The last batch that was counted."""
        return None if self._last_batch is None else self._last_batch.number

    @property
    def unmissed_expired(self) -> int:
        """Events about offsets that expired in groups that do not matter."""
        return self._counters[UNMISSED]

    @property
    def records(self) -> int:
        """Records of the log that were read."""
        return self._counters["records"]

    @property
    def events(self) -> int:
        """Events that were written."""
        return self._counters[Output.EVENTS.value]

    @property
    def dead_letters(self) -> int:
        """Records that could not be read."""
        return self._counters[Output.DEAD_LETTERS.value]

    @property
    def quarantined(self) -> int:
        """Groups that this run has set aside."""
        return self._counters[QUARANTINED]

    def take(self, batches: Iterable[Batch]) -> None:
        """Counts finished batches, each once, in their order."""
        for batch in batches:
            if self.last_batch_id is not None and batch.number <= self.last_batch_id:
                continue
            self._last_batch = batch
            if self.single_run is not None:
                self.single_run.take(batch)
            self.query.batch_finished(batch.seconds)
            self.settling.batch_finished(batch)
            self._counters["batches"] += 1
            self._counters["records"] += batch.records
            self._record_types.update(batch.record_types)
            for name, count in batch.counts.items():
                self._counters[name] += count

    def read(self) -> dict[int, int]:
        """The next offset of each partition of the log after the last finished batch."""
        return self.read_of(OFFSETS_TOPIC)

    def read_of(self, topic: str) -> dict[int, int]:
        """The same for another source."""
        return {} if self._last_batch is None else self._last_batch.read(topic)

    def lag(self) -> dict[int, int]:
        """Offsets between the last finished batch and the end of each partition."""
        read = self.read()
        return {partition: max(0, end - read.get(partition, 0)) for partition, end in self.ends.items()}

    def phase(self, now_ms: int) -> str:
        """``starting``, ``catching_up``, ``caught_up``, ``waiting`` (no query reads the log) or ``stopped``."""
        if self.stopped:
            return STOPPED
        if not self.query.status(now_ms).running:
            return WAITING
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
            state_rows=0 if self._last_batch is None else self._last_batch.groups,
            counters=dict(self._counters),
            record_types=dict(sorted(self._record_types.items())),
            restarts=self.restarts,
            last_error=self.last_error,
            rules=RulesStatus(self.rules_changes, self.rules_error),
            prober_restarts=self.prober_restarts,
            prober=_last_probe(self.last_round),
            clock_off_ms=clock_off_ms,
            query=self.query.status(now_ms),
            once=self.single_run is not None,
            # A single run ends when it has emitted everything that was due.
            settled=self.settling.is_settled or (self.single_run is not None and self.single_run.has_ended()),
        )

    def step(self, now_ms: int) -> str:
        """What a log gets a new line for: each phase, ten seconds of a start, a tenth of what is to be read."""
        phase = self.phase(now_ms)
        if phase == "starting":
            return f"{phase} {self.query.quiet_seconds // _STEP_SECONDS:.0f}"
        return f"{phase} {self._percent() // 10}" if phase == "catching_up" else phase

    def line(self, now_ms: int) -> str:
        """One line for a person."""
        query = self.query.status(now_ms)
        if not query.running:
            assert query.since_ms is not None
            reason = safe_text(query.error, ERROR_LIMIT) if query.error else "it finishes no batch"
            return f"waiting: the query has been stopped since {timestamp(query.since_ms)}: {reason}"
        lag = sum(self.lag().values())
        if self._last_batch is None:
            tasks = self.tasks()
            done = (
                "" if tasks is None else f", {tasks[0]} of {tasks[1]} tasks of its present stage have ended"
            )
            return f"starting: the first batch has not finished after {self.query.quiet_seconds:.0f} s{done}"
        batch = f"last batch {self._last_batch.seconds:.1f} s"
        events = f"{self.events:,} events so far"
        if self.phase(now_ms) == "caught_up":
            assert self.caught_up_ms is not None
            return f"caught up to {timestamp(self.caught_up_ms)}, {batch}, {events}"
        return f"catching up: {self._percent()}% read, {lag:,} records to go, {batch}, {events}"

    def _percent(self) -> int:
        """How much of the largest lag of this run has been read."""
        lag = sum(self.lag().values())
        self._first_lag = max(lag, self._first_lag or 1)
        return 100 * (self._first_lag - lag) // self._first_lag


def _last_batch(batch: Batch | None) -> LastBatch | None:
    if batch is None:
        return None
    return LastBatch(
        id=batch.number,
        seconds=batch.seconds,
        rows=batch.rows,
        phases=dict(batch.phases),
        state=batch.state,
    )


def _last_probe(last: RoundSummary | None) -> LastProbe | None:
    if last is None:
        return None
    brokers = {str(number): error for number, error in last.brokers.items()}
    return LastProbe(round_ms=last.taken_ms, rights=last.rights, brokers=brokers, groups=last.groups)


def show_first_read(source: Connection, partitions: int, most: int) -> None:
    """Says how much an engine without a state has to read, ``most`` offsets at a time."""
    ends = source.end_offsets(OFFSETS_TOPIC, partitions)
    firsts = source.first_offsets(OFFSETS_TOPIC, partitions)
    offsets = sum(end - firsts[number] for number, end in ends.items())
    report_progress(
        f"a first start: reads all of {OFFSETS_TOPIC}, {offsets:,} offsets in {partitions} partitions, "
        f"at most {most:,} in a batch"
    )
