"""What the rebalances of a history cost; the same sums for what is recorded and for what was played.

A partition stands still from its last commit before a rebalance to the new assignment, if its owner gives it up: all do
with an eager assignor, otherwise those that change their owner. And it stands still while its next commit is later than
twice the usual time. Both are at most so long: only commits show that records are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Final

from groupreplay.codecs.kafka_terms import GroupType
from groupreplay.state.snapshot.partitions import each
from groupreplay.timeline.commit_times import CommitTimes, Place
from groupreplay.timeline.event_reading import ReadEvent
from groupreplay.timeline.whatif.recorded import GroupHistory

#: A gap between two commits of so many usual ones is a stop.
_STOP_OF_USUAL: Final = 2
_COOPERATIVE: Final = "cooperative-sticky"


class Cost(str, Enum):
    """What is compared."""

    REBALANCES = "rebalances"
    STOPPED_MS = "stopped_ms"
    MOVED = "partitions_moved"
    LOST = "offsets_lost"

    @property
    def words(self) -> str:
        """Its name for people."""
        return _WORDS[self]


_WORDS: Final = {
    Cost.REBALANCES: "rebalances",
    Cost.STOPPED_MS: "partitions stood still",
    Cost.MOVED: "partitions moved",
    Cost.LOST: "offsets lost",
}
Costs = Mapping[Cost, int]


@dataclass(frozen=True, slots=True)
class _Stop:
    since_ms: int
    until_ms: int


def costs(history: GroupHistory, begin_ms: int, interval_ms: int) -> Costs:
    """The costs after ``begin_ms`` up to the end of the history; ``interval_ms``: the usual time between commits."""
    commits, end_ms = CommitTimes.of(history.commits), history.end_ms
    rebalances = [event for event in history.events if event.name == "rebalance.completed"]
    here = [event for event in rebalances if begin_ms < event.time_ms <= end_ms]
    lost = sum(
        event.number("partition_count") or 0
        for event in history.events
        if event.name == "offsets.expired" and begin_ms < event.time_ms <= end_ms
    )
    return {
        Cost.REBALANCES: len(here),
        Cost.STOPPED_MS: _stopped_ms(rebalances, commits, begin_ms, end_ms, interval_ms),
        Cost.MOVED: sum(event.number("partitions_moved") or 0 for event in here),
        Cost.LOST: lost,
    }


def _stopped_ms(
    rebalances: Sequence[ReadEvent], commits: CommitTimes, begin_ms: int, end_ms: int, interval_ms: int
) -> int:
    """The sum over all partitions, each moment once."""
    stops: dict[Place, list[_Stop]] = {place: [] for place in commits.of_place}
    for place, at_ms in _given_up(rebalances):
        since_ms = commits.last_ms([place], at_ms)
        if since_ms is not None:
            stops[place].append(_Stop(since_ms, at_ms))
    for place, times in commits.of_place.items():
        for before, after in pairwise([*times]):
            if after - before > _STOP_OF_USUAL * interval_ms:
                stops[place].append(_Stop(before + interval_ms, after))
    return sum(_union_ms(each_, begin_ms, end_ms) for each_ in stops.values())


def _given_up(rebalances: Iterable[ReadEvent]) -> Iterator[tuple[Place, int]]:
    """The partitions that were given up in each rebalance, and when they were assigned again."""
    owners: dict[Place, str] = {}
    for event in rebalances:
        now = {
            place: member["member_id"]
            for member in event.mappings("members")
            for place in each(member["partitions"])
        }
        eager = event.text("group_type") == GroupType.CLASSIC.value and event.text("protocol") != _COOPERATIVE
        for place, owner in now.items():
            if eager or owners.get(place) != owner:
                yield place, event.time_ms
        owners |= now


def _union_ms(stops: Iterable[_Stop], begin_ms: int, end_ms: int) -> int:
    """The length of what the stops cover between two moments."""
    total_ms, until_ms = 0, begin_ms
    for stop in sorted(stops, key=lambda each_: each_.since_ms):
        since_ms, stop_end_ms = max(stop.since_ms, until_ms), min(stop.until_ms, end_ms)
        if stop_end_ms > since_ms:
            total_ms += stop_end_ms - since_ms
            until_ms = stop_end_ms
    return total_ms
