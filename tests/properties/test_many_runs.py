"""Several processes on one set of topics: who works, whatever happens to them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import given, settings
from hypothesis import strategies as st

from support.ordeals.many_runs import TRIGGER_SECONDS, Process, Runs


@contextmanager
def running(seed: int = 0) -> Iterator[Runs]:
    """Processes on one topic, ended in the end."""
    runs = Runs(random.Random(seed))
    try:
        yield runs
    finally:
        runs.end()


def names(processes: list[Process]) -> list[str]:
    """The names of processes."""
    return [one.name for one in processes]


def test_a_pair_for_ever() -> None:
    """The killed one is started again as the standby of the other, again and again."""
    with running() as runs:
        first, second = runs.start(), runs.start()
        runs.run_to(200)
        assert names(runs.working()) == ["p0"] or names(runs.working()) == ["p1"]
        for turn in range(20):
            (victim,) = runs.working()
            victim.kill()
            killed_at = runs.now
            runs.run_to(killed_at + 3 * TRIGGER_SECONDS + 4)
            assert len(runs.working()) == 1, turn
            runs.start()
            runs.run_to(runs.now + 100)
        assert (runs.faults, first.error, second.error) == ([], None, None)


def test_a_replaced_standby_waits_again() -> None:
    """``--take-over`` by hand ends the turn of the one that works, not the process; it works again afterwards."""
    with running() as runs:
        first = runs.start()
        runs.run_to(100)
        other = runs.start(standby=False, take_over=True)
        runs.run_to(200)
        assert names(runs.working()) == [other.name]
        assert (first.has_ended, first.error) == (False, None)
        other.kill()
        runs.run_to(300)
        assert (names(runs.working()), runs.faults) == ([first.name], [])


ACTIONS = st.tuples(
    st.sampled_from(["start", "start", "run", "take over", "kill", "kill", "suspend", "outage", "stop"]),
    st.floats(0, 90),
    st.integers(0, 10),
    st.floats(0.1, 120),
)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.lists(ACTIONS, max_size=12))
def test_any_history_of_runs(seed: int, actions: list[tuple[str, float, int, float]]) -> None:
    """No standby replaces a living run, two that have read the topic never both write, and in the end one works.

    Starts, kills, pauses and outages come at any moment.
    """
    with running(seed) as runs:
        runs.start()
        for kind, pause, which, seconds in actions:
            runs.run_to(runs.now + pause)
            do(runs, kind, which, seconds)
        runs.run_to(runs.now + 600)
        assert runs.faults == []
        assert len(runs.working()) == min(1, len(runs.alive())), [one.error for one in runs.processes]


def do(runs: Runs, kind: str, which: int, seconds: float) -> None:
    """One thing that happens to the processes."""
    alive = runs.alive()
    if kind == "outage":
        runs.lose_brokers(seconds)
    elif kind in ("start", "run", "take over"):
        if len(alive) < 4:
            runs.start(standby=kind == "start", take_over=kind == "take over")
    elif alive:
        one = alive[which % len(alive)]
        {"kill": one.kill, "stop": one.stop.make, "suspend": lambda: one.suspend(seconds)}[kind]()
