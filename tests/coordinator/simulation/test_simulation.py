"""The simulated groups of one partition: order, state changes, probes, expiry."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import pytest

from groupreplay.codecs import GroupMetadataValue, OffsetCommitKey
from groupreplay.codecs.consumer import ConsumerGroupCurrentMemberAssignmentKey
from groupreplay.codecs.kafka_terms import (
    REBALANCING,
    VALID_PREVIOUS_STATES,
    ConsumerPhase,
    Phase,
    partition_for,
)
from groupreplay.coordinator.consumer.consumer_group import AWAY, VALID_PREVIOUS, ConsumerGroup
from groupreplay.coordinator.requests import Settings
from groupreplay.coordinator.simulation.scenarios import SCENARIOS
from groupreplay.coordinator.simulation.script import (
    EVERY_START,
    HANG,
    RESUME,
    START,
    STATIC,
    ClientStep,
    Script,
)
from groupreplay.coordinator.simulation.simulated_group import SimulatedGroup
from groupreplay.coordinator.simulation.simulation import (
    BEGIN_MS,
    CoordinatorWarning,
    GroupProbe,
    GroupTransition,
    LogEnds,
    SimulationItem,
    SimulationPlan,
    WrittenRecord,
    simulate,
)
from groupreplay.state import Group
from support.histories.builders import CONTEXT, Raw, observed

MINUTE_MS = 60_000
NAMES = [name for name in SCENARIOS if not name.startswith("rolling-restart-")]
CONSUMER_SCENARIOS = ("kip848", "migration", "rolling-restart-10-kip848", "stuck-kip848")
#: Scenarios in which a coordinator moves.
DISTURBED = ("cluster-restart", "loading")
#: Of a group that is not there nobody can tell the kind.
DEAD = {Phase.DEAD, ConsumerPhase.DEAD}
#: State -> the states before it, in either kind of group and between them; a group begins Empty.
LEGAL = {
    state: VALID_PREVIOUS_STATES.get(state, frozenset()) | VALID_PREVIOUS.get(state, frozenset())  # type: ignore[call-overload]
    for state in (*Phase, *ConsumerPhase)
}
LEGAL[Phase.EMPTY] |= {Phase.DEAD}


def plan(
    scenario: str = "mixed", *, groups: int = 6, minutes: int = 15, seed: int = 1, **fields: object
) -> SimulationPlan:
    """A small simulation with all groups in one partition."""
    return SimulationPlan(
        scenario=SCENARIOS[scenario],
        groups=groups,
        duration_ms=minutes * MINUTE_MS,
        seed=seed,
        partitions=1,
        **fields,  # type: ignore[arg-type]
    )


def simulated(one: SimulationPlan) -> list[SimulationItem]:
    """All items of the simulation."""
    return list(simulate(one, one.group_ids()[0]))


def generations(items: list[SimulationItem]) -> list[GroupMetadataValue]:
    """The records of classic groups, without tombstones."""
    return [
        item.value
        for item in items
        if isinstance(item, WrittenRecord) and isinstance(item.value, GroupMetadataValue)
    ]


def at_ms(item: SimulationItem) -> int:
    """The time of an item."""
    if isinstance(item, WrittenRecord):
        return item.timestamp_ms
    if isinstance(item, CoordinatorWarning):
        return item.at_ms
    return item.change.at_ms if isinstance(item, GroupTransition) else item.taken_ms


@pytest.mark.parametrize("scenario", NAMES)
def test_everything_is_in_order_and_legal(scenario: str) -> None:
    """Times never decrease, states follow each other legally, and probes have the actual state.

    With transactions the offsets have gaps and records are released late. A coordinator that moves loses a rebalance.
    """
    # The last broker is restarted after 21 minutes.
    one = plan(scenario, minutes=25 if scenario in DISTURBED else 12)
    items = simulated(one)
    records = [item for item in items if isinstance(item, WrittenRecord)]
    offsets = [record.offset for record in records]
    transactions = scenario in ("transactions", "mixed")
    assert offsets == (sorted(set(offsets)) if transactions else list(range(len(records))))
    seen = [item for item in items if not (transactions and isinstance(item, WrittenRecord))]
    assert all(at_ms(before) <= at_ms(after) for before, after in pairwise(seen))
    assert all(at_ms(before) <= at_ms(after) for before, after in pairwise(records))
    assert at_ms(items[0]) >= BEGIN_MS
    assert at_ms(items[-1]) < one.end_ms
    state: dict[str, Phase | ConsumerPhase] = defaultdict(lambda: Phase.DEAD)
    for item in items:
        if isinstance(item, GroupProbe):
            known = state[item.group_id]
            # Whoever asks for classic groups finds no other ones.
            assert item.summary.state is (known if isinstance(known, Phase) else Phase.DEAD)
        if isinstance(item, GroupTransition):
            before = state[item.group_id]
            assert item.change.before is before or {item.change.before, before} == DEAD
            legal = LEGAL[item.change.after]
            if scenario in DISTURBED and item.change.after is Phase.STABLE:
                legal |= REBALANCING
            assert item.change.before in legal
            state[item.group_id] = item.change.after
    assert set(state) == set(one.group_ids()[0])


def test_clients_end_in_a_stable_group_with_every_partition_dealt_out() -> None:
    """After the start of all members each partition has an owner and commits."""
    items = simulated(plan("rolling-restart-3-dynamic-eager", groups=3, minutes=30))
    restarts = [
        generation for generation in generations(items) if generation.members and generation.generation > 1
    ]
    assert len(restarts) > 10
    keys = {item.key for item in items if isinstance(item, WrittenRecord)}
    assert sum(isinstance(key, OffsetCommitKey) for key in keys) >= 3 * 3


def test_a_prober_asks_about_rebalances_until_they_are_over() -> None:
    """Each series of probes ends with a state that is not a rebalance, unless the simulation ends before."""
    one = plan("storm", groups=2)
    answers = [item for item in simulated(one) if isinstance(item, GroupProbe)]
    assert {answer.taken_ms % 10_000 for answer in answers} == {BEGIN_MS % 10_000}
    for group_id in one.group_ids()[0]:
        mine = [answer for answer in answers if answer.group_id == group_id]
        for before, after in pairwise(mine):
            if before.summary.state in REBALANCING:
                assert after.taken_ms == before.taken_ms + 10_000


def test_without_a_prober_nobody_asks() -> None:
    """The log does not depend on the prober."""
    simple = simulated(plan(probe_interval_ms=None))
    assert [item for item in simulated(plan()) if not isinstance(item, GroupProbe | LogEnds)] == simple


def test_abandoned_groups_expire_at_the_clean_up_after_their_retention() -> None:
    """Offsets and group in one operation, not before their deadline and not after the next check."""
    one = plan("expiry", minutes=60, settings=Settings(retention_ms=15 * MINUTE_MS))
    emptied: dict[str, int] = {}
    deleted: dict[str, int] = {}
    for item in simulated(one):
        if isinstance(item, GroupTransition) and item.change.after in (Phase.EMPTY, Phase.DEAD):
            times = emptied if item.change.after is Phase.EMPTY else deleted
            times[item.group_id] = item.change.at_ms
    assert set(deleted) == set(one.group_ids()[0])
    for group_id, at in deleted.items():
        assert 15 * MINUTE_MS <= at - emptied[group_id] < 25 * MINUTE_MS


def test_the_older_coordinator_writes_no_generation_0() -> None:
    """The state changes have the group's beginning all the same."""
    items = simulated(plan("autoscale", groups=2, minutes=5, settings=Settings(scala=True)))
    assert min(generation.generation for generation in generations(items)) == 1
    assert any(isinstance(item, GroupTransition) and item.change.before is Phase.DEAD for item in items)


def test_groups_are_in_the_partitions_that_hold_them() -> None:
    """By the same hash as the broker's."""
    placed = SimulationPlan(scenario=SCENARIOS["mixed"], groups=200, duration_ms=1, seed=0).group_ids()
    assert sum(map(len, placed)) == 200
    assert all(partition_for(group_id) == place for place, ids in enumerate(placed) for group_id in ids)


def test_a_seed_says_everything() -> None:
    """Another seed gives another history."""
    assert simulated(plan(minutes=5)) == simulated(plan(minutes=5))
    assert simulated(plan(minutes=5)) != simulated(plan(minutes=5, seed=2))


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("hangs_s", [10, 50])
def test_a_consumer_that_hangs_finds_its_way_back(hangs_s: int, static: bool) -> None:
    """KIP-848: it leaves after 30 s without a poll; in the end all partitions are assigned."""
    steps = ((0, START, 0), (10, START, 1), (60, HANG, 1), (62, START, 2))
    script = Script(
        steps=tuple(
            ClientStep(at_s * 1_000, action, client)
            for at_s, action, client in (*steps, (60 + hangs_s, RESUME, 1))
        ),
        consumer_starts=EVERY_START,
        instance_id=STATIC if static else None,
        rebalance_timeout_ms=30_000,
    )
    group = SimulatedGroup("g", script, Settings(), BEGIN_MS, random.Random(1))
    left = []
    while (now_ms := group.next_ms()) is not None and now_ms < BEGIN_MS + 180_000:
        for outcome in group.run(now_ms):
            left += [
                operation.timestamp_ms - BEGIN_MS
                for operation in outcome.operations
                for key, value in operation.records
                if isinstance(key, ConsumerGroupCurrentMemberAssignmentKey)
                and (value is None or value.member_epoch == AWAY)  # type: ignore[union-attr]
            ]
    found = group.coordinator.group
    assert isinstance(found, ConsumerGroup)
    assert found.state is ConsumerPhase.STABLE
    assert sorted(len(member.assigned) for member in found.members.values()) == [2, 2, 2]
    assert left[:1] == ([90_000] if hangs_s > 30 else [])


@pytest.mark.parametrize("scenario", CONSUMER_SCENARIOS)
def test_the_replay_of_consumer_groups_knows_each_of_their_states(scenario: str) -> None:
    """At the time of each change; most changes of classic groups in between are not written."""
    one = plan(scenario, groups=1 if scenario == "migration" else 4, minutes=40)
    items = simulated(one)
    for group_id in one.group_ids()[0]:
        log = [
            Raw(item.key, item.value, item.offset, item.timestamp_ms)
            for item in items
            if isinstance(item, WrittenRecord) and item.key.group == group_id  # type: ignore[union-attr]
        ]
        told = {
            item.change.at_ms: item.change
            for item in items
            if isinstance(item, GroupTransition) and item.group_id == group_id
        }
        replayed = Group(group_id, CONTEXT)
        shown = 0
        for at, change in told.items():
            if isinstance(change.after, ConsumerPhase):
                until = bisect_right(log, at, key=lambda raw: raw.at)
                replayed.apply(replace(observed(log[shown:until]), seen_to=1 << 40), 0)
                shown = until
                described = replayed.describe()
                assert (described["state"], described["group_epoch"]) == (
                    change.after.value,
                    change.generation,
                )
        assert shown
