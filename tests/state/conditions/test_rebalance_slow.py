"""When a rebalance is slow: by what is usual for the group, and who is to blame."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupreplay.state import Event, Severity
from groupreplay.state.conditions.rebalance_slow import RebalanceSlow
from groupreplay.state.policy.rules import Policy
from groupreplay.state.snapshot.members import SlotHistory, usual_duration_ms
from support.histories.builders import Raw, commit, generation, member
from support.histories.probed import MINUTE, PROBING, START, probe, rounds, told

BEGAN = START + 60 * MINUTE


def lives(count: int, *, probed_ms: int = 0) -> tuple[list[Raw], list[object]]:
    """So many rebalances, a minute apart; with ``probed_ms`` the prober saw each one begin, so long before its end."""
    history = [generation(1, member("a", [0]), member("b", [1]), at=START)]
    probes = []
    for number in range(1, count + 1):
        at = START + number * MINUTE
        history.append(generation(number + 1, member("a", [0]), member("b", [1]), at=at, since=at - 10))
        if probed_ms:
            probes.append(probe(at - probed_ms, "PreparingRebalance", "a", "b"))
    return history, probes


def slow(
    history: list[Raw], probes: list[object], until: int, thresholds: dict[str, int] | None = None
) -> list[tuple[int, str, int | None, int | None]]:
    """Milliseconds since the begin, severity, usual length and threshold of each report."""
    policy = Policy(thresholds={"rebalance.slow": thresholds or {}})
    _, events = told(history, [*probes, *rounds(BEGAN, until)], until, replace(PROBING, policy=policy))  # type: ignore[list-item]
    return [
        (event.time_ms - BEGAN, _severity(event), event.fact.usual_ms, event.fact.threshold_ms)
        for event in events
        if isinstance(event.fact, RebalanceSlow) and event.fact.status == "firing"
    ]


def _severity(event: Event) -> str:
    assert event.severity is not None
    return event.severity.name


@pytest.mark.parametrize(
    ("count", "probed_ms", "expected"),
    [
        (19, 0, [(75_000, "WARN", None, 75_000)]),
        # Each was shorter than the time between two rounds.
        (20, 0, [(30_000, "INFO", 10_000, 30_000), (60_000, "WARN", 10_000, 30_000)]),
        # Up to 10 s before the answer that was 5 s before the end.
        (20, 5_000, [(45_000, "INFO", 15_000, 45_000), (60_000, "WARN", 15_000, 45_000)]),
        (20, 13_000, [(69_000, "WARN", 23_000, 69_000)]),
        (20, 40_000, [(75_000, "WARN", 50_000, 75_000)]),
    ],
    ids=["too few", "30 s at least", "three times the usual", "after a session", "the fixed limit at most"],
)
def test_what_is_usual(
    count: int, probed_ms: int, expected: list[tuple[int, str, int | None, int | None]]
) -> None:
    """The threshold is learned; INFO while a member may have died, whose session is 45 s, and then WARN."""
    history, probes = lives(count, probed_ms=probed_ms)
    assert slow(history, probes, BEGAN + 3 * MINUTE) == expected


def test_a_threshold_of_a_rule_wins() -> None:
    """Whatever is usual, and it is WARN at once."""
    history, _ = lives(30)
    assert slow(history, [], BEGAN + 3 * MINUTE, {"threshold_ms": 20_000}) == [
        (20_000, "WARN", 10_000, 20_000)
    ]


def test_it_names_the_suspects() -> None:
    """As a stuck rebalance does: the member that has not committed since the begin."""
    history, _ = lives(1)
    history += [
        commit("t", 0, 5, at=BEGAN - 5_000),
        commit("t", 1, 5, at=BEGAN - 5_000),
        commit("t", 1, 6, at=BEGAN + 1_000),
    ]
    _, events = told(history, rounds(BEGAN, BEGAN + 2 * MINUTE), BEGAN + 2 * MINUTE)
    (fact,) = [event.fact for event in events if isinstance(event.fact, RebalanceSlow)]
    assert (fact.reason, fact.blockers) == ("not_joined", None)
    assert [one.member_id for one in fact.suspects or ()] == ["a"]
    assert RebalanceSlow.firing_text({"state": "PreparingRebalance", "elapsed_ms": 75_000}) == (
        "1 min 15 s so far, in PreparingRebalance"
    )


def test_the_percentile() -> None:
    """95 % of the rebalances took no longer."""
    assert usual_duration_ms(None, 1) is None
    assert usual_duration_ms(SlotHistory(durations_ms=(3, 1, 2)), 4) is None
    assert usual_duration_ms(SlotHistory(durations_ms=tuple(range(1, 101))), 20) == 95
    assert usual_duration_ms(SlotHistory(durations_ms=(*[1] * 19, 9)), 20) == 1
    assert Severity.INFO < Severity.WARN
