"""Everyday operations raise no condition of WARN or above, with the default thresholds and any batches."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

import pytest

from groupreplay.coordinator.simulation.script import CRASH, START, STOP, ClientStep, Script
from groupreplay.state import Event, Severity
from groupreplay.state.conditions.condition import Condition
from support.histories.builders import CONTEXT, Raw, asked_for, generation, member, placed, read_in_batches
from support.histories.connect_blobs import worker
from support.histories.group_writer import GroupWriter
from support.histories.simulated import BEGIN, MINUTE, SECOND, rolling_restart, simulated, starts


def rolling(members: int, **fields: object) -> list[Raw]:
    """All members are restarted, one after the other."""
    pause_ms = 20 * SECOND
    duration_ms = 65 * MINUTE + members * pause_ms
    return simulated(rolling_restart(members, pause_ms=pause_ms, **fields), duration_ms)  # type: ignore[arg-type]


def autoscaling() -> list[Raw]:
    """From 5 to 50 members and back, one by one and in leaps, with the cooperative assignor."""
    steps, at_ms, size = starts(range(5)), 60 * MINUTE, 5
    for leap in (1, 1, 2, 5, 10, 26):
        steps += starts(range(size, size + leap), at_ms)
        size, at_ms = size + leap, at_ms + MINUTE
    while size > 5:
        leap = min(9, size - 5)
        steps += [ClientStep(at_ms, STOP, number) for number in range(size - leap, size)]
        size, at_ms = size - leap, at_ms + MINUTE
    script = Script(steps=tuple(steps), strategies=("cooperative-sticky",), partitions=60)
    return simulated(script, at_ms + 5 * MINUTE)


def crashed_members() -> list[Raw]:
    """Half of ten members crash, one after the other, and start again after a second."""
    steps = starts(range(10))
    for number in range(5):
        at_ms = (60 + number) * MINUTE
        steps += [ClientStep(at_ms, CRASH, number), ClientStep(at_ms + SECOND, START, number)]
    return simulated(Script(steps=tuple(steps), partitions=20, commit_interval_ms=MINUTE), 70 * MINUTE)


def moved_coordinator() -> list[Raw]:
    """The coordinator moves during three rebalances, which are lost with it: all members rejoin twice."""
    changes = [(60 + 20 * number) * MINUTE for number in range(3)]
    steps = starts(range(10))
    for number, at_ms in enumerate(changes):
        steps += [ClientStep(at_ms, STOP, number), ClientStep(at_ms + 5 * SECOND, START, number)]
    script = Script(steps=tuple(steps), partitions=20, commit_interval_ms=MINUTE)
    return simulated(script, 120 * MINUTE, moves=[at_ms + SECOND for at_ms in changes])


def connect() -> list[Raw]:
    """Thirty connectors are created in ten minutes: each is a new configuration, with a rebalance behind it."""
    log, at, number = [asked_for(at=BEGIN)], BEGIN, 0
    for change in range(31):
        for _ in range(2):
            at, number = at + 9_000, number + 1
            workers = [worker(f"w{place}", 100 + change, f"/w{place}") for place in range(3)]
            log.append(generation(number, *workers, at=at, protocol_type="connect"))
    return placed(log)


def written(kind: str, size: int, *, interval: bool) -> list[Raw]:
    """A rolling restart of a group of a type without a model: each member leaves, and a new one joins."""
    writer = GroupWriter(kind=kind, interval=interval, partitions=12, at=BEGIN)
    for place in range(size):
        writer.join(f"m{place:02}")
        writer.settle()
    writer.wait(60 * MINUTE)
    for place in range(size):
        writer.leave(f"m{place:02}")
        writer.settle()
        writer.wait(15_000)
        writer.join(f"n{place:02}")
        writer.settle()
    return placed(writer.log)


DEPLOYMENTS: dict[str, Callable[[], list[Raw]]] = {
    **{
        f"rolling restart, {kind}, {size}": (lambda size=size, fields=fields: rolling(size, **fields))
        for kind, fields in {
            "eager": {},
            "cooperative": {"cooperative": True},
            "static": {"static": True},
            "KIP-848": {"kip848": True},
        }.items()
        for size in ((3, 10) if kind == "KIP-848" else (3, 10, 50))
    },
    "rolling restart, static KIP-848": lambda: rolling(10, kip848=True, static=True),
    "rolling restart to new hosts": lambda: rolling(10, cooperative=True, moved=True),
    "rolling restart to new hosts, KIP-848": lambda: rolling(10, kip848=True, moved=True),
    "one member": lambda: rolling(1),
    "autoscaling": autoscaling,
    "crashed members": crashed_members,
    "moved coordinator": moved_coordinator,
    "connectors": connect,
    **{
        f"{kind}, {size}{', assigning later' if interval else ''}": (
            lambda kind=kind, size=size, interval=interval: written(kind, size, interval=interval)
        )
        for kind in ("share", "streams")
        for size in (3, 10)
        for interval in (False, True)
    },
    # Without an assignment interval, as before Kafka 4.3.
    **{
        f"consumer, {size}": (lambda size=size: written("consumer", size, interval=False)) for size in (3, 10)
    },
}


def cuts(records: Sequence[Raw], seed: int) -> Iterator[Sequence[Raw]]:
    """Batches of any size."""
    rng, at = random.Random(seed), 0
    while at < len(records):
        size = rng.choice([1, 7, 100, 1_000])
        yield records[at : at + size]
        at += size


def conditions(records: Sequence[Raw], batches: Iterator[Sequence[Raw]]) -> list[Event]:
    """Every condition event, with a snapshot of the group after each batch."""
    _, events = read_in_batches(batches, CONTEXT, records[-1].at + 60 * MINUTE)
    return [event for event in events if isinstance(event.fact, Condition)]


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_a_deployment_raises_no_condition(name: str) -> None:
    """No condition of WARN or above; another division into batches gives the same conditions from the log."""
    records = DEPLOYMENTS[name]()
    once, cut = conditions(records, iter([records])), conditions(records, cuts(records, len(records)))
    assert [event for event in once + cut if (event.severity or Severity.INFO) >= Severity.WARN] == []
    inferred = ("owner.silent", "rebalance.suspected", "partition.poison")
    assert [event for event in once if event.fact.NAME not in inferred] == [
        event for event in cut if event.fact.NAME not in inferred
    ]


def test_rebalances_without_a_cause_are_a_storm() -> None:
    """The test above can fail: as many generations as a rolling restart has, of always the same members."""
    members = [member(f"m-{number}", [number], client_id="app", host=f"/{number}") for number in range(10)]
    times = [BEGIN + SECOND, *(BEGIN + 60 * MINUTE + 16 * SECOND * number for number in range(20))]
    generations = [generation(number, *members, at=at) for number, at in enumerate(times, start=1)]
    records = placed([asked_for(at=BEGIN), *generations])
    names = {event.fact.NAME for event in conditions(records, iter([records]))}
    assert "rebalance.storm" in names
