"""What the coordinator of one group id holds between two requests: the group, its offsets, timers, what came of it.

Must not know a decision: those of the classic protocol are in `coordinator_classic`, those of KIP-848 in
`coordinator_consumer`, and both change what is here.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from groupreplay.state.kafka_terms import Phase
from groupreplay.state.model.classic_group import ClassicGroup
from groupreplay.state.model.consumer_group import ConsumerGroup, Topics
from groupreplay.state.model.offsets import CommittedOffsets
from groupreplay.state.model.rebalance import Journal, Rebalance, Timers
from groupreplay.state.model.requests import Error, Refused, Settings, StateChange


@dataclass(slots=True, kw_only=True)
class CoordinatorState:
    """All there is of one group id."""

    group_id: str
    settings: Settings
    numbers: random.Random
    topics: Topics
    group: ClassicGroup | ConsumerGroup | None = None
    offsets: CommittedOffsets = field(default_factory=CommittedOffsets)
    timers: Timers = field(default_factory=Timers)
    journal: Journal = field(default_factory=Journal)

    def existing(self, missing: Error = Error.UNKNOWN_MEMBER_ID) -> ClassicGroup | ConsumerGroup:
        """The group, of whatever kind. Raises ``Refused`` when there is none."""
        if self.group is None:
            raise Refused(missing)
        return self.group

    def classic(self) -> ClassicGroup:
        """The group where it is a classic one. Raises ``Refused`` when there is none."""
        if not isinstance(self.group, ClassicGroup):
            raise Refused(Error.UNKNOWN_MEMBER_ID)
        return self.group

    def begin_classic(self, now_ms: int, *, new: bool = True) -> ClassicGroup:
        """A new classic group, Empty; not ``new`` where an empty one of the other kind was before."""
        changes = self.journal.changes
        if new:
            changes.append(StateChange(now_ms, Phase.DEAD, Phase.EMPTY, 0))
        self.group = ClassicGroup(group_id=self.group_id, current_state_timestamp_ms=now_ms, changes=changes)
        return self.group

    def rebalance(self, group: ClassicGroup) -> Rebalance:
        """The rebalances of the classic group."""
        return Rebalance(group, self.settings, self.timers, self.journal)
