"""The scenarios of ``demo --scenario``, with the names of the simulated scenarios and shorter times.

Imports nothing heavy: ``demo --help`` loads this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from groupreplay.app.demo.scenario import ACTORS, STORY, Action, Actor, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """Actors and their steps; ``broker``: settings of the broker, ``job``: flags of the job.

    ``seconds``: the default running time, long enough to see all important events.
    """

    actors: Mapping[str, Actor]
    steps: Sequence[Step]
    broker: Mapping[str, object] = field(default_factory=dict)
    job: Sequence[str] = ()
    seconds: int = 45


def _members(group: str, count: int, *, static: bool = False, protocol: str = "classic") -> dict[str, Actor]:
    """``count`` members of one group, named after it."""
    names = [f"{group}-{letter}" for letter in "abcdefgh"[:count]]
    return {
        name: Actor(
            group=group,
            topic="orders",
            protocol=protocol,
            instance_id=name if static else None,
            session_timeout_ms=30_000 if static else 6_000,
        )
        for name in names
    }


def _starting(actors: Mapping[str, Actor]) -> list[Step]:
    return [Step(number, name, Action.START) for number, name in enumerate(actors)]


def _story(actors: Mapping[str, Actor], steps: Sequence[Step], seconds: int = 45) -> Story:
    return Story(actors=actors, steps=sorted(steps, key=lambda step: step.at_s), seconds=seconds)


def _restarts(name: str, times: Sequence[float], away_s: float, end: Action = Action.LEAVE) -> list[Step]:
    return [
        step for at_s in times for step in (Step(at_s, name, end), Step(at_s + away_s, name, Action.START))
    ]


def _rolling_restart() -> Story:
    dynamic, static = _members("shipping", 3), _members("billing", 3, static=True)
    actors = {**dynamic, **static}
    steps = _starting(actors)
    for number, name in enumerate(actors):
        steps += _restarts(name, [10 + 4 * number], 3)
    return _story(actors, steps)


def _autoscale() -> Story:
    actors = _members("shipping", 4)
    first, second, third, fourth = actors
    steps = [
        Step(at_s, name, Action.START) for at_s, name in ((0, first), (5, second), (12, third), (18, fourth))
    ]
    steps += [Step(at_s, name, Action.LEAVE) for at_s, name in ((24, fourth), (29, third), (34, second))]
    return _story(actors, steps)


def _deployment() -> Story:
    actors = _members("shipping", 6)
    names = list(actors)
    old, new = names[:3], names[3:]
    steps = [Step(number, name, Action.START) for number, name in enumerate(old)]
    steps += [Step(14, name, Action.LEAVE) for name in old]
    steps += [Step(20 + number, name, Action.START) for number, name in enumerate(new)]
    return _story(actors, steps)


def _stuck() -> Story:
    actors = _members("shipping", 3)
    first, second, third = actors
    steps = [Step(0, first, Action.START), Step(2, second, Action.START)]
    steps += [Step(12, second, Action.HANG), Step(15, third, Action.START), Step(45, second, Action.DIE)]
    # By default rebalance.stuck starts after three minutes; the demo is shorter.
    numbers = ("--rule", "rebalance.slow.threshold_ms=8000", "--rule", "rebalance.stuck.threshold_ms=15000")
    return Story(actors=actors, steps=steps, job=(*numbers, "--probe-interval", "2"), seconds=65)


def _storm() -> Story:
    actors = _members("shipping", 3)
    restarted = list(actors)[1]
    return _story(actors, [*_starting(actors), *_restarts(restarted, range(8, 64, 7), 3)], seconds=75)


def _crash_loop() -> Story:
    actors = _members("billing", 3, static=True)
    restarted = list(actors)[1]
    return _story(actors, [*_starting(actors), *_restarts(restarted, range(10, 40, 8), 2, Action.DIE)], 60)


def _expiry() -> Story:
    actors = {"report": ACTORS["report"], "backfill": ACTORS["backfill"]}
    steps = [
        Step(0, "report", Action.START),
        Step(3, "backfill", Action.COMMIT),
        Step(12, "report", Action.LEAVE),
    ]
    # One minute is the shortest retention that a broker accepts.
    broker = {"offsets.retention.minutes": 1, "offsets.retention.check.interval.ms": 5_000}
    return Story(actors=actors, steps=steps, broker=broker, seconds=100)


def _kip848() -> Story:
    actors = _members("search", 3, protocol="consumer")
    _, second, third = actors
    steps = [*_starting(actors), Step(14, second, Action.LEAVE), Step(20, third, Action.DIE)]
    return _story(actors, [*steps, Step(26, second, Action.START)], seconds=75)


def _migration() -> Story:
    old, new = _members("shipping", 2), _members("shipping", 4, protocol="consumer")
    actors = {**new, **old}
    steps = [Step(number, name, Action.START) for number, name in enumerate(old)]
    for number, (leaves, comes) in enumerate(zip(list(old), list(new)[2:], strict=True)):
        steps += [Step(12 + 8 * number, leaves, Action.LEAVE), Step(14 + 8 * number, comes, Action.START)]
    return _story(actors, steps)


STORIES: Final[Mapping[str, Story]] = {
    "mixed": Story(actors=ACTORS, steps=STORY),
    "rolling-restart": _rolling_restart(),
    "autoscale": _autoscale(),
    "deployment": _deployment(),
    "stuck": _stuck(),
    "storm": _storm(),
    "crash-loop": _crash_loop(),
    "expiry": _expiry(),
    "kip848": _kip848(),
    "migration": _migration(),
}

#: Scenarios that are only simulated, and why.
SIMULATED_ONLY: Final[Mapping[str, str]] = {
    "steady": "because nothing would happen after the start",
    "simple": "because the clients of the demo are members",
    "cluster-restart": "because it needs several brokers",
    "irregular": "because nothing would be visible within a few minutes",
    "transactions": "because the clients of the demo commit without transactions",
    "flapping": "because it takes a quarter of an hour",
    "conflict": "because a fenced client ends, which looks like a crash loop (run crash-loop instead)",
    "timeouts": "because it takes an hour",
    "idle": "because it takes a quarter of an hour",
    "silent": "because the usual commit interval is only known after several minutes",
    "pause": "because the usual commit interval is only known after several minutes",
    "poison": "because it takes a quarter of an hour",
    "loading": "because a small log is loaded at once",
    "failed-appends": "because it needs several brokers",
    "unwritable": "because it needs several brokers",
    "rollout-kill": "because nothing but the roll-out would be visible (run rolling-restart instead)",
    "mirrored": "because it needs another cluster",
    "weekend": "because it takes three days",
    "resubscribed": "because offsets are kept for longer than the demo runs",
}
