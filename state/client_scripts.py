"""What clients of a simulated group do, and when: one table of scenarios.

Knows scripts; must not know how a client talks to its coordinator (`simulated_group`) nor what becomes of it. A
script is drawn from random numbers that are given, so the same numbers make the same script.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

_SECOND_MS: Final = 1_000
_MINUTE_MS: Final = 60_000
#: As many members as a group grows to.
_MOST_MEMBERS: Final = 8
#: The starts of a client that never speaks the classic protocol.
EVERY_START: Final = range(1, 1 << 30)
#: Most crashes close the connection in order.
_ORDERLY: Final = 0.8


class Verb(str, Enum):
    """What happens to a client."""

    START = "it starts"
    STOP = "it ends in order: a dynamic member leaves, a static one is silent"
    KILL = "it is gone without a word"
    HANG = "it sends heartbeats, and nothing else any more"


@dataclass(frozen=True, slots=True)
class Act:
    """At a time since the script's beginning something happens to the client of this number."""

    at_ms: int
    verb: Verb
    client: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The life of one group. ``alone``: its client commits offsets without being a member.

    ``consumer_starts``: the starts of a client, from 1, after which it speaks KIP-848.
    """

    acts: tuple[Act, ...]
    static: bool = False
    alone: bool = False
    consumer_starts: range = range(0)
    partitions: int = 6
    commit_interval_ms: int = 5_000
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000


#: A group's script for a time in milliseconds.
Scenario = Callable[[random.Random, int], Script]


def _deployed(numbers: random.Random, members: int, duration_ms: int) -> list[Act]:
    """All members of a deployment start within a few seconds, somewhere in the first tenth of the time."""
    begin = numbers.randrange(max(1, min(duration_ms // 10, 10 * _MINUTE_MS)))
    return [Act(begin + numbers.randrange(4 * _SECOND_MS), Verb.START, number) for number in range(members)]


def _script(numbers: random.Random, acts: list[Act], *, static: bool = False) -> Script:
    ordered = tuple(sorted(acts, key=lambda act: (act.at_ms, act.client)))
    return Script(
        acts=ordered,
        static=static,
        # Nobody deploys more members than there are partitions, or hears of it.
        partitions=max(most_at_once(ordered), numbers.choice((3, 6, 12))),
        commit_interval_ms=numbers.choice((5_000, 10_000, 30_000, 30_000)),
    )


def most_at_once(acts: Iterable[Act]) -> int:
    """How many clients run at the same time, at most."""
    running: set[int] = set()
    most = 0
    for act in acts:
        if act.verb is Verb.START:
            running.add(act.client)
        elif act.verb is not Verb.HANG:
            running.discard(act.client)
        most = max(most, len(running))
    return most


def steady(numbers: random.Random, duration_ms: int) -> Script:
    """Members come and stay."""
    return _script(numbers, _deployed(numbers, numbers.randint(1, 5), duration_ms))


def simple(numbers: random.Random, duration_ms: int) -> Script:
    """Somebody commits offsets without being a member."""
    acts = tuple(_deployed(numbers, 1, duration_ms))
    return Script(acts=acts, alone=True, commit_interval_ms=numbers.choice((10_000, 60_000)))


def rolling_restart(numbers: random.Random, duration_ms: int) -> Script:
    """One member after the other is restarted, again and again; every third group has static members."""
    members, static = numbers.choice((3, 3, 3, 10)), numbers.random() < 1 / 3
    acts = _deployed(numbers, members, duration_ms)
    for begin in _times(numbers, acts[-1].at_ms + _MINUTE_MS, duration_ms, 20 * _MINUTE_MS):
        for number in range(members):
            at_ms = begin + number * 30 * _SECOND_MS
            acts.append(Act(at_ms, Verb.STOP, number))
            acts.append(Act(at_ms + numbers.randrange(5_000, 15_000), Verb.START, number))
    return _script(numbers, acts, static=static)


def autoscale(numbers: random.Random, duration_ms: int) -> Script:
    """Members come and go with the load."""
    acts = _deployed(numbers, 2, duration_ms)
    running = [0, 1]
    for started, at_ms in enumerate(
        _times(numbers, acts[-1].at_ms + _MINUTE_MS, duration_ms, 5 * _MINUTE_MS), start=2
    ):
        if len(running) == 1 or (len(running) < _MOST_MEMBERS and numbers.random() < 0.5):
            # Whoever is started is a new one, with a name and a host of its own.
            running.append(started)
            acts.append(Act(at_ms, Verb.START, started))
        else:
            acts.append(Act(at_ms, Verb.STOP, running.pop()))
    return _script(numbers, acts)


def stuck(numbers: random.Random, duration_ms: int) -> Script:
    """One member hangs, another one comes: the rebalance lasts for the whole rebalance timeout."""
    acts = _deployed(numbers, 3, duration_ms)
    at_ms = acts[-1].at_ms + numbers.randrange(20_000, 60_000)
    acts += [Act(at_ms, Verb.HANG, 1), Act(at_ms + 5_000, Verb.START, 3)]
    return _script(numbers, acts)


def storm(numbers: random.Random, duration_ms: int) -> Script:
    """A member ends and starts again without end."""
    acts = _deployed(numbers, 3, duration_ms)
    for at_ms in _times(numbers, acts[-1].at_ms + 20_000, duration_ms, 25 * _SECOND_MS):
        verb = Verb.STOP if numbers.random() < _ORDERLY else Verb.KILL
        acts += [Act(at_ms, verb, 1), Act(at_ms + numbers.randrange(2_000, 8_000), Verb.START, 1)]
    return _script(numbers, acts)


def expiry(numbers: random.Random, duration_ms: int) -> Script:
    """Members come, commit, and are all gone after a sixth of the time; some in order, some without a word."""
    acts = _deployed(numbers, numbers.randint(1, 3), duration_ms)
    end = acts[-1].at_ms + max(duration_ms // 6, 20_000)
    verb = numbers.choice((Verb.STOP, Verb.KILL))
    return _script(numbers, [*acts, *(Act(end + act.client, verb, act.client) for act in acts)])


def kip848(numbers: random.Random, duration_ms: int) -> Script:
    """Consumer groups of KIP-848: restarts, members by load, crashes, and one that hangs while another one comes."""
    chosen: Scenario = numbers.choice((rolling_restart, autoscale, storm, stuck, expiry))
    return replace(chosen(numbers, duration_ms), consumer_starts=EVERY_START)


def migration(numbers: random.Random, duration_ms: int) -> Script:
    """Classic groups that move to KIP-848 with one rolling restart; every third one moves back with the next."""
    script = rolling_restart(numbers, duration_ms)
    back = numbers.random() < 1 / 3
    return replace(script, consumer_starts=range(2, 3) if back else range(2, len(script.acts)))


def mixed(numbers: random.Random, duration_ms: int) -> Script:
    """What a cluster is like: most groups are well."""
    chosen: Scenario = numbers.choices(
        (steady, simple, rolling_restart, autoscale, expiry, storm, stuck), (60, 10, 12, 10, 4, 2, 2)
    )[0]
    return chosen(numbers, duration_ms)


def _times(numbers: random.Random, begin: int, end: int, interval_ms: int) -> Iterator[int]:
    """Times until the end, about so far apart."""
    at_ms = begin
    while at_ms < end:
        yield at_ms
        at_ms += numbers.randrange(interval_ms // 2, interval_ms * 3 // 2)


SCENARIOS: Final[Mapping[str, Scenario]] = {
    "mixed": mixed,
    "rolling-restart": rolling_restart,
    "autoscale": autoscale,
    "stuck": stuck,
    "storm": storm,
    "expiry": expiry,
    "kip848": kip848,
    "migration": migration,
}
