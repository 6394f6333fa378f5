"""What is likely where the records prove bounds alone: moves of partitions, begins of rebalances, ranges of sums.

**Moves.** ``cooperative-sticky`` and the assignors of KIP-848 leave a member what it has up to an even share, and
take the surplus for members that have less. So the numbers follow from who came and who went alone, where all members
may have all partitions.

**Begins.** A rebalance begins with a leave, a join or the end of a session. Each member that stays learns of it with
its next heartbeat, and then joins; one that commits automatically commits right before
(``ConsumerCoordinator.onJoinPrepare``). So the last commits of the members that stayed are the times of their joins:
the rebalance began before the first of them, and after the heartbeat that the last of them had sent one
``heartbeat.interval.ms`` before. Nothing ties what begins a rebalance to these heartbeats, whether members send them
together or not: any moment between the two is as likely as another.

**Sums.** The likely range of a sum is where 98 of 100 sums are whose parts are drawn as they are known. Each part has
its mean and variance. The parts are independent, so that the means and the variances add up, and the sum is nearly
normal: its range grows with the square root of their number, that of the worst bounds with the number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import erf, inf, sqrt
from typing import Final

from groupreplay.codecs.kafka_terms import DEFAULT_HEARTBEAT_INTERVAL_MS
from groupreplay.timeline.commit_times import CommitTimes, Place

#: No record has the interval.
HEARTBEAT_MS: Final = DEFAULT_HEARTBEAT_INTERVAL_MS
#: Requests take their time: joins that are further apart by this share of the interval are still of one rebalance.
SLACK: Final = 0.05
#: The spread of joins may be longer than that of even heartbeats by this, and by so many standard errors.
_TOLERANCE: Final = 0.1
_ERRORS: Final = 4
#: What is less likely than this is taken for a contradiction.
_BY_CHANCE: Final = 0.001

_Span = tuple[int, int]
#: One of 100 sums is below the range, and one above it: the normal distribution has so many standard deviations there.
OUTSIDE: Final = 0.01
_DEVIATIONS: Final = 2.3263
#: At least and at most; None: no bound is known.
Bounds = tuple[int, int | None]


def moves(generations: Iterable[Collection[str]], partitions: int) -> Iterator[tuple[int, int]]:
    """Of each generation but the first how many partitions it takes from members that stay, at least and at most.

    ``generations``: the ids of the members of each. Several members that come and go at once may do so in two
    rebalances of another assignor: who comes before another one goes takes more.
    """
    shares = dict[str, int]()
    for number, members in enumerate(generations):
        joined = shares | dict.fromkeys(sorted({*members} - shares.keys()), 0)
        most = _levelled(joined.copy(), partitions)
        shares = {member_id: share for member_id, share in joined.items() if member_id in members}
        least = _levelled(shares, partitions)
        if number:
            yield least, max(least, most)


def _levelled(shares: dict[str, int], partitions: int) -> int:
    """Gives each member an even share; returns what that takes from some. Who has most may keep one more."""
    if not shares:
        return 0
    least, more = divmod(partitions, len(shares))
    taken = 0
    for place, member_id in enumerate(sorted(shares, key=lambda each: -shares[each])):
        quota = least + (place < more)
        taken += max(shares[member_id] - quota, 0)
        shares[member_id] = quota
    return taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Joins:
    """What shows the begin of one rebalance.

    ``stayed_ms``: the last commit of each member that stayed; ``early``: for each of them whether it came before its
    usual time, which only a commit before a join does. ``left_ms``: the last commit of the one member that went, where
    nobody else came or went: its going began the rebalance. ``left_early``: whether that one was early too, of a member
    that has left by itself; None: of others. ``bounds_ms``: of the begin, by records and answers.
    """

    stayed_ms: Sequence[int]
    early: Sequence[bool]
    left_ms: int | None = None
    left_early: bool | None = None
    bounds_ms: tuple[int | None, int]

    @property
    def spread_ms(self) -> int:
        """From the first join to the last one."""
        return max(self.stayed_ms) - min(self.stayed_ms)

    @property
    def is_of_heartbeats(self) -> bool:
        """Whether the joins are as near to each other as heartbeats: no member was busy, or has hung."""
        return bool(self.stayed_ms) and self.spread_ms <= HEARTBEAT_MS * (1 + SLACK)

    def began_ms(self, *, at_close: bool) -> _Span | None:
        """Between which moments it began, each as likely as another; None: its joins do not show it.

        ``at_close``: members commit when they close, and leave at once.
        """
        if not self.is_of_heartbeats:
            return None
        first_ms, last_ms = min(self.stayed_ms), max(self.stayed_ms)
        earliest_ms, latest_ms = self.bounds_ms
        # With many members the slack of requests leaves nothing between the two: it is that moment.
        since_ms = min(last_ms - HEARTBEAT_MS, first_ms)
        lows = [bound for bound in (earliest_ms, self.left_ms) if bound is not None]
        since_ms, until_ms = max([since_ms, *lows]), min(first_ms, latest_ms)
        if at_close and self.left_early and since_ms == self.left_ms:
            until_ms = min(since_ms, until_ms)
        return (since_ms, until_ms) if since_ms <= until_ms else None


def last_commits(
    commits: CommitTimes, places: Iterable[Place], since_ms: int, at_ms: int
) -> tuple[int, bool] | None:
    """The last commit of a member's partitions before a moment, and whether it was early.

    None: there is none since ``since_ms``, from when on the member had them.
    """
    lasts = commits.last_two([*places], at_ms)
    if not lasts or lasts[-1] < since_ms:
        return None
    return lasts[-1], commits.is_early(lasts)


def begins(joins: Sequence[Joins | None]) -> list[_Span | None]:
    """Of each rebalance, between which moments it began; None: that cannot be inferred.

    Nothing is, where most of the last commits are regular ones, or where the joins contradict the assumed interval.
    """
    known = [each for each in joins if each is not None]
    early = [is_early for each in known for is_early in each.early]
    closes = [each.left_early for each in known if each.left_early is not None]
    at_close = 2 * sum(closes) > len(closes)
    if 2 * sum(early) <= len(early) or _is_longer(known) or (at_close and _is_shorter(known)):
        return [None] * len(joins)
    return [None if each is None else each.began_ms(at_close=at_close) for each in joins]


def _is_longer(joins: Sequence[Joins]) -> bool:
    """Whether the interval is longer than the assumed one: joins are further apart than numbers drawn from that.

    The spread of m such numbers is (m - 1)/(m + 1) of the interval in the mean, with a variance of
    2 (m - 1)/((m + 1)² (m + 2)). Heartbeats that members send together are nearer.
    """
    near = [each for each in joins if each.is_of_heartbeats]
    counts = [len(each.stayed_ms) for each in near]
    more = sum(
        each.spread_ms / HEARTBEAT_MS - (count - 1) / (count + 1)
        for each, count in zip(near, counts, strict=True)
    )
    variance = sum(2 * (count - 1) / ((count + 1) ** 2 * (count + 2)) for count in counts)
    return 2 * len(near) <= len(joins) or more > _TOLERANCE * len(near) + _ERRORS * sqrt(variance)


def _is_shorter(joins: Sequence[Joins]) -> bool:
    """Whether the interval is shorter than the assumed one: after leaves all members join too soon, again and again."""
    waits_ms = [
        max(each.stayed_ms) - each.left_ms
        for each in joins
        if each.left_early and each.left_ms is not None and each.is_of_heartbeats
    ]
    longest = max(waits_ms, default=HEARTBEAT_MS) / HEARTBEAT_MS
    return 0 <= longest < 1 and longest ** len(waits_ms) < _BY_CHANCE


@dataclass(frozen=True, slots=True)
class Part:
    """An independent part of a sum. ``least`` and ``most``: it is never outside."""

    mean: float
    variance: float
    least: float
    most: float

    @classmethod
    def evenly(cls, least: float, most: float) -> Part:
        """A number between two others, each as likely as another."""
        return cls((least + most) / 2, (most - least) ** 2 / 12, least, most)

    @classmethod
    def exactly(cls, number: float) -> Part:
        """A number that is known."""
        return cls(number, 0, number, number)

    @classmethod
    def of_range(cls, least: float, most: float) -> Part:
        """A sum of which the likely range is known."""
        deviation = (most - least) / (2 * _DEVIATIONS)
        return cls((least + most) / 2, deviation**2, -inf, inf)

    def __sub__(self, other: Part) -> Part:
        """The difference to an independent one."""
        variance = self.variance + other.variance
        return Part(self.mean - other.mean, variance, self.least - other.most, self.most - other.least)

    def chance_below(self, limit: float) -> float:
        """How likely the part is less than a limit."""
        if limit <= self.least or limit > self.most:
            return float(limit > self.most)
        if not self.variance:
            return 1.0
        return (1 + erf((limit - self.mean) / sqrt(2 * self.variance))) / 2


def together(parts: Sequence[Part], chances: Sequence[float]) -> Part:
    """Parts that are there by the same chance: one with a lower chance never without those of a higher one."""
    ordered = sorted(zip(parts, chances, strict=True), key=lambda pair: -pair[1])
    steps = [1.0, *(chance for _, chance in ordered), 0.0]
    # How likely it is that exactly the first 0, 1, 2, ... are there.
    weights = [before - after for before, after in pairwise(steps)]
    sums, mean, variance = [(0.0, 0.0)], 0.0, 0.0
    for part, _ in ordered:
        mean, variance = mean + part.mean, variance + part.variance
        sums.append((mean, variance))
    whole = sum(weight * mean for weight, (mean, _) in zip(weights, sums, strict=True))
    square = sum(weight * (var + mean**2) for weight, (mean, var) in zip(weights, sums, strict=True))
    surely = [part.least for part, chance in ordered if chance >= 1]
    perhaps = [part.most for part, chance in ordered if chance > 0]
    return Part(whole, max(square - whole**2, 0.0), sum(surely), sum(perhaps))


@dataclass(frozen=True, slots=True)
class LikelySum:
    """The likely range of a sum; ``mean`` and ``deviation`` (a standard one) of its known parts."""

    least: int
    most: int
    mean: int
    deviation: int


def likely_sum(parts: Iterable[Part], rest: Iterable[Bounds], proven: Bounds) -> LikelySum | None:
    """The likely range of a sum within its proven bounds; ``rest``: parts of which only bounds are known.

    None: all are such, or one of them has no upper bound, so that nothing is inferred.
    """
    known, others = [*parts], [*rest]
    if not known or any(most is None for _, most in others):
        return None
    mean = sum(part.mean for part in known)
    deviation = sqrt(sum(part.variance for part in known))
    within = _DEVIATIONS * deviation
    least = max(mean - within, sum(part.least for part in known)) + sum(low for low, _ in others)
    most = min(mean + within, sum(part.most for part in known)) + sum(high or 0 for _, high in others)
    return LikelySum(*_within((round(least), round(most)), proven), round(mean), round(deviation))


def likely_count(
    chances: Iterable[Sequence[float]], rest: Iterable[Bounds], proven: Bounds
) -> tuple[int, int]:
    """The likely number of things that are there by chance; those of one inner sequence depend as in ``together``."""
    shares = [1.0]
    for of_one in chances:
        steps = [1.0, *sorted(of_one, reverse=True), 0.0]
        shares = _convolved(shares, [before - after for before, after in pairwise(steps)])
    others = [*rest]
    least = _quantile(shares, OUTSIDE) + sum(low for low, _ in others)
    most = _quantile(shares, 1 - OUTSIDE) + sum(high or 0 for _, high in others)
    return _within((least, most), proven)


def _convolved(first: Sequence[float], second: Sequence[float]) -> list[float]:
    made = [0.0] * (len(first) + len(second) - 1)
    for number, share in enumerate(first):
        for other, of_it in enumerate(second):
            made[number + other] += share * of_it
    return made


def _quantile(shares: Sequence[float], part: float) -> int:
    """The least number that is not exceeded with this probability."""
    total = 0.0
    for number, share in enumerate(shares):
        total += share
        # Sums of binary fractions are a little beside their value.
        if total >= part - 1e-9:
            return number
    return len(shares) - 1


def _within(likely: tuple[int, int], proven: Bounds) -> tuple[int, int]:
    least, most = (max(each, proven[0]) for each in likely)
    return (least, most) if proven[1] is None else (min(least, proven[1]), min(most, proven[1]))
