"""What a trace says of a consumer group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from groupreplay.codecs.kafka_terms import MemberPhase
from groupreplay.coordinator.consumer.assignor_input import Target
from groupreplay.coordinator.consumer.group import ConsumerGroup, ConsumerMember
from groupreplay.coordinator.consumer.membership import MemberUpdate
from groupreplay.coordinator.trace import Trace
from groupreplay.coordinator.trace_entries import AssignmentEntry, EpochEntry, ReconciliationEntry

#: The reasons of a trace.
_JOINED: Final = "joins the consumer group using the %s protocol"
_REJOINED: Final = "its instance id has joined again using the %s protocol"
SUBSCRIBED: Final = "a member's subscription has changed"
REGEX: Final = "the topics of a regular expression have changed"
TOPICS: Final = "the subscribed topics have changed"
#: Kafka's names of a member's states (``MemberState``).
_STATES: Final = {
    MemberPhase.STABLE: "STABLE",
    MemberPhase.UNREVOKED: "UNREVOKED_PARTITIONS",
    MemberPhase.UNRELEASED: "UNRELEASED_PARTITIONS",
    MemberPhase.UNKNOWN: "UNKNOWN",
}


def trace_update(trace: Trace, group: ConsumerGroup, update: MemberUpdate) -> None:
    """A member joins, takes the place of another, or changes its subscription."""
    after, old = update.after, update.replaces
    if not trace.on:
        return
    protocol = "consumer" if after.classic is None else "classic"
    if old is not None:
        trace.member("replaced", old.member_id, old.instance_id, _REJOINED % protocol, after.member_id)
    elif after.member_id not in group.members:
        trace.member("added", after.member_id, after.instance_id, _JOINED % protocol)
    if update.names_changed:
        says = "[GroupId %s] Member %s updated its subscribed topics to: [%s]."
        topics = ", ".join(after.topics)
        trace.branch("hasMemberSubscriptionChanged", says, group.group_id, after.member_id, topics)


def trace_epoch(trace: Trace, group: ConsumerGroup, reason: str) -> None:
    """The group epoch has risen."""
    if trace.on:
        digest = group.metadata_hash
        trace.add(EpochEntry(*trace.here, epoch=group.epoch, metadata_hash=digest, reason=reason))


def trace_assignment(
    trace: Trace,
    group: ConsumerGroup,
    chosen: tuple[str, Mapping[str, int]],
    targets: Mapping[str, Target] | None,
    delayed_until_ms: int | None,
) -> None:
    """A target assignment is computed by the chosen assignor, or delayed (``targets`` None)."""
    if trace.on:
        assignor, votes = chosen
        trace.add(
            AssignmentEntry(
                *trace.here,
                epoch=group.epoch,
                assignor=None if targets is None else assignor,
                votes=votes,
                targets={name: len(target) for name, target in (targets or {}).items()},
                delayed_until_ms=delayed_until_ms,
            )
        )


def trace_reconciliation(trace: Trace, member: ConsumerMember, moved: ConsumerMember, target: Target) -> None:
    """A member has moved one step."""
    if trace.on:
        waits = moved.phase is MemberPhase.UNRELEASED
        trace.add(
            ReconciliationEntry(
                *trace.here,
                member_id=moved.member_id,
                before=_STATES[member.phase],
                after=_STATES[moved.phase],
                epoch_before=member.epoch,
                epoch_after=moved.epoch,
                assigned=len(moved.assigned),
                revoking=len(moved.revoking),
                unreleased=len(target - moved.assigned.keys()) if waits else 0,
            )
        )
