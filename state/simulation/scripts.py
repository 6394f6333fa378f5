"""What clients of a simulated group do, and when: one table of scenarios, those that are well and those that are not.

Knows what happens in deployments and to members in trouble; must not know how a client talks to its coordinator
(`simulated_group`) nor what becomes of it. A script is drawn from random numbers that are given, so the same
numbers make the same script.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from groupreplay.state.simulation.acts import Act, Committer, Script, Verb, most_at_once

_SECOND_MS: Final = 1_000
_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS
#: As many members as a group grows to.
_MOST_MEMBERS: Final = 8
#: The starts of a client that never speaks the classic protocol.
EVERY_START: Final = range(1, 1 << 30)
#: Most crashes close the connection in order.
_ORDERLY: Final = 0.8
#: From the stop of one member to that of the next, in a rolling restart.
_PACE_MS: Final = 30 * _SECOND_MS

#: A group's script for a time in milliseconds.
Scenario = Callable[[random.Random, int], Script]


def _deployed(numbers: random.Random, members: int, duration_ms: int) -> list[Act]:
    """All members of a deployment start within a few seconds, somewhere in the first tenth of the time."""
    begin = numbers.randrange(max(1, min(duration_ms // 10, 10 * _MINUTE_MS)))
    return [Act(begin + numbers.randrange(4 * _SECOND_MS), Verb.START, number) for number in range(members)]


def _ready(acts: list[Act]) -> int:
    """A moment after everybody has started."""
    return max(act.at_ms for act in acts) + _MINUTE_MS


def _script(numbers: random.Random, acts: list[Act], **fields: Any) -> Script:
    ordered = tuple(sorted(acts, key=lambda act: (act.at_ms, act.client)))
    script = Script(
        acts=ordered,
        # Nobody deploys more members than there are partitions, or hears of it.
        partitions=max(most_at_once(ordered), numbers.choice((3, 6, 12))),
        commit_interval_ms=numbers.choice((5_000, 10_000, 30_000, 30_000)),
    )
    return replace(script, **fields)


def _restart(numbers: random.Random, at_ms: int, client: int) -> list[Act]:
    """A client ends in order and is back in a few seconds."""
    return [
        Act(at_ms, Verb.STOP, client),
        Act(at_ms + numbers.randrange(5_000, 15_000), Verb.START, client),
    ]


def _times(numbers: random.Random, begin: int, end: int, interval_ms: int) -> Iterator[int]:
    """Times until the end, about so far apart."""
    at_ms = begin
    while at_ms < end:
        yield at_ms
        at_ms += numbers.randrange(interval_ms // 2, interval_ms * 3 // 2)


# -- groups that are well


def steady(numbers: random.Random, duration_ms: int) -> Script:
    """Members come and stay."""
    return _script(numbers, _deployed(numbers, numbers.randint(1, 5), duration_ms))


def simple(numbers: random.Random, duration_ms: int) -> Script:
    """Somebody commits offsets without being a member."""
    acts = tuple(_deployed(numbers, 1, duration_ms))
    return Script(acts=acts, alone=True, commit_interval_ms=numbers.choice((10_000, 60_000)))


def rolling_restart_of(
    members: int, static: bool, cooperative: bool, numbers: random.Random, duration_ms: int
) -> Script:
    """One member after the other is restarted; the next round begins about one round after the last one's end."""
    acts = _deployed(numbers, members, duration_ms)
    every_ms = max(20 * _MINUTE_MS, 4 * members * _PACE_MS)
    for begin in _times(numbers, _ready(acts), duration_ms, every_ms):
        for number in range(members):
            acts += _restart(numbers, begin + number * _PACE_MS, number)
    return _script(numbers, acts, static=static, cooperative=cooperative)


#: Every kind of rolling restart by its name.
ROLLING_RESTARTS: Final[Mapping[str, Scenario]] = {
    f"rolling-restart-{members}-{'static' if static else 'dynamic'}-{'cooperative' if cooperative else 'eager'}": (
        partial(rolling_restart_of, members, static, cooperative)
    )
    for members in (3, 10, 50)
    for static in (False, True)
    for cooperative in (False, True)
}


def rolling_restart(numbers: random.Random, duration_ms: int) -> Script:
    """Of any kind; most groups are small, and every third one has static members."""
    return _restarted((3, 3, 3, 3, 3, 10, 10, 50), numbers, duration_ms)


def _restarted(sizes: tuple[int, ...], numbers: random.Random, duration_ms: int) -> Script:
    members, static = numbers.choice(sizes), numbers.random() < 1 / 3
    return rolling_restart_of(members, static, numbers.random() < 0.5, numbers, duration_ms)


def autoscale(numbers: random.Random, duration_ms: int) -> Script:
    """Members come and go with the load."""
    acts = _deployed(numbers, 2, duration_ms)
    running = [0, 1]
    for started, at_ms in enumerate(_times(numbers, _ready(acts), duration_ms, 5 * _MINUTE_MS), start=2):
        if len(running) == 1 or (len(running) < _MOST_MEMBERS and numbers.random() < 0.5):
            # Whoever is started is a new one, with a name and a host of its own.
            running.append(started)
            acts.append(Act(at_ms, Verb.START, started))
        else:
            acts.append(Act(at_ms, Verb.STOP, running.pop()))
    return _script(numbers, acts, cooperative=numbers.random() < 0.5)


def deployment(numbers: random.Random, duration_ms: int) -> Script:
    """The whole group is replaced about every hour: the old ones end before the new ones come, or after."""
    members = numbers.randint(2, 6)
    acts = _deployed(numbers, members, duration_ms)
    old, at_once = range(members), numbers.random() < 0.5
    for begin in _times(numbers, _ready(acts), duration_ms, _HOUR_MS):
        new = range(old.stop, old.stop + members)
        ends_ms = begin if at_once else begin + _MINUTE_MS
        starts_ms = begin + numbers.randrange(10_000, 60_000) if at_once else begin
        acts += [Act(ends_ms + numbers.randrange(2_000), Verb.STOP, number) for number in old]
        acts += [Act(starts_ms + numbers.randrange(4_000), Verb.START, number) for number in new]
        old = new
    return _script(numbers, acts)


def irregular(numbers: random.Random, duration_ms: int) -> Script:
    """Members commit when they are done with something, which may take a second or an hour."""
    acts = _deployed(numbers, numbers.randint(1, 5), duration_ms)
    repeats = numbers.choice((0.0, 0.1, 0.5))
    return _script(numbers, acts, irregular=True, repeats=repeats)


def transactions(numbers: random.Random, duration_ms: int) -> Script:
    """Offsets are committed by producers; members are restarted or crash, which aborts what is open."""
    members = numbers.randint(1, 4)
    acts = _deployed(numbers, members, duration_ms)
    for at_ms in _times(numbers, _ready(acts), duration_ms, 30 * _MINUTE_MS):
        ended, started = _restart(numbers, at_ms, numbers.randrange(members))
        acts += [replace(ended, verb=numbers.choice((Verb.STOP, Verb.KILL))), started]
    committer = numbers.choice((Committer.PRODUCERS, Committer.PRODUCERS, Committer.BOTH))
    return _script(numbers, acts, committer=committer)


# -- groups in trouble


def stuck(numbers: random.Random, duration_ms: int) -> Script:
    """One member hangs, another one comes: the rebalance lasts until the first has not polled for too long."""
    acts = _deployed(numbers, 3, duration_ms)
    for at_ms in _times(numbers, _ready(acts), duration_ms, _HOUR_MS):
        acts += [Act(at_ms, Verb.HANG, 1), Act(at_ms + 5_000, Verb.START, 3)]
        # Somebody notices, and ends both.
        acts += [Act(at_ms + 10 * _MINUTE_MS, Verb.KILL, 1), Act(at_ms + 11 * _MINUTE_MS, Verb.START, 1)]
        acts.append(Act(at_ms + 12 * _MINUTE_MS, Verb.STOP, 3))
    return _script(numbers, acts, repeats=0.2)


def storm(numbers: random.Random, duration_ms: int) -> Script:
    """A member ends and starts again without end."""
    acts = _deployed(numbers, 3, duration_ms)
    for at_ms in _times(numbers, _ready(acts), duration_ms, 25 * _SECOND_MS):
        verb = Verb.STOP if numbers.random() < _ORDERLY else Verb.KILL
        acts += [Act(at_ms, verb, 1), Act(at_ms + numbers.randrange(2_000, 8_000), Verb.START, 1)]
    return _script(numbers, acts)


def _crashing(numbers: random.Random, duration_ms: int, least_ms: int, most_ms: int) -> list[Act]:
    """One of three members is gone again and again, and back in a few seconds."""
    acts = _deployed(numbers, 3, duration_ms)
    at_ms = _ready(acts)
    while at_ms < duration_ms:
        acts += [Act(at_ms, Verb.KILL, 1), Act(at_ms + numbers.randrange(2_000, 8_000), Verb.START, 1)]
        at_ms += numbers.randrange(least_ms, most_ms)
    return acts


def flapping(numbers: random.Random, duration_ms: int) -> Script:
    """A dynamic member crashes every four minutes: each time the others wait for its session to end."""
    return _script(numbers, _crashing(numbers, duration_ms, 200_000, 260_000))


def crash_loop(numbers: random.Random, duration_ms: int) -> Script:
    """A static member crashes every two minutes: nothing is rebalanced."""
    return _script(numbers, _crashing(numbers, duration_ms, 100_000, 150_000), static=True)


def conflict(numbers: random.Random, duration_ms: int) -> Script:
    """Two processes have one instance id: each that starts fences the other, which is started again."""
    acts = _deployed(numbers, 3, duration_ms)
    present, absent = 1, 3
    for number, at_ms in enumerate(_times(numbers, _ready(acts), duration_ms, 2 * _MINUTE_MS)):
        if number:
            acts.append(Act(at_ms - 1, Verb.KILL, absent))
        acts.append(Act(at_ms, Verb.START, absent))
        present, absent = absent, present
    return _script(numbers, acts, static=True, namesakes={3: 1})


def timeouts(numbers: random.Random, duration_ms: int) -> Script:
    """A member is too slow for a short rebalance timeout, four times an hour: it is dropped and comes back."""
    acts = _deployed(numbers, 3, duration_ms)
    at_ms = _ready(acts)
    while at_ms < duration_ms:
        acts += [Act(at_ms, Verb.HANG, 1), Act(at_ms + 2_000, Verb.START, 3)]
        acts += [Act(at_ms + 90_000, Verb.WAKE, 1), Act(at_ms + 3 * _MINUTE_MS, Verb.STOP, 3)]
        at_ms += numbers.randrange(12 * _MINUTE_MS, 15 * _MINUTE_MS)
    return _script(numbers, acts, rebalance_timeout_ms=30_000)


def idle(numbers: random.Random, duration_ms: int) -> Script:
    """Five members for three partitions; the first one is restarted now and then."""
    acts = _deployed(numbers, 5, duration_ms)
    for at_ms in _times(numbers, _ready(acts), duration_ms, 20 * _MINUTE_MS):
        acts += _restart(numbers, at_ms, 0)
    return _script(numbers, acts, partitions=3)


def silent(numbers: random.Random, duration_ms: int) -> Script:
    """A member of a group that commits regularly hangs, and nobody asks for a rebalance."""
    acts = _deployed(numbers, 3, duration_ms)
    for at_ms in _times(numbers, _ready(acts) + 9 * _MINUTE_MS, duration_ms, _HOUR_MS):
        acts += [Act(at_ms, Verb.HANG, 1), Act(at_ms + 10 * _MINUTE_MS, Verb.KILL, 1)]
        acts.append(Act(at_ms + 11 * _MINUTE_MS, Verb.START, 1))
    return _script(numbers, acts, commit_interval_ms=5_000, repeats=0.2)


def poison(numbers: random.Random, duration_ms: int) -> Script:
    """Nobody gets past a record of one partition; members are restarted in vain."""
    acts = _deployed(numbers, 3, duration_ms)
    for number, at_ms in enumerate(_times(numbers, _ready(acts), duration_ms, 12 * _MINUTE_MS)):
        acts += _restart(numbers, at_ms, number % 3)
    return _script(numbers, acts, poisoned_ms=_ready(acts[:3]) + 5 * _MINUTE_MS, repeats=0.1)


def expiry(numbers: random.Random, duration_ms: int) -> Script:
    """Members come, commit, and are all gone after a sixth of the time; some in order, some without a word."""
    acts = _deployed(numbers, numbers.randint(1, 3), duration_ms)
    end = acts[-1].at_ms + max(duration_ms // 6, 20_000)
    verb = numbers.choice((Verb.STOP, Verb.KILL))
    return _script(numbers, [*acts, *(Act(end + act.client, verb, act.client) for act in acts)])


def kip848(numbers: random.Random, duration_ms: int) -> Script:
    """Consumer groups of KIP-848: restarts, members by load, crashes, and one that hangs while another one comes."""
    chosen: Scenario = numbers.choice((rolling_restart, autoscale, storm, stuck, expiry))
    return _modern(chosen, numbers, duration_ms)


def migration(numbers: random.Random, duration_ms: int) -> Script:
    """Classic groups that move to KIP-848 with one rolling restart; every third one moves back with the next."""
    script = rolling_restart(numbers, duration_ms)
    back = numbers.random() < 1 / 3
    return replace(script, consumer_starts=range(2, 3) if back else range(2, len(script.acts)))


def _modern(scenario: Scenario, numbers: random.Random, duration_ms: int) -> Script:
    return replace(scenario(numbers, duration_ms), consumer_starts=EVERY_START)


def _stuck_consumer(numbers: random.Random, duration_ms: int) -> Script:
    """With so many partitions each of three members has to give one up for the fourth, the one that hangs, too."""
    return replace(_modern(stuck, numbers, duration_ms), partitions=12)


#: Scenarios of one kind, where those of the table draw one of several.
VARIANTS: Final[Mapping[str, Scenario]] = {
    **ROLLING_RESTARTS,
    "rolling-restart-10-kip848": partial(_modern, ROLLING_RESTARTS["rolling-restart-10-dynamic-eager"]),
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
    """What a cluster is like: most groups are well."""
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
#: Scenarios of which the groups are consumer groups, all the time or for a while.
CONSUMER_SCENARIOS: Final = ("kip848", "migration", "rolling-restart-10-kip848", "stuck-kip848")
