"""The scenarios of the simulation: each draws the script of a group from the given random numbers.

Equal random numbers give equal scripts.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from groupreplay.state.simulation.script import ClientAction, ClientStep, Committer, Script, max_running

_SECOND_MS: Final = 1_000
_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS
#: The largest size of an autoscaled group.
_MOST_MEMBERS: Final = 8
#: The starts of a client that never uses the classic protocol.
EVERY_START: Final = range(1, 1 << 30)
#: The share of restarts in a storm in which the member leaves the group.
_ORDERLY: Final = 0.8
#: The time between the stops of two members in a rolling restart.
_PACE_MS: Final = 30 * _SECOND_MS

#: Draws a group's script for a duration in milliseconds.
Scenario = Callable[[random.Random, int], Script]

START, STOP, CRASH, HANG, RESUME = ClientAction


def _deployed(numbers: random.Random, members: int, duration_ms: int) -> list[ClientStep]:
    """All members start within a few seconds, in the first tenth of the duration."""
    begin = numbers.randrange(max(1, min(duration_ms // 10, 10 * _MINUTE_MS)))
    return [ClientStep(begin + numbers.randrange(4 * _SECOND_MS), START, number) for number in range(members)]


def _ready(steps: list[ClientStep]) -> int:
    """A minute after the last start."""
    return max(step.at_ms for step in steps) + _MINUTE_MS


def _script(numbers: random.Random, steps: list[ClientStep], **fields: Any) -> Script:
    ordered = tuple(sorted(steps, key=lambda step: (step.at_ms, step.client)))
    script = Script(
        steps=ordered,
        # Only the scenario `idle` has more members than partitions.
        partitions=max(max_running(ordered), numbers.choice((3, 6, 12))),
        commit_interval_ms=numbers.choice((5_000, 10_000, 30_000, 30_000)),
    )
    return replace(script, **fields)


#: A range of the time between the end and the start of a client's process.
_QUICK: Final = (2_000, 8_000)


def _restart(
    numbers: random.Random,
    at_ms: int,
    client: int,
    action: ClientAction = STOP,
    down_ms: tuple[int, int] = (5_000, 15_000),
) -> list[ClientStep]:
    """A client is stopped or crashes, and starts again after a few seconds."""
    return [ClientStep(at_ms, action, client), ClientStep(at_ms + numbers.randrange(*down_ms), START, client)]


def _times(numbers: random.Random, begin: int, end: int, interval_ms: int) -> Iterator[int]:
    """Times until the end, on average ``interval_ms`` apart."""
    return _times_between(numbers, begin, end, interval_ms // 2, interval_ms * 3 // 2)


def _times_between(
    numbers: random.Random, begin: int, end: int, least_ms: int, most_ms: int
) -> Iterator[int]:
    """Times until the end, with distances from ``least_ms`` to ``most_ms`` (exclusive)."""
    at_ms = begin
    while at_ms < end:
        yield at_ms
        at_ms += numbers.randrange(least_ms, most_ms)


# -- healthy groups


def steady(numbers: random.Random, duration_ms: int) -> Script:
    """Members start and stay."""
    return _script(numbers, _deployed(numbers, numbers.randint(1, 5), duration_ms))


def simple(numbers: random.Random, duration_ms: int) -> Script:
    """A client commits offsets without being a member."""
    steps = tuple(_deployed(numbers, 1, duration_ms))
    return Script(steps=steps, simple=True, commit_interval_ms=numbers.choice((10_000, 60_000)))


def rolling_restart_of(
    members: int, static: bool, cooperative: bool, numbers: random.Random, duration_ms: int
) -> Script:
    """One member after the other is restarted, and after a pause all of them again."""
    steps = _deployed(numbers, members, duration_ms)
    every_ms = max(20 * _MINUTE_MS, 4 * members * _PACE_MS)
    for begin in _times(numbers, _ready(steps), duration_ms, every_ms):
        for number in range(members):
            steps += _restart(numbers, begin + number * _PACE_MS, number)
    return _script(numbers, steps, static=static, cooperative=cooperative)


#: The kinds of rolling restart by name.
ROLLING_RESTARTS: Final[Mapping[str, Scenario]] = {
    f"rolling-restart-{members}-{'static' if static else 'dynamic'}-{'cooperative' if cooperative else 'eager'}": (
        partial(rolling_restart_of, members, static, cooperative)
    )
    for members in (3, 10, 50)
    for static in (False, True)
    for cooperative in (False, True)
}


def rolling_restart(numbers: random.Random, duration_ms: int) -> Script:
    """A rolling restart of any kind; most groups are small, and a third have static members."""
    return _restarted((3, 3, 3, 3, 3, 10, 10, 50), numbers, duration_ms)


def _restarted(sizes: tuple[int, ...], numbers: random.Random, duration_ms: int) -> Script:
    members, static = numbers.choice(sizes), numbers.random() < 1 / 3
    return rolling_restart_of(members, static, numbers.random() < 0.5, numbers, duration_ms)


def autoscale(numbers: random.Random, duration_ms: int) -> Script:
    """Members start and stop with the load."""
    steps = _deployed(numbers, 2, duration_ms)
    running = [0, 1]
    for started, at_ms in enumerate(_times(numbers, _ready(steps), duration_ms, 5 * _MINUTE_MS), start=2):
        if len(running) == 1 or (len(running) < _MOST_MEMBERS and numbers.random() < 0.5):
            # Each member that is started is a new client, with its own name and host.
            running.append(started)
            steps.append(ClientStep(at_ms, START, started))
        else:
            steps.append(ClientStep(at_ms, STOP, running.pop()))
    return _script(numbers, steps, cooperative=numbers.random() < 0.5)


def deployment(numbers: random.Random, duration_ms: int) -> Script:
    """All members are replaced about every hour: the old members stop before the new ones start, or after."""
    members = numbers.randint(2, 6)
    steps = _deployed(numbers, members, duration_ms)
    old, at_once = range(members), numbers.random() < 0.5
    for begin in _times(numbers, _ready(steps), duration_ms, _HOUR_MS):
        new = range(old.stop, old.stop + members)
        ends_ms = begin if at_once else begin + _MINUTE_MS
        starts_ms = begin + numbers.randrange(10_000, 60_000) if at_once else begin
        steps += [ClientStep(ends_ms + numbers.randrange(2_000), STOP, number) for number in old]
        steps += [ClientStep(starts_ms + numbers.randrange(4_000), START, number) for number in new]
        old = new
    return _script(numbers, steps)


def irregular(numbers: random.Random, duration_ms: int) -> Script:
    """Members commit after each unit of work, which takes between a second and an hour."""
    steps = _deployed(numbers, numbers.randint(1, 5), duration_ms)
    repeats = numbers.choice((0.0, 0.1, 0.5))
    return _script(numbers, steps, irregular=True, repeats=repeats)


def transactions(numbers: random.Random, duration_ms: int) -> Script:
    """Producers commit the offsets; members are restarted or crash, which aborts open transactions."""
    members = numbers.randint(1, 4)
    steps = _deployed(numbers, members, duration_ms)
    for at_ms in _times(numbers, _ready(steps), duration_ms, 30 * _MINUTE_MS):
        ended, started = _restart(numbers, at_ms, numbers.randrange(members))
        steps += [replace(ended, action=numbers.choice((STOP, CRASH))), started]
    committer = numbers.choice((Committer.PRODUCERS, Committer.PRODUCERS, Committer.BOTH))
    return _script(numbers, steps, committer=committer)


# -- groups with problems


def stuck(numbers: random.Random, duration_ms: int) -> Script:
    """A member hangs while another one joins: the rebalance lasts until the first has not polled for too long."""
    steps = _deployed(numbers, 3, duration_ms)
    for at_ms in _times(numbers, _ready(steps), duration_ms, _HOUR_MS):
        steps += [ClientStep(at_ms, HANG, 1), ClientStep(at_ms + 5_000, START, 3)]
        # An operator ends both.
        ends_ms = at_ms + 10 * _MINUTE_MS
        steps += [ClientStep(ends_ms, CRASH, 1), ClientStep(ends_ms + _MINUTE_MS, START, 1)]
        steps.append(ClientStep(ends_ms + 2 * _MINUTE_MS, STOP, 3))
    return _script(numbers, steps, repeats=0.2)


def storm(numbers: random.Random, duration_ms: int) -> Script:
    """A member is restarted again and again."""
    steps = _deployed(numbers, 3, duration_ms)
    for at_ms in _times(numbers, _ready(steps), duration_ms, 25 * _SECOND_MS):
        steps += _restart(numbers, at_ms, 1, STOP if numbers.random() < _ORDERLY else CRASH, _QUICK)
    return _script(numbers, steps)


def _crashing(numbers: random.Random, duration_ms: int, least_ms: int, most_ms: int) -> list[ClientStep]:
    """One of three members crashes again and again, and starts again after a few seconds."""
    steps = _deployed(numbers, 3, duration_ms)
    for at_ms in _times_between(numbers, _ready(steps), duration_ms, least_ms, most_ms):
        steps += _restart(numbers, at_ms, 1, CRASH, _QUICK)
    return steps


def flapping(numbers: random.Random, duration_ms: int) -> Script:
    """A dynamic member crashes every four minutes; each rebalance waits for the end of its session."""
    return _script(numbers, _crashing(numbers, duration_ms, 200_000, 260_000))


def crash_loop(numbers: random.Random, duration_ms: int) -> Script:
    """A static member crashes every two minutes, without a rebalance."""
    return _script(numbers, _crashing(numbers, duration_ms, 100_000, 150_000), static=True)


def conflict(numbers: random.Random, duration_ms: int) -> Script:
    """Two processes share an instance id: each start fences the other process, which is then started again."""
    steps = _deployed(numbers, 3, duration_ms)
    present, absent = 1, 3
    for number, at_ms in enumerate(_times(numbers, _ready(steps), duration_ms, 2 * _MINUTE_MS)):
        if number:
            steps.append(ClientStep(at_ms - 1, CRASH, absent))
        steps.append(ClientStep(at_ms, START, absent))
        present, absent = absent, present
    return _script(numbers, steps, static=True, shared_instance_ids={3: 1})


def timeouts(numbers: random.Random, duration_ms: int) -> Script:
    """Four times an hour a member exceeds a short rebalance timeout: it is removed and joins again."""
    steps = _deployed(numbers, 3, duration_ms)
    ready_ms = _ready(steps)
    for at_ms in _times_between(numbers, ready_ms, duration_ms, 12 * _MINUTE_MS, 15 * _MINUTE_MS):
        steps += [ClientStep(at_ms, HANG, 1), ClientStep(at_ms + 2_000, START, 3)]
        steps += [ClientStep(at_ms + 90_000, RESUME, 1), ClientStep(at_ms + 3 * _MINUTE_MS, STOP, 3)]
    return _script(numbers, steps, rebalance_timeout_ms=30_000)


def idle(numbers: random.Random, duration_ms: int) -> Script:
    """Five members share three partitions; the first member is restarted now and then."""
    steps = _deployed(numbers, 5, duration_ms)
    for at_ms in _times(numbers, _ready(steps), duration_ms, 20 * _MINUTE_MS):
        steps += _restart(numbers, at_ms, 0)
    return _script(numbers, steps, partitions=3)


def silent(numbers: random.Random, duration_ms: int) -> Script:
    """A member of a group with regular commits hangs, and no rebalance begins."""
    steps = _deployed(numbers, 3, duration_ms)
    for at_ms in _times(numbers, _ready(steps) + 9 * _MINUTE_MS, duration_ms, _HOUR_MS):
        steps += [ClientStep(at_ms, HANG, 1), ClientStep(at_ms + 10 * _MINUTE_MS, CRASH, 1)]
        steps.append(ClientStep(at_ms + 11 * _MINUTE_MS, START, 1))
    return _script(numbers, steps, commit_interval_ms=5_000, repeats=0.2)


def poison(numbers: random.Random, duration_ms: int) -> Script:
    """No member gets past one record of a partition, even after restarts."""
    steps = _deployed(numbers, 3, duration_ms)
    for number, at_ms in enumerate(_times(numbers, _ready(steps), duration_ms, 12 * _MINUTE_MS)):
        steps += _restart(numbers, at_ms, number % 3)
    return _script(numbers, steps, poisoned_ms=_ready(steps[:3]) + 5 * _MINUTE_MS, repeats=0.1)


def expiry(numbers: random.Random, duration_ms: int) -> Script:
    """Members start, commit, and all stop or crash after a sixth of the duration."""
    steps = _deployed(numbers, numbers.randint(1, 3), duration_ms)
    end = steps[-1].at_ms + max(duration_ms // 6, 20_000)
    action = numbers.choice((STOP, CRASH))
    return _script(numbers, [*steps, *(ClientStep(end + step.client, action, step.client) for step in steps)])


def kip848(numbers: random.Random, duration_ms: int) -> Script:
    """KIP-848 groups: rolling restarts, autoscaling, storms, stuck rebalances and expiry."""
    chosen: Scenario = numbers.choice((rolling_restart, autoscale, storm, stuck, expiry))
    return _with_kip848(chosen, numbers, duration_ms)


def migration(numbers: random.Random, duration_ms: int) -> Script:
    """Classic groups that a rolling restart migrates to KIP-848; in a third of them the next restart reverts that."""
    script = rolling_restart(numbers, duration_ms)
    back = numbers.random() < 1 / 3
    return replace(script, consumer_starts=range(2, 3) if back else range(2, len(script.steps)))


def _with_kip848(scenario: Scenario, numbers: random.Random, duration_ms: int) -> Script:
    return replace(scenario(numbers, duration_ms), consumer_starts=EVERY_START)


def _stuck_consumer(numbers: random.Random, duration_ms: int) -> Script:
    """With 12 partitions each of three members, also the hanging one, has to revoke one for the fourth."""
    return replace(_with_kip848(stuck, numbers, duration_ms), partitions=12)


#: Scenarios of one fixed kind, where those of ``SCENARIOS`` draw one of several kinds.
VARIANTS: Final[Mapping[str, Scenario]] = {
    **ROLLING_RESTARTS,
    "rolling-restart-10-kip848": partial(_with_kip848, ROLLING_RESTARTS["rolling-restart-10-dynamic-eager"]),
    "stuck-kip848": _stuck_consumer,
}

_MIXTURE: Final[Mapping[Scenario, int]] = {
    steady: 50,
    simple: 10,
    # Few groups are large.
    partial(_restarted, (3, 3, 3, 10)): 8,
    autoscale: 10,
    deployment: 4,
    irregular: 4,
    transactions: 4,
    expiry: 4,
    storm: 2,
    stuck: 2,
    flapping: 1,
    crash_loop: 1,
}


def mixed(numbers: random.Random, duration_ms: int) -> Script:
    """The groups of a whole cluster, most of them healthy."""
    (chosen,) = numbers.choices(list(_MIXTURE), list(_MIXTURE.values()))
    return chosen(numbers, duration_ms)


SCENARIOS: Final[Mapping[str, Scenario]] = {
    "mixed": mixed,
    "rolling-restart": rolling_restart,
    "autoscale": autoscale,
    "deployment": deployment,
    "cluster-restart": steady,
    "irregular": irregular,
    "transactions": transactions,
    "stuck": stuck,
    "storm": storm,
    "flapping": flapping,
    "crash-loop": crash_loop,
    "conflict": conflict,
    "timeouts": timeouts,
    "idle": idle,
    "silent": silent,
    "poison": poison,
    "expiry": expiry,
    "kip848": kip848,
    "migration": migration,
}
#: Scenarios in which groups are consumer groups at least for a while.
CONSUMER_SCENARIOS: Final = ("kip848", "migration", "rolling-restart-10-kip848", "stuck-kip848")
