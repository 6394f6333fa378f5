"""How probable it is that something began in several groups by chance, and what sets such groups apart.

Two numbers decide. Of the groups that have something in common, how many would begin in so short a time at the pace of
the last hour? And of all groups, how many of those that were hit would have it in common, if it had nothing to do with
it? What all groups have says nothing by the second.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from groupreplay.timeline.incident_signals import Attribute, Signal

#: Begins that follow each other within this time may belong together.
GAP_MS: Final = 10_000
#: What lasts longer is no moment.
LONGEST_MS: Final = 60_000
#: Fewer groups are no incident, and without anything that they share not these.
_LEAST_GROUPS: Final = 3
_LEAST_WITHOUT_SHARED: Final = 5
#: Rebalances are mostly healthy, and there are many.
_LEAST_REBALANCED: Final = 5
#: At least this part of the groups that share something is hit.
_COVERAGE: Final = 0.5
#: Logarithms of probabilities: of the moment, of what is shared, and of both together; and of the moment alone.
_MOMENT: Final = math.log(1e-5)
_SHARED: Final = math.log(0.02)
_BOTH: Final = math.log(1e-9)
_BOTH_REBALANCED: Final = math.log(1e-12)
_MOMENT_ALONE: Final = math.log(1e-12)
#: The order among equals: what is nearer to a cause first.
_ORDER: Final = ("broker", "partition", "topic", "host", "client")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a coincidence is judged by.

    ``groups``: how many there are; ``sharing``: how many have an attribute; ``attributes``: what the group of a signal
    has; ``pace``: begins in one group and millisecond before a chain, and around it; None: too little is known of the
    time before.
    """

    groups: int
    sharing: Callable[[Attribute], int]
    attributes: Callable[[Signal], frozenset[Attribute]]
    pace: Callable[[Sequence[Signal]], float | None]


@dataclass(frozen=True, slots=True)
class Coincidence:
    """Signals that did not begin together by chance, and what their groups share, the most telling first."""

    signals: tuple[Signal, ...]
    shared: tuple[Attribute, ...]


def best_coincidence(signals: Sequence[Signal], around: Surroundings) -> Coincidence | None:
    """The least probable coincidence among signals in order of their begin; None: all may be chance."""
    sharing: dict[Attribute, list[Signal]] = defaultdict(list)
    for signal in signals:
        for attribute in around.attributes(signal):
            sharing[attribute].append(signal)
    ranked = []
    begins = [signal.begin_ms for signal in signals]
    for attribute, those in sharing.items():
        if len(those) < _LEAST_GROUPS:
            continue
        for chain in chains(those):
            if not _covers(attribute, chain, around):
                continue
            # After it: of a hundred thousand groups thousands share something with a few.
            first_ms, last_ms = chain[0].begin_ms - GAP_MS, chain[-1].begin_ms + GAP_MS
            near = signals[bisect_left(begins, first_ms) : bisect_right(begins, last_ms)]
            rank = _rank(attribute, chain, len(groups_of(near)), around)
            if rank is not None:
                ranked.append((rank, _ORDER.index(attribute[0]), attribute, chain))
    if ranked:
        rank, _, attribute, chain = min(ranked, key=lambda entry: entry[:3])
        hit = groups_of(chain)
        equals = [
            other
            for _, _, other, those in sorted(ranked, key=lambda entry: entry[:3])
            if groups_of(those) == hit
        ]
        return Coincidence(tuple(chain), tuple(dict.fromkeys([attribute, *equals])))
    return _without_shared(signals, around)


def _covers(attribute: Attribute, chain: Sequence[Signal], around: Surroundings) -> bool:
    """Whether enough of the groups that share something are hit."""
    least = _LEAST_GROUPS if chain[0].is_trouble else _LEAST_REBALANCED
    hit = len(groups_of(chain))
    return hit >= least and hit >= _COVERAGE * around.sharing(attribute)


def _rank(attribute: Attribute, chain: Sequence[Signal], near: int, around: Surroundings) -> float | None:
    """The logarithm of the probability that it is chance that so many of these groups are hit; None: it may be."""
    hit = len(groups_of(chain))
    sharing = max(around.sharing(attribute), hit)
    both = _BOTH if chain[0].is_trouble else _BOTH_REBALANCED
    moment = _moment(groups_of(chain), sharing, chain, around)
    shared = log_hypergeometric_tail(hit, max(near, hit), sharing, max(around.groups, sharing, near))
    if moment > _MOMENT or shared > _SHARED or moment + shared > both:
        return None
    return round(shared, 6)


def _moment(hit: frozenset[str], of: int, chain: Sequence[Signal], around: Surroundings) -> float:
    """The logarithm of the probability that so many of these groups begin in so short a time."""
    pace = around.pace(chain)
    if pace is None:
        return 0.0
    window_ms = chain[-1].begin_ms - chain[0].begin_ms + GAP_MS
    return log_binomial_tail(len(hit), of, -math.expm1(-pace * window_ms))


def _without_shared(signals: Sequence[Signal], around: Surroundings) -> Coincidence | None:
    """The largest number of groups in one moment, if it cannot be chance; rebalances alone are healthy."""
    for chain in sorted(chains(signals), key=lambda chain: -len(groups_of(chain))):
        hit = groups_of(chain)
        is_many = len(hit) >= _LEAST_WITHOUT_SHARED and 20 * len(hit) >= around.groups
        if is_many and chain[0].is_trouble and _moment(hit, around.groups, chain, around) <= _MOMENT_ALONE:
            return Coincidence(tuple(chain), ())
    return None


def groups_of(signals: Sequence[Signal]) -> frozenset[str]:
    """The groups that they are about."""
    return frozenset(signal.group_id for signal in signals)


def chains(signals: Sequence[Signal]) -> Iterator[list[Signal]]:
    """Signals in order of their begin, cut where the next one begins much later, or the chain becomes too long."""
    chain: list[Signal] = []
    for signal in signals:
        if chain and (
            signal.begin_ms - chain[-1].begin_ms > GAP_MS or signal.begin_ms - chain[0].begin_ms > LONGEST_MS
        ):
            yield chain
            chain = []
        chain.append(signal)
    if chain:
        yield chain


def log_binomial_tail(least: int, trials: int, chance: float) -> float:
    """The logarithm of the probability of ``least`` or more of so many trials."""
    if least <= trials * chance:
        return 0.0
    if chance <= 0:
        return -math.inf
    return _log_sum(
        _log_choose(trials, hits) + hits * math.log(chance) + (trials - hits) * math.log1p(-chance)
        for hits in range(least, trials + 1)
    )


def log_hypergeometric_tail(least: int, drawn: int, marked: int, all_of_them: int) -> float:
    """The logarithm of the probability of ``least`` or more marked ones among those drawn."""
    everything = _log_choose(all_of_them, drawn)
    first = max(least, drawn + marked - all_of_them, 0)
    return _log_sum(
        _log_choose(marked, hits) + _log_choose(all_of_them - marked, drawn - hits) - everything
        for hits in range(first, min(drawn, marked) + 1)
    )


def _log_choose(of: int, some: int) -> float:
    return math.lgamma(of + 1) - math.lgamma(some + 1) - math.lgamma(of - some + 1)


def _log_sum(terms: Iterator[float]) -> float:
    logs = list(terms)
    most = max(logs, default=-math.inf)
    return most if most == -math.inf else min(most + math.log(sum(math.exp(log - most) for log in logs)), 0.0)


#: So long the log must be known before rebalances can be unusual.
_KNOWN_MS: Final = 300_000
_HOUR_MS: Final = 3_600_000


def pace_of(
    signals: Sequence[Signal], groups: int, since_ms: int
) -> Callable[[Sequence[Signal]], float | None]:
    """The pace of all groups or of those of a chain in the hour before it, or of all around it, whichever is highest.

    It is never quite none. ``signals`` by their begin. What lasts, such as the work of a tool that runs each minute,
    has the same pace right before and after a chain.
    """
    begins = [signal.begin_ms for signal in signals]

    def count(first_ms: int, last_ms: int) -> int:
        return bisect_left(begins, last_ms) - bisect_left(begins, first_ms)

    def pace(chain: Sequence[Signal]) -> float | None:
        began_ms, last_ms, hit = chain[0].begin_ms, chain[-1].begin_ms, groups_of(chain)
        before_ms = began_ms - LONGEST_MS
        first_ms = max(since_ms, before_ms - _HOUR_MS)
        if before_ms - first_ms < _KNOWN_MS and not chain[0].is_trouble:
            return None
        former = signals[bisect_left(begins, first_ms) : bisect_left(begins, before_ms)]
        of_hit = sum(signal.group_id in hit for signal in former)
        known_ms = max(before_ms - first_ms, LONGEST_MS)
        around = max(count(before_ms, began_ms), count(last_ms + 1, last_ms + LONGEST_MS))
        return max(
            (len(former) + 1) / max(groups, 1) / known_ms,
            of_hit / len(hit) / known_ms,
            around / max(groups, 1) / LONGEST_MS,
        )

    return pace
