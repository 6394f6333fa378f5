"""The built-in scenarios by name; docs/simulations.md says what they are for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from groupreplay.coordinator.simulation.scenario import BrokerRestarts, FailedAppends, GroupSettings, Scenario
from groupreplay.coordinator.simulation.script import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    SECOND_MS,
    STATIC,
    About,
    Between,
    Committer,
    Number,
    OneOf,
    ShareOfTime,
)
from groupreplay.coordinator.simulation.script_steps import (
    Crash,
    Deploy,
    Hang,
    Restart,
    Resume,
    Roll,
    Scale,
    ScriptedEvent,
    SlowPoll,
    Start,
    Stop,
)

_COMMIT: Final = "auto.commit.interval.ms"
_STRATEGY: Final = "partition.assignment.strategy"
_INSTANCE: Final = "group.instance.id"
_PROTOCOL: Final = "group.protocol"
_SOME_STATIC: Final = OneOf(("", STATIC), (2, 1))
_EAGER_OR_COOPERATIVE: Final = OneOf(("range", "cooperative-sticky"))
_PARTITIONS: Final = OneOf((3, 6, 12))
_SOON_BACK: Final = Between(2 * SECOND_MS, 8 * SECOND_MS)


def _scenario(
    name: str,
    title: str,
    *events: ScriptedEvent,
    members: Number = 3,
    partitions: Number = _PARTITIONS,
    client: Mapping[str, Any] | None = None,
    broker: Mapping[str, Any] | None = None,
    restarts: BrokerRestarts | None = None,
    failed_appends: FailedAppends | None = None,
    **group: Any,
) -> Scenario:
    """A scenario whose clients commit every 5 to 30 seconds, unless ``client`` says otherwise."""
    return Scenario(
        name=name,
        title=title,
        broker=broker or {},
        client={_COMMIT: OneOf((5_000, 10_000, 30_000), (1, 1, 2)), **(client or {})},
        group=GroupSettings(members=members, partitions=partitions, **group),
        events=events,
        restarts=restarts,
        failed_appends=failed_appends,
    )


_STEADY: Final = _scenario("steady", "One to five members start and stay", members=Between(1, 5))
_SIMPLE: Final = _scenario(
    "simple",
    "A client commits offsets without being a member",
    client={_COMMIT: OneOf((10_000, 60_000))},
    members=1,
    partitions=6,
    simple=True,
)
_ROLLING_RESTART: Final = _scenario(
    "rolling-restart",
    "All members are restarted one after another, and after a pause again; a third of the groups are static",
    ScriptedEvent(every_ms=About(20 * MINUTE_MS, 2 * MINUTE_MS), steps=(Roll(pace_ms=30 * SECOND_MS),)),
    client={_INSTANCE: _SOME_STATIC, _STRATEGY: _EAGER_OR_COOPERATIVE},
    members=OneOf((3, 10, 50), (5, 2, 1)),
)
_AUTOSCALE: Final = _scenario(
    "autoscale",
    "One member more or less every few minutes, between one and eight",
    ScriptedEvent(every_ms=About(5 * MINUTE_MS), steps=(Scale(1, 8),)),
    client={_STRATEGY: _EAGER_OR_COOPERATIVE},
    members=2,
)
_DEPLOYMENT: Final = _scenario(
    "deployment",
    "All members are replaced every hour: the old ones stop before the new ones start, or after",
    ScriptedEvent(every_ms=About(HOUR_MS), steps=(Deploy("either"),)),
    members=Between(2, 6),
)
_IRREGULAR: Final = _scenario(
    "irregular",
    "The time between two commits varies from seconds to an hour; some repeat the last offsets",
    members=Between(1, 5),
    irregular=True,
    repeats=OneOf((0.0, 0.1, 0.5)),
)
_TRANSACTIONS: Final = _scenario(
    "transactions",
    "Producers commit the offsets; some transactions are aborted, crashes leave some open",
    ScriptedEvent(every_ms=About(30 * MINUTE_MS), steps=(Restart("random", crash=0.5),)),
    members=Between(1, 4),
    committer=OneOf((Committer.PRODUCERS, Committer.BOTH), (2, 1)),
)
_EXPIRY: Final = _scenario(
    "expiry",
    "All members end after a sixth of the time; their offsets expire later",
    ScriptedEvent(after_ms=ShareOfTime(0.167, 20 * SECOND_MS), steps=(Stop("all", crash=0.5),)),
    members=Between(1, 3),
)
_STORM: Final = _scenario(
    "storm",
    "A member is restarted about every 25 seconds",
    ScriptedEvent(every_ms=About(25 * SECOND_MS), steps=(Restart(1, _SOON_BACK, crash=0.2),)),
)
_STUCK: Final = _scenario(
    "stuck",
    "A member hangs while another one joins: the rebalance lasts until it leaves",
    # An operator ends both members after ten minutes.
    ScriptedEvent(
        every_ms=About(HOUR_MS),
        steps=(
            Hang(1),
            Start(3, at_ms=5 * SECOND_MS),
            Crash(1, at_ms=10 * MINUTE_MS),
            Start(1, at_ms=11 * MINUTE_MS),
            Stop(3, at_ms=12 * MINUTE_MS),
        ),
    ),
    repeats=0.2,
)
_FLAPPING: Final = _scenario(
    "flapping",
    "A dynamic member crashes every four minutes; each rebalance waits for the end of its session",
    ScriptedEvent(
        every_ms=Between(200 * SECOND_MS, 260 * SECOND_MS), steps=(Restart(1, _SOON_BACK, crash=1.0),)
    ),
)
_CRASH_LOOP: Final = _scenario(
    "crash-loop",
    "A static member crashes every two minutes, without a rebalance",
    ScriptedEvent(
        every_ms=Between(100 * SECOND_MS, 150 * SECOND_MS), steps=(Restart(1, _SOON_BACK, crash=1.0),)
    ),
    client={_INSTANCE: STATIC},
)

_OF_MEMBERS: Final = (
    _scenario(
        "conflict",
        "Two processes share an instance id: each start fences the other one, which is then started again",
        ScriptedEvent(
            every_ms=About(2 * MINUTE_MS),
            cycle=((Crash(3), Start(3, at_ms=1)), (Crash(1), Start(1, at_ms=1))),
        ),
        client={_INSTANCE: STATIC},
        same_instance_id=((1, 3),),
    ),
    _scenario(
        "idle",
        "Five members share three partitions; the first one is restarted now and then",
        ScriptedEvent(every_ms=About(20 * MINUTE_MS), steps=(Restart(0),)),
        members=5,
        partitions=3,
        idle_members=True,
    ),
    _scenario(
        "mirrored",
        "A mirroring tool sets the offsets of the group every minute while the group has no members",
        # The consumers run in this cluster for a while, otherwise in the one that is mirrored.
        ScriptedEvent(
            after_ms=30 * MINUTE_MS,
            every_ms=8 * HOUR_MS,
            steps=(Stop("all"), Start("all", at_ms=7 * HOUR_MS)),
        ),
        members=Between(1, 3),
        mirrored_every_ms=MINUTE_MS,
    ),
    _scenario(
        "pause",
        "The only member of a group commits nothing for four minutes, and goes on",
        ScriptedEvent(
            after_ms=10 * MINUTE_MS,
            every_ms=About(HOUR_MS),
            steps=(Hang(1), Resume(1, at_ms=4 * MINUTE_MS)),
        ),
        client={_COMMIT: 5_000},
        members=1,
        repeats=0.2,
    ),
    _scenario(
        "poison",
        "The offset of one partition does not change, whichever member owns it",
        ScriptedEvent(every_ms=About(12 * MINUTE_MS), steps=(Restart("next"),)),
        repeats=0.1,
        poisoned_after_ms=6 * MINUTE_MS,
    ),
    _scenario(
        "resubscribed",
        "Static members are restarted, each time with another second topic: the offsets of the former one expire",
        # Most restarts are over before the session ends: the generation stays.
        ScriptedEvent(after_ms=5 * MINUTE_MS, every_ms=About(30 * MINUTE_MS), steps=(Restart("random"),)),
        # A member that is away for longer begins a new generation.
        ScriptedEvent(
            after_ms=30 * MINUTE_MS,
            every_ms=About(90 * MINUTE_MS),
            steps=(Restart("random", 2 * MINUTE_MS, crash=1.0),),
        ),
        broker={"offsets.retention.minutes": 5, "offsets.retention.check.interval.ms": 60_000},
        client={_COMMIT: 5_000, _INSTANCE: STATIC, _STRATEGY: "range", "session.timeout.ms": 45_000},
        members=Between(1, 3),
        partitions=3,
        changing_topics=3,
        # A coordinator that has loaded the group protects the present subscriptions, and the others no more.
        restarts=BrokerRestarts(
            first_ms=25 * MINUTE_MS, every_ms=HOUR_MS, pace_ms=10 * MINUTE_MS, down_ms=MINUTE_MS
        ),
    ),
    _scenario(
        "rollout-kill",
        "Roll-outs in which one member is killed instead of stopped",
        # New clients take the place of the old ones, or the same ones come back, one after another.
        ScriptedEvent(
            after_ms=10 * MINUTE_MS,
            every_ms=About(HOUR_MS),
            cycle=((Roll(killed=1),), (Deploy("either", killed=1),)),
        ),
        client={_STRATEGY: _EAGER_OR_COOPERATIVE, _INSTANCE: _SOME_STATIC},
        members=Between(3, 8),
        partitions=OneOf((6, 12)),
    ),
    _scenario(
        "silent",
        "A member of a group that commits every five seconds stops committing, and no rebalance begins",
        ScriptedEvent(
            after_ms=10 * MINUTE_MS,
            every_ms=About(HOUR_MS),
            steps=(Hang(1), Crash(1, at_ms=10 * MINUTE_MS), Start(1, at_ms=11 * MINUTE_MS)),
        ),
        client={_COMMIT: 5_000},
        repeats=0.2,
    ),
    _scenario(
        "timeouts",
        "Four times an hour a member exceeds a rebalance timeout of 30 s; it is removed and joins again",
        ScriptedEvent(
            every_ms=Between(12 * MINUTE_MS, 15 * MINUTE_MS),
            steps=(
                SlowPoll(1, 90 * SECOND_MS),
                Start(3, at_ms=2 * SECOND_MS),
                Stop(3, at_ms=3 * MINUTE_MS),
            ),
        ),
        client={"max.poll.interval.ms": 30_000},
    ),
    _scenario(
        "weekend",
        "A deployment stops the members on Friday evening and starts the new ones on Monday; offsets are kept for "
        "a day",
        ScriptedEvent(after_ms=2 * HOUR_MS, every_ms=7 * DAY_MS, steps=(Deploy("stop-first", 62 * HOUR_MS),)),
        broker={"offsets.retention.minutes": 1_440},
        client={_COMMIT: OneOf((10_000, 30_000))},
        members=Between(1, 3),
        partitions=OneOf((3, 6)),
    ),
)
_OF_BROKERS: Final = (
    _scenario(
        "cluster-restart",
        "The brokers are restarted one after another, every two hours",
        members=Between(1, 5),
        restarts=BrokerRestarts(),
    ),
    _scenario(
        "failed-appends",
        "Every hour the brokers cannot write to the offsets topic for ten seconds, while members are restarted",
        ScriptedEvent(after_ms=10 * MINUTE_MS, every_ms=About(20 * MINUTE_MS), steps=(Roll(),)),
        members=Between(2, 5),
        failed_appends=FailedAppends(first_ms=20 * MINUTE_MS, every_ms=HOUR_MS, last_ms=10 * SECOND_MS),
    ),
    _scenario(
        "loading",
        "The brokers are restarted one after another while members are, too; each time the next coordinator loads "
        "for 20 seconds",
        # The members are restarted in the same minutes as the brokers.
        ScriptedEvent(
            after_ms=10 * MINUTE_MS, every_ms=About(30 * MINUTE_MS), steps=(Roll(pace_ms=MINUTE_MS),)
        ),
        client={_PROTOCOL: OneOf(("classic", "consumer"), (2, 1))},
        members=Between(2, 5),
        restarts=BrokerRestarts(
            every_ms=HOUR_MS,
            pace_ms=4 * MINUTE_MS,
            down_ms=MINUTE_MS,
            election_ms=3 * SECOND_MS,
            loading_ms=20 * SECOND_MS,
        ),
    ),
    _scenario(
        "unwritable",
        "Every four hours the brokers cannot write to the offsets topic for 20 minutes, and no rebalance can end",
        # A member is restarted in each of these times.
        ScriptedEvent(after_ms=62 * MINUTE_MS, every_ms=4 * HOUR_MS, steps=(Restart("random"),)),
        members=Between(2, 5),
        failed_appends=FailedAppends(first_ms=HOUR_MS, every_ms=4 * HOUR_MS, last_ms=20 * MINUTE_MS),
    ),
)


def _variant(name: str, title: str, scenario: Scenario) -> Scenario:
    """A scenario with other settings; as a mixture of one, it draws the part as any mixture does."""
    return Scenario(name=name, title=title, mixture=((1, scenario),))


def _rolling_restarts() -> list[Scenario]:
    """Each size, dynamic or static, eager or cooperative."""
    return [
        _variant(
            f"rolling-restart-{members}-{kind}-{protocol}",
            f"Rolling restarts of {members} {kind} members, with the assignor {strategy}",
            _ROLLING_RESTART.with_client({_INSTANCE: instance_id, _STRATEGY: strategy}).with_group(
                members=members
            ),
        )
        for members in (3, 10, 50)
        for kind, instance_id in (("dynamic", ""), ("static", STATIC))
        for protocol, strategy in (("eager", "range"), ("cooperative", "cooperative-sticky"))
    ]


def _of_kip_848() -> list[Scenario]:
    consumer = {_PROTOCOL: "consumer"}
    ten = next(item for item in _rolling_restarts() if item.name == "rolling-restart-10-dynamic-eager")
    parts = (_ROLLING_RESTART, _AUTOSCALE, _STORM, _STUCK, _EXPIRY)
    return [
        Scenario(
            name="kip848",
            title="KIP-848 groups: rolling restarts, autoscaling, expiry, and groups with problems",
            mixture=tuple((1, part.with_client(consumer)) for part in parts),
        ),
        _variant(
            "migration",
            "A rolling restart migrates the members to KIP-848; in every third group the next one migrates them back",
            _ROLLING_RESTART.with_group(migrates_at_start=2, returns_at_start=OneOf((0, 3), (2, 1))),
        ),
        _variant(
            "rolling-restart-10-kip848",
            "Rolling restarts of 10 members of a KIP-848 group",
            ten.with_client(consumer),
        ),
        _variant(
            "stuck-kip848",
            "The same as stuck in a KIP-848 group: the member does not revoke its partitions",
            # Each of three members, also the hanging one, has to revoke one of 12 partitions for the fourth.
            _STUCK.with_client(consumer).with_group(partitions=12),
        ),
    ]


_MIXED: Final = Scenario(
    name="mixed",
    title="The groups of a whole cluster: most of them are healthy, a few have problems, some are simple",
    mixture=(
        (50, _STEADY),
        (10, _SIMPLE),
        # Few groups are large.
        (8, _ROLLING_RESTART.with_group(members=OneOf((3, 10), (3, 1)))),
        (10, _AUTOSCALE),
        (4, _DEPLOYMENT),
        (4, _IRREGULAR),
        (4, _TRANSACTIONS),
        (4, _EXPIRY),
        (2, _STORM),
        (2, _STUCK),
        (1, _FLAPPING),
        (1, _CRASH_LOOP),
    ),
)
_ALL: Final = (
    *(part for _, part in _MIXED.mixture if part.name != _ROLLING_RESTART.name),
    _ROLLING_RESTART,
    *_OF_MEMBERS,
    *_OF_BROKERS,
    *_rolling_restarts(),
    *_of_kip_848(),
    _MIXED,
)
#: Each built-in scenario by its name, in the order of the names.
SCENARIOS: Final[Mapping[str, Scenario]] = {
    scenario.name: scenario for scenario in sorted(_ALL, key=lambda scenario: scenario.name)
}
