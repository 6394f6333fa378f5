"""Settings of brokers and clients take effect in a simulated group."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from groupreplay.codecs import GroupMetadataValue, OffsetCommitKey
from groupreplay.codecs.kafka_terms import ConsumerPhase, Phase
from groupreplay.coordinator.consumer.consumer_group import ConsumerGroup
from groupreplay.coordinator.requests import Error, Outcome, Settings
from groupreplay.coordinator.simulation.script import (
    CRASH,
    EVERY_START,
    HANG,
    LEAVE_GROUP,
    REMAIN_IN_GROUP,
    RESUME,
    START,
    STATIC,
    STOP,
    ClientStep,
    Script,
)
from groupreplay.coordinator.simulation.simulated_group import SimulatedGroup

SECOND_MS = 1_000
#: Seconds, action, client.
Act = tuple[float, Any, int]
TWO: tuple[Act, ...] = ((0, START, 0), (1, START, 1))


class Run:
    """A group that has run for a time; ``outcomes`` have times since the begin."""

    def __init__(
        self,
        acts: tuple[Act, ...],
        settings: Mapping[str, Any] | None = None,
        *,
        seconds: int = 300,
        **script: Any,
    ) -> None:
        steps = tuple(ClientStep(int(at_s * SECOND_MS), action, client) for at_s, action, client in acts)
        self.script = Script(**{"steps": steps, "partitions": 4, **script})
        self.group = SimulatedGroup("g", self.script, Settings(**(settings or {})), 0, random.Random(1))
        self.outcomes: list[Outcome] = []
        #: How often each error was answered.
        self.errors: Counter[Error] = Counter()
        self._count_errors()
        while (now_ms := self.group.next_ms()) is not None and now_ms < seconds * SECOND_MS:
            self.outcomes += self.group.run(now_ms)

    def _count_errors(self) -> None:
        handle = self.group._handle_outcome

        def counting(outcome: Outcome, now_ms: int) -> None:
            self.errors.update(
                reply.answer.error for reply in outcome.replies if reply.answer.error is not Error.NONE
            )
            handle(outcome, now_ms)

        self.group._handle_outcome = counting  # type: ignore[method-assign]

    def operations(self) -> Iterator[tuple[float, Any, Any]]:
        """Every record: seconds, key, value."""
        for outcome in self.outcomes:
            for operation in outcome.operations:
                for key, value in operation.records:
                    yield operation.timestamp_ms / SECOND_MS, key, value

    def generations(self) -> list[tuple[float, GroupMetadataValue]]:
        """The records of the classic group."""
        return [
            (at_s, value) for at_s, _, value in self.operations() if isinstance(value, GroupMetadataValue)
        ]

    def sizes(self) -> list[int]:
        """The number of members of each generation."""
        return [len(value.members) for _, value in self.generations() if value.generation > 0]

    def reached(self, state: Phase | ConsumerPhase, since_s: float = 0) -> float:
        """When the group first has a state since a time, in seconds."""
        return next(
            change.at_ms / SECOND_MS
            for outcome in self.outcomes
            for change in outcome.changes
            if change.after is state and change.at_ms >= since_s * SECOND_MS
        )

    def commits(self) -> list[float]:
        """The times of commits, in seconds."""
        return [at_s for at_s, key, _ in self.operations() if isinstance(key, OffsetCommitKey)]


def test_a_full_group_refuses_members() -> None:
    """``group.max.size``: the third client never gets in, and tries again and again."""
    acts: tuple[Act, ...] = (*TWO, (60, START, 2))
    assert max(Run(acts).sizes()) == 3
    full = Run(acts, {"max_size": 2})
    assert max(full.sizes()) == 2
    assert full.errors[Error.GROUP_MAX_SIZE_REACHED] > 60


def test_the_first_rebalance_waits_for_members() -> None:
    """``group.initial.rebalance.delay.ms``: that long since the first member, longer when others come meanwhile."""
    begins = {
        delay_ms: Run(TWO[:1], {"initial_rebalance_delay_ms": delay_ms}).reached(Phase.COMPLETING_REBALANCE)
        for delay_ms in (0, 3_000, 10_000)
    }
    assert {delay_ms: round(at_s) for delay_ms, at_s in begins.items()} == {0: 0, 3_000: 3, 10_000: 10}


@pytest.mark.parametrize("settings", [{"min_session_timeout_ms": 45_001}, {"max_session_timeout_ms": 44_999}])
def test_sessions_outside_of_the_brokers_bounds_are_refused(settings: dict[str, int]) -> None:
    """``group.min.session.timeout.ms`` and ``group.max.session.timeout.ms``: nobody gets in."""
    run = Run(TWO, settings, seconds=60)
    assert set(run.errors) == {Error.INVALID_SESSION_TIMEOUT}
    assert run.outcomes == []
    assert Error.INVALID_SESSION_TIMEOUT not in Run(TWO, dict.fromkeys(settings, 45_000), seconds=60).errors


@pytest.mark.parametrize("session_ms", [6_000, 20_000, 45_000])
def test_a_short_session_ends_sooner(session_ms: int) -> None:
    """``session.timeout.ms``: a crashed member is removed that long after its last request."""
    run = Run((*TWO, (100, CRASH, 1)), session_timeout_ms=session_ms, commit_interval_ms=1_000)
    ended_s = run.reached(Phase.PREPARING_REBALANCE, since_s=100)
    assert 99 + session_ms / 1_000 <= ended_s <= 100 + session_ms / 1_000
    consumers = {"consumer_session_timeout_ms": session_ms, "consumer_heartbeat_interval_ms": 1_000}
    run = Run((*TWO, (100, CRASH, 1)), consumers, consumer_starts=EVERY_START)
    ended_s = run.reached(ConsumerPhase.ASSIGNING, since_s=100)
    assert 100 + session_ms / 2_000 <= ended_s <= 100 + session_ms / 1_000


def test_large_metadata_are_refused() -> None:
    """``offset.metadata.max.bytes``: up to this size they are written."""
    assert Run(TWO, {"offset_metadata_max_bytes": 9}, metadata_bytes=10).commits() == []
    assert len(Run(TWO, {"offset_metadata_max_bytes": 10}, metadata_bytes=10).commits()) > 50


def test_offsets_expire_after_their_retention() -> None:
    """``offsets.retention.minutes``: at the first check that long after the last member has left."""
    for retention_ms, state in ((240_000, Phase.DEAD), (240_001, Phase.EMPTY)):
        run = Run((*TWO[:1], (60, STOP, 0)), {"retention_ms": retention_ms})
        assert run.group.coordinator.state is Phase.EMPTY
        run.group.clean_up(300_000)
        assert run.group.coordinator.state is state


def test_heartbeats_decide_how_soon_a_rebalance_is_noticed() -> None:
    """``heartbeat.interval.ms``, and ``group.consumer.heartbeat.interval.ms`` for KIP-848."""
    acts: tuple[Act, ...] = (*TWO, (100, START, 2))
    ready = {}
    for interval_ms in (1_000, 14_000):
        run = Run(acts, heartbeat_interval_ms=interval_ms)
        begin_s = run.reached(Phase.PREPARING_REBALANCE, since_s=100)
        ready[interval_ms] = run.reached(Phase.COMPLETING_REBALANCE, since_s=begin_s) - begin_s
        settings = {"consumer_heartbeat_interval_ms": interval_ms}
        run = Run(acts, settings, consumer_starts=EVERY_START)
        ready[-interval_ms] = run.reached(ConsumerPhase.STABLE, since_s=100) - 100
    assert ready[1_000] <= 1 < ready[14_000] <= 14
    assert ready[-1_000] < 8 < ready[-14_000]


def test_a_full_consumer_group_refuses_members() -> None:
    """``group.consumer.max.size``."""
    run = Run(TWO, {"consumer_max_size": 1}, consumer_starts=EVERY_START)
    assert len(members_of(run)) == 1
    assert run.errors[Error.GROUP_MAX_SIZE_REACHED] > 60


def members_of(run: Run) -> dict[str, list[int]]:
    """The partitions of the members of a consumer group, by member id."""
    group = run.group.coordinator.group
    assert isinstance(group, ConsumerGroup)
    return {
        name: sorted(number for _, number in member.assigned)
        for name, member in sorted(group.members.items())
    }


def test_the_brokers_first_assignor_is_for_members_that_do_not_choose() -> None:
    """``group.consumer.assignors`` and ``group.remote.assignor``: range deals out by the order of member ids."""
    acts: tuple[Act, ...] = ((0, START, 2), (10, START, 1), (60, START, 0))
    by_id = [[0, 1], [2], [3]]
    consumers = {"consumer_starts": EVERY_START}
    first = [
        Run(acts, **consumers),
        Run(acts, {"consumer_assignors": ("range", "uniform")}, **consumers),
        Run(acts, remote_assignor="range", **consumers),
    ]
    assert [list(members_of(run).values()) == by_id for run in first] == [False, True, True]
    refused = Run(acts, {"consumer_assignors": ("uniform",)}, remote_assignor="range", **consumers)
    assert set(refused.errors) == {Error.UNSUPPORTED_ASSIGNOR}


def test_targets_are_not_computed_more_often_than_the_assignment_interval() -> None:
    """``group.consumer.assignment.interval.ms``: the second member waits for it."""
    stable = {
        interval_ms: Run(
            TWO, {"consumer_assignment_interval_ms": interval_ms}, consumer_starts=EVERY_START
        ).reached(ConsumerPhase.STABLE, since_s=1)
        for interval_ms in (1_000, 15_000)
    }
    assert stable[1_000] < 15 < stable[15_000]


@pytest.mark.parametrize(
    ("policy", "upgraded", "downgraded"),
    [
        ("disabled", False, False),
        ("upgrade", True, False),
        ("bidirectional", True, True),
        ("downgrade", False, False),
    ],
)
def test_a_migration_needs_the_policy(policy: str, upgraded: bool, downgraded: bool) -> None:
    """``group.consumer.migration.policy``: one restart upgrades each client, the next one reverts that."""
    restarts: list[Act] = []
    for begin_s in (60, 160):
        for client in (0, 1):
            at_s = begin_s + 30 * client
            restarts += [(at_s, STOP, client), (at_s + 5, START, client)]
    run = Run((*TWO, *restarts), {"migration_policy": policy}, consumer_starts=range(2, 3))
    kinds = [change.group_type for outcome in run.outcomes for change in outcome.changes]
    assert ("consumer" in kinds, "consumer" in kinds and kinds[-1] == "classic") == (upgraded, downgraded)


@pytest.mark.parametrize("poll_ms", [30_000, 90_000])
def test_a_member_that_does_not_poll_leaves(poll_ms: int) -> None:
    """``max.poll.interval.ms`` after its last poll; until then it keeps its session alive."""
    run = Run((*TWO, (60, HANG, 1)), rebalance_timeout_ms=poll_ms)
    assert run.reached(Phase.PREPARING_REBALANCE, since_s=10) == 60 + poll_ms / 1_000


def test_a_member_that_hangs_again_has_its_whole_time() -> None:
    """Its first hang was over in time: the 30 s count from the second one."""
    run = Run((*TWO, (60, HANG, 1), (80, RESUME, 1), (85, HANG, 1)), rebalance_timeout_ms=30_000)
    assert run.reached(Phase.PREPARING_REBALANCE, since_s=10) == 85 + 30


def test_commits_come_at_their_interval() -> None:
    """``auto.commit.interval.ms``."""
    often, rarely = (len(Run(TWO[:1], commit_interval_ms=one).commits()) for one in (2_000, 20_000))
    assert (often // 4, rarely // 4) == (148, 14)


@pytest.mark.parametrize("kip848", [False, True])
@pytest.mark.parametrize(
    ("instance_id", "close", "at_once"),
    [
        (None, "DEFAULT", True),
        (STATIC, "DEFAULT", False),
        (None, REMAIN_IN_GROUP, False),
        (STATIC, REMAIN_IN_GROUP, False),
        (None, LEAVE_GROUP, True),
        (STATIC, LEAVE_GROUP, True),
    ],
)
def test_who_leaves_at_once(instance_id: str | None, close: str, at_once: bool, kip848: bool) -> None:
    """``group.membership.operation``: otherwise a member is removed at the end of its session."""
    starts = EVERY_START if kip848 else range(0)
    run = Run((*TWO, (100, STOP, 1)), instance_id=instance_id, close=close, consumer_starts=starts)
    changed = run.reached(ConsumerPhase.ASSIGNING if kip848 else Phase.PREPARING_REBALANCE, since_s=100)
    assert (changed < 101) is at_once
    assert (changed > 120) is not at_once


def test_one_instance_id_for_all_members_is_a_mistake() -> None:
    """``group.instance.id`` without {member}: each start fences the member before."""
    right, wrong = (Run(TWO, instance_id=one, seconds=60) for one in (STATIC, "one"))
    assert (max(right.sizes()), max(wrong.sizes())) == (2, 1)
    assert wrong.errors[Error.FENCED_INSTANCE_ID] == 1


def test_the_assignors_of_clients() -> None:
    """``partition.assignment.strategy``: the first one wins; only cooperative-sticky alone is cooperative."""
    acts: tuple[Act, ...] = (*TWO, (100, START, 2))
    found = {}
    for strategies in (
        ("range",),
        ("range", "cooperative-sticky"),
        ("cooperative-sticky", "range"),
        ("cooperative-sticky",),
    ):
        run = Run(acts, strategies=strategies)
        later = [value for at_s, value in run.generations() if at_s > 100]
        found[strategies] = (later[-1].protocol, len(later))
    # A cooperative rebalance has a second generation, which assigns what the first one has revoked.
    assert found == {
        ("range",): ("range", 1),
        ("range", "cooperative-sticky"): ("range", 1),
        ("cooperative-sticky", "range"): ("cooperative-sticky", 1),
        ("cooperative-sticky",): ("cooperative-sticky", 2),
    }


def upgrade_of(members: int, **script: Any) -> Run:
    """A classic group whose first client is restarted with the consumer protocol."""
    started: list[Act] = [(client / 10, START, client) for client in range(members)]
    acts: tuple[Act, ...] = (*started, (60, STOP, 0), (65, START, 0))
    return Run(acts, consumer_starts=range(2, 3), partitions=2 * members, commit_interval_ms=30_000, **script)


def test_classic_members_notice_an_upgrade() -> None:
    """They rejoin within a few heartbeats, so the rebalance of the upgrade ends."""
    run = upgrade_of(10)
    assert run.reached(ConsumerPhase.STABLE, since_s=65) < 75
    assert [len(owned) for owned in members_of(run).values()] == [2] * 10


def test_classic_members_stay_in_an_upgraded_group() -> None:
    """A static member changes its protocol without a rebalance; the others must keep their sessions alive."""
    run = upgrade_of(3, instance_id=STATIC)
    changes = [(change.at_ms, change.after) for outcome in run.outcomes for change in outcome.changes]
    assert [after for at_ms, after in changes if at_ms > 60_000] == [ConsumerPhase.STABLE]
    assert [len(owned) for owned in members_of(run).values()] == [2] * 3
