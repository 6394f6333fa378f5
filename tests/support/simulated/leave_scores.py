"""What events say about why members left, beside the reason that the model of the coordinator had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from groupreplay.coordinator.trace_entries import MemberEntry
from groupreplay.state import Context, Event, Group, Observations
from groupreplay.state.events.group_events import MemberLeft
from groupreplay.state.policy.context import SessionSettings
from support.histories.builders import observed
from support.simulated.probed_lives import Life, lives

#: Words of the model's reason -> what is right. The client of a simulated member that hangs sends LeaveGroup, too.
_TRUE = {
    "LeaveGroup": {"left", "poll_timeout"},
    "left the consumer group": {"left", "poll_timeout"},
    "heartbeat expiration": {"session_timeout"},
    "its timeout has passed": {"session_timeout"},
    "failed to transition": {"rebalance_timeout"},
    "haven't joined": {"rebalance_timeout"},
}


@dataclass
class LeaveScores:
    """``said``: how often each reason was stated; ``wrong``: what was stated and was not so, with the sums."""

    said: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    #: ``unknown`` without the true reason among its candidates.
    lost: list[str] = field(default_factory=list)

    def add(self, group_id: str, life: Life, *, probed: bool) -> None:
        """The departures of one group of which the model says the reason."""
        removed = {
            one.member_id: one.reason
            for one in life.trace
            if isinstance(one, MemberEntry) and one.change == "removed"
        }
        for event in _events(group_id, life, probed=probed):
            if not isinstance(event.fact, MemberLeft):
                continue
            words = removed.get(event.fact.member_id, "")
            true = next((reasons for part, reasons in _TRUE.items() if part in words), set())
            if not true:
                continue
            fact = event.fact
            self.said[fact.reason] += 1
            told = f"{group_id} {fact.member_id}: {fact.reason}, in truth {words}; {fact.candidates}"
            if fact.reason == "unknown" and true.isdisjoint({one.reason for one in fact.candidates}):
                self.lost.append(told)
            elif fact.reason != "unknown" and fact.reason not in true:
                self.wrong.append(told)


def _events(group_id: str, life: Life, *, probed: bool) -> list[Event]:
    context = Context(
        cluster_id="c",
        era="era",
        probing=probed,
        complete_since_ms=0,
        member_events=True,
        sessions={"consumer": SessionSettings()},
    )
    group, seen = Group(group_id, context), observed(life.records)
    probes = life.probes if probed else []
    return group.apply(Observations(items=seen.items, seen_to=seen.seen_to, probes=probes), 0)


def leave_scores(scenarios: Iterable[str], hours: float) -> tuple[LeaveScores, LeaveScores]:
    """The departures of two simulated groups a scenario, with the answers of a prober and without."""
    probed, alone = LeaveScores(), LeaveScores()
    for scenario in scenarios:
        for group_id, life in lives.__wrapped__(scenario, hours, 2, traced=True).items():
            probed.add(group_id, life, probed=True)
            alone.add(group_id, life, probed=False)
    return probed, alone
