"""Records that cannot be read, by the dozen."""

from __future__ import annotations

from groupreplay.state import Event
from groupreplay.state.conditions.job_blind import JobBlind
from groupreplay.state.job.bursts import Burst, count_burst
from groupreplay.state.job.observations import HeartbeatObservation, ObservationPlace, RoundObservation
from groupreplay.state.job_watch import JobWatch
from groupreplay.state.policy.context import Context

MINUTE = 60_000


def test_counts_of_a_window() -> None:
    """What is older does not count; the beginning stays as long as there are too many."""
    burst, told = Burst(), []
    for minute, total in enumerate([0, 5, 5, 9, 9, 9, 9]):
        burst = count_burst(burst, "r", total, minute * MINUTE, 3 * MINUTE, 9)
        told.append((sum(count for _, count in burst.marks), burst.since_ms))
    at = 3 * MINUTE
    assert told == [(0, None), (5, None), (5, None), (9, at), (4, None), (4, None), (0, None)]


def test_a_new_run_counts_from_nothing() -> None:
    """A count that is lower is not a fall, and a heartbeat that is repeated adds nothing."""
    burst = Burst()
    for run_id, total in (("a", 7), ("a", 7), ("b", 2), ("b", 1)):
        burst = count_burst(burst, run_id, total, MINUTE, 3 * MINUTE, 99)
    assert sum(count for _, count in burst.marks) == 9


def said(*, rounds: bool) -> list[tuple[int, str, str]]:
    """What the job says of 30 records that it cannot read, all in one minute."""
    watch, events = JobWatch(Context(cluster_id="c")), list[Event]()
    for minute in range(1, 15):
        at = minute * MINUTE
        seen = [
            HeartbeatObservation(
                at, ObservationPlace("p", 0, 2 * minute), at, "r", 0, 30 if minute > 2 else 1
            )
        ]
        if rounds:
            seen.insert(
                0,
                RoundObservation(
                    at - 1, ObservationPlace("p", 0, 2 * minute - 1), {1: None}, "ok", {0: (5, 5)}, 1
                ),
            )  # type: ignore[arg-type]
        events += watch.apply(seen)
        watch = JobWatch.from_snapshot(watch.context, watch.snapshot())
    facts = [(event.time_ms, event.fact) for event in events]
    return [(at, fact.what, fact.status) for at, fact in facts if isinstance(fact, JobBlind)]


def test_a_burst_makes_the_job_blind() -> None:
    """Twenty-four within ten minutes; it is over when they are ten minutes old."""
    assert said(rounds=False) == [
        (3 * MINUTE, "dead_letters", "firing"),
        (13 * MINUTE, "dead_letters", "resolved"),
    ]


def test_a_burst_beside_the_rounds_of_a_prober() -> None:
    """It makes no difference: a prober that ends must not silence what the heartbeats count."""
    assert said(rounds=True) == said(rounds=False)
