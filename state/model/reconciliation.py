"""How a member of a consumer group comes to its target assignment (``CurrentAssignmentBuilder``).

Knows one member, its target, and what others still hold; must not know requests, timers or records.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from groupreplay.state.kafka_terms import MemberPhase
from groupreplay.state.model.consumer_group import ConsumerMember
from groupreplay.state.model.requests import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """What decides about a member's next step.

    ``subscribed`` are ids of topics, ``taken`` partitions that any member has or must give up. ``owned`` is what
    the member says it has, None when it does not say: then nothing counts as given up.
    """

    target_epoch: int
    target: Collection[Place]
    subscribed: frozenset[bytes]
    taken: Collection[Place]
    owned: frozenset[Place] | None
    subscription_changed: bool

    def step(self, member: ConsumerMember) -> ConsumerMember:
        """The member after this step: the same when it cannot move."""
        if member.phase is MemberPhase.UNREVOKED and self._still_has(member.revoking):
            return self._without_unsubscribed(member) if self.subscription_changed else member
        if member.phase is MemberPhase.STABLE and member.epoch == self.target_epoch:
            return self._without_unsubscribed(member) if self.subscription_changed else member
        return self._next(member)

    def _still_has(self, revoking: Mapping[Place, int]) -> bool:
        return self.owned is None or any(place in revoking for place in self.owned)

    def _without_unsubscribed(self, member: ConsumerMember) -> ConsumerMember:
        """Partitions of topics that it is not subscribed to any more go at once, before any new target."""
        kept = {place: since for place, since in member.assigned.items() if place[0] in self.subscribed}
        # Kafka compares objects here: one that is subscribed to nothing is written anew in any case.
        unsubscribed = not self.subscribed and not member.revoking
        if len(kept) == len(member.assigned) and not unsubscribed:
            return member
        gone = {place: since for place, since in member.assigned.items() if place not in kept}
        revoking = {**member.revoking, **gone}
        moved = replace(member, previous_epoch=member.epoch, assigned=kept)
        if revoking and self._still_has(revoking):
            return replace(moved, phase=MemberPhase.UNREVOKED, revoking=revoking)
        return moved

    def _next(self, member: ConsumerMember) -> ConsumerMember:
        target = {place for place in self.target if place[0] in self.subscribed}
        kept = {place: since for place, since in member.assigned.items() if place in target}
        revoking = {place: since for place, since in member.assigned.items() if place not in target}
        if revoking and self._still_has(revoking):
            return replace(
                member,
                phase=MemberPhase.UNREVOKED,
                previous_epoch=member.epoch,
                assigned=kept,
                revoking=revoking,
            )
        missing = target - kept.keys()
        unreleased = {place for place in missing if place in self.taken and place not in member.revoking}
        return replace(
            member,
            phase=MemberPhase.UNRELEASED if unreleased else MemberPhase.STABLE,
            epoch=self.target_epoch,
            previous_epoch=member.epoch,
            assigned={**kept, **dict.fromkeys(missing - unreleased, self.target_epoch)},
            revoking={},
        )
