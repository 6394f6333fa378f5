"""Why members of the newer kinds left, and their partitions; the beginning of a group with a regular expression."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupreplay.state.events.event import History
from groupreplay.state.events.group_events import MemberLeft, RebalanceCompleted
from groupreplay.state.policy.context import SessionSettings
from support.histories.builders import CONTEXT, check, commit, facts, names, replay
from support.histories.group_writer import GroupWriter
from support.histories.modern_builders import TOPIC, group_epoch, left, operation
from support.model.classic_clients import owning
from support.model.consumer_clients import ConsumerClients

NAMED = replace(CONTEXT, topic_names={TOPIC: "t"})


@pytest.mark.parametrize(
    ("committed_ms", "silent_ms", "possible"),
    [
        (None, 44_999, False),
        (None, 45_000, True),
        (40_000, 39_999, False),
        # Killed right after a commit, 5 s after its last heartbeat: thrown out 40 s later.
        (40_000, 40_000, True),
    ],
)
def test_a_commit_keeps_nobody_alive(committed_ms: int | None, silent_ms: int, possible: bool) -> None:
    """Only heartbeats prolong a session (45 s), and one is sent every 5 s, where the brokers say so."""
    life = GroupWriter()
    life.join("b")
    life.join("a")
    life.settle()
    last_ms = max(raw.at for raw in life.log if getattr(raw.key, "member_id", None) == "a")
    history = list(life.log)
    if committed_ms is not None:
        last_ms += committed_ms
        history.append(commit("t", 0, 5, at=last_ms))
    history += operation(last_ms + silent_ms, left("a"), group_epoch(4))
    _, events = replay(history, replace(NAMED, sessions={"consumer": SessionSettings()}))
    (gone,) = [fact for fact in facts(events) if isinstance(fact, MemberLeft)]
    reasons = {one.reason for one in gone.candidates}
    assert ("session_timeout" in reasons, gone.elapsed_ms, gone.assumed) == (possible, silent_ms, {})


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_whoever_goes_soon_after_a_heartbeat_has_left(kind: str) -> None:
    """Members of share groups have no rebalance timeout; the reason does not need it."""
    life = GroupWriter(kind=kind)
    life.join("a")
    life.join("b")
    life.settle()
    life.leave("b")
    _, events = replay(life.log, NAMED)
    assert [fact.reason for fact in facts(events) if isinstance(fact, MemberLeft)] == ["left"]


def test_what_the_last_native_member_had_is_dealt_out_by_the_next_classic_round() -> None:
    """After a downgrade the partition has moved; none is new, and the topics' metadata have not changed."""
    clients = ConsumerClients()
    (member_id,) = clients.stable("a")
    clients.enter("n")
    clients.settle_all()
    clients.depart("n")
    clients.rejoin(member_id)
    clients.sync(member_id, assignments=((member_id, owning("t", 0, 1, 2)),))
    _, events = replay(clients.log, NAMED)
    last = [fact for fact in facts(events) if isinstance(fact, RebalanceCompleted)][-1]
    assert (last.protocol_type, last.partitions_moved, last.partitions_unassigned) == ("consumer", 2, 0)
    assert last.trigger == "unknown"


def test_a_group_begins_with_a_regular_expression() -> None:
    """Until it is resolved the group is at its first epoch, which is in no record; then its first rebalance begins."""
    life = GroupWriter()
    life.join("a", regex="t.*")
    group, events = replay(life.log[:2], NAMED)
    described = group.describe()
    assert (described["state"], described["group_epoch"], described["target_epoch"]) == ("Stable", 1, 1)
    assert names(events) == ["group.created", "rebalance.started", "member.joined", "rebalance.completed"]
    group, events = replay(life.log, NAMED)
    described = group.describe()
    assert (described["state"], described["group_epoch"], described["target_epoch"]) == ("Assigning", 2, 1)
    life.settle()
    group, events = replay(life.log, NAMED)
    assert names(events)[4:] == ["rebalance.started", "member.updated", "rebalance.completed"]
    completed = facts(events)[-1]
    check(completed, generation=2, previous_generation=1, trigger="subscription_changed")
    assert group.describe()["state"] == "Stable"
    assert {event.history for event in events} == {History.FULL}
