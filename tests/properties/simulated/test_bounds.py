"""What a prober saw is an interval: the true times of simulated rebalances lie inside, and it is narrow."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from msgspec import structs

from groupreplay.codecs.kafka_terms import GroupType
from groupreplay.state import Event
from groupreplay.state.conditions.rebalance_slow import RebalanceSlow
from groupreplay.state.conditions.rebalance_stuck import RebalanceStuck
from groupreplay.state.events.group_events import RebalanceCompleted, RebalanceStarted
from groupreplay.state.snapshot.observations import Probe
from support.simulated.probed_lives import Life, events_of, lives

PREPARING, COMPLETING = "PreparingRebalance", "CompletingRebalance"
ROUND_MS = 10_000
#: Scenario: simulated hours. Together they have more than 500 rebalances that the prober sees.
SCENARIOS = {
    "rolling-restart-10-dynamic-cooperative": 2,
    "rolling-restart-3-dynamic-eager": 6,
    "stuck": 6,
    "timeouts": 4,
    "flapping": 4,
    "deployment": 6,
    "cluster-restart": 12,
    "autoscale": 6,
    "mixed": 3,
}
#: What `make test` simulates of these hours.
PART = 6
#: What may be wrong with the prober's clock, and what it has measured of that: (ahead by, at most ahead by).
CLOCKS = ((0, 0), (700, 900), (-800, 0))


def by_clock(probe: Probe, ahead_ms: int, most_ms: int, delay_ms: int) -> Probe:
    """The probe by a prober whose clock is ahead, and whose message is appended a moment after the answer."""
    return structs.replace(
        probe,
        taken_ms=probe.taken_ms + ahead_ms,
        written_ms=probe.taken_ms + delay_ms,
        ahead_ms=most_ms,
        unseen_ms=ROUND_MS,
    )


@dataclass
class Finding:
    """Intervals that were reported, those without the truth, and their widths."""

    joins: int = 0
    begins: int = 0
    untrue: list[str] = field(default_factory=list)
    widest_ms: int = 0

    def check(self, what: str, least: int, truth: list[int], most: int) -> None:
        """One interval, in which one of these must lie."""
        self.widest_ms = max(self.widest_ms, most - least)
        if not any(least <= one <= most for one in truth):
            self.untrue.append(f"{what}: {least} .. {most}, in truth {truth}")


def checked(life: Life, events: list[Event], finding: Finding) -> Finding:
    """Compares every interval of the events with the truth."""
    for event in events:
        fact = event.fact
        if isinstance(fact, RebalanceCompleted) and fact.join_ms_max is not None:
            ended_ms = event.time_ms - (fact.sync_ms or 0)
            joins = [at_ms for at_ms, _, after in life.changes if after == PREPARING and at_ms <= ended_ms]
            finding.joins += 1
            finding.check(fact.NAME, fact.join_ms_min or 0, [ended_ms - joins[-1]], fact.join_ms_max)
        elif isinstance(fact, RebalanceStarted | RebalanceSlow | RebalanceStuck):
            if event.group_type is not GroupType.CLASSIC or fact.since_ms_earliest is None:
                continue
            # Not the join phases after another one: they belong to the same rebalance.
            begins = [
                at_ms
                for at_ms, before, after in life.changes
                if after == PREPARING and before != COMPLETING and at_ms <= fact.since_ms
            ]
            finding.begins += 1
            finding.check(fact.NAME, fact.since_ms_earliest, begins[-1:], fact.since_ms)
    return finding


@pytest.mark.parametrize(("part", "rebalances"), [(PART, 50), pytest.param(1, 500, marks=pytest.mark.long)])
def test_the_truth_lies_in_every_interval(part: int, rebalances: int) -> None:
    """Over so many rebalances at least; no interval is wider than the time between two rounds."""
    finding = Finding()
    for scenario, hours in SCENARIOS.items():
        for group_id, life in lives(scenario, hours / part).items():
            checked(life, events_of(group_id, life.records, life.probes), finding)
    assert finding.untrue == []
    assert finding.widest_ms == ROUND_MS
    assert finding.joins >= rebalances
    assert finding.begins >= rebalances


@pytest.mark.parametrize(("ahead_ms", "most_ms"), CLOCKS)
def test_a_prober_whose_clock_is_off(ahead_ms: int, most_ms: int) -> None:
    """The interval is wider by what was measured of the clocks and the time of an answer, and has the truth."""
    finding, delays = Finding(), random.Random(1)
    for scenario in ("stuck", "flapping", "timeouts"):
        for group_id, life in lives(scenario, SCENARIOS[scenario]).items():
            probes = [by_clock(one, ahead_ms, most_ms, delays.randint(1, 400)) for one in life.probes]
            checked(life, events_of(group_id, life.records, probes), finding)
    assert finding.untrue == []
    assert finding.joins >= 100
    assert ROUND_MS < finding.widest_ms <= ROUND_MS + 400 + max(most_ms, abs(ahead_ms)) + abs(ahead_ms)


def test_without_rounds_there_are_no_intervals() -> None:
    """The log alone shows when a rebalance was over, and the check above would notice a wrong interval."""
    # The same hours as above, which are simulated once.
    life = next(iter(lives("flapping", SCENARIOS["flapping"] / PART).values()))
    assert checked(life, events_of("g", life.records, []), Finding()) == Finding()
    late = [structs.replace(one, unseen_ms=100, written_ms=None) for one in life.probes]
    assert checked(life, events_of("g", life.records, late), Finding()).untrue
