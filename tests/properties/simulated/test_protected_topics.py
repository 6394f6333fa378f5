"""Expiry of simulated groups whose static members change their subscription, compared with what the replay has said.

The coordinator model knows which topics it protects; the replay has the log alone. All offsets that are removed here
were removed by the clean-up.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from groupreplay.codecs import OffsetCommitKey
from groupreplay.codecs.kafka_terms import Phase
from groupreplay.coordinator.simulation.scenarios import SCENARIOS
from groupreplay.coordinator.simulation.simulation import (
    BEGIN_MS,
    GroupTransition,
    SimulationPlan,
    WrittenRecord,
    simulate,
)
from groupreplay.state import Context, Event, Group
from groupreplay.state.events.event import Evidence
from groupreplay.state.events.offset_events import OffsetsDeleted, OffsetsExpired
from support.histories.builders import Raw, observed

HOUR_MS = 3_600_000


@dataclass
class Checked:
    """One group: its replay up to now, its state by the coordinator, and what was found."""

    group: Group
    stable: bool = True
    held: list[Raw] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    untrue: list[str] = field(default_factory=list)

    def read(self, item: WrittenRecord) -> None:
        """Let a record wait for the end of its operation."""
        if self.held and self.held[-1].at != item.timestamp_ms:
            self.apply()
        self.held.append(Raw(item.key, item.value, item.offset, item.timestamp_ms))

    def apply(self) -> None:
        """Replay the operation that waits, and compare each offset that it removes with its deadlines before."""
        if not self.held:
            return
        at_ms, before = self.held[-1].at, self.deadlines()
        for raw in self.held:
            if isinstance(raw.key, OffsetCommitKey) and raw.value is None:
                sure_ms, possible_ms = before[raw.key.topic, raw.key.partition]
                self.counts["removed"] += 1
                self.counts["removed although it was not sure"] += sure_ms is None
                if possible_ms is None or possible_ms > at_ms:
                    self.untrue.append(f"{raw.key.topic} was removed at {at_ms}, possible at {possible_ms}")
        self.tell(self.group.apply(observed(self.held), 0))
        self.held = []

    def deadlines(self) -> dict[tuple[str, int], tuple[int | None, int | None]]:
        """Of each offset the sure deadline and the possible one."""
        return {
            (one["topic"], one["partition"]): (one["expires_at_ms"], one["may_expire_at_ms"])
            for one in self.group.describe()["offsets"]
        }

    def clean_up(self, at_ms: int) -> None:
        """The clean-up of this time is over: it has left no offset whose deadline was sure, unless it rebalances."""
        self.apply()
        self.tell(self.group.expire(at_ms + 1))
        for place, (sure_ms, possible_ms) in self.deadlines().items():
            self.counts["spared although it was possible"] += possible_ms is not None and possible_ms <= at_ms
            if self.stable and sure_ms is not None and sure_ms <= at_ms:
                self.untrue.append(f"{place} was left at {at_ms}, sure at {sure_ms}")

    def tell(self, events: list[Event]) -> None:
        """Every loss is an expiry, and only one that was sure is a fact of the log."""
        for event in events:
            fact: Any = event.fact
            if isinstance(fact, OffsetsDeleted):
                self.untrue.append(f"{event.time_ms}: {fact}")
            elif isinstance(fact, OffsetsExpired):
                self.counts["unclear"] += fact.unclear
                if fact.unclear is (event.evidence is Evidence.LOG):
                    self.untrue.append(f"{event.time_ms}: {event.evidence} of {fact}")


def checked(seed: int, hours: int, *, scala: bool) -> Checked:
    """Three groups; the last one has the findings of all."""
    scenario = SCENARIOS["resubscribed"]
    plan = SimulationPlan.of(
        scenario,
        scenario.broker,
        groups=3,
        duration_ms=hours * HOUR_MS,
        seed=seed,
        partitions=1,
        probe_interval_ms=None,
        scala=scala,
    )
    context = Context(
        cluster_id="c",
        era="era",
        complete_since_ms=0,
        retention_ms=plan.settings.retention_ms,
        retention_check_interval_ms=plan.check_interval_ms,
        broker_release=(3, 9) if scala else (4, 0),
    )
    counts, untrue = Counter[str](), list[str]()
    groups = {
        name: Checked(Group(name, context), counts=counts, untrue=untrue) for name in plan.group_ids()[0]
    }
    clean_up_ms = BEGIN_MS + plan.check_interval_ms
    for item in simulate(plan, plan.group_ids()[0]):
        at_ms = item.timestamp_ms if isinstance(item, WrittenRecord) else None
        at_ms = item.change.at_ms if isinstance(item, GroupTransition) else at_ms
        while at_ms is not None and at_ms > clean_up_ms:
            for one in groups.values():
                one.clean_up(clean_up_ms)
            clean_up_ms += plan.check_interval_ms
        if isinstance(item, WrittenRecord):
            groups[item.key.group].read(item)  # type: ignore[union-attr]
        elif isinstance(item, GroupTransition):
            groups[item.group_id].stable = item.change.after in (Phase.STABLE, Phase.EMPTY)
    return Checked(next(iter(groups.values())).group, counts=counts, untrue=untrue)


@pytest.mark.parametrize("scala", [False, True], ids=["java", "scala"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 6))])
def test_what_is_sure_happens_and_what_happens_was_possible(seed: int, scala: bool) -> None:
    """At every clean-up of three groups in 4 hours; both ways of being unclear occur."""
    found = checked(seed, 4, scala=scala)
    assert found.untrue == []
    assert found.counts["removed"] > found.counts["removed although it was not sure"] > 0
    assert found.counts["spared although it was possible"] > 0
    assert found.counts["unclear"] > 0
