"""The steps of the coordinator as a trace tells them."""

from __future__ import annotations

import random
from typing import Any

import pytest
from confluent_kafka import KafkaError
from msgspec.structs import replace

from groupreplay.coordinator.consumer.consumer_group import Topic
from groupreplay.coordinator.coordinator import Coordinator
from groupreplay.coordinator.requests import (
    ClassicHeartbeat,
    ConsumerGroupHeartbeat,
    Error,
    JoinGroup,
    LeaveGroup,
    Outcome,
    Protocol,
    Settings,
    SyncGroup,
)
from groupreplay.coordinator.trace import APIS, ERROR_CODES
from groupreplay.coordinator.trace_entries import (
    AnyEntry,
    AssignmentEntry,
    AwaitedEntry,
    BranchEntry,
    EpochEntry,
    LeaderEntry,
    MemberEntry,
    RebalanceEntry,
    ReconciliationEntry,
    StateEntry,
    TimerEntry,
    VoteEntry,
)

#: The least session timeout.
SESSION_MS = 6_000


def coordinator(*, traced: bool = True) -> Coordinator:
    """The coordinator of group g, whose first rebalance waits for three seconds."""
    return Coordinator("g", Settings(), random.Random(7), traced=traced)


def joining(client: str, *protocols: str, member_id: str = "", session_ms: int = SESSION_MS) -> JoinGroup:
    """A JoinGroup of a client that joins without asking for an id first."""
    return JoinGroup(
        member_id=member_id,
        client_id=client,
        client_host="/h",
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=60_000,
        protocols=tuple(Protocol(name, b"") for name in protocols),
        require_known_member_id=False,
    )


def steps(outcome: Outcome, *kinds: type[AnyEntry]) -> list[AnyEntry]:
    """The entries of these kinds."""
    return [entry for entry in outcome.trace if isinstance(entry, kinds)]


def test_without_a_trace_nothing_is_told() -> None:
    """The outcome is the same but for the trace."""
    plain, traced = coordinator(traced=False), coordinator()
    for now_ms, request in enumerate(
        (joining("a", "range"), joining("b", "range"), LeaveGroup.of(member_id="x"))
    ):
        without, with_trace = plain.handle(request, now_ms), traced.handle(request, now_ms)
        assert without.trace == ()
        assert with_trace.trace != ()
        assert without == replace(with_trace, trace=())


def test_a_first_join() -> None:
    """Each step of it, in order: the member leads, the group begins a rebalance that waits for others."""
    told = coordinator().handle(joining("a", "range"), 1_000)
    where = (1_000, "g")
    [member_id] = {entry.member_id for entry in steps(told, MemberEntry) if isinstance(entry, MemberEntry)}
    reason = f"Adding new member {member_id} with group instance id null; client reason: not provided"
    assert [entry for entry in told.trace if not isinstance(entry, BranchEntry)][1:] == [
        StateEntry(*where, before="Dead", after="Empty", generation=0),
        told.trace[3],  # the record
        MemberEntry(
            *where, change="added", member_id=member_id, instance_id=None, new_member_id=None, reason=reason
        ),
        LeaderEntry(*where, before=None, after=member_id, reason="the first member leads"),
        TimerEntry(
            *where, change="set", timer="session", member_id=member_id, due_ms=301_000, was_due_ms=None
        ),
        StateEntry(*where, before="Empty", after="PreparingRebalance", generation=0),
        RebalanceEntry(*where, state="Empty", generation=0, reason=reason),
        AwaitedEntry(*where, phase="join", arrived=(member_id,), awaited=(), pending=()),
        TimerEntry(*where, change="set", timer="join", member_id=None, due_ms=4_000, was_due_ms=None),
    ]
    assert [entry.method for entry in told.trace if isinstance(entry, BranchEntry)] == [
        "classicGroupJoinToClassicGroup",
        "classicGroupJoinNewDynamicMember",
    ]


def test_a_vote() -> None:
    """Who supports what, what all support, who voted for what, and what won."""
    group = coordinator()
    ids = {}
    for client, protocols in (
        ("a", ("range", "sticky")),
        ("b", ("sticky", "range")),
        ("c", ("sticky", "mine", "range")),
    ):
        group.handle(joining(client, *protocols), 0)
        ids[client] = list(group.group.members)[-1]  # type: ignore[union-attr]
    told = [group.advance(3_000), group.advance(6_000)]
    [vote] = [entry for outcome in told for entry in steps(outcome, VoteEntry)]
    assert vote == VoteEntry(
        6_000,
        "g",
        generation=1,
        tally={"range": 3, "sticky": 3, "mine": 1},
        candidates=("range", "sticky"),
        votes={ids["a"]: "range", ids["b"]: "sticky", ids["c"]: "sticky"},
        winner="sticky",
    )


def test_a_session_that_ends() -> None:
    """The timer fires at its time, which is that of the entries; the next member leads, and the others are awaited."""
    group = coordinator()
    for client in "ab":
        group.handle(joining(client, "range"), 0)
    [a, b] = group.group.members  # type: ignore[union-attr]
    group.advance(3_000)
    group.advance(6_000)
    group.handle(SyncGroup(member_id=a, generation=1), 6_000)
    group.handle(SyncGroup(member_id=b, generation=1), 6_000)
    group.handle(ClassicHeartbeat(member_id=b, generation=1), 11_000)
    told = group.handle(ClassicHeartbeat(member_id=b, generation=1), 15_000)
    at, reason = (12_000, "g"), f"removing member {a} on heartbeat expiration."
    assert steps(told, TimerEntry, MemberEntry, LeaderEntry, StateEntry, RebalanceEntry, AwaitedEntry) == [
        TimerEntry(*at, change="fired", timer="session", member_id=a, due_ms=12_000, was_due_ms=None),
        MemberEntry(*at, change="removed", member_id=a, instance_id=None, new_member_id=None, reason=reason),
        LeaderEntry(*at, before=a, after=b, reason=reason),
        StateEntry(*at, before="Stable", after="PreparingRebalance", generation=1),
        RebalanceEntry(*at, state="Stable", generation=1, reason=reason),
        AwaitedEntry(*at, phase="join", arrived=(), awaited=(b,), pending=()),
        TimerEntry(*at, change="set", timer="join", member_id=None, due_ms=72_000, was_due_ms=None),
        TimerEntry(
            15_000, "g", change="extended", timer="session", member_id=b, due_ms=21_000, was_due_ms=17_000
        ),
    ]


def test_a_consumer_group() -> None:
    """Two members: the epoch rises, targets are computed or delayed, each member moves towards its target."""
    topics = {"t": Topic(b"t" * 16, 3)}
    group = Coordinator("g", Settings(), random.Random(7), topics, traced=True)

    def heartbeat(member_id: str, epoch: int, now_ms: int, owned: int) -> list[AnyEntry]:
        request = ConsumerGroupHeartbeat(
            member_id=member_id,
            member_epoch=epoch,
            client_id=member_id,
            client_host="/h",
            rebalance_timeout_ms=60_000,
            topics=("t",),
            assignor="uniform",
            owned=frozenset((b"t" * 16, number) for number in range(owned)),
        )
        told = group.handle(request, now_ms)
        return steps(told, MemberEntry, EpochEntry, AssignmentEntry, ReconciliationEntry, StateEntry)

    def moved(
        at: tuple[int, str], member_id: str, since: int, until: int, **fields: Any
    ) -> ReconciliationEntry:
        shown = {
            "before": "STABLE",
            "after": "STABLE",
            "assigned": 0,
            "revoking": 0,
            "unreleased": 0,
            **fields,
        }
        return ReconciliationEntry(*at, member_id=member_id, epoch_before=since, epoch_after=until, **shown)

    added = "joins the consumer group using the consumer protocol"
    at = (10_000, "g")
    first = heartbeat("a", 0, 10_000, 0)
    digest = first[1].metadata_hash  # type: ignore[union-attr]
    epoch, targets = {"metadata_hash": digest, "reason": "a member's subscription has changed"}, {"a": 3}
    joined = {"change": "added", "instance_id": None, "new_member_id": None, "reason": added}
    assert first == [
        MemberEntry(*at, member_id="a", **joined),
        EpochEntry(*at, epoch=2, **epoch),
        AssignmentEntry(
            *at, epoch=2, assignor="uniform", votes={"uniform": 1}, targets=targets, delayed_until_ms=None
        ),
        moved(at, "a", 0, 2, assigned=3),
        StateEntry(*at, before="Dead", after="Stable", generation=2),
    ]
    at = (10_500, "g")
    assert heartbeat("b", 0, 10_500, 0) == [
        MemberEntry(*at, member_id="b", **joined),
        EpochEntry(*at, epoch=3, **epoch),
        AssignmentEntry(
            *at, epoch=3, assignor=None, votes={"uniform": 2}, targets={}, delayed_until_ms=11_000
        ),
        moved(at, "b", 0, 2),
        StateEntry(*at, before="Stable", after="Assigning", generation=3),
    ]
    at = (11_500, "g")
    assert heartbeat("a", 2, 11_500, 3) == [
        AssignmentEntry(
            *at,
            epoch=3,
            assignor="uniform",
            votes={"uniform": 2},
            targets={"a": 2, "b": 1},
            delayed_until_ms=None,
        ),
        moved(at, "a", 2, 2, after="UNREVOKED_PARTITIONS", assigned=2, revoking=1),
        StateEntry(*at, before="Assigning", after="Reconciling", generation=3),
    ]
    at = (12_000, "g")
    assert heartbeat("b", 2, 12_000, 0) == [moved(at, "b", 2, 3, after="UNRELEASED_PARTITIONS", unreleased=1)]


@pytest.mark.parametrize("error", Error)
def test_numbers_of_errors(error: Error) -> None:
    """They are those of librdkafka, where it knows the error by Kafka's name."""
    known = {
        "NONE": "NO_ERROR",
        "UNKNOWN_SERVER_ERROR": "UNKNOWN",
        "MESSAGE_TOO_LARGE": "MSG_SIZE_TOO_LARGE",
        "NOT_LEADER_OR_FOLLOWER": "NOT_LEADER_FOR_PARTITION",
        "UNKNOWN_TOPIC_OR_PARTITION": "UNKNOWN_TOPIC_OR_PART",
    }
    number = getattr(KafkaError, known.get(error.value, error.value), None)
    assert ERROR_CODES[error] == number


def test_every_request_has_a_name() -> None:
    """Each kind of request is named as Kafka names it."""
    assert len(set(APIS.values())) == len(APIS) == 9
