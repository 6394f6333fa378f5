"""What is refused before a group is looked for; a partition that nobody leads, that loads, and that is active again.

A coordinator that has moved only has what is in the log.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from copy import copy
from dataclasses import replace

import pytest

from groupreplay.codecs.kafka_terms import Phase
from groupreplay.coordinator.classic.classic_group import ClassicGroup
from groupreplay.coordinator.coordinator import Coordinator
from groupreplay.coordinator.coordinator_state import DescribedGroup
from groupreplay.coordinator.requests import (
    Answer,
    ClassicHeartbeat,
    Commit,
    DeleteGroup,
    EndTransaction,
    Error,
    LeaveGroup,
    OffsetCommit,
    OffsetDelete,
    Request,
    Settings,
    StateChange,
    SyncGroup,
)
from groupreplay.coordinator.trace_entries import BranchEntry, PartitionEntry
from support.model.classic_clients import Clients, joining


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


BEAT = ClassicHeartbeat(member_id="a", generation=1)
SYNC = SyncGroup(member_id="a", generation=1)
REQUESTS: tuple[Request, ...] = (
    *(joining(), SYNC, BEAT, LeaveGroup.of(member_id="a"), OffsetCommit(commits=())),
    *(EndTransaction(producer_id=1, committed=True), DeleteGroup()),
)


@pytest.mark.parametrize("scala", [False, True])
def test_the_answers(scala: bool) -> None:
    """A closed partition knows nothing; one that loads lets members live, and the older one lets them join again."""
    clients = Clients(Settings(scala=scala))
    clients.stable("a")
    coordinator = clients.coordinator
    clients.take(coordinator.unload(clients.now))
    assert {clients.error(copy(request)) for request in REQUESTS} == {"NOT_COORDINATOR"}
    dead = DescribedGroup(state=Phase.DEAD)
    assert coordinator.summary() == replace(dead, error=Error.NOT_COORDINATOR)
    clients.take(coordinator.begin_loading(clients.now))
    loading = "COORDINATOR_LOAD_IN_PROGRESS"
    told = {type(request): clients.error(copy(request)) for request in REQUESTS}
    synced = "REBALANCE_IN_PROGRESS" if scala else loading
    assert told == {
        **{type(request): loading for request in REQUESTS},
        ClassicHeartbeat: "NONE",
        SyncGroup: synced,
    }
    assert coordinator.summary() == replace(dead, error=Error.COORDINATOR_LOAD_IN_PROGRESS)
    clients.take(coordinator.load(clients.now))
    assert (clients.state, coordinator.summary().state) == ("Stable", Phase.STABLE)


def test_nothing_happens_while_nobody_leads() -> None:
    """Sessions and retention wait for the load; deleted topics keep their offsets."""
    clients = Clients(Settings(retention_ms=1_000))
    clients.stable("a")
    clients.commit(5, topic="u", member_id=clients.member_ids[0], generation=1)
    clients.take(clients.coordinator.unload(clients.now))
    records = len(clients.log)
    clients.wait(3_600_000)
    clients.clean_up()
    clients.take(clients.coordinator.delete_topic("u", clients.now))
    assert len(clients.log) == records
    clients.take(clients.coordinator.begin_loading(clients.now))
    clients.take(clients.coordinator.load(clients.now))
    clients.wait(44_000)
    assert len(clients.log) == records
    clients.wait(1_000)
    assert clients.state == "Empty"


def test_a_rebalance_is_lost_when_the_group_is_loaded() -> None:
    """Until then no coordinator knows the group; the change has the time of the load."""
    clients = Clients()
    first, _ = clients.stable("a", "b")
    clients.rejoin(first)
    changes = len(clients.changes)
    clients.take(clients.coordinator.unload(clients.now))
    clients.wait(20_000)
    clients.take(clients.coordinator.begin_loading(clients.now))
    clients.wait(5_000)
    clients.take(clients.coordinator.load(clients.now))
    assert clients.changes[changes:] == [StateChange(clients.now, Phase.PREPARING_REBALANCE, Phase.STABLE, 1)]


def test_a_group_that_is_too_large_rebalances() -> None:
    """The broker was restarted with a smaller ``group.max.size``."""
    clients = Clients()
    clients.stable("a", "b")
    clients.coordinator.settings = Settings(max_size=1)
    clients.take(clients.coordinator.move(clients.now))
    assert clients.state == "PreparingRebalance"


def test_an_aborted_commit_makes_a_group() -> None:
    """The record is in the log; the older coordinator only loads what was committed."""
    for scala in (False, True):
        clients = Clients(Settings(scala=scala))
        clients.commit(5, producer_id=7)
        clients.ask(EndTransaction(producer_id=7, committed=False))
        clients.take(clients.coordinator.move(clients.now))
        assert (clients.coordinator.group is None) is scala


def test_the_trace_of_a_move() -> None:
    """The states of the partition, and the lines that Kafka logs."""
    coordinator = Coordinator("g", Settings(), random.Random(0), traced=True)
    coordinator.handle(joining(), 1_000)
    trace = [
        entry
        for step in (coordinator.unload, coordinator.begin_loading, coordinator.load)
        for entry in step(2_000).trace
    ]
    told = [one.after for one in trace if isinstance(one, PartitionEntry)]
    assert told == ["closed", "loading", "active"]
    assert [(one.method, one.says) for one in trace if isinstance(one, BranchEntry)] == [
        ("onUnloaded", "[GroupId=g] Unloading group metadata for generation 0."),
        ("onLoaded", "Loaded classic group g with 0 members."),
    ]


def moved(clients: Clients) -> ClassicGroup | None:
    """The coordinator moves, without requests in the meantime."""
    clients.take(clients.coordinator.move(clients.now))
    return clients.coordinator.group


def test_a_rebalance_in_progress_is_forgotten() -> None:
    """Waiting members get NOT_COORDINATOR; the previous generation holds again."""
    clients = Clients()
    first, second = clients.stable("a", "b")
    clients.leave(second)
    clients.rejoin(first)
    assert clients.state == "CompletingRebalance"
    waiting, _ = clients.join("c")
    assert clients.answer(waiting) is None
    group = moved(clients)
    assert group is not None
    answer = clients.answer(waiting)
    assert answer is not None
    assert answer.error is Error.NOT_COORDINATOR
    assert (group.generation, sorted(group.members)) == (1, sorted([first, second]))
    assert clients.changes[-1] == StateChange(clients.now, Phase.PREPARING_REBALANCE, Phase.STABLE, 1)
    assert clients.heartbeat(first, generation=2) == "ILLEGAL_GENERATION"


def test_a_group_of_offsets_alone_stays_and_one_of_nothing_goes() -> None:
    """The log has the commits of the first group; the older coordinator has written nothing of the second."""
    clients = Clients()
    clients.commit(5)
    assert moved(clients) is not None
    assert clients.commit(6) == "NONE"
    asked = Clients(Settings(scala=True))
    asked.join("a", session_timeout_ms=6_000, require_known_member_id=False)
    assert moved(asked) is None
    assert asked.changes[-1].after is Phase.DEAD
    deleted = Clients()
    deleted.stable("a")
    deleted.leave(next(iter(deleted.group.members)))
    deleted.wait(8 * 24 * 3_600_000)
    deleted.clean_up()
    assert deleted.coordinator.group is None
    assert moved(deleted) is None
