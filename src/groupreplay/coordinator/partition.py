"""What a broker answers before a group sees a request, and how the coordinator of a partition moves to another broker.

After ``GroupCoordinatorService``, ``CoordinatorRuntime``, ``GroupMetadataManager.onUnloaded`` and ``onLoaded``. The
partition is closed, loaded by another broker, and active again. No broker answers for the groups in between; clients
find the coordinator again and repeat their requests.
"""

from __future__ import annotations

from typing import Final

from groupreplay.coordinator.classic.classic_group import ClassicGroup
from groupreplay.coordinator.classic.protocol import ClassicHandler
from groupreplay.coordinator.classic.rebalance import Rebalance
from groupreplay.coordinator.consumer.consumer_group import ConsumerGroup
from groupreplay.coordinator.consumer.membership import validate_heartbeat
from groupreplay.coordinator.consumer.protocol import ConsumerHandler
from groupreplay.coordinator.coordinator_state import CoordinatorState
from groupreplay.coordinator.requests import (
    Answer,
    ClassicHeartbeat,
    ConsumerGroupHeartbeat,
    Error,
    JoinGroup,
    LeaveGroup,
    OffsetCommit,
    OffsetDelete,
    PartitionState,
    Refused,
    Request,
    Settings,
    SyncGroup,
)

#: Commits without a transaction and DeleteGroups take the empty group id, which old clients used.
_NEED_A_GROUP_ID: Final = (JoinGroup, SyncGroup, ClassicHeartbeat, LeaveGroup, OffsetDelete)


def validate_request(request: Request, group_id: str, settings: Settings) -> None:
    """Raises ``Refused`` for a request that no group would take, whether the broker coordinates it or not."""
    if isinstance(request, OffsetCommit):
        if not group_id and request.producer_id is not None:
            raise Refused(Error.INVALID_GROUP_ID)
        return
    if not group_id and isinstance(request, _NEED_A_GROUP_ID):
        raise Refused(Error.INVALID_GROUP_ID)
    if isinstance(request, ConsumerGroupHeartbeat):
        validate_heartbeat(request, group_id, settings.consumer_assignors)
    if isinstance(request, JoinGroup) and not settings.scala:
        validate_session_timeout(request, settings)


def validate_session_timeout(request: JoinGroup, settings: Settings) -> None:
    """Raises ``Refused`` for a session timeout out of bounds; the older coordinator checks its partition first."""
    least_ms, most_ms = settings.min_session_timeout_ms, settings.max_session_timeout_ms
    if not least_ms <= request.session_timeout_ms <= most_ms:
        raise Refused(Error.INVALID_SESSION_TIMEOUT)


def answer_without_coordinator(request: Request, state: PartitionState, *, scala: bool) -> Answer:
    """The answer of a broker that does not lead the partition, or has not loaded it yet."""
    # The older coordinator refuses a JoinGroup with its member id.
    member_id = request.member_id if scala and isinstance(request, JoinGroup) else ""
    if state is PartitionState.CLOSED:
        return Answer(error=Error.NOT_COORDINATOR, member_id=member_id)
    if isinstance(request, ClassicHeartbeat):
        # Nothing can be said of the member yet.
        return Answer()
    if scala and isinstance(request, SyncGroup):
        # The rebalance is lost, and old clients do not know the other error in this answer.
        return Answer(error=Error.REBALANCE_IN_PROGRESS)
    return Answer(error=Error.COORDINATOR_LOAD_IN_PROGRESS, member_id=member_id)


def unload(coordinator: CoordinatorState) -> None:
    """The broker leads the partition no more: open requests are answered, and timers are cancelled."""
    group, trace = coordinator.group, coordinator.trace
    trace.partition(PartitionState.CLOSED)
    coordinator.partition = PartitionState.CLOSED
    coordinator.timers.clear()
    if isinstance(group, ConsumerGroup):
        says = "[GroupId=%s] Unloaded group metadata for group epoch %s."
        trace.branch("onUnloaded", says, group.group_id, group.epoch)
    elif group is not None:
        says = "[GroupId=%s] Unloading group metadata for generation %s."
        trace.branch("onUnloaded", says, group.group_id, group.generation)
        for member in group.members.values():
            coordinator.journal.refuse_pending(member, Error.NOT_COORDINATOR)


def begin_loading(coordinator: CoordinatorState) -> None:
    """Another broker leads the partition and reads the log."""
    coordinator.trace.partition(PartitionState.LOADING)
    coordinator.partition = PartitionState.LOADING


def load(coordinator: CoordinatorState, now_ms: int) -> None:
    """The broker has read the log: the group is as its records say, and all sessions start anew."""
    coordinator.trace.partition(PartitionState.ACTIVE)
    coordinator.partition = PartitionState.ACTIVE
    if coordinator.journal.logged is not None:
        coordinator.offsets = coordinator.journal.logged.loaded()
    coordinator.load_topics()
    coordinator.remember_group(now_ms)
    if isinstance(coordinator.group, ConsumerGroup):
        ConsumerHandler(coordinator).reload(coordinator.group, now_ms)
    else:
        ClassicHandler(coordinator).reload(coordinator.group, now_ms)
    group = coordinator.group
    if group is None:
        return
    kind = "consumer" if isinstance(group, ConsumerGroup) else "classic"
    says = "Loaded %s group %s with %s members."
    coordinator.trace.branch("onLoaded", says, kind, group.group_id, len(group.members))
    if isinstance(group, ClassicGroup):
        _resume(Rebalance(coordinator, group), now_ms)


def _resume(rebalance: Rebalance, now_ms: int) -> None:
    """All sessions begin, and a group that is too large rebalances; the older coordinator does this first."""
    coordinator, group = rebalance.coordinator, rebalance.group
    most, size = coordinator.settings.max_size, len(group.members)
    says = f"Freshly-loaded group {group.group_id} (size {size}) is over capacity {most}."
    reason = f"{says} Rebalancing in order to give a chance for consumers to commit offsets"
    if size > most and group.scala:
        rebalance.prepare(now_ms, reason)
    for member in group.members.values():
        rebalance.keep_alive(member, now_ms)
    if size > most and not group.scala:
        rebalance.prepare(now_ms, reason)
