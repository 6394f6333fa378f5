"""What the rebalances of a history cost; the same sums for what is recorded and for what was played.

A partition that its owner gives up in a rebalance stands still (``timeline.standstill``): all do with an eager
assignor, otherwise those that change their owner. And it stands still while its next commit is later than twice the
usual time. A rebalance of a classic group begins that time anew for all partitions: members that keep theirs commit
nothing while they join, and go on working (``ConsumerCoordinator.onJoinComplete``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from itertools import pairwise
from typing import Final

from groupreplay.state.snapshot.partitions import each
from groupreplay.timeline.commit_times import CommitTimes, Place
from groupreplay.timeline.event_reading import ReadEvent
from groupreplay.timeline.group_history import GroupHistory
from groupreplay.timeline.standstill import Stop, is_eager, stop_of, union_ms

#: A gap between two commits of so many usual ones is a stop.
_STOP_OF_USUAL: Final = 2


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


def costs(history: GroupHistory, begin_ms: int, interval_ms: int) -> Costs:
    """The costs after ``begin_ms`` up to the end of the history; ``interval_ms``: the usual time between commits."""
    end_ms = history.end_ms
    rebalances = [event for event in history.events if event.name == "rebalance.completed"]
    here = [event for event in rebalances if begin_ms < event.time_ms <= end_ms]
    lost = sum(
        event.number("partition_count") or 0
        for event in history.events
        if event.name == "offsets.expired" and begin_ms < event.time_ms <= end_ms
    )
    # Of each partition, each moment once.
    stops = stops_by_place(history, interval_ms).values()
    return {
        Cost.REBALANCES: len(here),
        Cost.STOPPED_MS: sum(union_ms(of_place, begin_ms, end_ms) for of_place in stops),
        Cost.MOVED: sum(event.number("partitions_moved") or 0 for event in here),
        Cost.LOST: lost,
    }


def stops_by_place(history: GroupHistory, interval_ms: int) -> dict[Place, list[Stop]]:
    """When each partition stood still; ``interval_ms``: the usual time between commits."""
    commits = CommitTimes.of(history.commits)
    stops: dict[Place, list[Stop]] = {place: [] for place in commits.of_place}
    rebalances = [event for event in history.events if event.name == "rebalance.completed"]
    for place, at_ms in _given_up(rebalances):
        if (stop := stop_of(place, at_ms, commits)) is not None:
            stops[place].append(stop)
    joined_ms = [event.time_ms for event in rebalances if event.is_classic]
    for place, times in commits.of_place.items():
        begins_ms = [at_ms for at_ms in joined_ms if times[0] < at_ms < times[-1]]
        for before, after in pairwise(sorted([*times, *begins_ms])):
            if after - before > _STOP_OF_USUAL * interval_ms:
                stops[place].append(Stop(before + interval_ms, after))
    return stops


def _given_up(rebalances: Iterable[ReadEvent]) -> Iterator[tuple[Place, int]]:
    """The partitions that were given up in each rebalance, and when they were assigned again."""
    owners: dict[Place, str] = {}
    for event in rebalances:
        now = {
            place: member["member_id"]
            for member in event.mappings("members")
            for place in each(member["partitions"])
        }
        for place, owner in now.items():
            if is_eager(event) or owners.get(place) != owner:
                yield place, event.time_ms
        owners |= now
