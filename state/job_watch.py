"""Whether the job itself sees enough, and soon enough: what its own rounds and heartbeats say about it.

Knows what makes a reader of the offsets topic blind (a transaction that holds a partition back, rights it
lacks, brokers that are silent, a changed number of partitions) and when it is behind; must not know groups,
clocks or who asked the brokers. Each condition is opened once and closed once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

import msgspec

from groupreplay.state.saved import SnapshotError

What: TypeAlias = Literal[
    "hanging_transaction", "missing_rights", "silent_brokers", "partition_count", "behind"
]

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
    """One heartbeat of the job: at ``taken_ms`` everything written before ``caught_up_ms`` was applied."""

    taken_ms: int
    place: Place
    caught_up_ms: int | None


JobObservation: TypeAlias = Round | Beat


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """When the job counts as blind or behind; times in milliseconds.

    A last stable offset that stands still below the high watermark for longer than ``hanging_ms`` is held by
    a transaction; a broker or a partition is silent after ``silent_rounds`` rounds without its answer; the
    job is behind when its caught-up time is older than ``late_ms`` for ``late_for_ms``.
    """

    hanging_ms: int = 60_000
    silent_rounds: int = 3
    late_ms: int = 60_000
    late_for_ms: int = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChange:
    """A condition that opened or closed at ``time_ms``; the lists are those of its opening."""

    what: What
    firing: bool
    condition_id: str
    since_ms: int
    time_ms: int
    threshold_ms: int | None
    partitions: tuple[int, ...]
    brokers: tuple[int, ...]
    place: Place


class _Stall(msgspec.Struct, frozen=True, array_like=True):
    """A last stable offset that has not moved since ``since_ms`` although records lie behind it."""

    stable_offset: int
    since_ms: int


class _Missed(msgspec.Struct, frozen=True, array_like=True):
    """Rounds in a row without an answer, the first of them at ``since_ms``."""

    rounds: int
    since_ms: int


class _Open(msgspec.Struct, frozen=True, array_like=True):
    condition_id: str
    since_ms: int
    partitions: tuple[int, ...]
    brokers: tuple[int, ...]


class _Saved(msgspec.Struct, array_like=True):
    """All that is remembered; fields may be added at the end."""

    round_ms: int = -1
    beat_ms: int = -1
    partition_count: int | None = None
    stalls: dict[int, _Stall] = {}
    silent_brokers: dict[int, _Missed] = {}
    silent_partitions: dict[int, _Missed] = {}
    late_since_ms: int | None = None
    open: dict[str, _Open] = {}


@dataclass(frozen=True, slots=True)
class _Finding:
    """What one look says about one condition: true now, since when, and about what."""

    what: What
    true: bool
    since_ms: int
    threshold_ms: int | None = None
    partitions: tuple[int, ...] = ()
    brokers: tuple[int, ...] = ()


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(_Saved)


@dataclass(slots=True)
class JobWatch:
    """What is known about the job. ``changed``: there is something to write down."""

    thresholds: Thresholds = field(default_factory=Thresholds)
    changed: bool = False
    _saved: _Saved = field(default_factory=_Saved)

    @classmethod
    def from_snapshot(cls, blob: bytes, thresholds: Thresholds | None = None) -> JobWatch:
        """The inverse of ``snapshot``. Raises SnapshotError when another release wrote it."""
        if blob[:1] != bytes([_VERSION]):
            found = blob[0] if blob else "nothing"
            raise SnapshotError(f"job state version {found}, this release reads version {_VERSION}")
        return cls(thresholds or Thresholds(), _saved=_decoder.decode(blob[1:]))

    def snapshot(self) -> bytes:
        """A version byte and a msgpack body."""
        return bytes([_VERSION]) + _encoder.encode(self._saved)

    def apply(self, observations: Sequence[JobObservation]) -> list[JobChange]:
        """Takes in what is newer than the last of its kind, by time; says what opened and what closed."""
        changes: list[JobChange] = []
        for one in sorted(
            observations, key=lambda one: (one.taken_ms, one.place.partition, one.place.offset)
        ):
            if isinstance(one, Round) and one.taken_ms > self._saved.round_ms:
                self._saved.round_ms, self.changed = one.taken_ms, True
                changes += self._turn(one, self._round_findings(one))
            elif isinstance(one, Beat) and one.taken_ms > self._saved.beat_ms:
                self._saved.beat_ms, self.changed = one.taken_ms, True
                changes += self._turn(one, [self._lateness(one)])
        return changes

    def _turn(self, seen: JobObservation, findings: Sequence[_Finding]) -> Iterator[JobChange]:
        """Opens what is true and not open yet, closes what is open and not true any more."""
        for finding in findings:
            known = self._saved.open.get(finding.what)
            if finding.true == (known is not None):
                continue
            if known is None:
                condition_id = f"job.{finding.what}-{finding.since_ms}"
                known = _Open(condition_id, finding.since_ms, finding.partitions, finding.brokers)
                self._saved.open[finding.what] = known
            else:
                del self._saved.open[finding.what]
            yield JobChange(
                what=finding.what,
                firing=finding.true,
                condition_id=known.condition_id,
                since_ms=known.since_ms,
                time_ms=seen.taken_ms,
                threshold_ms=finding.threshold_ms,
                partitions=known.partitions,
                brokers=known.brokers,
                place=seen.place,
            )

    def _round_findings(self, seen: Round) -> list[_Finding]:
        findings = [self._hanging(seen), self._silence(seen)]
        if seen.rights != "unknown":
            findings.append(_Finding("missing_rights", seen.rights == "missing", seen.taken_ms))
        if seen.partition_count is not None:
            if self._saved.partition_count is None:
                self._saved.partition_count = seen.partition_count
            # The partition of a group follows from the count: groups move, and new partitions go unread.
            changed = seen.partition_count != self._saved.partition_count
            findings.append(_Finding("partition_count", changed, seen.taken_ms))
        return findings

    def _hanging(self, seen: Round) -> _Finding:
        # A partition that did not answer keeps what was known of it.
        stalls = {number: one for number, one in self._saved.stalls.items() if number not in seen.partitions}
        for number, (high_watermark, stable_offset) in seen.partitions.items():
            if stable_offset < high_watermark:
                former = self._saved.stalls.get(number)
                same = former is not None and former.stable_offset == stable_offset
                stalls[number] = former if former and same else _Stall(stable_offset, seen.taken_ms)
        self._saved.stalls = stalls
        limit = self.thresholds.hanging_ms
        held = sorted(number for number, one in stalls.items() if seen.taken_ms - one.since_ms > limit)
        since_ms = min((stalls[number].since_ms for number in held), default=seen.taken_ms)
        return _Finding("hanging_transaction", bool(held), since_ms, limit, tuple(held))

    def _silence(self, seen: Round) -> _Finding:
        count = seen.partition_count or self._saved.partition_count or 0
        brokers = [number for number, error in seen.brokers.items() if error is not None]
        partitions = [number for number in range(count) if number not in seen.partitions]
        self._saved.silent_brokers = _missed(self._saved.silent_brokers, brokers, seen.taken_ms)
        self._saved.silent_partitions = _missed(self._saved.silent_partitions, partitions, seen.taken_ms)
        long_brokers = self._long_silent(self._saved.silent_brokers)
        long_partitions = self._long_silent(self._saved.silent_partitions)
        silent = [*long_brokers.values(), *long_partitions.values()]
        return _Finding(
            "silent_brokers",
            bool(silent),
            min((one.since_ms for one in silent), default=seen.taken_ms),
            partitions=tuple(sorted(long_partitions)),
            brokers=tuple(sorted(long_brokers)),
        )

    def _long_silent(self, missed: dict[int, _Missed]) -> dict[int, _Missed]:
        return {number: one for number, one in missed.items() if one.rounds >= self.thresholds.silent_rounds}

    def _lateness(self, beat: Beat) -> _Finding:
        limits = self.thresholds
        late = beat.caught_up_ms is None or beat.taken_ms - beat.caught_up_ms > limits.late_ms
        if not late:
            self._saved.late_since_ms = None
        elif self._saved.late_since_ms is None:
            self._saved.late_since_ms = beat.taken_ms
        since_ms = beat.taken_ms if self._saved.late_since_ms is None else self._saved.late_since_ms
        long = late and beat.taken_ms - since_ms >= limits.late_for_ms
        return _Finding("behind", long, since_ms, limits.late_for_ms)


def _missed(former: dict[int, _Missed], silent: Sequence[int], now_ms: int) -> dict[int, _Missed]:
    """The silent, each with one more round; who has answered is forgotten."""
    never = _Missed(0, now_ms)
    before = {number: former.get(number, never) for number in silent}
    return {number: _Missed(one.rounds + 1, one.since_ms) for number, one in before.items()}
