"""Requests to the coordinator model: every error by its name, and the answers without an error."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from groupreplay.coordinator.appends import APPEND_ERRORS
from groupreplay.coordinator.requests import (
    RETRIABLE,
    ClassicHeartbeat,
    DeleteGroup,
    Error,
    JoinGroup,
    LeaveGroup,
    OffsetCommit,
    OffsetDelete,
    Request,
    Settings,
    SyncGroup,
)
from support.model.classic_clients import Clients, joining, protocols, subscription

NOBODY = "nobody-1"


def empty() -> Clients:
    """A group with one pending member."""
    clients = Clients()
    clients.ask(joining())
    return clients


def stable(*names: str, settings: Settings | None = None) -> Clients:
    """A Stable group."""
    clients = Clients(settings or Settings())
    clients.stable(*names or ("a", "b"))
    return clients


def static() -> Clients:
    """A group of one static member."""
    clients = Clients()
    clients.stable("a", instance_id="i")
    return clients


def preparing() -> Clients:
    """One of two members has left."""
    clients = stable("a", "b")
    clients.leave(list(clients.group.members)[1])
    return clients


def completing() -> Clients:
    """The other member has rejoined, but not synced."""
    clients = preparing()
    clients.rejoin(clients.group.leader or "")
    return clients


def full() -> Clients:
    """A group with a maximum size of two."""
    return stable("a", "b", settings=Settings(max_size=2))


def leader(clients: Clients) -> str:
    """The leader's member id."""
    return clients.group.leader or ""


#: Error -> the group, and the request that is refused with it.
REFUSALS: dict[Error, list[tuple[Callable[[], Clients], Callable[[Clients], Request]]]] = {
    Error.INVALID_SESSION_TIMEOUT: [
        (Clients, lambda _: joining(session_timeout_ms=5_999)),
        (Clients, lambda _: joining(session_timeout_ms=1_800_001)),
    ],
    Error.UNKNOWN_MEMBER_ID: [
        (Clients, lambda _: joining(member_id=NOBODY)),
        (stable, lambda _: joining(member_id=NOBODY)),
        (static, lambda _: joining(member_id=NOBODY, instance_id="j")),
        (Clients, lambda _: SyncGroup(member_id=NOBODY, generation=1)),
        (empty, lambda _: SyncGroup(member_id=NOBODY, generation=0)),
        (Clients, lambda _: ClassicHeartbeat(member_id=NOBODY, generation=1)),
        (Clients, lambda _: LeaveGroup.of(member_id=NOBODY)),
        (stable, lambda _: LeaveGroup.of(member_id=NOBODY)),
        (static, lambda _: LeaveGroup.of(instance_id="j")),
        (stable, lambda _: OffsetCommit(commits=())),
        (stable, lambda _: OffsetCommit(member_id=NOBODY, generation=1, commits=())),
    ],
    Error.MEMBER_ID_REQUIRED: [(Clients, lambda _: joining())],
    Error.INCONSISTENT_GROUP_PROTOCOL: [
        (Clients, lambda _: joining(protocols=())),
        (Clients, lambda _: joining(protocol_type="")),
        (stable, lambda _: joining(protocol_type="connect")),
        (stable, lambda _: joining(protocols=protocols("sticky"))),
        (stable, lambda it: SyncGroup(member_id=leader(it), generation=1, protocol="sticky")),
        (stable, lambda it: SyncGroup(member_id=leader(it), generation=1, protocol_type="connect")),
    ],
    Error.FENCED_INSTANCE_ID: [
        (static, lambda _: joining(member_id=NOBODY, instance_id="i")),
        (static, lambda _: SyncGroup(member_id=NOBODY, instance_id="i", generation=1)),
        (static, lambda _: ClassicHeartbeat(member_id=NOBODY, instance_id="i", generation=1)),
        (static, lambda _: LeaveGroup.of(member_id=NOBODY, instance_id="i")),
        (static, lambda _: OffsetCommit(member_id=NOBODY, instance_id="i", generation=1, commits=())),
    ],
    Error.GROUP_MAX_SIZE_REACHED: [(full, lambda _: joining())],
    Error.ILLEGAL_GENERATION: [
        (stable, lambda it: SyncGroup(member_id=leader(it), generation=2)),
        (stable, lambda it: ClassicHeartbeat(member_id=leader(it), generation=0)),
        (Clients, lambda _: OffsetCommit(generation=1, commits=(), retention_ms=1)),
        (stable, lambda it: OffsetCommit(member_id=leader(it), generation=7, commits=())),
    ],
    Error.REBALANCE_IN_PROGRESS: [
        (preparing, lambda it: SyncGroup(member_id=leader(it), generation=1)),
        (preparing, lambda it: ClassicHeartbeat(member_id=leader(it), generation=1)),
        (completing, lambda it: OffsetCommit(member_id=leader(it), generation=2, commits=())),
    ],
    Error.GROUP_ID_NOT_FOUND: [
        (Clients, lambda _: OffsetCommit(generation=1, commits=())),
        (Clients, lambda _: DeleteGroup()),
        (Clients, lambda _: OffsetDelete(())),
    ],
    Error.NON_EMPTY_GROUP: [(stable, lambda _: DeleteGroup()), (preparing, lambda _: DeleteGroup())],
}


@pytest.mark.parametrize(
    ("where", "asked", "error"), [(*one, error) for error, tried in REFUSALS.items() for one in tried]
)
def test_refusals(where: Callable[[], Clients], asked: Callable[[Clients], Request], error: Error) -> None:
    """Each with Kafka's error, at once."""
    clients = where()
    assert clients.error(asked(clients)) == error.value


def test_every_refusal_is_tried() -> None:
    """Except those of consumer groups, single partitions, an empty group id, moves, and appends that fail."""
    elsewhere = {
        Error.NONE,
        *RETRIABLE,
        *APPEND_ERRORS,
        Error.INVALID_COMMIT_OFFSET_SIZE,
        Error.GROUP_SUBSCRIBED_TO_TOPIC,
        Error.INVALID_GROUP_ID,
        Error.OFFSET_METADATA_TOO_LARGE,
        Error.FENCED_MEMBER_EPOCH,
        Error.INVALID_REGULAR_EXPRESSION,
        Error.INVALID_REQUEST,
        Error.STALE_MEMBER_EPOCH,
        Error.UNKNOWN_SERVER_ERROR,
        Error.UNRELEASED_INSTANCE_ID,
        Error.UNSUPPORTED_ASSIGNOR,
        Error.UNSUPPORTED_VERSION,
    }
    assert set(REFUSALS) == set(Error) - elsewhere


def test_an_older_static_leader_is_told_that_another_one_leads() -> None:
    """Otherwise it would assign partitions that no member takes over."""
    clients = static()
    old = leader(clients)
    answer = clients.told(joining("a", instance_id="i", skips_assignment=False))
    assert (answer.leader, answer.members, answer.skip_assignment) == (old, (), False)


def test_two_runs_with_one_seed_are_equal() -> None:
    """Ids, times, records and answers are the same."""
    first, second = stable("a", "b"), stable("a", "b")
    assert (first.log, first.answers, first.changes) == (second.log, second.answers, second.changes)


def test_a_member_id_is_the_client_or_the_instance_and_a_random_uuid() -> None:
    """In the form of ``ClassicGroup.generateMemberId``."""
    clients = stable("a-b")
    assert leader(clients)[:-36] == "a-b-"
    assert leader(static())[:-36] == "i-"


def test_joining_takes_every_field() -> None:
    """The member in the record has the answered id."""
    clients = Clients()
    clients.stable(
        "a", instance_id="i", session_timeout_ms=10_000, rebalance_timeout_ms=20_000, protocol_type="consumer"
    )
    (member,) = clients.log[-1].value.members
    assert (member.group_instance_id, member.client_id, member.client_host) == ("i", "a", "/10.0.0.1")
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (10_000, 20_000)
    assert (member.subscription, isinstance(joining(), JoinGroup)) == (subscription("t"), True)
