"""What a broker refuses before it looks whether it coordinates the group (``GroupCoordinatorService``)."""

from __future__ import annotations

from typing import Final

from groupreplay.coordinator.consumer.membership import validate_heartbeat
from groupreplay.coordinator.requests import (
    ClassicHeartbeat,
    ConsumerGroupHeartbeat,
    Error,
    JoinGroup,
    LeaveGroup,
    OffsetCommit,
    OffsetDelete,
    Refused,
    Request,
    Settings,
    SyncGroup,
)

#: Commits without a transaction and DeleteGroups take the empty group id, which old clients used.
_NEED_A_GROUP_ID: Final = (JoinGroup, SyncGroup, ClassicHeartbeat, LeaveGroup, OffsetDelete)


def validate_request(request: Request, group_id: str, settings: Settings) -> None:
    """Raises ``Refused`` for a request that no group would take, whether the broker coordinates it or not."""
    in_transaction = isinstance(request, OffsetCommit) and request.producer_id is not None
    if not group_id and (in_transaction or isinstance(request, _NEED_A_GROUP_ID)):
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
