"""Conditions for every history: batches, restarts and the arrival of probes may not change a word."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from groupreplay.state import Context, Event, Group, Observations, due_work
from groupreplay.state.conditions.condition import Condition
from groupreplay.state.conditions.rebalance_stuck import RebalanceStuck
from groupreplay.state.output.envelope import cloud_event
from groupreplay.state.policy.rules import Policy
from groupreplay.state.snapshot.observations import Probe
from support.histories.builders import CONTEXT, GROUP, Raw, observed
from support.histories.evaluations import all_always
from support.histories.near_expiry import probes_between
from support.histories.strategies import WrittenLog, histories, logs

#: Thresholds so small that the conditions come and go inside these histories.
QUICK = Policy(
    thresholds={
        "rebalance.slow": {"threshold_ms": 2_000},
        "rebalance.stuck": {"threshold_ms": 5_000, "wedged_ms": 20_000},
        "rebalance.timeouts": {"times": 1, "window_ms": 90_000},
        "rebalance.storm": {"window_ms": 30_000, "least": 1, "per_slot": 0, "beyond": 1},
        "member.flapping": {"times": 1, "window_ms": 20_000},
        "member.idle": {"rounds": 1, "least_ms": 10_000},
        "static.conflict": {"window_ms": 100_000},
        "static.crash_loop": {"times": 1, "window_ms": 20_000},
    }
)
PROBING = replace(CONTEXT, probing=True, policy=QUICK, catch_up_after_ms=3_600_000)
STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Empty", "Dead", "Unknown")
AFTER_MS = 120_000


def probes_of(records: list[Raw]) -> st.SearchStrategy[list[Probe]]:
    """Answers at any time of a history, each recorded once."""
    return probes_between(records[0].at - 10, records[-1].at + AFTER_MS // 2, STATES, most=12)


def at_once(records: list[Raw], probes: list[Probe], context: Context) -> tuple[list[Event], dict[str, Any]]:
    """The reference: everything in one call."""
    group, seen = Group(GROUP, context), observed(records)
    events = group.apply(Observations(items=seen.items, seen_to=seen.seen_to, probes=probes), 0)
    return events + group.expire(records[-1].at + AFTER_MS), group.describe()


def in_pieces(
    records: list[Raw], probes: list[Probe], context: Context, times: list[int], recorded: bool = False
) -> tuple[list[Event], dict[str, Any]]:
    """Cut at these moments, each batch known to be complete; between them there is what a driver keeps."""
    end = records[-1].at + AFTER_MS
    group, events = Group(GROUP, context), list[Event]()
    for low, high in pairwise([-1, *times, end]):
        seen = observed([raw for raw in records if low < raw.at <= high])
        fresh = [one for one in probes if low < one.taken_ms <= high]
        given_ = Observations(items=seen.items, seen_to=seen.seen_to, probes=fresh)
        events += group.apply(given_, high, high if recorded else None)
        group.take_document()
        group = Group(GROUP, context) if group.gone else Group.from_snapshot(GROUP, context, group.snapshot())
    return events, group.describe()


def moments(data: st.DataObject, records: list[Raw]) -> list[int]:
    """Moments at which the log is cut."""
    last = records[-1].at + AFTER_MS
    return sorted(data.draw(st.sets(st.integers(records[0].at - 5, last - 1), max_size=6), label="cuts"))


def without_suspects(told: tuple[list[Event], dict[str, Any]]) -> tuple[list[Event], dict[str, Any]]:
    """All but who is suspected: a batch folds its commits, so a moment in the middle of it knows of later ones."""
    events, described = told
    kept = [
        replace(event, fact=replace(event.fact, suspects=None, suspects_note=None))
        if isinstance(event.fact, RebalanceStuck)
        else event
        for event in events
    ]
    unnamed = {"suspects": None, "suspects_note": None}
    conditions = [{**one, **unnamed} if "suspects" in one else one for one in described["conditions"]]
    return kept, {**described, "conditions": conditions}


@given(histories(), st.data())
def test_batches_and_restarts_do_not_matter(records: list[Raw], data: st.DataObject) -> None:
    """Classic groups with probes: the same events at the same times, and the same group; but for the suspects."""
    probes = data.draw(probes_of(records), label="probes")
    expected = without_suspects(at_once(records, probes, PROBING))
    cuts = moments(data, records)
    assert without_suspects(in_pieces(records, probes, PROBING, cuts)) == expected
    # With a clock beside it, and never late, it says nothing twice.
    cuts = moments(data, records)
    assert without_suspects(in_pieces(records, probes, PROBING, cuts, recorded=True)) == expected


@given(histories(), st.data())
def test_suspects_do_not_depend_on_restarts(records: list[Raw], data: st.DataObject) -> None:
    """With one batch for each time in the log, suspects included, whatever else it is cut at."""
    probes = data.draw(probes_of(records), label="probes")
    times = {raw.at for raw in records}
    expected = in_pieces(records, probes, PROBING, sorted(times))
    cuts = sorted(times.union(moments(data, records)))
    assert in_pieces(records, probes, PROBING, cuts) == expected


@given(logs(), st.data())
def test_the_newer_kinds_as_well(log: WrittenLog, data: st.DataObject) -> None:
    """Groups whose rebalances are in the log."""
    records = log.records
    expected = at_once(records, [], PROBING)
    assert in_pieces(records, [], PROBING, moments(data, records)) == expected


def check_order(events: list[Event], described: dict[str, Any]) -> None:
    """Each condition is firing, perhaps again, then resolved, and what is not resolved is what holds."""
    open_: dict[str, Condition] = {}
    for event in events:
        fact = event.fact
        if not isinstance(fact, Condition):
            continue
        if fact.status == "resolved":
            assert open_.pop(fact.condition_id).since_ms == fact.since_ms
        else:
            open_[fact.condition_id] = fact
        assert fact.since_ms <= event.time_ms
    assert sorted(open_) == sorted(one["condition_id"] for one in described["conditions"])


@given(histories(), st.data())
def test_what_fires_is_resolved_or_holds(records: list[Raw], data: st.DataObject) -> None:
    """Classic groups: nothing is resolved that was not firing, nothing is forgotten."""
    check_order(*at_once(records, data.draw(probes_of(records)), PROBING))


@given(logs())
def test_what_fires_is_resolved_or_holds_in_the_newer_kinds(log: WrittenLog) -> None:
    """The same for those."""
    check_order(*at_once(log.records, [], PROBING))


@given(histories(), st.data())
def test_ids_are_unique(records: list[Raw], data: st.DataObject) -> None:
    """Facts, conditions from records, from probes and from timers: no two share an id."""
    events, _ = at_once(records, data.draw(probes_of(records)), PROBING)
    ids = [cloud_event(event, PROBING, event.time_ms).id for event in events]
    assert len(set(ids)) == len(ids)


@given(histories(), st.data())
def test_detectors_that_are_not_due(records: list[Raw], data: st.DataObject) -> None:
    """Evaluated after every change, they find nothing that they do not find when they are due."""
    probes = data.draw(probes_of(records), label="probes")
    with all_always():
        expected: Any = at_once(records, probes, PROBING)
    assert at_once(records, probes, PROBING) == expected


@given(logs())
def test_detectors_that_are_not_due_in_newer_groups(log: WrittenLog) -> None:
    """The same for KIP-848, share and streams groups, and for groups that the model of the coordinator has written."""
    with all_always():
        expected: Any = at_once(log.records, [], PROBING)
    assert at_once(log.records, [], PROBING) == expected


def always_evaluated(records: list[Raw], probes: list[Probe], context: Context) -> tuple[list[Event], Any]:
    """The reference: in one call, with an evaluation of each group when events begin."""
    with mock.patch.object(due_work, "skip_end_of_past", return_value=False):
        return at_once(records, probes, context)


def beginning(data: st.DataObject, records: list[Raw]) -> Context:
    """Events begin at any moment of the history, or a little later."""
    first, last = records[0].at, records[-1].at
    since_ms = data.draw(st.integers(first, last + AFTER_MS // 2), label="since_ms")
    return replace(PROBING, emit_since_ms=since_ms)


@given(histories(), st.data())
def test_events_that_begin_in_the_middle(records: list[Raw], data: st.DataObject) -> None:
    """A group at rest is not evaluated at that moment: the events and the group are as if it were."""
    context = beginning(data, records)
    probes = data.draw(probes_of(records), label="probes")
    expected = without_suspects(always_evaluated(records, probes, context))
    assert without_suspects(at_once(records, probes, context)) == expected
    assert without_suspects(in_pieces(records, probes, context, moments(data, records))) == expected


@given(logs(), st.data())
def test_events_that_begin_in_the_middle_of_newer_groups(log: WrittenLog, data: st.DataObject) -> None:
    """Groups whose rebalances are in the log."""
    context = beginning(data, log.records)
    expected = always_evaluated(log.records, [], context)
    assert at_once(log.records, [], context) == expected
    assert in_pieces(log.records, [], context, moments(data, log.records)) == expected
