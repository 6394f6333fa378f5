"""The state that the conditions of the job are evaluated on, what it sums up of a day, and its stored form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from groupreplay.state.events.offset_events import OffsetsSummary
from groupreplay.state.job.observations import (
    Clocks,
    HeartbeatObservation,
    JobObservation,
    OpenTransaction,
    RoundObservation,
)
from groupreplay.state.snapshot.group_snapshot import ActiveCondition, ConditionKey
from groupreplay.state.stored_form import StoredForm


class Burst(msgspec.Struct, frozen=True, array_like=True):
    """What a run has counted so far (``seen``), and when the count rose: (time, by how many).

    ``since_ms`` is when they became too many; None while they are not.
    """

    run_id: str = ""
    seen: int = 0
    marks: tuple[tuple[int, int], ...] = ()
    since_ms: int | None = None


def count_burst(burst: Burst, run_id: str, total: int, at_ms: int, window_ms: int, limit: int) -> Burst:
    """The burst after a heartbeat with the count of its run; every run counts from 0."""
    new = max(0, total - burst.seen) if run_id == burst.run_id else total
    marks = (*burst.marks, (at_ms, new)) if new else burst.marks
    # Without those of a clock that was ahead: they would never be old.
    marks = tuple(mark for mark in marks if at_ms - window_ms < mark[0] <= at_ms + window_ms)
    many = sum(count for _, count in marks) >= limit
    since_ms = (at_ms if burst.since_ms is None else burst.since_ms) if many else None
    return Burst(run_id, total, marks, since_ms)


_DAY_MS: Final = 24 * 3_600_000


class DayTotal(msgspec.Struct, frozen=True, array_like=True):
    """The sum of a UTC day (its number since 1970); ``seen`` is what the run of the job had counted so far."""

    run_id: str = ""
    seen: int = 0
    day: int = -1
    count: int = 0


def add_count(
    former: DayTotal, run_id: str, total: int, at_ms: int
) -> tuple[DayTotal, OffsetsSummary | None]:
    """The total after a heartbeat with the count of its run, and the summary of a day that has ended.

    Every run counts from 0. A day without expired offsets has no summary.
    """
    new = total - former.seen if run_id == former.run_id else total
    count, day = former.count + max(0, new), at_ms // _DAY_MS
    # A day that is earlier than the former one: that heartbeat came from a clock that was ahead.
    if former.day == -1 or day <= former.day or not count:
        return DayTotal(run_id, total, day, count), None
    until_ms = (former.day + 1) * _DAY_MS
    summary = OffsetsSummary(since_ms=until_ms - _DAY_MS, until_ms=until_ms, expired=count)
    return DayTotal(run_id, total, day, 0), summary


class Quarantines(msgspec.Struct, frozen=True, array_like=True):
    """``counted``: groups that the run ``run_id`` set aside; ``earlier``: by runs before it, not tried again."""

    run_id: str = ""
    release: str = ""
    earlier: int = 0
    counted: int = 0
    since_ms: int | None = None


def add_quarantined(
    former: Quarantines, run_id: str, release: str, retries: bool, counted: int, at_ms: int
) -> Quarantines:
    """The counts after a heartbeat. Every run counts from 0; another release tries all groups again."""
    earlier = former.earlier
    if run_id != former.run_id:
        tried_again = retries or release != former.release
        earlier = 0 if tried_again else former.earlier + former.counted
    since_ms = (former.since_ms or at_ms) if earlier + counted > 0 else None
    return Quarantines(run_id, release, earlier, counted, since_ms)


#: A clock that is corrected by less is not one that was ahead.
_STEP_BACK_MS: Final = 60_000


class Stall(msgspec.Struct, frozen=True, array_like=True):
    """A last stable offset that has not moved since ``since_ms`` although records follow it."""

    stable_offset: int
    since_ms: int


class Silence(msgspec.Struct, frozen=True, array_like=True):
    """Rounds in a row without an answer, the first of them at ``since_ms``."""

    rounds: int
    since_ms: int


class JobState(msgspec.Struct, array_like=True):
    """Everything that is remembered. The layout is positional: fields may be added at the end.

    ``round_ms`` and ``heartbeat_ms`` are the times of the last of each kind (-1: none), ``offsets`` the last offset of
    each partition of the topic of probes. ``leaders`` is the broker that leads each partition of the log.
    ``unanswered``: since when heartbeats name a partition of the log as one without an answer. ``stopped_since_ms``:
    since when no query has read the log, and why. ``told_to`` is the greatest of the heartbeats. ``transactions``: what
    holds back the offsets in ``stalls``, by partition, as far as a round has named it.
    """

    round_ms: int = -1
    heartbeat_ms: int = -1
    partition_count: int | None = None
    other_count_since_ms: int | None = None
    refused_since_ms: int | None = None
    late_since_ms: int | None = None
    stalls: dict[int, Stall] = {}
    silent_brokers: dict[int, Silence] = {}
    silent_partitions: dict[int, Silence] = {}
    active: dict[ConditionKey, ActiveCondition] = {}
    day_total: DayTotal = DayTotal()
    burst: Burst = Burst()
    quarantines: Quarantines = Quarantines()
    offsets: dict[int, int] = {}
    leaders: dict[int, int] = {}
    clocks: Clocks = msgspec.field(default_factory=Clocks)
    unanswered: dict[int, int] = {}
    stopped_since_ms: int | None = None
    stopped_error: str = ""
    told_to: int = 0
    transactions: dict[int, OpenTransaction] = {}

    def accept(self, seen: JobObservation) -> bool:
        """Whether an observation is new; it is then the last one of its kind.

        Its place decides: one message of a clock that is ahead must not make all later ones old. The time decides only
        where the topic begins anew.
        """
        is_round = isinstance(seen, RoundObservation)
        last_ms = self.round_ms if is_round else self.heartbeat_ms
        if seen.place.offset <= self.offsets.get(seen.place.partition, -1) and seen.taken_ms <= last_ms:
            return False
        self.offsets[seen.place.partition] = seen.place.offset
        if is_round:
            self.round_ms = seen.taken_ms
            self._begin_by_round(seen.taken_ms)
        else:
            self.heartbeat_ms = seen.taken_ms
            self._begin_by_heartbeat(seen.taken_ms)
        return True

    def _begin_by_round(self, now_ms: int) -> None:
        """Gives this time to all that begins later by a round: a clock was ahead, and nothing would last long enough.

        Not to what heartbeats begin: they come from another machine, whose clock may differ.
        """
        self.other_count_since_ms = _by(now_ms, self.other_count_since_ms)
        self.refused_since_ms = _by(now_ms, self.refused_since_ms)
        latest_ms = now_ms + _STEP_BACK_MS
        self.stalls = {
            number: Stall(stall.stable_offset, now_ms) if stall.since_ms > latest_ms else stall
            for number, stall in self.stalls.items()
        }
        for silences in (self.silent_brokers, self.silent_partitions):
            for number, silence in silences.items():
                if silence.since_ms > latest_ms:
                    silences[number] = Silence(silence.rounds, now_ms)

    def _begin_by_heartbeat(self, now_ms: int) -> None:
        """The same for what heartbeats begin."""
        self.late_since_ms = _by(now_ms, self.late_since_ms)
        self.burst = replace(self.burst, since_ms=_by(now_ms, self.burst.since_ms))
        self.quarantines = replace(self.quarantines, since_ms=_by(now_ms, self.quarantines.since_ms))
        self.clocks.driver_since_ms = _by(now_ms, self.clocks.driver_since_ms)
        self.stopped_since_ms = _by(now_ms, self.stopped_since_ms)
        for number, since_ms in self.unanswered.items():
            if since_ms > now_ms + _STEP_BACK_MS:
                self.unanswered[number] = now_ms

    def note_told(self, recorded: Sequence[JobObservation]) -> bool:
        """Remembers up to where the driver has published; whether that is all that came before these observations."""
        if not recorded:
            return False
        first = recorded[0].place
        # Places begin at 0 when somebody creates the topic again.
        before = self.told_to if first.offset > self.offsets.get(first.partition, -1) else 0
        # A heartbeat cannot speak for what is at or behind its own place.
        published = [
            min(observation.told_to, observation.place.offset)
            for observation in recorded
            if isinstance(observation, HeartbeatObservation)
        ]
        self.told_to = max([before, *published])
        return self.told_to >= first.offset

    def apply_heartbeat(self, seen: HeartbeatObservation) -> None:
        """Remembers what a new heartbeat says about the driver's own view of the log and of the query."""
        self.unanswered = {number: self.unanswered.get(number, seen.taken_ms) for number in seen.unanswered}
        since_ms = seen.query_stopped_ms
        self.stopped_since_ms = None if since_ms is None else self.stopped_since_ms or since_ms
        self.stopped_error = seen.query_error

    def apply_round(self, seen: RoundObservation) -> None:
        """Remembers what a new round changes."""
        self.leaders = seen.leaders or self.leaders
        # A partition that did not answer keeps what was known of it.
        stalls = {number: stall for number, stall in self.stalls.items() if number not in seen.partitions}
        for number, (high_watermark, stable_offset) in seen.partitions.items():
            if stable_offset < high_watermark:
                former = self.stalls.get(number)
                same = former is not None and former.stable_offset == stable_offset
                stalls[number] = former if former and same else Stall(stable_offset, seen.taken_ms)
        self.stalls = stalls
        named = self.transactions | {each.partition: each for each in seen.transactions}
        self.transactions = {
            number: each
            for number, each in named.items()
            if number in stalls and stalls[number].stable_offset == each.first_offset
        }
        count = seen.partition_count or self.partition_count or 0
        brokers = [number for number, error in seen.brokers.items() if error is not None]
        partitions = [number for number in range(count) if number not in seen.partitions]
        self.silent_brokers = _silences(self.silent_brokers, brokers, seen.taken_ms)
        self.silent_partitions = _silences(self.silent_partitions, partitions, seen.taken_ms)
        if seen.rights != "unknown":
            self.refused_since_ms = None if seen.rights == "ok" else self.refused_since_ms or seen.taken_ms
        if seen.partition_count is not None:
            self.partition_count = self.partition_count or seen.partition_count
            same_count = seen.partition_count == self.partition_count
            self.other_count_since_ms = None if same_count else self.other_count_since_ms or seen.taken_ms


def _by(now_ms: int, since_ms: int | None) -> int | None:
    return now_ms if since_ms is not None and since_ms > now_ms + _STEP_BACK_MS else since_ms


#: A field that is added to any struct of the state raises ``reader``, unless an earlier release may lose it.
FORM: Final = StoredForm[JobState]("job state", version=1, reader=2, kind=JobState)


def write(state: JobState) -> bytes:
    """The present version."""
    return FORM.write(state)


def read(blob: bytes) -> JobState:
    """The inverse of ``write``. Raises SnapshotError for another version and for damaged bytes."""
    return FORM.read(blob)


def _silences(former: dict[int, Silence], silent: Sequence[int], now_ms: int) -> dict[int, Silence]:
    """The silent ones, each with one more round; those that answered are forgotten."""
    never = Silence(0, now_ms)
    before = {number: former.get(number, never) for number in silent}
    return {number: Silence(silence.rounds + 1, silence.since_ms) for number, silence in before.items()}
