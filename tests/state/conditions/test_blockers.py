"""Blockers of KIP-848 groups: members that keep partitions or send no heartbeat, from the log alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec import to_builtins

from groupreplay.codecs.kafka_terms import GroupType
from groupreplay.state import Event, Evidence
from groupreplay.state.conditions.blockers import Blocker, session_timeout_ms
from groupreplay.state.conditions.detection import GroupView
from groupreplay.state.conditions.rebalance_slow import RebalanceSlow
from groupreplay.state.conditions.rebalance_stuck import RebalanceStuck
from groupreplay.state.policy.context import OwnSettings
from groupreplay.state.policy.rules import Policy
from groupreplay.state.snapshot.group_snapshot import GroupSnapshot
from groupreplay.state.snapshot.group_state import GroupState
from groupreplay.state.snapshot.modern import Modern
from groupreplay.state.snapshot.offsets import Offsets
from support.histories import modern_builders
from support.histories.builders import CONTEXT, GROUP, Raw, check, facts
from support.histories.modern_builders import target_epoch as assigned
from support.histories.probed import MINUTE, START, conditions, told


def stuck(events: list[Event]) -> list[Any]:
    """What was said of being stuck."""
    return [fact for fact in facts(events) if isinstance(fact, RebalanceStuck)]


def waiting_for_a(began: int) -> list[Raw]:
    """B joins and waits for a partition of A."""
    return [
        *modern_builders.first_join("a", at=began - MINUTE, rebalance_ms=300_000),
        *modern_builders.operation(
            began,
            modern_builders.described("b", rebalance_ms=300_000),
            modern_builders.group_epoch(3),
            modern_builders.target("a", [0]),
            modern_builders.target("b", [1]),
            assigned(3),
            modern_builders.current("b", 3, state=modern_builders.UNRELEASED),
        ),
    ]


def test_a_member_that_will_not_revoke() -> None:
    """Found from the log alone: the blocker by name, what it keeps, and when the broker will fence it."""
    began = START
    history = [
        *waiting_for_a(began),
        *modern_builders.operation(
            began + 2_000, modern_builders.current("a", 2, [0], state=modern_builders.UNREVOKED, revoking=[1])
        ),
    ]
    context = replace(CONTEXT, topic_names={"AQIDBAUGBwgJCgsMDQ4PEA": "orders"})
    _, events = told(history, [], began + 6 * MINUTE, context)
    assert conditions(events) == [
        ("rebalance.slow", "firing", began + 75_000),
        ("rebalance.stuck", "firing", began + 2_000 + 3 * MINUTE),
    ]
    (fact,) = stuck(events)
    blocker = Blocker(
        member_id="a",
        **{"client_id": "client-a", "client_host": "/h", "instance_id": None},
        revoking={"orders": "1"},
        since_ms=began + 2_000,
        fenced_at_ms=began + 302_000,
        reason="not_revoked",
    )
    check(fact, blockers=(blocker,), suspects=None, reason="not_revoked", since_ms=began + 2_000)
    assert {event.evidence for event in events} == {Evidence.LOG}


def test_a_holder_that_does_not_even_ask() -> None:
    """It keeps what another waits for and has not heard of the new epoch: it blocks, with no known end."""
    began = START
    (fact,) = stuck(told(waiting_for_a(began), [], began + 4 * MINUTE)[1])
    (blocker,) = fact.blockers
    assert (blocker.member_id, blocker.since_ms, blocker.fenced_at_ms) == ("a", began, None)


def lost(began: int) -> list[Raw]:
    """B joins, A keeps the only partition and never takes the new epoch."""
    return [
        *modern_builders.first_join("a", at=began - MINUTE, rebalance_ms=300_000),
        *modern_builders.operation(
            began,
            modern_builders.described("b", rebalance_ms=300_000),
            modern_builders.group_epoch(3),
            modern_builders.target("b", []),
            assigned(3),
            modern_builders.current("b", 3),
        ),
    ]


def test_a_member_whose_session_never_ends() -> None:
    """Nobody waits for its partitions, which nobody consumes; the coordinator cancelled its timer and kept it."""
    began = START
    fact, *_ = stuck(told(lost(began), [], began + 4 * MINUTE)[1])
    (blocker,) = fact.blockers
    assert (fact.reason, blocker.member_id, blocker.since_ms) == ("not_heartbeating", "a", began)
    text = RebalanceStuck.firing_text(to_builtins(fact))
    assert "blocked by client-a on h (sends no heartbeat and is not removed); next: move" in text


def slow(history: list[Raw], until: int, least_ms: int) -> RebalanceSlow:
    """What is said of a rebalance that is slow."""
    context = replace(CONTEXT, policy=Policy(thresholds={"rebalance.slow": {"threshold_ms": least_ms}}))
    _, events = told(history, [], until, context)
    return next(fact for fact in facts(events) if isinstance(fact, RebalanceSlow))


def test_a_slow_rebalance_blames_nobody_whose_session_goes_on() -> None:
    """A killed member is there until its session has ended, after 45 s: the coordinator does remove it."""
    early, late = (slow(lost(START), START + MINUTE, least_ms) for least_ms in (44_000, 45_000))
    check(early, reason=None, blockers=())
    assert (late.reason, [blocker.member_id for blocker in late.blockers or ()]) == (
        "not_heartbeating",
        ["a"],
    )


def test_a_slow_rebalance_blames_nothing_that_began_late() -> None:
    """In a storm the target assignment of each epoch is missing for a moment: that is not why it is slow."""
    for missing_ms, reason in ((20_000, "not_assigned"), (21_000, None)):
        later = modern_builders.operation(START + missing_ms, modern_builders.group_epoch(4))
        fact = slow([*lost(START), *later], START + MINUTE, 40_000)
        assert (fact.state, fact.reason, fact.blockers) == ("Assigning", reason, ())


def test_later_epochs_do_not_blame_whoever_is_about_to_take_them() -> None:
    """The time counts from the epoch that a member has not taken, not from the begin of the whole rebalance."""
    began = START
    later = modern_builders.operation(
        began + 4 * MINUTE, modern_builders.group_epoch(4), modern_builders.target("b", []), assigned(4)
    )
    _, events = told([*lost(began), *later], [], began + 4 * MINUTE + 30_000)
    assert [[one.member_id for one in fact.blockers] for fact in stuck(events)] == [["a"]]


def test_a_new_epoch_ends_no_condition() -> None:
    """While a new target is being made the member still blocks: the condition goes on under one id."""
    began = START
    epoch = modern_builders.operation(began + 4 * MINUTE, modern_builders.group_epoch(4))
    target = modern_builders.operation(began + 4 * MINUTE + 500, assigned(4))
    _, events = told([*lost(began), *epoch, *target], [], began + 4 * MINUTE + 30_000)
    assert conditions(events)[-1] == ("rebalance.stuck", "firing", began + 3 * MINUTE)


def test_a_target_that_is_not_made() -> None:
    """Assigning for more than a minute with members: nobody blocks, the assignor or the heartbeats are missing."""
    history = [
        *modern_builders.first_join("a", at=START - MINUTE),
        *modern_builders.operation(START, modern_builders.described("b"), modern_builders.group_epoch(3)),
    ]
    _, events = told(history, [], START + 2 * MINUTE)
    assert conditions(events)[0] == ("rebalance.stuck", "firing", START + MINUTE)
    assert (stuck(events)[0].reason, stuck(events)[0].blockers) == ("not_assigned", ())


@pytest.mark.parametrize("timeout_ms", [8_000, 300_000])
def test_the_session_of_members_without_one_of_their_own(timeout_ms: int) -> None:
    """It is that of their group, which may be no default of Kafka's."""
    own = OwnSettings({GROUP: {"consumer.session.timeout.ms": timeout_ms}})
    snapshot = GroupSnapshot(group=GroupState(group_type=GroupType.CONSUMER, modern=Modern()))
    view = GroupView(GROUP, snapshot, Offsets(), replace(CONTEXT, own_settings=own), 0)
    assert session_timeout_ms(view) == timeout_ms
