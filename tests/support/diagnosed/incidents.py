"""The incidents of known cause: what was done to each group, and the causes and members that its diagnosis must name.

The table was written before the code that draws the diagnosis. A cause is a name of ``groupreplay.timeline.causes``; a
member is named by its instance id or client id. An empty table of causes: the group is healthy, or its log does not
show why, and nothing may be stated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from groupreplay.coordinator.simulation.scenario import BrokerRestarts, FailedAppends
from groupreplay.coordinator.simulation.script import STATIC
from groupreplay.coordinator.simulation.script_steps import (
    Crash,
    Deploy,
    Hang,
    Restart,
    Resume,
    Roll,
    SlowPoll,
    Start,
    Stop,
)
from groupreplay.coordinator.simulation.simulation import BEGIN_MS
from groupreplay.state.policy.rules import Once, PlannedWindow, Policy
from support.diagnosed import histories
from support.diagnosed.worlds import MINUTE, SECOND, World, clients, scenario

#: Cause -> the members that it must name.
Causes = Mapping[str, frozenset[str]]


@dataclass(frozen=True, kw_only=True)
class Incident:
    """What was done, and what must be said of it; ``ok``: words of the sentence that calls it healthy."""

    name: str
    world: World
    causes: Causes = field(default_factory=dict)
    ok: str = ""


def _named(*members: str) -> frozenset[str]:
    return frozenset(members)


_NOBODY: Final = _named()
_COOPERATIVE: Final = {"partition.assignment.strategy": "cooperative-sticky"}
_KIP_848: Final = {"group.protocol": "consumer"}
_STATIC: Final = {"group.instance.id": STATIC}
_PLANNED: Final = Policy(
    windows=(PlannedWindow(groups="*", times=Once(from_ms=BEGIN_MS, until_ms=BEGIN_MS + 60 * MINUTE)),)
)
#: A member hangs for a minute, and then another one joins.
_SILENT: Final = (Hang(1), Start(9, at_ms=MINUTE))
_LOADING: Final = BrokerRestarts(
    first_ms=15 * MINUTE,
    every_ms=120 * MINUTE,
    pace_ms=30 * MINUTE,
    down_ms=10 * MINUTE,
    election_ms=3 * SECOND,
    loading_ms=5 * MINUTE,
)

_OF_REBALANCES: Final = (
    Incident(
        name="a member hangs, a minute later another one joins, and the client gives up",
        world=clients(*_SILENT),
        causes={"silent_member": _named("g-000000-1")},
    ),
    Incident(
        name="the same in a cooperative group of five",
        world=clients(Hang(3), Start(9, at_ms=MINUTE), members=5, client=_COOPERATIVE, seed=2),
        causes={"silent_member": _named("g-000000-3")},
    ),
    Incident(
        name="the same, and the log ends before the rebalance does",
        world=clients(*_SILENT, minutes=15, seed=3),
        causes={"silent_member": _named("g-000000-1")},
    ),
    Incident(
        name="a member hangs, and another one leaves a minute later",
        world=clients(Hang(0), Stop(2, at_ms=MINUTE), seed=4),
        causes={"silent_member": _named("g-000000-0")},
    ),
    Incident(
        name="a member hangs at once with the join of another, and returns before its limit",
        world=clients(SlowPoll(1, 270 * SECOND), Start(9, at_ms=SECOND), seed=5),
        causes={"slow_rejoin": _named("g-000000-1")},
    ),
    Incident(
        name="a member needs more than its short limit for a poll, again and again",
        world=scenario("timeouts"),
        causes={"slow_rejoin": _named("timeouts-000000-1")},
    ),
    Incident(
        name="a member hangs, nobody joins, and its client gives up",
        world=clients(Hang(1), seed=6),
        causes={"gave_up": _named("g-000000-1")},
    ),
    Incident(
        name="a member of four hangs longer than a limit of two minutes",
        world=clients(Hang(2), members=4, client={"max.poll.interval.ms": 120_000}, seed=7),
        causes={"gave_up": _named("g-000000-2")},
    ),
    Incident(
        name="the leader needs eight seconds for its assignment, once",
        world=histories.slow_leader(8),
        causes={"slow_leader": _named("client-a")},
    ),
    Incident(
        name="the leader needs a minute, each time",
        world=histories.slow_leader(60, times=3),
        causes={"slow_leader": _named("client-a")},
    ),
    Incident(
        name="the leader has not sent its assignment when the log ends",
        world=histories.leader_does_not_sync(),
        causes={"slow_leader": _named("client-a")},
    ),
    Incident(
        name="no sync succeeds for twenty minutes: the coordinator cannot write to its topic",
        world=clients(
            Restart("random", at_ms=2 * MINUTE),
            minutes=60,
            failed_appends=FailedAppends(first_ms=12 * MINUTE, every_ms=240 * MINUTE, last_ms=20 * MINUTE),
            seed=8,
        ),
        causes={"sync_fails": _NOBODY},
    ),
    Incident(
        name="forty generations are begun and never completed, and then one is",
        world=histories.failed_generations(40),
        causes={"sync_fails": _NOBODY},
    ),
    Incident(
        name="a KIP-848 member does not revoke its partitions",
        world=scenario("stuck-kip848"),
        causes={"not_revoked": _named("stuck-kip848-000000-1")},
    ),
    Incident(
        name="a KIP-848 member does not revoke, in a history of its own",
        world=histories.not_revoked(),
        causes={"not_revoked": _named("client-a")},
    ),
    Incident(
        name="the coordinator makes no target assignment for a KIP-848 group",
        world=histories.no_assignment(),
        causes={"no_assignment": _NOBODY},
    ),
    Incident(
        name="a KIP-848 member sends no heartbeat, and the coordinator keeps it",
        world=histories.kept_member(),
        causes={"not_heartbeating": _named("client-a")},
    ),
)
_OF_PROCESSES: Final = (
    Incident(
        name="a process is killed",
        world=clients(Crash(1), seed=9),
        causes={"process_lost": _named("g-000000-1")},
    ),
    Incident(
        name="two of five processes are killed together",
        world=clients(Crash(1), Crash(4, at_ms=100), members=5, seed=10),
        causes={"process_lost": _named("g-000000-1", "g-000000-4")},
    ),
    Incident(
        name="a process of a KIP-848 group is killed",
        world=clients(Crash(2), client=_KIP_848, seed=11),
        causes={"process_lost": _named("g-000000-2")},
    ),
    Incident(
        name="a static member is killed and does not come back",
        world=clients(Crash(1), client=_STATIC, seed=12),
        causes={"process_lost": _named("g-000000-i1")},
    ),
    Incident(
        name="a dynamic member crashes every four minutes",
        world=scenario("flapping", 1.5),
        causes={"crash_loop": _named("flapping-000000-1")},
    ),
    Incident(
        name="a static member crashes every two minutes",
        world=scenario("crash-loop"),
        causes={"crash_loop": _named("crash-loop-000000-i1")},
    ),
    Incident(
        name="a member is restarted every 25 seconds: a storm",
        world=scenario("storm"),
        causes={"crash_loop": _named("storm-000000-1")},
    ),
    Incident(
        name="two processes have one instance id, commit every five seconds, and fence each other every two minutes",
        world=scenario("conflict", seed=301),
        causes={"shared_instance_id": _named("conflict-000000-i1")},
    ),
    Incident(
        name="two processes on two hosts have one instance id",
        world=histories.moving_instance_id(7),
        causes={"shared_instance_id": _named("i")},
    ),
    Incident(
        name="a static member is moved to another host, and back", world=histories.moving_instance_id(2)
    ),
    Incident(
        name="a member changes its subscription in each generation",
        world=histories.changing_subscription(),
        causes={"subscription_flapping": _named("client-b")},
    ),
)
_OF_BROKERS: Final = (
    Incident(
        name="the coordinator moves, and the next one loads for five minutes",
        world=clients(minutes=30, restarts=_LOADING, seed=13),
        causes={"coordinator_moved": _NOBODY},
    ),
    Incident(
        name="the coordinator moves, and nobody commits for five minutes",
        world=histories.moved(),
        causes={"coordinator_moved": _NOBODY},
    ),
    Incident(
        name="the coordinator cannot be reached, and nobody commits",
        world=histories.unreachable(),
        causes={"broker_unreachable": _NOBODY},
    ),
    Incident(
        name="a producer leaves a transaction with commits open, until it is aborted after twelve minutes",
        world=histories.open_transaction(12 * MINUTE),
        causes={"hanging_transaction": _NOBODY},
    ),
    Incident(
        name="three producers leave transactions with commits open, and the log ends before they do",
        world=histories.open_transaction(None, behind=2),
        causes={"hanging_transaction": _NOBODY},
    ),
)
_OF_OFFSETS: Final = (
    Incident(
        name="somebody sets the offsets forward: records are skipped",
        world=histories.offsets_set(900),
        causes={"offsets_set": _NOBODY},
    ),
    Incident(
        name="somebody sets the offsets back: records are read again",
        world=histories.offsets_set(-90),
        causes={"offsets_set": _NOBODY},
    ),
    Incident(
        name="the retention ends, and the group begins again at 0",
        world=histories.expired(),
        causes={"offsets_expired": _NOBODY},
    ),
    Incident(
        name="all members end, and the offsets expire later",
        world=clients(Stop("all"), minutes=60, broker={"offsets.retention.minutes": 15}, seed=26),
        causes={"offsets_expired": _NOBODY},
    ),
    Incident(
        name="an administrator deletes the group with its offsets, and it comes back",
        world=histories.deleted(),
        causes={"offsets_deleted": _NOBODY},
    ),
    Incident(
        name="the offset of one partition does not move",
        world=scenario("poison", 1.5),
        causes={"partition_stuck": _NOBODY},
    ),
    Incident(
        name="the only member of a group commits nothing for four minutes",
        world=clients(Hang(0), Resume(0, at_ms=4 * MINUTE), members=1, seed=14),
        causes={"commits_stopped": _NOBODY},
    ),
    Incident(
        name="one member commits nothing when the log ends, the others do",
        world=clients(Hang(1), client={"max.poll.interval.ms": 1_800_000}, minutes=20, seed=15),
        causes={"owner_silent": _named("g-000000-1")},
    ),
)
_SEVERAL: Final = (
    Incident(
        name="a process is killed; later another member hangs before a join",
        world=clients(Crash(2), Hang(1, at_ms=10 * MINUTE), Start(9, at_ms=11 * MINUTE), members=4, seed=16),
        causes={"process_lost": _named("g-000000-2"), "silent_member": _named("g-000000-1")},
    ),
    Incident(
        name="a client gives up; later a process is killed",
        world=clients(Hang(0), Crash(3, at_ms=15 * MINUTE), members=5, seed=17),
        causes={"gave_up": _named("g-000000-0"), "process_lost": _named("g-000000-3")},
    ),
    Incident(
        name="offsets are set by hand, and the leader is slow afterwards",
        world=histories.offsets_set(900, sync_seconds=12),
        causes={"offsets_set": _NOBODY, "slow_leader": _named("client-a")},
    ),
)
_HEALTHY: Final = (
    Incident(name="members start and stay", world=scenario("steady")),
    Incident(
        name="a rolling restart of three", world=clients(Roll(), seed=18), ok="restarted one after another"
    ),
    Incident(
        name="a rolling restart of ten static members",
        world=clients(Roll(), members=10, client=_STATIC, seed=19),
        ok="restarted one after another",
    ),
    Incident(
        name="a rolling restart of five KIP-848 members",
        world=clients(Roll(), members=5, client=_KIP_848, seed=20),
        ok="restarted one after another",
    ),
    Incident(
        name="a rolling restart in which one member is killed",
        world=clients(Roll(killed=1), members=4, client=_COOPERATIVE, seed=21),
        ok="restarted one after another",
    ),
    Incident(name="scaled up and down", world=scenario("autoscale", 2)),
    Incident(name="a deployment: stop, then start", world=clients(Deploy("stop-first"), seed=22)),
    Incident(name="a deployment: start, then stop", world=clients(Deploy("start-first"), seed=23)),
    Incident(name="a consumer closes", world=clients(Stop(1), seed=24)),
    Incident(name="the group ends", world=clients(Stop("all"), seed=25)),
    Incident(
        name="a process is killed in a planned window", world=clients(Crash(1), policy=_PLANNED, seed=9)
    ),
    Incident(name="a quiet topic: clients commit only what they have read", world=histories.quiet_topic()),
    Incident(name="the brokers restart one after another", world=scenario("cluster-restart", 3)),
    Incident(name="a simple client", world=scenario("simple")),
    Incident(name="a mirroring tool sets the offsets every minute", world=scenario("mirrored", 4)),
    Incident(
        name="a transaction with commits is open for 25 seconds",
        world=histories.open_transaction(25 * SECOND),
    ),
    Incident(name="transactions", world=scenario("transactions", 1, 2)),
)
INCIDENTS: Final = (*_OF_REBALANCES, *_OF_PROCESSES, *_OF_BROKERS, *_OF_OFFSETS, *_SEVERAL, *_HEALTHY)
