"""When classic rebalances began, inferred from the commits that members make before they join.

A rebalance begins with a leave, a join or the end of a session. Each member that stays learns of it with its next
heartbeat, and then joins; one that commits automatically commits right before (``ConsumerCoordinator.onJoinPrepare``).
So the last commits of the members that stayed are the times of their joins: the rebalance began before the first of
them, and after the heartbeat that the last of them had sent one ``heartbeat.interval.ms`` before. Nothing ties what
begins a rebalance to these heartbeats, whether members send them together or not: any moment between the two is as
likely as another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
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
