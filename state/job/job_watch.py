"""Whether the job itself sees enough, and soon enough: what its own rounds and heartbeats say about it.

Knows what makes a reader of the offsets topic blind (a transaction that holds a partition back, rights it
lacks, brokers that are silent, a changed number of partitions) and when it is behind; must not know groups,
clocks or who asked the brokers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, TypeAlias

import msgspec

from groupreplay.state.conditions.conditions import BlindReason, JobBehind, JobBlind
from groupreplay.state.conditions.tracker import ConditionTracker, ConditionUpdate, Detection, told
from groupreplay.state.events.event import Cause, Event, Evidence, Fact, History, Severity
from groupreplay.state.job.bursts import Burst, counted
from groupreplay.state.job.daily_summary import Tally, taken
from groupreplay.state.kafka_terms import GroupType
from groupreplay.state.policy.context import Context
from groupreplay.state.snapshot.conditions import ActiveCondition
from groupreplay.state.snapshot.storage import SnapshotError

#: What to do about missing rights; a prober needs them for groups it has not heard of yet.
GRANT_DESCRIBE: Final = (
    "kafka-acls.sh --bootstrap-server HOST:PORT --add --allow-principal User:NAME "
    "--operation Describe --group '*'"
)
#: What helps, where there is one thing.
_FIXES: Final[dict[BlindReason, str]] = {
    "hanging_transaction": "kafka-transactions.sh --bootstrap-server HOST:PORT find-hanging --broker-id ID",
    "no_rights": GRANT_DESCRIBE,
    "partition_count_changed": "start the job again: its state is then built anew",
}

_VERSION: Final = 1


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Where an observation of the job is recorded."""

    topic: str
    partition: int
    offset: int


class Round(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """One round of the prober.

    ``brokers``: by id, None for those that answered. ``partitions`` that answered: high watermark and last
    stable offset. ``partition_count`` None: nobody told it.
    """

    taken_ms: int
    place: Place
    brokers: dict[int, str | None]
    rights: str
    partitions: dict[int, tuple[int, int]]
    partition_count: int | None


class Beat(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """One heartbeat of the job: at ``taken_ms`` everything written before ``caught_up_ms`` was applied.

    ``unmissed_expired`` is what the run has counted so far: offsets that expired in groups nobody misses;
    ``dead_letters`` are records that it could not read.
    """

    taken_ms: int
    place: Place
    caught_up_ms: int | None
    run_id: str = ""
    unmissed_expired: int = 0
    dead_letters: int = 0


JobObservation: TypeAlias = Round | Beat


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBlindDetector:
    """A last stable offset stands still below the high watermark for ``threshold_ms``, or answers stay away.

    The former is held by a transaction. A broker or a partition is silent after ``silent_rounds`` rounds without
    its answer. Missing rights and another number of partitions count at once; ``letters`` records that cannot be
    read within ``letters_window_ms`` are a burst.
    """

    NAME: ClassVar[str] = JobBlind.NAME
    threshold_ms: int = 60_000
    silent_rounds: int = 3
    letters: int = 24
    letters_window_ms: int = 600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBehindDetector:
    """The job's caught-up time is older than ``lag_ms``, for ``threshold_ms``."""

    NAME: ClassVar[str] = JobBehind.NAME
    lag_ms: int = 60_000
    threshold_ms: int = 300_000


#: The rules about the job itself with their default numbers.
JOB_RULES: Final[Sequence[JobBlindDetector | JobBehindDetector]] = (JobBlindDetector(), JobBehindDetector())


class _Stall(msgspec.Struct, frozen=True, array_like=True):
    """A last stable offset that has not moved since ``since_ms`` although records lie behind it."""

    stable_offset: int
    since_ms: int


class _Missed(msgspec.Struct, frozen=True, array_like=True):
    """Rounds in a row without an answer, the first of them at ``since_ms``."""

    rounds: int
    since_ms: int


class _Saved(msgspec.Struct, array_like=True):
    """All that is remembered; fields may be added at the end."""

    round_ms: int = -1
    beat_ms: int = -1
    partition_count: int | None = None
    unlike_since_ms: int | None = None
    refused_since_ms: int | None = None
    late_since_ms: int | None = None
    stalls: dict[int, _Stall] = {}
    silent_brokers: dict[int, _Missed] = {}
    silent_partitions: dict[int, _Missed] = {}
    firing: dict[str, ActiveCondition] = {}
    tally: Tally = Tally()
    burst: Burst = Burst()


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(_Saved)


@dataclass(slots=True)
class JobWatch:
    """What is known about the job. ``changed``: there is something to write down."""

    context: Context
    changed: bool = False
    _saved: _Saved = field(default_factory=_Saved)

    @classmethod
    def from_snapshot(cls, context: Context, blob: bytes) -> JobWatch:
        """The inverse of ``snapshot``. Raises SnapshotError when another release wrote it."""
        if blob[:1] != bytes([_VERSION]):
            found = blob[0] if blob else "nothing"
            raise SnapshotError(f"job state version {found}, this release reads version {_VERSION}")
        return cls(context, _saved=_decoder.decode(blob[1:]))

    def snapshot(self) -> bytes:
        """A version byte and a msgpack body."""
        return bytes([_VERSION]) + _encoder.encode(self._saved)

    def conditions(self) -> list[dict[str, Any]]:
        """The conditions that hold, as documents show them."""
        return told(self._saved.firing)

    def apply(self, observations: Sequence[JobObservation], recorded_ms: int | None = None) -> list[Event]:
        """Takes in what is newer than the last of its kind, by time; says what begins and what is over.

        Of the time before ``emit_since_ms`` nothing is looked at. ``recorded_ms`` is the time of this call by
        the job's clock, None for a replay, which is never late: what was said too late to be acted upon and
        still holds is said once more.
        """
        events: list[Event] = []
        last: JobObservation | None = None
        for one in sorted(
            observations, key=lambda one: (one.taken_ms, one.place.partition, one.place.offset)
        ):
            if one.taken_ms >= self.context.emit_since_ms and self._is_new(one):
                last = one
                self.changed = True
                events += self._look(one, recorded_ms)
                events += self._summary(one) if isinstance(one, Beat) else ()
        if last is not None and not self._late(last, recorded_ms):
            ordinal = sum(_place(event) == last.place for event in events)
            events += self._events(self._alarms().again(), last, recorded_ms, ordinal)
        return events

    def _is_new(self, seen: JobObservation) -> bool:
        saved = self._saved
        if isinstance(seen, Round):
            is_new, saved.round_ms = seen.taken_ms > saved.round_ms, max(seen.taken_ms, saved.round_ms)
        else:
            is_new, saved.beat_ms = seen.taken_ms > saved.beat_ms, max(seen.taken_ms, saved.beat_ms)
        return is_new

    def _look(self, seen: JobObservation, recorded_ms: int | None) -> list[Event]:
        kinds: list[str]
        if isinstance(seen, Round):
            kinds = [JobBlind.NAME]
            found = [self._hanging(seen), self._silence(seen), self._refusal(seen), self._layout(seen)]
            found.append(self._letters())
        else:
            kinds, found = [JobBehind.NAME], [self._lateness(seen)]
            self._count_letters(seen)
            if self._saved.round_ms < 0:
                # Nobody asks the brokers: what the job counts by itself is all that there is.
                kinds.append(JobBlind.NAME)
                found.append(self._letters())
        raised = [one for one in found if one is not None]
        return self._events(self._alarms().take(raised, kinds, seen.taken_ms), seen, recorded_ms)

    def _summary(self, beat: Beat) -> list[Event]:
        saved = self._saved
        saved.tally, summary = taken(saved.tally, beat.run_id, beat.unmissed_expired, beat.taken_ms)
        return [] if summary is None else [_event(summary, Evidence.LOG, Severity.INFO, beat, 0)]

    def _alarms(self) -> ConditionTracker:
        return ConditionTracker(None, self._saved.firing, self.context.policy.runbook)

    def _late(self, seen: JobObservation, recorded_ms: int | None) -> bool:
        return recorded_ms is not None and recorded_ms - seen.taken_ms > self.context.catch_up_after_ms

    def _events(
        self, said: Sequence[ConditionUpdate], seen: JobObservation, recorded_ms: int | None, ordinal: int = 0
    ) -> list[Event]:
        events = []
        for place, one in enumerate(said, ordinal):
            if one.key in self._saved.firing:
                self._saved.firing[one.key].late = self._late(seen, recorded_ms)
            events.append(_event(one.condition, one.evidence, one.severity, seen, place))
        return events

    def _rule(self, rule: Any) -> Any:
        return replace(rule, **self.context.policy.numbers.get(rule.NAME, {}))

    def _hanging(self, seen: Round) -> Detection | None:
        limit_ms = self._rule(JobBlindDetector()).threshold_ms
        # A partition that did not answer keeps what was known of it.
        stalls = {number: one for number, one in self._saved.stalls.items() if number not in seen.partitions}
        for number, (high_watermark, stable_offset) in seen.partitions.items():
            if stable_offset < high_watermark:
                former = self._saved.stalls.get(number)
                same = former is not None and former.stable_offset == stable_offset
                stalls[number] = former if former and same else _Stall(stable_offset, seen.taken_ms)
        self._saved.stalls = stalls
        held = {number: one for number, one in stalls.items() if seen.taken_ms - one.since_ms > limit_ms}
        if not held:
            return None
        since_ms = min(one.since_ms for one in held.values())
        return _blind("hanging_transaction", since_ms, limit_ms, partitions=held)

    def _silence(self, seen: Round) -> Detection | None:
        saved, rounds = self._saved, self._rule(JobBlindDetector()).silent_rounds
        count = seen.partition_count or saved.partition_count or 0
        brokers = [number for number, error in seen.brokers.items() if error is not None]
        partitions = [number for number in range(count) if number not in seen.partitions]
        saved.silent_brokers = _missed(saved.silent_brokers, brokers, seen.taken_ms)
        saved.silent_partitions = _missed(saved.silent_partitions, partitions, seen.taken_ms)
        long_brokers = {number: one for number, one in saved.silent_brokers.items() if one.rounds >= rounds}
        long_partitions = {
            number: one for number, one in saved.silent_partitions.items() if one.rounds >= rounds
        }
        silent = [*long_brokers.values(), *long_partitions.values()]
        if not silent:
            return None
        since_ms = min(one.since_ms for one in silent)
        return _blind("brokers_silent", since_ms, None, partitions=long_partitions, brokers=long_brokers)

    def _refusal(self, seen: Round) -> Detection | None:
        since_ms = self._saved.refused_since_ms
        if seen.rights != "unknown":
            since_ms = None if seen.rights == "ok" else since_ms or seen.taken_ms
        self._saved.refused_since_ms = since_ms
        return None if since_ms is None else _blind("no_rights", since_ms, None)

    def _layout(self, seen: Round) -> Detection | None:
        """The partition of a group follows from their number: groups move, and new partitions go unread."""
        saved = self._saved
        if seen.partition_count is not None:
            saved.partition_count = saved.partition_count or seen.partition_count
            alike = seen.partition_count == saved.partition_count
            saved.unlike_since_ms = None if alike else saved.unlike_since_ms or seen.taken_ms
        since_ms = saved.unlike_since_ms
        return None if since_ms is None else _blind("partition_count_changed", since_ms, None)

    def _count_letters(self, seen: Beat) -> None:
        rule = self._rule(JobBlindDetector())
        self._saved.burst = counted(
            self._saved.burst,
            seen.run_id,
            seen.dead_letters,
            seen.taken_ms,
            rule.letters_window_ms,
            rule.letters,
        )

    def _letters(self) -> Detection | None:
        since_ms = self._saved.burst.since_ms
        return None if since_ms is None else _blind("dead_letters", since_ms, None)

    def _lateness(self, seen: Beat) -> Detection | None:
        rule, saved = self._rule(JobBehindDetector()), self._saved
        lag_ms = None if seen.caught_up_ms is None else seen.taken_ms - seen.caught_up_ms
        # With a slow trigger the job is never closer to the end than a few triggers.
        if lag_ms is not None and lag_ms <= max(rule.lag_ms, self.context.catch_up_after_ms):
            saved.late_since_ms = None
            return None
        if saved.late_since_ms is None:
            saved.late_since_ms = seen.taken_ms
        if seen.taken_ms - saved.late_since_ms < rule.threshold_ms:
            return None
        return Detection(
            kind=JobBehind,
            since_ms=saved.late_since_ms,
            threshold_ms=rule.threshold_ms,
            details={"caught_up_ms": seen.caught_up_ms, "lag_ms": lag_ms},
        )


def _event(fact: Fact, evidence: Evidence, severity: Severity, seen: JobObservation, ordinal: int) -> Event:
    """Something about the job itself, caused by one of its own observations."""
    place = seen.place
    return Event(
        fact=fact,
        group_id=None,
        group_type=GroupType.CLASSIC,
        simple=False,
        time_ms=seen.taken_ms,
        evidence=evidence,
        history=History.FULL,
        cause=Cause(
            topic=place.topic, partition=place.partition, offset=place.offset, timestamp_ms=seen.taken_ms
        ),
        ordinal=ordinal,
        severity=severity,
    )


def _blind(
    what: BlindReason,
    since_ms: int,
    threshold_ms: int | None,
    *,
    partitions: dict[int, Any] | None = None,
    brokers: dict[int, Any] | None = None,
) -> Detection:
    where = {"partitions": tuple(sorted(partitions or ())), "brokers": tuple(sorted(brokers or ()))}
    return Detection(
        kind=JobBlind,
        since_ms=since_ms,
        threshold_ms=threshold_ms,
        details={"what": what, **where, "fix": _FIXES.get(what)},
        subject=what,
        evidence=Evidence.PROBE,
        dedup_key=str(where),
    )


def _place(event: Event) -> Place | None:
    cause = event.cause
    return None if cause is None else Place(cause.topic, cause.partition, cause.offset)


def _missed(former: dict[int, _Missed], silent: Sequence[int], now_ms: int) -> dict[int, _Missed]:
    """The silent, each with one more round; who has answered is forgotten."""
    never = _Missed(0, now_ms)
    before = {number: former.get(number, never) for number in silent}
    return {number: _Missed(one.rounds + 1, one.since_ms) for number, one in before.items()}
