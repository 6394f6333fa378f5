"""What the logs of brokers say about groups: why rebalances began, why members left, who asked for a deletion.

A line is matched with records by group, generation, leader and member. Its time is only compared with that of other
lines of the same broker, because the clocks and the time zones of two machines may differ.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from groupreplay.state.events.event import LeaveReason, Requester, Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedPhase:
    """A join phase as its coordinator logged it.

    ``generation`` is that which it made, ``leader`` the member whose assignment the coordinator got (None: no line
    shows it; empty: the group was without members). ``trigger`` None: the reason does not show one. ``began_ms`` and
    ``ended_ms`` are times of ``broker``.
    """

    generation: int
    reason: str
    trigger: Trigger | None
    broker: str
    began_ms: int
    ended_ms: int
    leader: str | None = None

    @property
    def length_ms(self) -> int:
        """How long the coordinator waited for members to join."""
        return max(0, self.ended_ms - self.began_ms)


@dataclass(frozen=True, slots=True)
class LoggedEpoch:
    """An epoch of a group of a newer kind, and what raised it; ``trigger`` None: the lines do not show one.

    ``member_id``: no line names the epoch; it is that of the lines if this member had it.
    """

    epoch: int
    reasons: tuple[str, ...]
    trigger: Trigger | None
    broker: str
    member_id: str | None = None


@dataclass(frozen=True, slots=True)
class LoggedRebalance:
    """The join phases of one rebalance; ``is_whole``: the first one began it."""

    phases: Sequence[LoggedPhase]
    is_whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedDeparture:
    """Why a member left: ``reasons`` has one, or those between which the line does not decide."""

    reasons: frozenset[LeaveReason]
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLog:
    """The lines about one group: join phases in the order of the log, departures by member id, requests by name.

    ``epochs`` are those of a group of a newer kind, in the order of the log.
    """

    phases: Sequence[LoggedPhase] = ()
    epochs: Sequence[LoggedEpoch] = ()
    departures: Mapping[str, LoggedDeparture] = field(default_factory=dict)
    requesters: Mapping[str, frozenset[Requester]] = field(default_factory=dict)

    def rebalance(self, generation: int, previous: int | None, leader: str) -> LoggedRebalance | None:
        """The join phases behind the generation ``previous`` (None: not known) up to this one; None if in doubt.

        A group that was deleted counts from 0 again, and a coordinator that moves may use a number again: of two
        phases with one generation, only that of the leader counts.
        """
        same = [place for place, phase in enumerate(self.phases) if phase.generation == generation]
        same = [place for place in same if self.phases[place].leader == leader] or [
            place for place in same if self.phases[place].leader is None
        ]
        if len(same) != 1:
            return None
        (last,) = same
        first = last
        while self._joins(first) and self._is_open(self.phases[first - 1], previous):
            first -= 1
        if previous is None:
            is_whole = self.phases[first].generation == 1 or self._joins(first)
        else:
            is_whole = self.phases[first].generation == previous + 1
        return LoggedRebalance(self.phases[first : last + 1], is_whole)

    def raised(self, first: int, last: int, member_ids: Collection[str]) -> tuple[LoggedEpoch, ...]:
        """What raised the epochs from ``first`` to ``last``; empty if that of the first is not known, or in doubt.

        A group that was deleted counts from 1 again: of two steps to one epoch, only that of these members counts.
        """
        steps = defaultdict[int, list[LoggedEpoch]](list)
        for step in self.epochs:
            if first <= step.epoch <= last and (step.member_id is None or step.member_id in member_ids):
                steps[step.epoch].append(step)
        clear = list[LoggedEpoch]()
        for epoch in sorted(steps):
            same = steps[epoch]
            if len(same) > 1:
                same = [step for step in same if any(one in step.reasons[0] for one in member_ids)]
            clear += same if len(same) == 1 else []
        return tuple(clear) if clear and clear[0].epoch == first else ()

    def _joins(self, place: int) -> bool:
        """Whether the phase before this place made the generation before."""
        if not place:
            return False
        before, phase = self.phases[place - 1], self.phases[place]
        return before.generation == phase.generation - 1 and before.broker == phase.broker

    @staticmethod
    def _is_open(phase: LoggedPhase, previous: int | None) -> bool:
        """Whether the rebalance went on behind this phase: its generation is in no record."""
        return phase.leader is None if previous is None else phase.generation > previous


@dataclass(frozen=True, slots=True)
class BrokerLog:
    """All lines, by group."""

    groups: Mapping[str, GroupLog] = field(default_factory=dict)

    def of(self, group_id: str) -> GroupLog:
        """Those about a group."""
        return self.groups.get(group_id, GroupLog())
