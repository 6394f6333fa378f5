"""Rounds and heartbeats as the job's own state sees them, and a check that the cut into calls does not matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from groupreplay.state import Context, Event
from groupreplay.state.conditions.condition import Condition
from groupreplay.state.conditions.job_blind import JobBlind
from groupreplay.state.job.observations import (
    HeartbeatObservation,
    JobObservation,
    ObservationPlace,
    RoundObservation,
)
from groupreplay.state.job_watch import JobWatch

CONTEXT = Context(cluster_id="c")
MINUTE = 60_000
WELL = {0: (5, 5), 1: (9, 9)}


def place(at: int) -> ObservationPlace:
    """Where something said at that moment is recorded."""
    return ObservationPlace("group-probes", 0, at)


def taken(
    at: int,
    partitions: Mapping[int, tuple[int, int]] = WELL,
    *,
    rights: str = "ok",
    brokers: Mapping[int, str | None] | None = None,
    count: int | None = 2,
) -> RoundObservation:
    """A round in which all is well but what is said."""
    return RoundObservation(at, place(at), dict(brokers or {1: None}), rights, dict(partitions), count)


def beat(at: int, caught_up: int | None) -> HeartbeatObservation:
    """A heartbeat."""
    return HeartbeatObservation(at, place(at), caught_up)


def fed(observations: Sequence[JobObservation], context: Context = CONTEXT) -> list[Event]:
    """The events, one observation a call, with a snapshot taken and restored between any two."""
    events, blob = list[Event](), None
    for one in observations:
        watch = JobWatch(context) if blob is None else JobWatch.from_snapshot(context, blob)
        events += watch.apply([one])
        assert watch.changed or not events
        blob = watch.snapshot()
    whole = JobWatch(context).apply(list(reversed(observations)))
    assert whole == events  # however it is cut into calls
    return events


def story(events: Sequence[Event]) -> list[tuple[Any, ...]]:
    """Time, kind, status and start of each condition."""
    told = []
    for event in events:
        assert isinstance(event.fact, Condition)
        what = event.fact.what if isinstance(event.fact, JobBlind) else event.fact.NAME
        told.append((event.time_ms, what, event.fact.status, event.fact.since_ms))
    return told


def later(at: int, seen: JobObservation) -> JobObservation:
    """The same observation at this place of the topic."""
    return replace(seen, place=place(at))


def clock_beat(
    at: int, off_ms: int | None = None, high: Mapping[int, int] | None = None
) -> HeartbeatObservation:
    """A heartbeat that measures the driver's clock, and has the ends of the log."""
    return replace(beat(at, at), clock_off_ms=off_ms, high_watermarks=dict(high or {}))


def fix_of(event: Event) -> str:
    """What the event of a condition says to do."""
    return str(msgspec.to_builtins(event.fact)["fix"])
