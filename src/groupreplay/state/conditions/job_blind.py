"""``job.blind``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, structs

from groupreplay.state import phrases
from groupreplay.state.conditions.condition import Alert, Condition, Example
from groupreplay.state.conditions.detection import Dependency, Detection, JobDetector, JobView
from groupreplay.state.conditions.transaction_hanging import ABORT
from groupreplay.state.events.event import Evidence, Severity
from groupreplay.state.job.job_state import JobState, Silence, add_quarantined, count_burst
from groupreplay.state.job.observations import (
    Clocks,
    HeartbeatObservation,
    OpenTransaction,
    PartitionClock,
)
from groupreplay.state.phrases import NAMES_SHOWN, Data, milliseconds, safe_text

BlindReason = Literal[
    "hanging_transaction",
    "no_rights",
    "brokers_silent",
    "partition_count_changed",
    "dead_letters",
    "group_failed",
    "clock",
    "query_stopped",
]

#: The prober needs this right for all groups: it probes groups as soon as they appear.
GRANT_DESCRIBE: Final = (
    "kafka-acls.sh --bootstrap-server HOST:PORT --add --allow-principal User:NAME "
    "--operation Describe --group '*'"
)
#: The command that helps, where there is one.
_FIXES: Final[dict[BlindReason, str]] = {
    "hanging_transaction": "kafka-transactions.sh --bootstrap-server HOST:PORT describe-producers "
    "--topic __consumer_offsets --partition N shows its producer and its first offset; if the producer is gone, "
    "abort with the same flags and --start-offset OFFSET ends it",
    "no_rights": GRANT_DESCRIBE,
    "group_failed": "groupreplay run --retry-quarantined, with a release that has the defect fixed",
    "partition_count_changed": "start the job again: its state is then built anew",
    "clock": "chronyc tracking, on that machine; without brokers and partitions it is the job's own",
    "query_stopped": "groupreplay check, with the flags of run, shows what the query lacks; the job goes on trying",
}
#: What the subjects of all conditions about clocks begin with.
CLOCK: Final = "clock"
#: What the subjects of those about coordinators begin with: they need the records of the log.
COORDINATOR_CLOCK: Final = f"{CLOCK} of broker"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBackBy:
    """The transaction behind whose first record nothing of a partition is read."""

    partition: int
    producer_id: int
    producer_epoch: int
    first_offset: int
    groups: Annotated[tuple[str, ...], Meta(description="Groups whose commits wait in it, the first 20.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBlind(Condition):
    """The job cannot see something that it should: silent brokers, no rights, wrong clocks, or it reads nothing."""

    NAME = "job.blind"
    DOC = "The job cannot see a part of the cluster; what it reports about the groups there is out of date."
    SEVERITY = Severity.ERROR
    ALERTS = (
        Alert(
            fires="the job cannot see a part of the cluster",
            summary="groupreplay cannot see all of cluster {cluster}: {what}",
            description=(
                "The job cannot see a part of the cluster. What it reports about the groups there is out of date. "
                "The event job.blind has the partitions, the brokers and the fix."
            ),
        ),
        Alert(
            name="GroupReplayGroupFailed",
            what="group_failed",
            fires="the job has set a group aside, because its records make the job fail (`group.quarantined`)",
            summary="groupreplay has set groups of cluster {cluster} aside",
            description=(
                "The records of some group make groupreplay fail, which is a defect of groupreplay. It reports "
                "nothing more about that group. The event group.quarantined has its name, the exception and the "
                "record."
            ),
        ),
    )
    EXAMPLES = (
        Example(
            Evidence.PROBE,
            {
                "what": "hanging_transaction",
                "partitions": (12,),
                "brokers": (),
                "fix": "kafka-transactions.sh",
                "transactions": (
                    HeldBackBy(
                        partition=12,
                        producer_id=4_711,
                        producer_epoch=0,
                        first_offset=902_114,
                        groups=("payments",),
                    ),
                ),
            },
        ),
        Example(
            Evidence.PROBE,
            {
                "what": "clock",
                "partitions": (3, 12),
                "brokers": (7,),
                "fix": "chronyc tracking",
                "off_ms": -1_200_000,
                "offset": 4_711,
            },
        ),
        Example(
            Evidence.PROBE,
            {
                "what": "query_stopped",
                "partitions": (),
                "brokers": (),
                "fix": "groupreplay check",
                "reason": "TimeoutException: Timeout of 60000ms expired before the position was determined",
            },
        ),
    )
    what: BlindReason
    partitions: tuple[int, ...]
    brokers: tuple[int, ...]
    fix: Annotated[str | None, Meta(description="The command that helps, where there is one.")]
    off_ms: Annotated[
        int | None,
        Meta(description="How far a clock is ahead, or behind (negative); null: not about a clock."),
    ] = None
    offset: Annotated[
        int | None,
        Meta(description="The record in the first of the partitions that shows a wrong clock, or null."),
    ] = None
    reason: Annotated[
        str | None,
        Meta(description="Why the query is stopped; null: not known, or not about the query."),
    ] = None
    transactions: Annotated[
        tuple[HeldBackBy, ...],
        Meta(description="The open transaction of each partition, as far as the prober has read it."),
    ] = ()

    @staticmethod
    def firing_text(data: Data) -> str:
        """See ``Condition``."""
        what = phrases.spaced(data, "what")
        for field in ("partitions", "brokers"):
            if data.get(field):
                what += f", {field} {', '.join(map(str, data[field][:NAMES_SHOWN]))}"
        if data.get("transactions"):
            what += f": {_held_back(data['transactions'])}"
        if data.get("off_ms"):
            what += f", {milliseconds(abs(data['off_ms']))} {'ahead' if data['off_ms'] > 0 else 'behind'}"
        if data.get("reason"):
            what += f": {safe_text(str(data['reason']), 200)}"
        fix = data.get("fix")
        return f"{what}; {safe_text(str(fix), 200)}" if fix else what


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBlindDetector(JobDetector):
    """A last stable offset stays below the high watermark for ``threshold_ms``, or answers are missing.

    A transaction holds such an offset back. A broker or a partition is silent after ``silent_rounds`` rounds of the
    prober without its answer, a partition also after ``silent_ms`` of heartbeats without its end. Missing rights and
    another number of partitions count at once. ``letters`` records that cannot be read within ``letters_window_ms`` are
    a burst. A quarantined group counts at once. A clock is wrong if it is off by more than ``clock_ms``: the job's own,
    or a coordinator's by the records that it writes. A query that reads nothing counts as soon as a heartbeat says so.
    """

    CONDITION = JobBlind
    DEPENDS_ON = frozenset({Dependency.PROBER_ROUNDS, Dependency.HEARTBEATS})
    threshold_ms: int = 60_000
    silent_rounds: int = 3
    silent_ms: int = 30_000
    letters: int = 24
    letters_window_ms: int = 600_000
    clock_ms: int = 60_000

    def evaluate(self, view: JobView) -> Sequence[Detection]:
        """See ``JobDetector``."""
        state, newest = view.state, view.newest
        if isinstance(newest, HeartbeatObservation):
            self._count(state, newest)
        # A heartbeat changes nothing of what the last round has shown.
        return [
            *self._of_round(state),
            *self._of_silence(state),
            *self._of_counts(state),
            *self._of_query(state),
            *self.of_clocks(state.clocks),
        ]

    def _count(self, state: JobState, newest: HeartbeatObservation) -> None:
        state.burst = count_burst(
            state.burst,
            newest.run_id,
            newest.dead_letters,
            newest.taken_ms,
            self.letters_window_ms,
            self.letters,
        )
        state.quarantines = add_quarantined(
            state.quarantines,
            newest.run_id,
            newest.release,
            newest.retries,
            newest.quarantined,
            newest.taken_ms,
        )
        state.clocks.apply_heartbeat(newest, self.clock_ms, state.leaders)
        state.apply_heartbeat(newest)

    def _of_round(self, state: JobState) -> Iterator[Detection]:
        stalled = {
            number: stall
            for number, stall in state.stalls.items()
            if state.round_ms - stall.since_ms > self.threshold_ms
        }
        if stalled:
            since_ms = min(stall.since_ms for stall in stalled.values())
            named = [state.transactions[number] for number in sorted(stalled) if number in state.transactions]
            yield self._blind(
                "hanging_transaction", since_ms, self.threshold_ms, partitions=stalled, transactions=named
            )
        if state.refused_since_ms is not None:
            yield self._blind("no_rights", state.refused_since_ms)
        # The partition of a group follows from their number: groups move, and new partitions are not read.
        if state.other_count_since_ms is not None:
            yield self._blind("partition_count_changed", state.other_count_since_ms)

    def _of_silence(self, state: JobState) -> Iterator[Detection]:
        """One condition for what the prober's rounds and the heartbeats find."""
        brokers = self._silent(state.silent_brokers)
        partitions = self._silent(state.silent_partitions)
        for number, since_ms in state.unanswered.items():
            if state.heartbeat_ms - since_ms >= self.silent_ms:
                partitions[number] = min(since_ms, partitions.get(number, since_ms))
        if brokers or partitions:
            since_ms = min([*brokers.values(), *partitions.values()])
            yield self._blind("brokers_silent", since_ms, partitions=partitions, brokers=brokers)

    def _silent(self, silences: Mapping[int, Silence]) -> dict[int, int]:
        """Since when each was silent, of those that are for long enough."""
        return {
            number: silence.since_ms
            for number, silence in silences.items()
            if silence.rounds >= self.silent_rounds
        }

    def _of_query(self, state: JobState) -> Iterator[Detection]:
        if state.stopped_since_ms is not None:
            # The text differs from try to try: only the first one is news.
            yield self._blind(
                "query_stopped",
                state.stopped_since_ms,
                reason=state.stopped_error or None,
                dedup_key=(str(bool(state.stopped_error)),),
            )

    def _of_counts(self, state: JobState) -> Iterator[Detection]:
        if state.quarantines.since_ms is not None:
            yield self._blind("group_failed", state.quarantines.since_ms)
        if state.burst.since_ms is not None:
            yield self._blind("dead_letters", state.burst.since_ms)

    def of_clocks(self, clocks: Clocks) -> Iterator[Detection]:
        """The job's own clock, and one condition for each broker whose clock is wrong."""
        if clocks.driver_since_ms is not None:
            yield self._clock(f"{CLOCK} of the job", clocks.driver_since_ms, off_ms=clocks.driver_off_ms)
        by_broker: dict[int | None, dict[int, PartitionClock]] = {}
        for partition, clock in sorted(clocks.wrong.items()):
            by_broker.setdefault(clock.broker, {})[partition] = clock
        for broker, wrong in by_broker.items():
            yield self._clock(
                f"{COORDINATOR_CLOCK} {'?' if broker is None else broker}",
                min(clock.since_ms for clock in wrong.values()),
                partitions=tuple(wrong),
                brokers=() if broker is None else (broker,),
                off_ms=max((clock.off_ms for clock in wrong.values()), key=abs),
                offset=next(iter(wrong.values())).offset,
            )

    def _clock(
        self,
        subject: str,
        since_ms: int,
        *,
        off_ms: int | None,
        offset: int | None = None,
        partitions: tuple[int, ...] = (),
        brokers: tuple[int, ...] = (),
    ) -> Detection:
        # No dedup_key: more and more partitions of one broker show the same.
        return self.detection(
            since_ms,
            self.clock_ms,
            subject=subject,
            evidence=Evidence.PROBE,
            what="clock",
            partitions=partitions,
            brokers=brokers,
            fix=_FIXES["clock"],
            off_ms=off_ms,
            offset=offset,
        )

    def _blind(
        self,
        what: BlindReason,
        since_ms: int,
        threshold_ms: int | None = None,
        *,
        partitions: dict[int, Any] | None = None,
        brokers: dict[int, Any] | None = None,
        reason: str | None = None,
        transactions: Sequence[OpenTransaction] = (),
        dedup_key: tuple[str, ...] = (),
    ) -> Detection:
        producers = [f"{each.partition}:{each.producer_id}" for each in transactions]
        where = {"partitions": tuple(sorted(partitions or ())), "brokers": tuple(sorted(brokers or ()))}
        return self.detection(
            since_ms,
            threshold_ms,
            subject=what,
            evidence=Evidence.PROBE,
            dedup_key=(str(where), *producers, *dedup_key),
            what=what,
            partitions=where["partitions"],
            brokers=where["brokers"],
            fix=_abort(transactions[0]) if transactions else _FIXES.get(what),
            reason=reason,
            transactions=tuple(HeldBackBy(**structs.asdict(each)) for each in transactions),
        )


def _abort(transaction: OpenTransaction) -> str:
    return ABORT.format_map({**structs.asdict(transaction), "log_partition": transaction.partition})


def _held_back(transactions: Sequence[Data]) -> str:
    """The first of these transactions in words."""
    first = transactions[0]
    words = f"producer {first['producer_id']}, open since offset {first['first_offset']}"
    if first.get("groups"):
        words += f", holds commits of {phrases.first_of(first['groups'], safe_text)}"
    more = len(transactions) - 1
    return f"{words}; {phrases.counted(more, 'other transaction')}" if more else words
