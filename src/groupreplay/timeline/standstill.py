"""How long a partition stood still in a rebalance: one sum for the advice on recorded groups and the costs of plays.

A partition that its owner gives up stands still from its last commit before the rebalance to the new assignment, at
most: only commits show that records are read. With an eager assignor of Kafka's every member gives up all of its
partitions (KIP-429), and the whole group stands still for as long as the partition that stands still the longest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from groupreplay.codecs.kafka_terms import CONSUMER_PROTOCOL_TYPE
from groupreplay.timeline.commit_times import CommitTimes, Place
from groupreplay.timeline.event_reading import ReadEvent

#: Kafka's assignors that take all partitions from all members in each rebalance.
EAGER: Final = frozenset({"range", "roundrobin", "sticky"})


@dataclass(frozen=True, slots=True)
class Stop:
    """A time in which nobody worked on a partition, at most."""

    since_ms: int
    until_ms: int

    @property
    def length_ms(self) -> int:
        """Its length."""
        return self.until_ms - self.since_ms


def is_eager(event: ReadEvent) -> bool:
    """Whether every member gave up all of its partitions in this ``rebalance.completed``."""
    return (
        event.is_classic
        and event.text("protocol_type") == CONSUMER_PROTOCOL_TYPE
        and event.text("protocol") in EAGER
    )


def stop_of(place: Place, assigned_ms: int, commits: CommitTimes, owned_ms: int = 0) -> Stop | None:
    """The stop of a partition that was given up, and assigned again at this time.

    None: it has no commit since ``owned_ms``, from when on its owner had it, so that nothing bounds its stop.
    """
    last_ms = commits.last_ms([place], assigned_ms)
    return None if last_ms is None or last_ms < owned_ms else Stop(last_ms, assigned_ms)


def union_ms(stops: Iterable[Stop], begin_ms: int, end_ms: int) -> int:
    """The length of what the stops of one partition cover between two moments, each moment once."""
    total_ms, until_ms = 0, begin_ms
    for stop in sorted(stops, key=lambda each: each.since_ms):
        since_ms, stop_end_ms = max(stop.since_ms, until_ms), min(stop.until_ms, end_ms)
        if stop_end_ms > since_ms:
            total_ms += stop_end_ms - since_ms
            until_ms = stop_end_ms
    return total_ms
