"""The state that the conditions of the job are evaluated on, and its stored form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from groupreplay.state.job.bursts import Burst
from groupreplay.state.job.daily_summary import DayTotal
from groupreplay.state.job.observations import JobObservation, RoundObservation
from groupreplay.state.job.quarantines import Quarantines
from groupreplay.state.snapshot import version_1
from groupreplay.state.snapshot.conditions import ActiveCondition, ConditionKey
from groupreplay.state.stored_form import StoredForm


class Stall(msgspec.Struct, frozen=True, array_like=True):
    """A last stable offset that has not moved since ``since_ms`` although records follow it."""

    stable_offset: int
    since_ms: int


class Silence(msgspec.Struct, frozen=True, array_like=True):
    """Rounds in a row without an answer, the first of them at ``since_ms``."""

    rounds: int
    since_ms: int


class JobState(msgspec.Struct, array_like=True):
    """Everything that is remembered. The layout is positional: fields may be added at the end."""

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

    def is_new(self, seen: JobObservation) -> bool:
        """Whether an observation is newer than the last one of its kind, which it then replaces."""
        if isinstance(seen, RoundObservation):
            is_new, self.round_ms = seen.taken_ms > self.round_ms, max(seen.taken_ms, self.round_ms)
        else:
            is_new, self.heartbeat_ms = (
                seen.taken_ms > self.heartbeat_ms,
                max(seen.taken_ms, self.heartbeat_ms),
            )
        return is_new

    def apply_round(self, seen: RoundObservation) -> None:
        """Remembers what a new round changes."""
        # A partition that did not answer keeps what was known of it.
        stalls = {number: one for number, one in self.stalls.items() if number not in seen.partitions}
        for number, (high_watermark, stable_offset) in seen.partitions.items():
            if stable_offset < high_watermark:
                former = self.stalls.get(number)
                same = former is not None and former.stable_offset == stable_offset
                stalls[number] = former if former and same else Stall(stable_offset, seen.taken_ms)
        self.stalls = stalls
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


def _read_version_1(body: memoryview) -> JobState:
    """Version 1 differs in the keys of the active conditions; its first releases wrote fewer fields."""
    fields: list[Any] = msgspec.msgpack.decode(body, strict=False)
    place = JobState.__struct_fields__.index("active")
    texts: dict[str, Any] = {}
    if len(fields) > place:
        texts, fields[place] = fields[place], {}
    state = msgspec.convert(fields, JobState)
    state.active = version_1.active_conditions(msgspec.convert(texts, dict[str, version_1.TextKeyCondition]))
    return state


#: A field that is added to any struct of the state raises ``reader``, unless an earlier release may lose it.
FORM: Final = StoredForm[JobState](
    "job state",
    version=3,
    reader=1,
    kind=JobState,
    older={
        version_1.VERSION: _read_version_1,
        # The same fields, without the byte for the reader.
        2: msgspec.msgpack.Decoder(JobState).decode,
    },
)


def write(state: JobState) -> bytes:
    """The present version."""
    return FORM.write(state)


def read(blob: bytes) -> JobState:
    """The inverse of ``write``, for older versions, too. Raises SnapshotError for others and for damaged bytes."""
    return FORM.read(blob)


def _silences(former: dict[int, Silence], silent: Sequence[int], now_ms: int) -> dict[int, Silence]:
    """The silent ones, each with one more round; those that answered are forgotten."""
    never = Silence(0, now_ms)
    before = {number: former.get(number, never) for number in silent}
    return {number: Silence(one.rounds + 1, one.since_ms) for number, one in before.items()}
