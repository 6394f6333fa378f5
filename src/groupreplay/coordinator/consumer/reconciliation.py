"""The steps from a member's current assignment to its target assignment (``CurrentAssignmentBuilder``)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from groupreplay.codecs.kafka_terms import MemberPhase
from groupreplay.coordinator.consumer.group import ConsumerMember
from groupreplay.coordinator.requests import TopicIdPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """The input of a member's next step.

    ``subscribed`` are ids of topics, ``subscribes`` also counts topics that do not exist; ``taken`` are partitions that
    any member owns or has not revoked yet. ``owned`` are the partitions that the request names as owned; None when it
    names none: then nothing counts as revoked.
    """

    target_epoch: int
    target: Collection[TopicIdPartition]
    subscribed: frozenset[bytes]
    subscribes: bool
    taken: Collection[TopicIdPartition]
    owned: frozenset[TopicIdPartition] | None
    subscription_changed: bool

    def step(self, member: ConsumerMember) -> ConsumerMember:
        """The member after this step; the same member when no step is possible."""
        revokes = member.phase is MemberPhase.UNREVOKED and self._still_has(member.revoking)
        if revokes or member.is_reconciled_to(self.target_epoch):
            return self._without_unsubscribed(member) if self.subscription_changed else member
        return self._next(member)

    def _still_has(self, revoking: Mapping[TopicIdPartition, int]) -> bool:
        return self.owned is None or any(partition in revoking for partition in self.owned)

    def _without_unsubscribed(self, member: ConsumerMember) -> ConsumerMember:
        """Revoke partitions of topics that are no longer subscribed, without waiting for a new target."""
        kept = {
            partition: since
            for partition, since in member.assigned.items()
            if partition[0] in self.subscribed
        }
        # Kafka compares object identities here: a member without subscribed topics is always written anew, except
        # one that was never written.
        unsubscribed = not self.subscribes and not member.revoking and member.previous_epoch >= 0
        if len(kept) == len(member.assigned) and not unsubscribed:
            return member
        revoked = {partition: since for partition, since in member.assigned.items() if partition not in kept}
        revoking = {**member.revoking, **revoked}
        moved = replace(member, previous_epoch=member.epoch, assigned=kept)
        if revoking and self._still_has(revoking):
            return replace(moved, phase=MemberPhase.UNREVOKED, revoking=revoking)
        return moved

    def _next(self, member: ConsumerMember) -> ConsumerMember:
        target = {partition for partition in self.target if partition[0] in self.subscribed}
        kept = {partition: since for partition, since in member.assigned.items() if partition in target}
        revoking = {
            partition: since for partition, since in member.assigned.items() if partition not in target
        }
        if revoking and self._still_has(revoking):
            return replace(
                member,
                phase=MemberPhase.UNREVOKED,
                previous_epoch=member.epoch,
                assigned=kept,
                revoking=revoking,
            )
        missing = target - kept.keys()
        unreleased = {
            partition for partition in missing if partition in self.taken and partition not in member.revoking
        }
        return replace(
            member,
            phase=MemberPhase.UNRELEASED if unreleased else MemberPhase.STABLE,
            epoch=self.target_epoch,
            previous_epoch=member.epoch,
            assigned={**kept, **dict.fromkeys(missing - unreleased, self.target_epoch)},
            revoking={},
        )
