"""The checks of a ConsumerGroupHeartbeat, without the group and against the member that it names."""

from __future__ import annotations

from collections.abc import Sequence

from groupreplay.coordinator.consumer.group import AWAY, ConsumerMember
from groupreplay.coordinator.requests import ConsumerGroupHeartbeat, Error, Refused


def validate_heartbeat(request: ConsumerGroupHeartbeat, group_id: str, assignors: Sequence[str]) -> None:
    """The checks that do not need the group (``throwIfConsumerGroupHeartbeatRequestIsInvalid``)."""
    joins = request.member_epoch == 0
    subscribes = request.topics is not None or request.topic_regex is not None
    incomplete = request.rebalance_timeout_ms == -1 or not subscribes or request.owned != frozenset()
    if not group_id or not request.member_id or request.member_epoch < AWAY or (joins and incomplete):
        raise Refused(Error.INVALID_REQUEST)
    if request.member_epoch == AWAY and request.instance_id is None:
        raise Refused(Error.INVALID_REQUEST)
    if request.assignor is not None and request.assignor not in assignors:
        raise Refused(Error.UNSUPPORTED_ASSIGNOR)


def validate_epoch(member: ConsumerMember, request: ConsumerGroupHeartbeat) -> None:
    """Raises ``Refused`` for a wrong epoch. The previous epoch is valid: the last answer may have been lost."""
    if request.member_epoch == member.epoch:
        return
    lost = request.member_epoch == member.previous_epoch and request.member_epoch < member.epoch
    if not lost or request.owned is None or not request.owned <= set(member.assigned):
        raise Refused(Error.FENCED_MEMBER_EPOCH)
