"""Requests to the coordinator model: every error by its name, and the answers without an error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from groupreplay.codecs import GroupMetadataKey, GroupMetadataValue
from groupreplay.codecs.kafka_terms import Phase
from groupreplay.coordinator.appends import APPEND_ERRORS
from groupreplay.coordinator.requests import (
    RETRIABLE,
    Answer,
    ClassicHeartbeat,
    DeleteGroup,
    Error,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    OffsetCommit,
    OffsetDelete,
    Request,
    Settings,
    SyncGroup,
)
from support.model.classic_clients import Clients, joining, owning, protocols, subscription

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
    Error.MEMBER_ID_REQUIRED: [
        (Clients, lambda _: joining()),
    ],
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
    Error.GROUP_MAX_SIZE_REACHED: [
        (full, lambda _: joining()),
    ],
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
    Error.NON_EMPTY_GROUP: [
        (stable, lambda _: DeleteGroup()),
        (preparing, lambda _: DeleteGroup()),
    ],
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


@pytest.mark.parametrize("scala", [False, True])
def test_a_pending_member_cannot_join_as_a_static_one(*, scala: bool) -> None:
    """Kafka throws, and the broker answers without the member id; the member stays pending."""
    clients = Clients(Settings(scala=scala))
    member_id = clients.told(joining("a")).member_id
    assert clients.told(joining("a", member_id, instance_id="i")) == Answer(error=Error.UNKNOWN_SERVER_ERROR)
    assert clients.ask(joining("a", member_id)) is None
    assert clients.member_ids == [member_id]


@pytest.mark.parametrize("scala", [False, True])
def test_several_members_leave_in_one_request(*, scala: bool) -> None:
    """Each has its own error, also one that is named twice; all of them cause one rebalance."""
    clients = Clients(Settings(scala=scala))
    first, second, third = clients.stable("a", "b", "c")
    names = (second, NOBODY, third, second)
    request = LeaveGroup(members=tuple(LeavingMember(member_id=name) for name in names))
    known = len(clients.changes)
    unknown = Error.UNKNOWN_MEMBER_ID
    assert clients.told(request) == Answer(error=unknown, left=(Error.NONE, unknown, Error.NONE, unknown))
    assert clients.member_ids == [first]
    assert [one.after for one in clients.changes[known:]] == [Phase.PREPARING_REBALANCE]


@pytest.mark.parametrize("scala", [False, True])
def test_all_members_leave_in_one_request(*, scala: bool) -> None:
    """One record of an empty group, one generation later; nobody is left to leave a second time."""
    clients = Clients(Settings(scala=scala))
    names = clients.stable("a", "b", "c")
    known = len(clients.log)
    request = LeaveGroup(members=tuple(LeavingMember(member_id=name) for name in names))
    assert clients.told(request) == Answer(left=(Error.NONE,) * 3)
    assert [(raw.value.generation, raw.value.members) for raw in clients.log[known:]] == [(2, ())]
    assert clients.told(replace(request)).left == (Error.UNKNOWN_MEMBER_ID,) * 3


def test_the_first_request_writes_generation_0() -> None:
    """Also the first JoinGroup that only gets a member id, and one that is refused."""
    for request in (joining(), joining(protocols=())):
        clients = Clients()
        clients.ask(request)
        record = GroupMetadataValue(
            version=3,
            protocol_type="",
            generation=0,
            protocol=None,
            leader=None,
            current_state_timestamp_ms=1_010,
            members=(),
        )
        assert [(raw.key, raw.value) for raw in clients.log] == [(GroupMetadataKey(group="g"), record)]


def test_offsets_before_the_first_request_leave_nothing_to_write() -> None:
    """Its committed offsets have already created the group."""
    clients = Clients()
    clients.commit(5)
    clients.ask(joining())
    assert len(clients.log) == 1


def test_the_older_coordinator_writes_nothing_of_a_new_group() -> None:
    """Nor does it write its end while it has had no generation."""
    clients = Clients(Settings(scala=True))
    clients.ask(joining())
    clients.ask(DeleteGroup())
    assert (clients.log, clients.state) == ([], "Dead")


def test_a_pending_member_comes_back_with_its_id() -> None:
    """Only then is it a member; its session is five minutes long until its JoinGroup is answered."""
    clients = Clients()
    given = clients.told(joining())
    assert (list(clients.group.members), clients.group.pending_joins) == ([], {given.member_id})
    again = joining(member_id=given.member_id)
    assert clients.ask(again) is None
    clients.wait(3_000)
    told = clients.answer(again)
    assert told == Answer(
        member_id=given.member_id,
        generation=1,
        protocol_type="consumer",
        protocol="range",
        leader=given.member_id,
        members=((given.member_id, None, subscription("t")),),
    )


def test_old_clients_join_at_once() -> None:
    """Before JoinGroup v4 no client was sent back with a member id."""
    clients = Clients()
    assert clients.ask(joining(require_known_member_id=False)) is None
    assert (clients.state, len(clients.group.members)) == ("PreparingRebalance", 1)


def test_only_the_leader_is_told_of_the_others() -> None:
    """Followers only get the leader's id."""
    clients = Clients()
    first, second = clients.join("a")[0], clients.join("b")[0]
    clients.wait(6_000)
    told = [clients.answer(request) for request in (first, second)]
    assert [len(answer.members) for answer in told if answer] == [2, 0]
    assert {answer.leader for answer in told if answer} == {clients.group.leader}


def test_a_follower_that_joins_again_unchanged_is_only_told() -> None:
    """As after a lost answer; the rejoin of a leader starts a rebalance."""
    clients = stable("a", "b")
    first, second = clients.group.members
    assert clients.ask(joining(member_id=second)) is not None
    assert clients.state == "Stable"
    assert clients.ask(joining(member_id=first)) is None
    assert clients.state == "PreparingRebalance"


def test_a_follower_that_joins_again_otherwise_begins_a_rebalance() -> None:
    """Its subscription has changed."""
    clients = stable("a", "b")
    second = list(clients.group.members)[1]
    assert clients.ask(joining(member_id=second, protocols=protocols(topics=("u",)))) is None
    assert clients.state == "PreparingRebalance"


def test_who_joins_again_before_the_leader_synced_is_told_again() -> None:
    """As after a lost answer in CompletingRebalance; another subscription starts a new rebalance."""
    clients = completing()
    member_id = leader(clients)
    answer = clients.told(joining(member_id=member_id))
    assert (answer.generation, len(answer.members), clients.state) == (2, 1, "CompletingRebalance")
    clients.ask(joining(member_id=member_id, protocols=protocols(topics=("u",))))
    assert (clients.group.generation, clients.state) == (3, "CompletingRebalance")


def test_a_group_that_is_full_counts_those_who_have_joined() -> None:
    """In a rebalance the first members to join are accepted."""
    clients = full()
    first, second = clients.group.members
    clients.rejoin(first)
    assert clients.error(joining("c")) == "MEMBER_ID_REQUIRED"
    clients.rejoin(second)
    assert clients.error(joining("d")) == "GROUP_MAX_SIZE_REACHED"


def test_a_static_member_that_comes_back_is_written_under_the_same_generation() -> None:
    """With a new id, its assignment, and the leadership if it led; the former id is fenced."""
    clients = static()
    old = leader(clients)
    before = clients.log[-1].value
    answer = clients.told(joining("a", instance_id="i", session_timeout_ms=9_000))
    new = answer.member_id
    after = clients.log[-1].value
    assert (answer.generation, answer.leader, answer.skip_assignment, clients.state) == (
        1,
        new,
        True,
        "Stable",
    )
    assert (after.generation, after.leader, after.current_state_timestamp_ms) == (
        1,
        new,
        clients.group.current_state_timestamp_ms,
    )
    assert [(one.member_id, one.assignment, one.session_timeout_ms) for one in after.members] == [
        (new, before.members[0].assignment, 9_000)
    ]
    assert clients.heartbeat(old, instance_id="i") == "FENCED_INSTANCE_ID"
    assert clients.heartbeat(new, instance_id="i") == "NONE"


def test_an_older_static_leader_is_told_that_another_one_leads() -> None:
    """Otherwise it would assign partitions that no member takes over."""
    clients = static()
    old = leader(clients)
    answer = clients.told(joining("a", instance_id="i", skips_assignment=False))
    assert (answer.leader, answer.members, answer.skip_assignment) == (old, (), False)


def test_a_static_member_that_would_change_the_protocol_begins_a_rebalance() -> None:
    """Without a record."""
    clients = Clients()
    clients.stable("a", instance_id="i", protocols=protocols("range", "sticky"))
    records = len(clients.log)
    clients.ask(joining("a", instance_id="i", protocols=protocols("sticky", "range")))
    assert (len(clients.log), clients.state, clients.group.generation) == (records, "CompletingRebalance", 2)


def test_a_static_member_that_waits_is_fenced_by_its_successor() -> None:
    """Its JoinGroup is answered at once; that of the new member id waits instead."""
    clients = Clients()
    first = clients.join("a", instance_id="i")[0]
    (member_id,) = clients.group.members
    assert clients.ask(joining("a", instance_id="i")) is None
    assert clients.answer(first) == Answer(error=Error.FENCED_INSTANCE_ID, member_id=member_id)


def test_a_static_member_that_comes_back_before_the_leader_synced() -> None:
    """Members that have synced have to rejoin."""
    clients = Clients()
    clients.join("a")
    clients.join("b", instance_id="i")
    clients.wait(6_000)
    first, second = clients.group.members
    waiting = clients.syncing(second, instance_id="i")
    assert clients.ask(waiting) is None
    clients.ask(joining("b", instance_id="i"))
    assert clients.answer(waiting) == Answer(error=Error.FENCED_INSTANCE_ID)
    assert (clients.state, clients.heartbeat(first)) == ("PreparingRebalance", "REBALANCE_IN_PROGRESS")


def test_an_administrator_removes_a_static_member() -> None:
    """By its instance id alone."""
    clients = static()
    assert clients.leave(instance_id="i") == "NONE"
    assert (clients.state, clients.log[-1].value.generation) == ("Empty", 2)


def test_a_pending_member_leaves() -> None:
    """It was never a member: the group does not change."""
    clients = empty()
    assert clients.leave(next(iter(clients.group.pending_joins))) == "NONE"
    assert (clients.state, clients.coordinator.next_deadline_ms()) == ("Empty", None)


def test_who_syncs_before_the_leader_waits_for_it() -> None:
    """Then all members get their assignments; later SyncGroups are answered at once."""
    clients = Clients()
    first, second = clients.completing()
    waiting = clients.syncing(second)
    assert clients.ask(waiting) is None
    assert clients.sync(first) == Answer(
        protocol_type="consumer", protocol="range", assignment=owning("t", 0)
    )
    assert clients.answer(waiting) == Answer(
        protocol_type="consumer", protocol="range", assignment=owning("t", 1)
    )
    assert clients.sync(second) == clients.answer(waiting)


def test_a_member_that_the_leader_leaves_out_has_nothing() -> None:
    """Its record has zero bytes as assignment."""
    clients = Clients()
    clients.join("a")
    clients.wait(3_000)
    clients.sync(leader(clients), assignments=())
    assert [one.assignment for one in clients.log[-1].value.members] == [b""]


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
