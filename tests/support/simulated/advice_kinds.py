"""For each kind of advice groups with the setting that it is against, the same with the advised one, and the truth.

The settings and times of a history are drawn from its seed before it is played, so that both sides have the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from groupreplay.coordinator.simulation.script import MINUTE_MS, SECOND_MS, STATIC, About, Between
from groupreplay.coordinator.simulation.script_steps import (
    Restart,
    Roll,
    ScriptedEvent,
    SlowPoll,
    Start,
    Stop,
)
from groupreplay.timeline.advice.finding import Finding, Kind
from support.simulated.advice_plays import HOUR_MS, Played, Side
from support.simulated.advice_truths import SAVED, STOPPED_LESS, Truth, held_less, stopped_fewer
from support.simulated.advised import scripted
from support.simulated.unlike_clients import Unlike

_COMMIT = "auto.commit.interval.ms"
_INSTANCE = "group.instance.id"
_STATIC_MEMBERS: dict[str, Any] = {_INSTANCE: STATIC}
_POLL = "max.poll.interval.ms"
_RETENTION = "offsets.retention.minutes"
_SESSION = "session.timeout.ms"
_STRATEGY = "partition.assignment.strategy"
_DAY_HOURS = 24
#: A member of a group that is played for days is silent for a third of it, so that there are fewer heartbeats.
_LONG_SESSION_MS = 1_800_000


@dataclass(frozen=True, kw_only=True)
class Question:
    """Groups of which a kind of advice is right or wrong.

    ``after``: the side with the advice followed. ``truths``: the true effects by their measures.
    """

    name: str
    kind: Kind
    before: Callable[[random.Random], Side]
    after: Callable[[Side, Finding], Side]
    truths: Mapping[str, Truth]


def _rolled(numbers: random.Random) -> Side:
    every_ms = numbers.randint(10, 25) * MINUTE_MS
    roll = Roll(down_ms=Between(5 * SECOND_MS, 15 * SECOND_MS), crash=numbers.choice((0.0, 0.0, 0.3)))
    return Side(
        scenario=scripted(ScriptedEvent(every_ms=every_ms, steps=(roll,)), members=numbers.randint(3, 6))
    )


def _rolled_together(numbers: random.Random) -> Side:
    """Clients as Kafka's: they send all heartbeats, together after each rebalance, and commit when they close."""
    side = _rolled(numbers)
    return replace(side, scenario=side.scenario.with_group(exact=True))


def _restarted(numbers: random.Random) -> Side:
    """Half of the restarts are crashes, and half of them take longer than a session."""
    restart = Restart("random", Between(5 * SECOND_MS, 90 * SECOND_MS), crash=0.5)
    every_ms = About(numbers.randint(8, 12) * MINUTE_MS)
    return Side(scenario=scripted(ScriptedEvent(every_ms=every_ms, steps=(restart,))), hours=5)


def _static(side: Side, _finding: Finding) -> Side:
    return side.with_client({_INSTANCE: STATIC})


def _short_sessions(numbers: random.Random) -> Side:
    restart = Restart("random", Between(12 * SECOND_MS, 40 * SECOND_MS), crash=numbers.choice((0.0, 0.3)))
    every_ms = About(numbers.randint(8, 12) * MINUTE_MS)
    return Side(
        scenario=scripted(
            ScriptedEvent(every_ms=every_ms, steps=(restart,)),
            **_STATIC_MEMBERS,
            **{_SESSION: 20_000},
        ),
        hours=2,
    )


def _slow_polls(numbers: random.Random) -> Side:
    slow = SlowPoll("random", Between(40 * SECOND_MS, 100 * SECOND_MS))
    every_ms = About(numbers.randint(5, 8) * MINUTE_MS)
    return Side(scenario=scripted(ScriptedEvent(every_ms=every_ms, steps=(slow,)), **{_POLL: 30_000}))


def _weekends(numbers: random.Random) -> Side:
    """Nobody is there for two to six days at the end of each week, and offsets are kept for two or three."""
    away_ms = numbers.randint(50, 130) * HOUR_MS
    work_ms = numbers.randint(20, 60) * HOUR_MS
    event = ScriptedEvent(
        after_ms=work_ms, every_ms=7 * _DAY_HOURS * HOUR_MS, steps=(Stop("all"), Start("all", at_ms=away_ms))
    )
    client = {_COMMIT: numbers.randint(1, 6) * HOUR_MS, _SESSION: _LONG_SESSION_MS}
    scenario = scripted(event, members=numbers.randint(1, 4), partitions=numbers.randint(4, 12), **client)
    side = Side(scenario=scenario, hours=15.5 * _DAY_HOURS)
    return side.with_broker({_RETENTION: numbers.choice((2, 3)) * _DAY_HOURS * 60})


def _kept_longer(side: Side, finding: Finding) -> Side:
    return side.with_broker({_RETENTION: int(finding.value.split()[0])})


def _one_long_timeout(numbers: random.Random) -> Side:
    """A member works for minutes on one poll, as it may; while it does, another one is restarted."""
    others_ms = numbers.choice((60, 90)) * SECOND_MS
    waits_ms = numbers.randint(5, 9) * MINUTE_MS
    late_ms = numbers.randint(5, 50) * SECOND_MS
    event = ScriptedEvent(
        every_ms=numbers.randint(14, 20) * MINUTE_MS,
        steps=(SlowPoll(3, waits_ms), Restart(0, 8 * SECOND_MS, at_ms=late_ms)),
    )
    return Side(
        scenario=scripted(event, **{_POLL: others_ms}),
        unlike=Unlike(timeouts={3: {"rebalance_timeout_ms": 20 * MINUTE_MS}}),
        hours=2,
    )


def _alike(side: Side, _finding: Finding) -> Side:
    return side.with_unlike(timeouts={}, more_topics={})


def _new_ids(numbers: random.Random) -> Side:
    """Rolling restarts of static members that have another id each time, and sometimes one more member or one less."""
    every_ms = numbers.randint(14, 24) * MINUTE_MS
    roll = Roll(pace_ms=2 * MINUTE_MS, down_ms=Between(5 * SECOND_MS, 25 * SECOND_MS))
    events = [ScriptedEvent(every_ms=every_ms, steps=(roll,))]
    if numbers.random() < 1 / 2:
        events.append(ScriptedEvent(after_ms=3 * MINUTE_MS, steps=(Start(4), Stop(4, at_ms=60 * MINUTE_MS))))
    return Side(
        scenario=scripted(*events, **_STATIC_MEMBERS, partitions=8),
        unlike=Unlike(new_ids=True),
        hours=1.5,
    )


def _lasting_ids(side: Side, _finding: Finding) -> Side:
    return side.with_unlike(new_ids=False)


def _two_waves(numbers: random.Random) -> Side:
    down_ms = numbers.randint(5, 15) * SECOND_MS
    pace_ms = numbers.randint(25, 40) * SECOND_MS
    apart_ms = numbers.randint(8, 20) * MINUTE_MS
    rolls = [Roll(pace_ms=pace_ms, down_ms=down_ms, at_ms=wave * apart_ms) for wave in range(2)]
    event = ScriptedEvent(
        after_ms=20 * MINUTE_MS, every_ms=numbers.randint(5, 8) * HOUR_MS, steps=tuple(rolls)
    )
    scenario = scripted(event, members=numbers.randint(2, 5), **{_COMMIT: 2 * MINUTE_MS})
    return Side(scenario=scenario, hours=7 * _DAY_HOURS)


def _one_wave(side: Side, _finding: Finding) -> Side:
    (event,) = side.scenario.events
    return replace(side, scenario=replace(side.scenario, events=(replace(event, steps=event.steps[:1]),)))


def _slow_leader(numbers: random.Random) -> Side:
    """The leader needs seconds, most of the time; sometimes it is quick."""
    side = _rolled(numbers)
    waits = tuple(numbers.choice((0, *range(3_500, 12_000, 500))) for _ in range(7))
    return replace(side, unlike=Unlike(leader_ms=waits))


def _quick_leader(side: Side, _finding: Finding) -> Side:
    return side.with_unlike(leader_ms=())


def _too_many(numbers: random.Random) -> Side:
    """More members than partitions, and for a while one more; members restart, so that there are generations."""
    partitions = numbers.randint(2, 4)
    members = partitions + numbers.randint(1, 4)
    restart = ScriptedEvent(after_ms=5 * MINUTE_MS, every_ms=12 * MINUTE_MS, steps=(Restart("next"),))
    last = ScriptedEvent(after_ms=numbers.randint(60, 80) * MINUTE_MS, steps=(Start(members),))
    events = (restart, last) if numbers.random() < 1 / 2 else (restart,)
    scenario = scripted(*events, members=members, partitions=partitions, **{_COMMIT: 30_000})
    return Side(scenario=scenario.with_group(idle_members=True))


def _fewer(side: Side, finding: Finding) -> Side:
    members = int(finding.value.split(",")[0])
    restart, *_ = side.scenario.events
    return replace(side, scenario=replace(side.scenario, events=(restart,)).with_group(members=members))


def _idle(before: Played, after: Played) -> int:
    """The members without a partition, of which none is left on the other side."""
    assert min(after.shares()) > 0, after.shares()
    return before.shares().count(0) - after.shares().count(0)


def _many_topics(numbers: random.Random) -> Side:
    topics = {f"topic-{number}": numbers.choice((1, 1, 2, 3)) for number in range(numbers.randint(6, 9))}
    restart = ScriptedEvent(after_ms=5 * MINUTE_MS, steps=(Restart("random"),))
    scenario = scripted(restart, members=numbers.randint(3, 6), **{_COMMIT: 30_000})
    return Side(scenario=scenario, unlike=Unlike(topics=topics), hours=1)


def _evenly(side: Side, _finding: Finding) -> Side:
    return side.with_unlike(assignor="uniform")


def _more_than_share(before: Played, after: Played) -> int:
    return max(before.shares()) - max(after.shares())


def _unlike_members(numbers: random.Random) -> Side:
    """One or two of seven members have another session or poll interval, or one more topic."""
    odd = numbers.sample(range(7), numbers.randint(1, 3))
    session = {number: {"session_timeout_ms": 60_000} for number in odd[:2]}
    more = dict.fromkeys(odd[2:], "another-topic")
    restart = ScriptedEvent(after_ms=5 * MINUTE_MS, steps=(Restart("random"),))
    scenario = scripted(restart, members=7, partitions=7, **{_COMMIT: 30_000})
    return Side(scenario=scenario, unlike=Unlike(timeouts=session, more_topics=more), hours=1)


def _odd(before: Played, after: Played) -> int:
    def odd(played: Played) -> int:
        return len({*played.group.unlike.timeouts, *played.group.unlike.more_topics})

    return odd(before) - odd(after)


def _busy(numbers: random.Random) -> Side:
    """Commits come every second or so; or for a while, and then none for minutes."""
    slow = ScriptedEvent(every_ms=4 * MINUTE_MS, steps=(SlowPoll("all", 2 * MINUTE_MS),))
    restart = ScriptedEvent(after_ms=5 * MINUTE_MS, every_ms=10 * MINUTE_MS, steps=(Restart("random"),))
    client = {_COMMIT: numbers.choice((500, 1_000, 2_000))}
    events = (restart, slow) if numbers.random() < 1 / 2 else (restart,)
    return Side(scenario=scripted(*events, members=2, partitions=4, **client), hours=0.5)


def _usual_commits(side: Side, _finding: Finding) -> Side:
    return side.with_client({_COMMIT: 5_000})


def _forgotten(numbers: random.Random) -> Side:
    """A group stops for good, beside one that goes on; some of its offsets were not committed lately."""
    stop = ScriptedEvent(after_ms=numbers.randint(3, 9) * HOUR_MS, steps=(Stop("all"),))
    client = {_COMMIT: numbers.randint(1, 3) * HOUR_MS, _SESSION: _LONG_SESSION_MS}
    scenario = scripted(stop, members=numbers.randint(1, 3), partitions=numbers.randint(3, 9), **client)
    side = Side(
        scenario=scenario,
        unlike=Unlike(staying=frozenset({"advised-000001"})),
        hours=numbers.randint(9, 12) * _DAY_HOURS,
        groups=2,
    )
    return side.with_broker({_RETENTION: 30 * _DAY_HOURS * 60})


def _as_before(side: Side, _finding: Finding) -> Side:
    return side


QUESTIONS: tuple[Question, ...] = (
    Question(
        name="offsets at risk",
        kind=Kind.OFFSETS_AT_RISK,
        before=_weekends,
        after=_kept_longer,
        truths={"offsets_lost": lambda before, after: before.removed - after.removed},
    ),
    Question(
        name="static membership: deployments",
        kind=Kind.STATIC_MEMBERSHIP,
        before=_rolled,
        after=_static,
        truths=SAVED,
    ),
    Question(
        name="static membership: heartbeats together",
        kind=Kind.STATIC_MEMBERSHIP,
        before=_rolled_together,
        after=_static,
        truths=SAVED,
    ),
    Question(
        name="static membership: crashes",
        kind=Kind.STATIC_MEMBERSHIP,
        before=_restarted,
        after=_static,
        truths=SAVED,
    ),
    Question(
        name="incremental rebalances",
        kind=Kind.INCREMENTAL_REBALANCES,
        before=lambda numbers: replace(_rolled_together(numbers), needs_trace=True),
        after=lambda side, _: side.with_client({_STRATEGY: "cooperative-sticky"}),
        truths={"partition_stopped_ms": held_less, "partition_stops": stopped_fewer},
    ),
    Question(
        name="session timeout",
        kind=Kind.SESSION_TIMEOUT,
        before=_short_sessions,
        after=lambda side, finding: side.with_client({_SESSION: int(finding.value)}),
        truths=SAVED,
    ),
    Question(
        name="max poll interval",
        kind=Kind.MAX_POLL_INTERVAL,
        before=_slow_polls,
        after=lambda side, _: side.with_client({_POLL: 300_000}),
        truths=SAVED,
    ),
    Question(
        name="rebalance timeout",
        kind=Kind.REBALANCE_TIMEOUT,
        before=_one_long_timeout,
        after=_alike,
        truths={"stopped_ms": STOPPED_LESS},
    ),
    Question(
        name="random instance ids",
        kind=Kind.RANDOM_INSTANCE_IDS,
        before=_new_ids,
        after=_lasting_ids,
        truths=SAVED,
    ),
    Question(name="two waves", kind=Kind.TWO_WAVES, before=_two_waves, after=_one_wave, truths=SAVED),
    Question(
        name="slow leader",
        kind=Kind.SLOW_LEADER,
        before=_slow_leader,
        after=_quick_leader,
        truths={"stopped_ms": lambda before, after: before.waited_for_leader_ms - after.waited_for_leader_ms},
    ),
    Question(
        name="members without work",
        kind=Kind.MEMBERS_WITHOUT_WORK,
        before=_too_many,
        after=_fewer,
        truths={"members": _idle},
    ),
    Question(
        name="uneven assignment",
        kind=Kind.UNEVEN_ASSIGNMENT,
        before=_many_topics,
        after=_evenly,
        truths={"partitions": _more_than_share},
    ),
    Question(
        name="differing members",
        kind=Kind.DIFFERING_MEMBERS,
        before=_unlike_members,
        after=_alike,
        truths={"members": _odd},
    ),
    Question(
        name="frequent commits",
        kind=Kind.FREQUENT_COMMITS,
        before=_busy,
        after=_usual_commits,
        truths={"bytes": lambda before, after: before.commit_bytes - after.commit_bytes},
    ),
    Question(
        name="unused group",
        kind=Kind.UNUSED_GROUP,
        before=_forgotten,
        after=_as_before,
        truths={"partitions": lambda _before, after: after.deleted()},
    ),
)
