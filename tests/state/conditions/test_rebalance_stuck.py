"""Rebalances in progress: what begins and ends them, when they are slow, stuck and wedged, and who blocks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs, to_builtins

from groupreplay.state import Event, Evidence, Group, Observations, Severity
from groupreplay.state.conditions.rebalance_stuck import RebalanceStuck
from groupreplay.state.conditions.suspects import Suspect
from groupreplay.state.policy.rules import Policy
from support.histories.builders import (
    GROUP,
    check,
    commit,
    emptied,
    facts,
    generation,
    gone,
    member,
    names,
    observed,
    placed,
)
from support.histories.probed import MINUTE, PROBING, START, TWO, conditions, probe, rounds, told


def stuck(events: list[Event]) -> list[Any]:
    """What was said of being stuck."""
    return [fact for fact in facts(events) if isinstance(fact, RebalanceStuck)]


def test_a_probe_begins_a_rebalance_and_the_record_ends_it() -> None:
    """All five states are seen: Preparing and Completing by probes, and the new generation ties them together."""
    began = START + 20_000
    history = [
        TWO,
        generation(
            6, member("a", [0]), member("b", [1]), member("c"), at=began + 15_000, since=began + 9_000
        ),
    ]
    probes = [probe(began, "PreparingRebalance", "a", "b"), probe(began + 10_000, "CompletingRebalance", "a")]
    group, events = told([TWO], probes, began + 10_001)
    picture = group.describe()
    assert (picture["state"], picture["since_ms"]) == ("CompletingRebalance", began)
    group, events = told(history, probes, began + 60_000)
    assert names(events)[1:3] == ["rebalance.started", "rebalance.completed"]
    started, completed = events[1], events[2]
    assert (started.time_ms, started.evidence) == (began, Evidence.PROBE)
    assert started.cause is not None
    assert (started.cause.topic, started.cause.offset) == ("group-probes", began)
    assert started.fact.rebalance_id == completed.fact.rebalance_id == "era-1-3-100"  # type: ignore[attr-defined]
    check(started.fact, since_ms=began, since_ms_earliest=began - 10_000)
    check(completed.fact, join_ms_min=9_000, join_ms_max=19_000, sync_ms=6_000)
    assert completed.evidence is Evidence.PROBE
    assert group.describe()["state"] == "Stable"


def test_what_does_not_end_a_rebalance() -> None:
    """Between Preparing and Completing, over missing rounds and an Empty record, it is one and the same."""
    began = START + MINUTE
    probes = [
        probe(began, "PreparingRebalance"),
        probe(began + 10_000, "CompletingRebalance"),
        probe(began + 20_000, "PreparingRebalance"),
        probe(began + 110_000, "PreparingRebalance"),
    ]
    history = [TWO, emptied(7, at=began + 30_000)]
    _, events = told(history, probes, began + 120_000)
    assert [event.time_ms for event in events if event.fact.NAME == "rebalance.started"] == [began]
    assert conditions(events) == [("rebalance.slow", "firing", began + 75_000)]


def test_answers_that_end_a_rebalance() -> None:
    """Stable, Empty and absent do; how the group rests then is what the log says."""
    began = START + MINUTE
    for answer in ("Stable", "Empty", "Dead"):
        history = [TWO] if answer == "Stable" else [TWO, emptied(7, at=began + 85_000)]
        probes = [*rounds(began, began + 80_000), probe(began + 90_000, answer)]
        group, events = told(history, probes, began + 10 * MINUTE)
        assert conditions(events) == [
            ("rebalance.slow", "firing", began + 75_000),
            ("rebalance.slow", "resolved", began + 90_000),
        ]
        assert group.describe()["state"] == {"Stable": "Stable", "Empty": "Empty", "Dead": "Dead"}[answer]


def test_an_answer_from_before_the_last_record_says_nothing() -> None:
    """The broker was asked before the record was written: the rebalance is over."""
    history = [TWO, generation(6, member("a", [0, 1]), at=START + 20_000)]
    group, _ = told(history, [], START + 20_000)
    late = Observations(probes=[probe(START + 20_000, "PreparingRebalance")])
    assert (group.apply(late, START + 10 * MINUTE), group.describe()["state"]) == ([], "Stable")


def test_a_probe_waits_until_the_log_is_known_to_its_time() -> None:
    """Held over a snapshot; then it is applied, and not before."""
    group = Group(GROUP, PROBING)
    group.apply(observed(placed([TWO])), START)
    answer = Observations(probes=[probe(START + 5_000, "PreparingRebalance")])
    assert group.apply(answer, START + 4_999) == []
    assert group.next_deadline_ms() == START + 5_000
    group = Group.from_snapshot(GROUP, PROBING, group.snapshot())
    assert names(group.expire(START + 5_000)) == ["rebalance.started"]
    assert group.apply(answer, START + 5_001) == []


def test_a_group_that_only_the_prober_knows() -> None:
    """An older coordinator writes nothing when a group is first joined; it comes and goes with the answers."""
    group, events = told([], [probe(5_000, "PreparingRebalance", "a")], 6_000)
    assert (names(events), group.gone) == (["rebalance.started"], False)
    assert group.describe()["state"] == "PreparingRebalance"
    group.apply(Observations(probes=[probe(15_000, "Dead")]), 20_000)
    assert (group.describe()["state"], group.gone) == ("Dead", True)


def test_defaults_with_a_timeout_of_five_minutes() -> None:
    """One consumer that blocks the others is reported after 3 minutes, and wedged after 11 min 15 s."""
    began = START + MINUTE
    _, events = told([TWO], rounds(began, began + 15 * MINUTE), began + 15 * MINUTE)
    assert conditions(events) == [
        ("rebalance.slow", "firing", began + 75_000),
        ("rebalance.stuck", "firing", began + 3 * MINUTE),
        ("rebalance.stuck", "firing", began + 11 * MINUTE + 15_000),
    ]
    first, second = stuck(events)
    assert (first.wedged, second.wedged, first.condition_id) == (False, True, second.condition_id)
    assert {event.severity for event in events if event.fact in (first, second)} == {Severity.ERROR}


def test_short_and_long_timeouts() -> None:
    """The threshold stays between a slow rebalance plus 30 s and 5 minutes."""
    for timeout_ms, session_ms, expected in (
        (10_000, 6_000, 90_000),
        (300_000, 45_000, 180_000),
        (300_000, 120_000, 180_000),
        (600_000, 45_000, 300_000),
        (86_400_000, 45_000, 300_000),
    ):
        history = [generation(5, member("a", rebalance_ms=timeout_ms, session_ms=session_ms), at=START)]
        _, events = told(history, rounds(START + 1, START + 10 * MINUTE), START + 10 * MINUTE)
        fired = [at for name, _, at in conditions(events) if name == "rebalance.stuck"]
        assert fired[0] - START - 1 == expected


def test_numbers_are_settings() -> None:
    """A fixed threshold takes the place of the formula, for all groups or for some."""
    thresholds = {"rebalance.stuck": {"threshold_ms": 3_000}, "rebalance.slow": {"threshold_ms": 1_000}}
    context = replace(PROBING, policy=Policy(thresholds=thresholds))
    _, events = told([TWO], [probe(START + 1, "PreparingRebalance")], START + 4_000, context)
    assert conditions(events) == [
        ("rebalance.slow", "firing", START + 1_001),
        ("rebalance.stuck", "firing", START + 3_001),
    ]
    assert stuck(events)[0].threshold_ms == 3_000


def test_the_silent_member_is_suspected() -> None:
    """Members commit when they hear of a rebalance; the one that does not is the first suspect."""
    began = START + MINUTE
    history = [
        TWO,
        commit("t", 0, 5, at=began - 30_000),
        commit("t", 1, 5, at=began - 30_000),
        commit("t", 1, 9, at=began + 500),
    ]
    _, events = told(history, rounds(began, began + 4 * MINUTE), began + 4 * MINUTE)
    (fact,) = stuck(events)
    client = {"client_id": "client-a", "client_host": "/10.0.0.1", "instance_id": None}
    suspect = Suspect(member_id="a", **client, reason="no_commit_since_start", last_commit_ms=began - 30_000)
    check(fact, suspects=(suspect,), suspects_note=None, blockers=None, candidates=None)
    check(fact, reason="not_joined", state="PreparingRebalance")


def test_a_rebalance_that_was_seen_late() -> None:
    """The round before was long ago: commits since then may have been made in the rebalance, and tell who is silent."""
    began = START + 2 * MINUTE
    history = [
        TWO,
        commit("t", 0, 5, at=began - 60_000),
        commit("t", 1, 5, at=began - 60_000),
        commit("t", 1, 9, at=began - 20_000),
    ]
    first, *others = rounds(began, began + 4 * MINUTE)
    for unseen_ms, expected in [(10_000, []), (40_000, ["a"])]:
        probes = [structs.replace(first, unseen_ms=unseen_ms), *others]
        _, events = told(history, probes, began + 4 * MINUTE)
        (fact,) = stuck(events)
        assert [one.member_id for one in fact.suspects] == expected


def test_without_commits_nobody_is_suspected() -> None:
    """And the event says so, and names the members of whom one has not rejoined."""
    began = START + MINUTE
    _, events = told([TWO], rounds(began, began + 4 * MINUTE), began + 4 * MINUTE)
    (fact,) = stuck(events)
    assert [one.member_id for one in fact.candidates] == ["a", "b"]
    assert fact.firing_text(to_builtins(fact)).endswith(
        "commits do not show who blocks, waits for one of client-a on 10.0.0.1; client-b on 10.0.0.1, or for a new "
        "member; next: a thread dump of each member shows which one does not return to poll()"
    )
    # The broker has removed one of them.
    (fact,) = stuck(
        told([TWO], rounds(began, began + 4 * MINUTE, "PreparingRebalance", "b"), began + 4 * MINUTE)[1]
    )
    assert [one.member_id for one in fact.candidates] == ["b"]
    assert (fact.suspects, fact.suspects_note) == (
        (),
        "no member has committed since the rebalance began, so commits do not show who blocks",
    )


def test_a_leader_that_never_syncs() -> None:
    """Everybody has joined and waits for the assignment: the leader of the last generation is suspected."""
    began = START + MINUTE
    probes = rounds(began, began + 4 * MINUTE, "CompletingRebalance", "a", "b")
    _, events = told([TWO], probes, began + 4 * MINUTE)
    (fact,) = stuck(events)
    assert [(one.member_id, one.reason) for one in fact.suspects] == [("a", "leader_has_not_synced")]
    check(fact, reason="not_synced", candidates=None)
    probes = rounds(began, began + 4 * MINUTE, "CompletingRebalance", "b")
    (fact,) = stuck(told([TWO], probes, began + 4 * MINUTE)[1])
    check(fact, suspects=(), suspects_note="the leader of the last generation is not in the group any more")


def test_each_reason_is_said_once() -> None:
    """Members join, the leader does not sync, all join again, and so on: two reasons are two events, not many."""
    began = START + MINUTE
    last = began + 9 * MINUTE
    turns = [
        probe(at, "CompletingRebalance" if at // MINUTE % 2 else "PreparingRebalance", "a", "b")
        for at in range(began, last, 10_000)
    ]
    _, events = told([TWO], [*turns, probe(last, "Stable", "a", "b")], last)
    assert [(fact.status, fact.reason) for fact in stuck(events)] == [
        ("firing", "not_joined"),
        ("firing", "not_synced"),
        ("resolved", "not_synced"),
    ]


@pytest.mark.parametrize("late", [0, 30_000])
def test_who_was_dropped_at_the_timeout(late: int) -> None:
    """Still there at the last probe, and not in the new generation, which began when the timer could end: a warning.

    Also with a commit from before the first answer.
    """
    began = START + MINUTE
    over = began + late + 5 * MINUTE - 5_000
    quiet = [commit("t", 0, 7, at=began + 10_000)] if late else []
    history = [TWO, *quiet, generation(6, member("b", [0, 1]), member("c"), at=over, since=over - 10)]
    _, events = told(history, rounds(began + late, over - 5_000), over + 1)
    (left,) = [event for event in events if event.fact.NAME == "member.left"]
    assert (left.fact.reason, left.evidence) == ("rebalance_timeout", Evidence.INFERRED)  # type: ignore[attr-defined]
    assert left.severity is Severity.WARN
    assert conditions(events)[-1] == ("rebalance.stuck", "resolved", over)


def test_whose_session_expired_meanwhile() -> None:
    """Missing in the last answer, silent for longer than its session timeout."""
    began = START + MINUTE
    over = began + 5 * MINUTE + 5_000
    history = [TWO, generation(6, member("b", [0, 1]), at=over, since=over - 10)]
    _, events = told(history, rounds(began, over - 5_000, "PreparingRebalance", "b"), over + 1)
    (left,) = [fact for fact in facts(events) if fact.NAME == "member.left"]
    assert "rebalance_timeout" not in {one.reason for one in left.candidates}
    assert (left.candidates[0].reason, left.candidates[0].timeout_ms) == ("left", None)


def test_a_deleted_group_has_no_conditions() -> None:
    """What was firing is resolved by the tombstone, and nothing stays behind."""
    began = START + MINUTE
    probes = [*rounds(began, began + 4 * MINUTE), probe(began + 5 * MINUTE, "Dead")]
    group, events = told([TWO, gone(at=began + 270_000)], probes, began + 9 * MINUTE)
    assert conditions(events)[2:] == [
        ("rebalance.slow", "resolved", began + 270_000),
        ("rebalance.stuck", "resolved", began + 270_000),
    ]
    group.take_document()
    assert group.gone


def test_cuts_and_restarts_do_not_matter() -> None:
    """However records, probes and caught-up times arrive: the same conditions, at the same times, once."""
    began = START + MINUTE
    history = placed([TWO, generation(6, member("b", [0, 1]), at=began + 6 * MINUTE)])
    probes = rounds(began, began + 5 * MINUTE)
    whole = Group(GROUP, PROBING)
    seen = observed(history)
    expected = whole.apply(Observations(items=seen.items, seen_to=seen.seen_to, probes=probes), 0)
    expected += whole.expire(began + 7 * MINUTE)
    blob, events = Group(GROUP, PROBING).snapshot(), []
    for at in range(START, began + 7 * MINUTE + 1, 17_000):
        group = Group.from_snapshot(GROUP, PROBING, blob)
        batch = observed([raw for raw in history if at - 17_000 < raw.at <= at])
        fresh = [one for one in probes if at - 17_000 < one.taken_ms <= at]
        events += group.apply(Observations(items=batch.items, seen_to=batch.seen_to, probes=fresh), at)
        blob = group.snapshot()
    assert conditions(events) == conditions(expected) != []
    assert events == expected


def test_one_answer_in_each_single_run() -> None:
    """``run --once``: the first run knows of the rebalance, the next one that it has lasted, from the same two answers.

    One that begins and ends between two runs leaves its generation alone, and no condition.
    """
    began, hour = START + MINUTE, 60 * MINUTE
    first, events = told([TWO], [probe(began, "PreparingRebalance", "a", "b")], began + 1_000)
    assert (names(events)[-1], conditions(events)) == ("rebalance.started", [])
    still = Observations(probes=[probe(began + hour, "PreparingRebalance", "a", "b")])
    later = Group.from_snapshot(GROUP, PROBING, first.snapshot())
    # The answer waits for the caught-up time of its run.
    events = later.apply(still, began + 1_000, began + hour) + later.expire(began + hour, began + hour)
    assert conditions(events) == [
        ("rebalance.slow", "firing", began + 75_000),
        ("rebalance.stuck", "firing", began + 180_000),
        ("rebalance.stuck", "firing", began + 675_000),  # wedged
        # Late as they were, they are reported again.
        ("rebalance.slow", "firing", began + hour),
        ("rebalance.stuck", "firing", began + hour),
    ]
    _, events = told([TWO, generation(6, member("a", [0, 1]), at=began + 40 * MINUTE)], [], began + hour)
    assert ("rebalance.completed" in names(events), conditions(events)) == (True, [])
