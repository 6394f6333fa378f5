"""The states of one group over time, from its records and the answers of a prober."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import pytest

from groupreplay.coordinator.simulation.scenarios import SCENARIOS
from groupreplay.coordinator.simulation.simulation import (
    GroupProbe,
    GroupTransition,
    SimulationPlan,
    WrittenRecord,
    simulate,
)
from groupreplay.state.snapshot.observations import GroupRecord
from groupreplay.timeline.states import ProbedState, StateSpan, state_spans
from support.histories.builders import (
    Raw,
    asked_for,
    commit,
    emptied,
    generation,
    gone,
    group_record,
    member,
    placed,
)


def records(*history: Raw) -> list[GroupRecord]:
    """The history in adjacent offsets."""
    return [group_record(raw) for raw in placed(history, step=1)]


def told(spans: list[StateSpan]) -> list[tuple[str, int | None, int, int | None, str]]:
    """State, bounds, generation and evidence of each."""
    return [(one.state, one.earliest_ms, one.since_ms, one.generation, one.evidence) for one in spans]


BOTH = (member("a"), member("b"))
LIFE = records(
    asked_for(at=1_000),
    generation(1, member("a"), at=4_200, since=4_000),
    commit("t", 0, 5, at=5_000),
    generation(2, *BOTH, at=60_300, since=60_000),
    generation(2, *BOTH, at=70_000, since=60_000),
    emptied(3, at=90_000),
    gone(at=900_000),
)


def test_a_life_without_a_prober() -> None:
    """Everything is exact but the begin of a rebalance: it lies behind the record before, up to its own end."""
    assert told(state_spans(LIFE)) == [
        ("Empty", 1_000, 1_000, 0, "record"),
        ("PreparingRebalance", 1_000, 4_000, 0, "inferred"),
        ("CompletingRebalance", 4_000, 4_000, 1, "record"),
        ("Stable", 4_200, 4_200, 1, "record"),
        ("PreparingRebalance", 4_200, 60_000, 1, "inferred"),
        ("CompletingRebalance", 60_000, 60_000, 2, "record"),
        ("Stable", 60_300, 60_300, 2, "record"),
        # The record at 70 s is that of a static member: the group was still Stable.
        ("PreparingRebalance", 70_000, 90_000, 2, "inferred"),
        ("Empty", 90_000, 90_000, 3, "record"),
        ("Dead", 900_000, 900_000, None, "record"),
    ]


def test_answers_make_the_bounds_narrower() -> None:
    """Up to the first answer that says so; from the round before it, in which the group was in no rebalance."""
    answers = [ProbedState(at_ms, at_ms + 50, "PreparingRebalance", 10_000) for at_ms in (40_000, 50_000)]
    spans = told(state_spans(LIFE, [*answers, ProbedState(62_000, 62_050, "Stable", 10_000)]))
    assert spans[4] == ("PreparingRebalance", 30_000, 40_050, 1, "probe")
    assert spans[7] == ("PreparingRebalance", 70_000, 90_000, 2, "inferred")


def test_a_rebalance_that_is_not_over() -> None:
    """Only answers know of it."""
    known = LIFE[:2]
    preparing = [
        ProbedState(20_000, 20_010, "PreparingRebalance", 10_000),
        ProbedState(30_000, 30_010, "PreparingRebalance"),
    ]
    assert told(state_spans(known, preparing))[-1] == (("PreparingRebalance", 10_000, 20_010, 1, "probe"))
    completing = [*preparing, ProbedState(40_000, 40_010, "CompletingRebalance")]
    assert told(state_spans(known, completing))[-2:] == [
        ("PreparingRebalance", 10_000, 20_010, 1, "probe"),
        ("CompletingRebalance", 30_000, 40_010, 1, "probe"),
    ]
    assert told(state_spans(known, [*completing, ProbedState(50_000, 50_010, "Stable")]))[-1][0] == "Stable"


def test_a_log_that_begins_in_the_middle() -> None:
    """Compaction has removed what was before: the begin of the first rebalance has no lower bound."""
    assert told(state_spans(LIFE[3:4])) == [
        ("PreparingRebalance", None, 60_000, None, "inferred"),
        ("CompletingRebalance", 60_000, 60_000, 2, "record"),
        ("Stable", 60_300, 60_300, 2, "record"),
    ]


def test_a_group_that_begins_with_a_commit() -> None:
    """It has no record of its own; a time in a record that cannot be is that of the record."""
    history = records(commit("t", 0, 5, at=500), generation(1, member("a"), at=9_000, since=-1))
    assert told(state_spans(history)) == [
        ("Empty", 500, 500, None, "record"),
        ("PreparingRebalance", 500, 9_000, None, "inferred"),
        ("CompletingRebalance", 9_000, 9_000, 1, "record"),
        ("Stable", 9_000, 9_000, 1, "record"),
    ]


def test_a_static_member_that_was_replaced_long_after_its_rebalance() -> None:
    """Compaction has left its record alone: that is no CompletingRebalance of an hour, as the event says, too."""
    static = member("i-2", instance_id="i")
    assert told(state_spans(records(generation(7, static, at=3_600_000, since=1_000)))) == [
        ("Stable", 1_000, 3_600_000, 7, "inferred")
    ]
    whole = records(asked_for(at=1_000), generation(1, static, at=4_200, since=4_000))
    assert told(state_spans(whole))[1:] == [
        ("PreparingRebalance", 1_000, 4_000, 0, "inferred"),
        ("CompletingRebalance", 4_000, 4_000, 1, "record"),
        ("Stable", 4_200, 4_200, 1, "record"),
    ]


def test_nothing_is_known() -> None:
    """Answers alone tell nothing: there is no such group in the log."""
    assert state_spans([], [ProbedState(1, 2, "PreparingRebalance")]) == []


# -- beside the truth of simulated groups

HOUR_MS = 3_600_000
PREPARING = "PreparingRebalance"


@dataclass
class Life:
    """A group as it was, and as it is seen."""

    records: list[GroupRecord] = field(default_factory=list)
    answers: list[ProbedState] = field(default_factory=list)
    #: Time, type and state of each change.
    truth: list[tuple[int, str, str]] = field(default_factory=list)


def lives(scenario: str, seed: int, hours: int, groups: int) -> dict[str, Life]:
    """Simulated groups in one partition."""
    plan = SimulationPlan(
        scenario=SCENARIOS[scenario], groups=groups, duration_ms=hours * HOUR_MS, seed=seed, partitions=1
    )
    found: dict[str, Life] = defaultdict(Life)
    for item in simulate(plan, plan.group_ids()[0]):
        if isinstance(item, WrittenRecord):
            record = GroupRecord(
                partition=0,
                offset=item.offset,
                timestamp_ms=item.timestamp_ms,
                key=item.key,
                value=item.value,
            )
            found[item.key.group].records.append(record)  # type: ignore[union-attr]
        elif isinstance(item, GroupTransition):
            change = item.change
            found[item.group_id].truth.append((change.at_ms, change.group_type, change.after.value))
        elif isinstance(item, GroupProbe):
            answer = ProbedState(
                item.taken_ms, item.taken_ms, item.summary.state.value, plan.probe_interval_ms
            )
            found[item.group_id].answers.append(answer)
    return found


def untrue(life: Life, spans: list[StateSpan], *, moves: bool) -> list[str]:
    """What does not hold: exact times that are not those of a change, and bounds without a change between them."""
    happened = set(life.truth)
    begun = [at_ms for at_ms, _, state in life.truth if state == PREPARING]
    wrong = []
    for span in spans:
        if span.state == PREPARING:
            least = span.earliest_ms if span.earliest_ms is not None else 0
            if not any(least <= at_ms <= span.since_ms for at_ms in begun):
                wrong.append(f"no rebalance has begun: {span}")
        elif (
            span.since_ms,
            span.group_type,
            span.state,
        ) not in happened or span.earliest_ms != span.since_ms:
            wrong.append(f"no such change: {span}")
        if span.evidence == "probe" and span.since_ms - (span.earliest_ms or 0) > 10_000:
            wrong.append(f"wider than the time between two rounds: {span}")
    told = {(span.since_ms, span.group_type, span.state) for span in spans}
    missing = [one for one in life.truth if one not in told and one[2] in ("Stable", "Empty", "Dead")]
    # A coordinator that moves loses a rebalance: it is Stable again, which is written nowhere. So is an Empty group
    # whose record could not be written.
    return wrong if moves else wrong + [f"not told: {one}" for one in missing]


@pytest.mark.parametrize(
    "scenario",
    # Fifty members do what ten do, at five times the cost.
    [pytest.param(one, marks=[pytest.mark.long] if "-50-" in one else []) for one in SCENARIOS],
)
def test_true_states_lie_within_the_bounds(scenario: str) -> None:
    """All times but the begin of PreparingRebalance are exact, and nothing is missing; its bounds contain the truth."""
    # Fifty members each: one group has as many changes as three of the others.
    found = lives(scenario, seed=3, hours=1, groups=1 if "-50-" in scenario else 3)
    assert found
    moves = scenario in ("cluster-restart", "loading", "failed-appends", "unwritable")
    wrong = {
        group_id: bad
        for group_id, life in found.items()
        for answers in ((), life.answers)
        if (bad := untrue(life, state_spans(life.records, answers), moves=moves))
    }
    assert wrong == {}
