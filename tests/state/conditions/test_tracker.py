"""Conditions over time: the first start, lateness, severity, what documents show."""

from __future__ import annotations

from dataclasses import replace

from groupreplay.state import Group, Observations, Severity
from groupreplay.state.output.document import Deleted
from groupreplay.state.output.envelope import cloud_event
from groupreplay.state.policy.rules import GroupRule, Policy
from support.histories.builders import GROUP, check, generation, member, observed, placed
from support.histories.probed import MINUTE, PROBING, START, TWO, conditions, probe, rounds, told

STUCK = {"rebalance.stuck": {"threshold_ms": 30_000}, "rebalance.slow": {"threshold_ms": 3_600_000}}
QUICK = replace(PROBING, policy=Policy(thresholds=STUCK))


def test_what_still_holds_at_the_first_start_is_said_then() -> None:
    """Nothing of the time before is said; a rebalance that is stuck since then is, with its real start."""
    started = START + 5 * MINUTE
    context = replace(QUICK, emit_since_ms=started)
    _, events = told([TWO], rounds(START + 1_000, started), started + MINUTE, context)
    (event,) = events
    assert conditions(events) == [("rebalance.stuck", "firing", started)]
    assert event.fact.since_ms == START + 1_000  # type: ignore[attr-defined]


def test_what_was_over_before_the_first_start_is_never_said() -> None:
    """A backlog with a rebalance that ended raises nothing."""
    context = replace(QUICK, emit_since_ms=START + 9 * MINUTE)
    history = [TWO, generation(6, member("a"), at=START + 5 * MINUTE)]
    assert told(history, rounds(START + 1_000, START + 4 * MINUTE), START + 10 * MINUTE, context)[1] == []


def test_a_late_alarm_is_said_again_when_it_can_be_acted_upon() -> None:
    """After an outage of the job the first event is marked as late; what still holds is said once more, once."""
    group = Group(GROUP, QUICK)
    back = START + 10 * MINUTE
    seen = observed(placed([TWO]))
    log = Observations(items=seen.items, seen_to=seen.seen_to, probes=rounds(START + 1_000, START + 20_000))
    events = group.apply(log, START + 5 * MINUTE, recorded_ms=back)
    assert conditions(events) == [("rebalance.stuck", "firing", START + 31_000)]
    assert group.next_deadline_ms() is not None
    group = Group.from_snapshot(GROUP, QUICK, group.snapshot())
    assert group.expire(START + 6 * MINUTE, recorded_ms=back + 5_000) == []
    again = group.expire(back, recorded_ms=back + 10_000)
    assert conditions(again) == [("rebalance.stuck", "firing", back)]
    assert again[0].fact == events[-1].fact
    assert cloud_event(again[0], QUICK, back).id != cloud_event(events[-1], QUICK, back).id
    assert group.expire(back + 1_000, recorded_ms=back + 11_000) == []


def test_a_cap_and_labels_and_silence_for_a_group() -> None:
    """What the policy says of a group is in its events; an ignored one has none, and no document."""
    capped = GroupRule(groups="g*", severity_cap=Severity.INFO, labels={"team": "x"})
    context = replace(QUICK, policy=Policy(thresholds=STUCK, groups=(capped,)))
    group, events = told([TWO], [probe(START + 1, "PreparingRebalance")], START + MINUTE, context)
    assert {(event.severity, event.labels["team"]) for event in events} == {(Severity.INFO, "x")}
    document = group.take_document()
    assert document is not None
    assert not isinstance(document, Deleted)
    assert (document["labels"], [one["severity"] for one in document["conditions"]]) == (
        {"team": "x"},
        ["INFO"],
    )
    ignored = replace(QUICK, policy=Policy(groups=(GroupRule(groups=GROUP, ignore=True),)))
    group, events = told([TWO], [probe(START + 1, "PreparingRebalance")], START + 9 * MINUTE, ignored)
    assert (events, group.take_document()) == ([], None)


def test_documents_show_what_holds() -> None:
    """From firing to resolved, in ``describe`` and in ``group-states``."""
    group, _ = told([TWO], [probe(START + 1_000, "PreparingRebalance")], START + MINUTE, QUICK)
    (shown,) = group.describe()["conditions"]
    check(shown, condition="rebalance.stuck", severity="ERROR")
    check(shown, since_ms=START + 1_000, runbook="docs/runbook.md#rebalance-stuck")
    group.apply(Observations(probes=[probe(START + 2 * MINUTE, "Stable")]), START + 3 * MINUTE)
    assert group.describe()["conditions"] == []


def test_a_timer_has_a_place_but_no_cause() -> None:
    """Its id names group, condition and deadline; it sorts behind the group's last record."""
    _, events = told([TWO], [probe(START + 1, "PreparingRebalance")], START + MINUTE, QUICK)
    record, _, fired = [
        cloud_event(event, QUICK, event.time_ms)
        for event in events
        if event.cause is None or event.cause.topic != "x"
    ][-3:]
    assert events[-1].cause is None
    assert fired.id.endswith(f"-rebalance.stuck-{START + 1}-{START + 30_001}")
    assert b'"cause":null' in fired.value
    assert b'"sequence":"00003-00000000000000000100-' in fired.value
    assert b'"sequence":"00003-00000000000000000100-' in record.value
