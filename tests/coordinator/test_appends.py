"""Appends that fail: the answers, what is taken back, and what stays. Kafka's own coordinator does the same."""

from __future__ import annotations

import pytest

from groupreplay.codecs import GroupMetadataKey, OffsetCommitKey
from groupreplay.codecs.kafka_terms import Phase
from groupreplay.coordinator.appends import APPEND_ERRORS, answered_error
from groupreplay.coordinator.coordinator import Coordinator
from groupreplay.coordinator.requests import DeleteGroup, EndTransaction, Error, Settings
from groupreplay.coordinator.trace_entries import AppendEntry, BranchEntry
from support.model.classic_clients import Clients, joining

NO_REPLICAS = Error.NOT_ENOUGH_REPLICAS
NOT_AVAILABLE = Error.COORDINATOR_NOT_AVAILABLE.value


def fail(clients: Clients, error: Error | None = NO_REPLICAS) -> None:
    """Appends fail from now on; None: they succeed again."""
    clients.coordinator.fail_appends(error)


def move(clients: Clients) -> None:
    """Another broker loads the group."""
    clients.take(clients.coordinator.move(clients.now))


@pytest.mark.parametrize("error", APPEND_ERRORS)
def test_the_translated_error(error: Error) -> None:
    """Of a commit, and of a JoinGroup that makes a group; neither leaves a group behind."""
    clients = Clients()
    fail(clients, error)
    assert clients.commit(5) == answered_error(error).value
    assert clients.error(joining(require_known_member_id=False)) == answered_error(error).value
    assert (clients.coordinator.group, clients.log, clients.changes) == (None, [], [])


def test_the_older_coordinator_has_an_error_of_its_own_for_large_commits() -> None:
    """And keeps the group that the commit has made, until it looks for groups without offsets."""
    clients = Clients(Settings(scala=True))
    fail(clients, Error.MESSAGE_TOO_LARGE)
    assert clients.commit(5) == "INVALID_COMMIT_OFFSET_SIZE"
    assert (clients.state, bool(clients.coordinator.offsets)) == ("Empty", False)
    clients.clean_up()
    assert clients.coordinator.group is None


def test_a_member_id_that_is_forgotten_together_with_its_group() -> None:
    """Kafka answers before it writes: the client is told to join with an id that nobody knows then."""
    clients = Clients()
    fail(clients)
    answer = clients.told(joining())
    assert answer.error is Error.MEMBER_ID_REQUIRED
    fail(clients, None)
    assert clients.error(joining("c", answer.member_id)) == "UNKNOWN_MEMBER_ID"


def test_the_older_coordinator_answers_a_leave_before_it_writes() -> None:
    """The member does not see the failure."""
    clients = Clients(Settings(scala=True))
    (member_id,) = clients.stable("a")
    fail(clients)
    assert (clients.leave(member_id), clients.state) == ("NONE", "Empty")


def test_a_static_member_has_its_former_id_again() -> None:
    """Its new id was not written: it is unknown, and the old one is not fenced."""
    clients = Clients()
    (member_id,) = clients.stable("a", instance_id="i")
    before = clients.group.members[member_id]
    fail(clients)
    answer = clients.told(joining("a", instance_id="i"))
    assert (answer.error.value, answer.member_id, answer.leader) == (NOT_AVAILABLE, "", member_id)
    assert (clients.group.members, clients.group.static_members) == ({member_id: before}, {"i": member_id})
    assert clients.group.leader == member_id
    assert clients.heartbeat(member_id, instance_id="i") == "NONE"


def test_a_deletion_is_taken_back() -> None:
    """Group and offsets are there as before, also at the check of the retention."""
    clients = Clients(Settings(retention_ms=60_000))
    clients.commit(5)
    fail(clients)
    assert clients.error(DeleteGroup()) == NOT_AVAILABLE
    clients.wait(61_000)
    clients.clean_up()
    assert (clients.state, clients.coordinator.offsets.partitions()) == ("Empty", [("t", 0)])
    fail(clients, None)
    clients.clean_up()
    assert clients.coordinator.group is None


def test_what_the_older_coordinator_forgets_is_loaded_again() -> None:
    """It only logs that the tombstones were not written."""
    clients = Clients(Settings(scala=True, retention_ms=60_000))
    (member_id,) = clients.stable("a")
    clients.commit(5, member_id=member_id, generation=1)
    clients.leave(member_id)
    fail(clients)
    assert clients.error(DeleteGroup()) == "NONE"
    assert clients.coordinator.group is None
    fail(clients, None)
    move(clients)
    assert (clients.state, clients.coordinator.offsets.partitions()) == ("Empty", [("t", 0)])
    clients.wait(120_000)
    clients.clean_up()
    assert [type(raw.key) for raw in clients.log[-2:]] == [OffsetCommitKey, GroupMetadataKey]
    move(clients)
    assert clients.coordinator.group is None


def test_transactions() -> None:
    """A commit that fails is not pending; a marker that fails is asked for again."""
    clients = Clients()
    fail(clients)
    assert clients.commit(5, producer_id=7) == NOT_AVAILABLE
    assert clients.coordinator.offsets.pending == {}
    fail(clients, None)
    assert clients.commit(5, producer_id=7) == "NONE"
    fail(clients)
    assert clients.error(EndTransaction(producer_id=7, committed=True)) == "NOT_ENOUGH_REPLICAS"
    assert (list(clients.coordinator.offsets.pending), clients.coordinator.offsets.committed) == ([7], {})
    fail(clients, None)
    assert clients.error(EndTransaction(producer_id=7, committed=True)) == "NONE"
    assert clients.coordinator.offsets.partitions() == [("t", 0)]


def test_the_trace_of_a_failure() -> None:
    """The refused records, and that all was taken back."""
    clients = Clients()
    coordinator = Coordinator("g", Settings(), clients.coordinator.numbers, traced=True)
    coordinator.fail_appends(NO_REPLICAS)
    trace = coordinator.handle(joining(), 1_000).trace
    appends = [one for one in trace if isinstance(one, AppendEntry)]
    assert [(append.records, append.error) for append in appends] == [
        (("GroupMetadata",), "NOT_ENOUGH_REPLICAS")
    ]
    branches = [(one.method, one.says) for one in trace if isinstance(one, BranchEntry)]
    says = "Writing records to __consumer_offsets failed due to: NOT_ENOUGH_REPLICAS."
    assert branches[-1] == ("revertLastWrittenOffset", says)


def test_state_changes_that_are_taken_back_are_not_told() -> None:
    """The group has never been there."""
    coordinator = Clients().coordinator
    coordinator.trace.on = True
    coordinator.fail_appends(NO_REPLICAS)
    outcome = coordinator.handle(joining(), 1_000)
    assert (outcome.changes, coordinator.state) == ((), Phase.DEAD)
    coordinator.fail_appends(None)
    outcome = coordinator.handle(joining(), 2_000)
    assert [change.after for change in outcome.changes] == [Phase.EMPTY]
