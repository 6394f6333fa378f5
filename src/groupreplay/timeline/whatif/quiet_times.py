"""Times in which nothing happened but regular commits: they are not played, because nothing in them costs anything.

So much is cut out of them that the commits before and after come as if all were played: whole times between commits.
The time after the last thing that happened is long enough for all that may follow from it, with either settings, and so
long that the heartbeats of members are as far from each other as they are after the whole time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from groupreplay.coordinator.simulation.pace import KNOWN_BEATS
from groupreplay.state.replay.departures import TOO_SLOW
from groupreplay.timeline.whatif.moments import Moments, Turn
from groupreplay.timeline.whatif.settings import CONSUMER_SESSION, HEARTBEAT, POLL, SESSION, PlaySettings

#: What stays of a quiet time at least, beside the longest session: the end of a rebalance, and some commits.
_SETTLES_MS: Final = 30_000
_COMMITS: Final = 2

_Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class QuietTimes:
    """What is cut out, in order: since when, and how much."""

    cuts: Sequence[_Span] = ()

    @property
    def total_ms(self) -> int:
        """All of it."""
        return sum(length_ms for _, length_ms in self.cuts)

    def played_ms(self, at_ms: int) -> int:
        """The time at which a play has what happened at a time of the history."""
        before = bisect_right(self.cuts, (at_ms, 0))
        gone_ms = sum(length_ms for _, length_ms in self.cuts[: max(before - 1, 0)])
        if not before:
            return at_ms
        since_ms, length_ms = self.cuts[before - 1]
        return at_ms - gone_ms - min(length_ms, at_ms - since_ms)

    def recorded_ms(self, at_ms: int) -> int:
        """The time of the history that a play has at this time, the inverse of ``played_ms``."""
        for since_ms, length_ms in self.cuts:
            if at_ms <= since_ms:
                break
            at_ms += length_ms
        return at_ms


def quiet_times(
    moments: Moments, span: _Span, interval_ms: int, settings: Iterable[PlaySettings]
) -> QuietTimes:
    """Those of a history that begins and ends so, whichever of the settings is played."""
    limits = _Limits.of(interval_ms, [*settings])
    begin_ms, end_ms = span
    cuts, quiet_ms = list[_Span](), begin_ms + limits.after_ms
    for since_ms, until_ms in sorted([*_busy(moments, limits), (end_ms, end_ms)]):
        count = (since_ms - quiet_ms) // interval_ms - _COMMITS
        if count > 0:
            cuts.append((quiet_ms, count * interval_ms))
        quiet_ms = max(quiet_ms, until_ms)
    return QuietTimes(tuple(cuts))


@dataclass(frozen=True, slots=True)
class _Limits:
    """How long before a rebalance ends its causes may be, and how long after something follows from it."""

    before_ms: int
    after_ms: int
    poll_ms: int

    @classmethod
    def of(cls, interval_ms: int, settings: Sequence[PlaySettings]) -> _Limits:
        session_ms = max(max(each[SESSION], each[CONSUMER_SESSION]) for each in settings)
        heartbeat_ms = max(each[HEARTBEAT] for each in settings)
        near_ms = 2 * (heartbeat_ms + interval_ms)
        after_ms = max(near_ms + session_ms + _SETTLES_MS, KNOWN_BEATS * heartbeat_ms)
        return cls(near_ms, after_ms, max(each[POLL] for each in settings))


def _busy(moments: Moments, limits: _Limits) -> Iterator[_Span]:
    """The times around all that happened, and those without members: offsets may expire then."""
    members, emptied_ms = len(moments.first), None
    for turn in moments.turns:
        yield _around(turn, limits)
        members = turn.stays + len(turn.arrivals)
        if emptied_ms is not None:
            yield emptied_ms, turn.joined_ms
        emptied_ms = turn.joined_ms if not members else None
    if emptied_ms is not None:
        yield emptied_ms, _FOREVER
    for restart in moments.restarts:
        last_ms = restart.back_ms if restart.last_ms is None else restart.last_ms
        yield last_ms - limits.before_ms, restart.back_ms + limits.after_ms
    for hang in moments.hangs:
        yield hang.last_ms - limits.before_ms, hang.next_ms + limits.after_ms + limits.poll_ms
    for silence in moments.silences:
        yield silence.last_ms - limits.before_ms, _FOREVER


_FOREVER: Final = 1 << 60


def _around(turn: Turn, limits: _Limits) -> _Span:
    """When its causes were, at the earliest, and what follows from it, at the latest."""
    hung = any(departure.reason in TOO_SLOW for departure in turn.departures)
    poll_ms = limits.poll_ms if hung else 0
    lasts = [departure.last_ms for departure in turn.departures if departure.last_ms is not None]
    first_ms = min([turn.joined_ms - turn.waited_ms - poll_ms, *lasts])
    return first_ms - limits.before_ms, turn.joined_ms + limits.after_ms + poll_ms
