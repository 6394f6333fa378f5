"""When classic rebalances began, inferred from the commits that members make before they join.

A rebalance begins with a leave, a join or the end of a session. Each member that stays learns of it with its next
heartbeat, evenly spread over ``heartbeat.interval.ms``, and then joins; one that commits automatically commits right
before (``ConsumerCoordinator.onJoinPrepare``). So the last commits of the members that stayed are the times of their
joins: the rebalance began before the first of them, and one heartbeat interval before the last of them at most. Any
moment between the two explains these commits equally well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

from groupreplay.timeline.commit_times import CommitTimes, Place

#: Kafka's default of ``heartbeat.interval.ms``, which no record has.
HEARTBEAT_MS: Final = 3_000
#: Requests take their time: joins that are further apart by this share of the interval are still of one rebalance.
_SLACK: Final = 0.05
#: A commit that comes earlier than this share of the usual time after the one before is not a regular one.
_EARLY: Final = 0.95
#: The spread of joins may differ from that of even heartbeats by this, and by so many standard errors.
_TOLERANCE: Final = 0.1
_ERRORS: Final = 4

_Span = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Joins:
    """What shows the begin of one rebalance.

    ``stayed_ms``: the last commit of each member that stayed; ``early``: for each of them whether it came before its
    usual time, which only a commit before a join does. ``left_ms``: the last commit of the one member that left, where
    nobody else came or went: its leave began the rebalance. ``bounds_ms``: of the begin, by records and answers.
    """

    stayed_ms: Sequence[int]
    early: Sequence[bool]
    left_ms: int | None
    bounds_ms: tuple[int | None, int]

    @property
    def spread_ms(self) -> int:
        """From the first join to the last one."""
        return max(self.stayed_ms) - min(self.stayed_ms)

    @property
    def is_of_heartbeats(self) -> bool:
        """Whether the joins are as near to each other as heartbeats: no member was busy, or has hung."""
        return bool(self.stayed_ms) and self.spread_ms <= HEARTBEAT_MS * (1 + _SLACK)

    def began_ms(self) -> _Span | None:
        """Between which moments it began, each as likely as another; None: its joins do not show it."""
        if not self.is_of_heartbeats:
            return None
        first_ms, last_ms = min(self.stayed_ms), max(self.stayed_ms)
        earliest_ms, latest_ms = self.bounds_ms
        # With many members the slack of requests leaves nothing between the two: it is that moment.
        since_ms = min(last_ms - HEARTBEAT_MS, first_ms)
        lows = [bound for bound in (earliest_ms, self.left_ms) if bound is not None]
        since_ms, until_ms = max([since_ms, *lows]), min(first_ms, latest_ms)
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
    return lasts[-1], len(lasts) > 1 and lasts[-1] - lasts[0] < _EARLY * commits.interval_ms


def begins(joins: Sequence[Joins | None]) -> list[_Span | None]:
    """Of each rebalance, between which moments it began; None: that cannot be inferred.

    Nothing is, where most of the last commits are regular ones, or joins are not spread as heartbeats of the assumed
    interval are.
    """
    known = [each for each in joins if each is not None]
    early = [is_early for each in known for is_early in each.early]
    of_heartbeats = [each for each in known if each.is_of_heartbeats]
    is_habit = 2 * sum(early) > len(early) and 2 * len(of_heartbeats) > len(known)
    if not is_habit or not _are_spread_evenly(of_heartbeats):
        return [None] * len(joins)
    return [None if each is None else each.began_ms() for each in joins]


def _are_spread_evenly(joins: Sequence[Joins]) -> bool:
    """Whether the spreads of joins are those of numbers that are drawn evenly from one heartbeat interval.

    The spread of m such numbers is (m - 1)/(m + 1) of the interval in the mean, with a variance of
    2 (m - 1)/((m + 1)² (m + 2)).
    """
    differences, variance = list[float](), 0.0
    for each in joins:
        count = len(each.stayed_ms)
        if count > 1:
            differences.append(each.spread_ms / HEARTBEAT_MS - (count - 1) / (count + 1))
            variance += 2 * (count - 1) / ((count + 1) ** 2 * (count + 2))
    number = len(differences)
    return not number or abs(sum(differences)) / number <= _TOLERANCE + _ERRORS * sqrt(variance) / number
