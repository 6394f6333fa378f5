"""What operators do every day raises nothing of WARN or above, with the default numbers and any cut."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

import pytest

from groupreplay.state import Event, Group, Severity
from groupreplay.state.conditions.conditions import Condition
from support.histories.builders import CONTEXT, GROUP, Raw, asked_for, generation, observed, placed
from support.histories.connect_blobs import worker
from support.histories.deployments import MINUTE, START, Deployment
from support.histories.modern_coordinator import Coordinator


def rolling(size: int, *, pause: int = 15_000, moves: bool = False, **kind: object) -> list[Raw]:
    """Every pod once, one after the other."""
    life = Deployment(size, **kind).begin()  # type: ignore[arg-type]
    for place in range(size):
        life.at += pause
        life.restart(f"pod-{place}", new_place=f"pod-{place}-v2" if moves else None)
    life.work(5)
    return life.log


def autoscaling() -> list[Raw]:
    """5 to 50 and back, pod by pod and in leaps, with the cooperative assignor."""
    life = Deployment(5, follows=1, partitions=60).begin()
    for step in (1, 1, 2, 5, 10, 26):
        for _ in range(step):
            life.take(f"pod-{len(life.pods):03}")
        life.round()
        life.work(1)
    while len(life.pods) > 5:
        for place in sorted(life.pods)[5:][-9:]:
            del life.pods[place]
        life.round()
        life.work(1)
    life.work(5)
    return life.log


def killed_pods() -> list[Raw]:
    """Half of ten pods die without a word, one after the other, and come back at once."""
    life = Deployment(10).begin()
    for place in range(5):
        life.restart(f"pod-{place}", killed=True)
    life.work(5)
    return life.log


def moved_coordinator() -> list[Raw]:
    """Generations that nobody has written are lost with it: a number is skipped, all members rejoin twice."""
    life = Deployment(10).begin()
    for _ in range(3):
        life.round(skipped=2)
        life.at += 30_000
        life.round()
        life.at += 20 * MINUTE
        life.work(2)
    return life.log


def connect() -> list[Raw]:
    """Thirty connectors created in ten minutes: each a new configuration, and a round behind it."""
    log, at, number = [asked_for(at=START)], START, 0
    for change in range(31):
        for _ in range(2):
            at, number = at + 9_000, number + 1
            workers = [worker(f"w{place}", 100 + change, f"/w{place}") for place in range(3)]
            log.append(generation(number, *workers, at=at, protocol_type="connect"))
    return log


def modern(kind: str, size: int, *, interval: bool) -> list[Raw]:
    """A rolling restart of a group of a newer kind: each member leaves, and a new one joins."""
    life = Coordinator(kind=kind, interval=interval, partitions=12, at=START)
    for place in range(size):
        life.join(f"m{place:02}")
        life.settle()
    life.wait(60 * MINUTE)
    for place in range(size):
        life.leave(f"m{place:02}")
        life.settle()
        life.wait(15_000)
        life.join(f"n{place:02}")
        life.settle()
    return life.log


DEPLOYMENTS: dict[str, Callable[[], list[Raw]]] = {
    **{f"rolling restart, eager, {size}": (lambda size=size: rolling(size)) for size in (3, 10, 50)},
    **{
        f"rolling restart, cooperative, {size}": (lambda size=size: rolling(size, follows=1))
        for size in (3, 10, 50)
    },
    **{
        f"rolling restart, static, {size}": (lambda size=size: rolling(size, static=True))
        for size in (3, 10, 50)
    },
    "rolling restart to new places": lambda: rolling(10, follows=1, moves=True),
    "one pod": lambda: rolling(1),
    "autoscaling": autoscaling,
    "killed pods": killed_pods,
    "moved coordinator": moved_coordinator,
    "connectors": connect,
    **{
        f"{kind}, {size}{', assigning later' if interval else ''}": (
            lambda kind=kind, size=size, interval=interval: modern(kind, size, interval=interval)
        )
        for kind in ("consumer", "share", "streams")
        for size in (3, 10)
        for interval in (False, True)
    },
}


def cuts(records: Sequence[Raw], seed: int) -> Iterator[Sequence[Raw]]:
    """Batches of any size."""
    rng, at = random.Random(seed), 0
    while at < len(records):
        size = rng.choice([1, 7, 100, 1_000])
        yield records[at : at + size]
        at += size


def raised(records: Sequence[Raw], batches: Iterator[Sequence[Raw]]) -> list[Event]:
    """Every condition that is said, with the group written down after each batch."""
    blob, events = Group(GROUP, CONTEXT).snapshot(), []
    for batch in batches:
        group = Group.from_snapshot(GROUP, CONTEXT, blob)
        events += group.apply(observed(batch), 0)
        blob = group.snapshot()
    events += Group.from_snapshot(GROUP, CONTEXT, blob).expire(records[-1].at + 60 * MINUTE)
    return [event for event in events if isinstance(event.fact, Condition)]


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_a_deployment_raises_nothing(name: str) -> None:
    """Nothing of WARN or above; and what is said from the log is the same for another cut."""
    records = placed(DEPLOYMENTS[name]())
    once, cut = raised(records, iter([records])), raised(records, cuts(records, len(records)))
    assert [event for event in once + cut if (event.severity or Severity.INFO) >= Severity.WARN] == []
    inferred = ("owner.silent", "rebalance.suspected", "partition.poison")
    assert [event for event in once if event.fact.NAME not in inferred] == [
        event for event in cut if event.fact.NAME not in inferred
    ]


def test_the_same_without_a_cause_is_a_storm() -> None:
    """The simulation can fail: rounds of a rolling restart in which no pod changes."""
    life = Deployment(10).begin()
    for _ in range(20):
        life.at += 15_000
        life.round()
    names = {event.fact.NAME for event in raised(life.log, iter([placed(life.log)]))}
    assert "rebalance.storm" in names
