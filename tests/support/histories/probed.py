"""Builders for histories with probes, and the conditions that a replay of them raises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from groupreplay.state import Context, Event, Group, Observations
from groupreplay.state.conditions.condition import Condition
from groupreplay.state.snapshot.observations import Probe, ProbeAnswer, ProbedMember
from support.histories.builders import CONTEXT, GROUP, Raw, generation, member, observed, placed

#: In these histories there is a prober.
PROBING = replace(CONTEXT, probing=True)


def probe(at: int, state: str, *members: str, offset: int | None = None) -> Probe:
    """A probe result; members by id, a static one as ``id=instance``."""
    told = [(name.partition("=")[0], name.partition("=")[2] or None) for name in members]
    return Probe(
        taken_ms=at,
        state=state,
        topic="group-probes",
        partition=0,
        offset=at if offset is None else offset,
        members=tuple(ProbedMember(name, instance, f"client-{name}", "/h") for name, instance in told),
    )


def told(
    history: list[Raw], probes: Sequence[ProbeAnswer], until: int, context: Context = PROBING
) -> tuple[Group, list[Event]]:
    """The group and its events after everything up to a time has been read."""
    group = Group(GROUP, context)
    seen = observed(placed(history))
    events = group.apply(Observations(items=seen.items, seen_to=seen.seen_to, probes=probes), 0)
    return group, events + group.expire(until)


def conditions(events: list[Event]) -> list[tuple[str, str, int]]:
    """Name, status and time of each condition event."""
    return [
        (event.fact.NAME, event.fact.status, event.time_ms)
        for event in events
        if isinstance(event.fact, Condition)
    ]


MINUTE = 60_000
START = 100 * MINUTE
TWO = generation(5, member("a", [0]), member("b", [1]), at=START)


def rounds(first: int, last: int, state: str = "PreparingRebalance", *members: str) -> list[Probe]:
    """A probe result every ten seconds."""
    return [probe(at, state, *(members or ("a", "b", "c"))) for at in range(first, last + 1, 10_000)]
