"""Restarts of members in place, and rolling restarts: what looks like trouble, and is a deployment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

from groupreplay.timeline.document import SlotLane, Tenure

#: Restarts that follow each other within this time belong to one occasion.
_PACE_MS: Final = 600_000
#: A member that was away for longer was not restarted, but came back.
_LONGEST_AWAY_MS: Final = 120_000
#: At least this part of the members is restarted.
_SHARE: Final = 0.8
#: Instance id, client id where there is none, host.
Place: TypeAlias = tuple[str | None, str, str]


@dataclass(frozen=True, slots=True)
class Restart:
    """A place got another member soon after the one before had left, or before."""

    place: Place
    before: Tenure
    after: Tenure

    @property
    def at_ms(self) -> int:
        """When the new member was in the group."""
        return self.after.since_ms


@dataclass(frozen=True, slots=True)
class RollingRestart:
    """Nearly all members were restarted one after another, each once."""

    restarts: tuple[Restart, ...]

    @property
    def since_ms(self) -> int:
        """When the first one was back."""
        return self.restarts[0].at_ms

    @property
    def until_ms(self) -> int:
        """When the last one was back."""
        return self.restarts[-1].at_ms


def restarts(slots: Sequence[SlotLane], longest_away_ms: int = _LONGEST_AWAY_MS) -> list[Restart]:
    """All restarts, in the order of time; a member that was away for longer came back, and was not restarted."""
    back_again = [
        Restart(place, before, after)
        for place, tenures in _places(slots).items()
        for before, after in pairwise(tenures)
        if before.until_ms is not None and after.since_ms - before.until_ms <= longest_away_ms
    ]
    return sorted(back_again, key=lambda restart: restart.at_ms)


def rolling(slots: Sequence[SlotLane]) -> Iterator[RollingRestart]:
    """The rolling restarts of a group, in the order of time."""
    places, occasion = _places(slots), list[Restart]()
    for restart in [*restarts(slots), None]:
        is_near = restart is not None and (not occasion or restart.at_ms - occasion[-1].at_ms <= _PACE_MS)
        if restart is not None and is_near and restart.place not in {each.place for each in occasion}:
            occasion.append(restart)
            continue
        if _is_rolling(occasion, places):
            yield RollingRestart(tuple(occasion))
        occasion = [] if restart is None else [restart]


def _places(slots: Sequence[SlotLane]) -> dict[Place, list[Tenure]]:
    """The members by instance id, or by client id and host, in the order of their begins.

    One that was killed is in the group beside the next one, until its session ends: they have two slots.
    """
    places: dict[Place, list[Tenure]] = {}
    for lane in slots:
        place = (lane.instance_id, "" if lane.instance_id else lane.client_id, lane.client_host)
        places.setdefault(place, []).extend(lane.tenures)
    return {place: sorted(tenures, key=lambda tenure: tenure.since_ms) for place, tenures in places.items()}


def _is_rolling(occasion: Sequence[Restart], places: Mapping[Place, Sequence[Tenure]]) -> bool:
    # Two that were away at the same time come back in one rebalance.
    moments = len({restart.at_ms for restart in occasion})
    if moments < 2 or 2 * moments < len(occasion):
        return False
    begin_ms = occasion[0].at_ms
    present = sum(any(_was_there(tenure, begin_ms) for tenure in tenures) for tenures in places.values())
    return len(occasion) >= _SHARE * present


def _was_there(tenure: Tenure, at_ms: int) -> bool:
    """Whether a member was there shortly before."""
    return tenure.since_ms < at_ms and (
        tenure.until_ms is None or tenure.until_ms >= at_ms - _LONGEST_AWAY_MS
    )
