"""What is refused before the coordinator looks for the group, as Kafka's own classes do (`test_model_and_service`)."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from groupreplay.coordinator.coordinator import Coordinator
from groupreplay.coordinator.requests import (
    Answer,
    ClassicHeartbeat,
    Commit,
    DeleteGroup,
    Error,
    LeaveGroup,
    OffsetCommit,
    OffsetDelete,
    Request,
    Settings,
    SyncGroup,
)
from support.model.classic_clients import joining


@pytest.mark.parametrize("scala", [False, True])
def test_a_group_without_a_name_has_no_members(*, scala: bool) -> None:
    """Offsets may be committed for it and it may be deleted, as by old clients; even if the partition is elsewhere."""
    coordinator = Coordinator("", Settings(scala=scala), random.Random(0))
    refused = (
        joining(),
        SyncGroup(member_id="m", generation=1),
        ClassicHeartbeat(member_id="m", generation=1),
        LeaveGroup.of(member_id="m"),
        OffsetDelete((("t", 0),)),
        OffsetCommit(commits=(), producer_id=5),
    )
    taken = (OffsetCommit(commits=(Commit(topic="t", partition=0, offset=1),)), DeleteGroup())

    def errors(requests: Iterable[Request]) -> list[Error]:
        return [coordinator.handle(request, 0).replies[0].answer.error for request in requests]

    assert errors((*refused, *taken)) == [Error.INVALID_GROUP_ID] * len(refused) + [Error.NONE] * len(taken)
    coordinator.unload(0)
    assert errors((*refused, *taken)) == [
        *[Error.INVALID_GROUP_ID] * len(refused),
        *[Error.NOT_COORDINATOR] * len(taken),
    ]


@pytest.mark.parametrize("scala", [False, True])
def test_a_session_timeout_out_of_bounds_is_seen_before_the_partition(*, scala: bool) -> None:
    """But not by the older coordinator."""
    coordinator = Coordinator("g", Settings(scala=scala), random.Random(0))
    coordinator.unload(0)
    (reply,) = coordinator.handle(joining(member_id="m", session_timeout_ms=1), 0).replies
    error = Error.NOT_COORDINATOR if scala else Error.INVALID_SESSION_TIMEOUT
    assert reply.answer == Answer(error=error, member_id="m")
