"""Draws of what the log does not show: within the bounds, and the same for the same seed."""

from __future__ import annotations

import random

from groupreplay.coordinator.simulation.script import CRASH, START, STOP, ClientStep
from groupreplay.timeline.whatif.draws import WARM_UP_MS, Draw
from groupreplay.timeline.whatif.lineages import Lineages
from groupreplay.timeline.whatif.moments import Arrival, Departure, Moments, StaticRestart, Turn, moments
from groupreplay.timeline.whatif.quiet_times import QuietTimes
from groupreplay.timeline.whatif.recorded import recorded
from groupreplay.timeline.whatif.settings import PROTOCOL, PlaySettings
from support.histories.played import BEGIN, SECOND, history_of, restarted


def steps(seed: int) -> tuple[ClientStep, ...]:
    """Those of a draw of the history in which b leaves and comes back."""
    known = recorded(history_of(restarted(), 180 * SECOND))
    assert known is not None
    numbers = random.Random(seed)
    settings = PlaySettings(values={})
    draw = Draw(
        moments=moments(known), settings=settings, interval_ms=5 * SECOND, begin_ms=BEGIN, numbers=numbers
    )
    return draw.steps(QuietTimes())


def test_times_are_within_their_bounds() -> None:
    """B stops after its last commit and before the next one and the join phase; its commits follow its start."""
    for seed in range(20):
        *firsts, stop, start = steps(seed)
        first_a, first_b = sorted(firsts, key=lambda step: step.client)
        assert [first_a.action, first_b.action, stop, start] == [
            START,
            START,
            ClientStep(stop.at_ms, STOP, 1),
            ClientStep(WARM_UP_MS + 70 * SECOND, START, 1),
        ] or start.at_ms <= WARM_UP_MS + 69_990
        assert 57 * SECOND < stop.at_ms - WARM_UP_MS < 59_990
        assert (first_a.at_ms - 1 * SECOND) % (5 * SECOND) == 0


def drawn(
    settings: PlaySettings, seed: int, *turns: Turn, restarts: tuple[StaticRestart, ...] = ()
) -> tuple[ClientStep, ...]:
    """The steps of a draw after those of the beginning, of clients 0 and 1, which commit each ten seconds."""
    did = Moments(
        first=(Arrival(client=0), Arrival(client=1)),
        turns=turns,
        restarts=restarts,
        hangs=(),
        silences=(),
        before_joining=True,
        lineages=Lineages(),
    )
    draw = Draw(
        moments=did, settings=settings, interval_ms=10 * SECOND, begin_ms=BEGIN, numbers=random.Random(seed)
    )
    steps = draw.steps(QuietTimes())
    return tuple(ClientStep(step.at_ms - WARM_UP_MS, step.action, step.client) for step in steps[2:])


def turn(joined_ms: int, *departures: Departure, arrivals: tuple[Arrival, ...] = ()) -> Turn:
    """A rebalance that waited for nobody, and in which one member stayed."""
    return Turn(joined_ms=BEGIN + joined_ms, stays=1, waited_ms=0, departures=departures, arrivals=arrivals)


def test_a_client_that_closes_stops_with_its_last_commit() -> None:
    """A member that left, and a static one that came back, whichever draw it is; the rebalance begins then."""
    left = Departure(client=1, reason="left", last_ms=BEGIN + 58 * SECOND, closed=True)
    away = StaticRestart(client=0, last_ms=BEGIN + 90 * SECOND, back_ms=BEGIN + 99 * SECOND, closed=True)
    for seed in range(20):
        steps = drawn(PlaySettings(values={}), seed, turn(60 * SECOND, left), restarts=(away,))
        assert steps == (
            ClientStep(58 * SECOND, STOP, 1),
            ClientStep(90 * SECOND, STOP, 0),
            ClientStep(98_950, START, 0),
        )


def test_a_start_may_come_just_before_the_end_of_its_rebalance() -> None:
    """The others noticed it at once: the regular commits, each ten seconds after the start, show it."""
    left = Departure(client=1, reason="left", last_ms=BEGIN + 48 * SECOND, closed=True)
    back = Arrival(client=1, commit_ms=BEGIN + 80 * SECOND)
    for seed in range(20):
        turns = turn(50 * SECOND, left), turn(60 * SECOND + 30, arrivals=(back,))
        steps = drawn(PlaySettings(values={}), seed, *turns)
        assert steps[1:] == (ClientStep(60 * SECOND, START, 1),)


def test_a_crash_in_a_consumer_group_is_after_its_last_commit_and_its_last_heartbeat() -> None:
    """Its session of 45 s ended at 100 s, and its last commit was at 53 s: the next heartbeat was due at 60 s."""
    gone = Departure(client=1, reason="session_timeout", last_ms=BEGIN + 53 * SECOND)
    settings = PlaySettings(values={PROTOCOL: "consumer"})
    times = [
        step.at_ms
        for seed in range(50)
        for step in drawn(settings, seed, turn(100 * SECOND, gone))
        if step.action is CRASH
    ]
    assert len(times) == 50
    assert 55 * SECOND <= min(times) < 56 * SECOND
    assert 59 * SECOND < max(times) <= 60 * SECOND


def test_a_seed_repeats_a_draw() -> None:
    """And another one gives another."""
    assert steps(1) == steps(1)
    assert steps(1) != steps(2)
