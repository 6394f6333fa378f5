"""A detector runs when what it depends on has changed or its time has come: it finds what all, always, would find.

Events are compared with their ids and times, in order, for clocks that run near the expiry of offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.coordinator.simulation.script import STOP, ClientStep, Script
from groupreplay.state import Context, Event, Group, Observations
from groupreplay.state.output.envelope import cloud_event
from groupreplay.state.snapshot.observations import Probe
from support.histories.builders import CONTEXT, GROUP, Raw, asked_for, commit, gone, observed, placed
from support.histories.evaluations import all_always
from support.histories.near_expiry import DAY_MS, HOUR_MS, contexts, probes_of, requests, stretched
from support.histories.simulated import MINUTE, rolling_restart, simulated, starts

#: So many evaluations of all detectors at moments at which nothing happens.
_MOMENTS = 100


def told(
    batches: Sequence[Sequence[Raw]], probes: Sequence[Probe], context: Context
) -> list[tuple[str, int, Any]]:
    """Ids, times and facts of all events, in order; the log is known until every deadline has passed."""
    group, events = Group(GROUP, context), list[Event]()
    for place, batch in enumerate(batches):
        seen = observed(batch)
        given_ = Observations(items=seen.items, seen_to=seen.seen_to, probes=() if place else probes)
        events += group.apply(given_, 0)
    events += group.expire(end_ms([raw for batch in batches for raw in batch], context))
    return [(cloud_event(event, context, event.time_ms).id, event.time_ms, event.fact) for event in events]


def end_ms(records: Sequence[Raw], context: Context) -> int:
    """Every deadline has passed, and the group is older than a day."""
    return max(raw.at for raw in records) + 2 * context.assumed_retention_ms + 2 * DAY_MS


def check(records: list[Raw], probes: Sequence[Probe], context: Context) -> None:
    """In one batch, and moment by moment: a run of commits is evaluated at its end, not at moments inside it."""
    with all_always():
        expected = told([records], probes, context)
    assert told([records], probes, context) == expected
    moments = [list(batch) for _, batch in groupby(records, key=lambda raw: raw.at)]
    with all_always((end_ms(records, context) - records[0].at) // _MOMENTS):
        expected = told(moments, probes, context)
    assert told(moments, probes, context) == expected


@given(st.data())
def test_requests_near_expiry(data: st.DataObject) -> None:
    """Classic groups with commits of old clients, answers of a prober and clocks that go back."""
    context = data.draw(contexts(), label="context")
    records = data.draw(requests(context), label="records")
    check(records, data.draw(probes_of(records), label="probes"), context)


@given(st.data())
def test_logs_near_expiry(data: st.DataObject) -> None:
    """Groups of all kinds, as coordinators and no coordinator write them, with waits between the operations."""
    context = data.draw(contexts(), label="context")
    records = data.draw(stretched(context), label="records")
    check(records, data.draw(probes_of(records), label="probes"), context)


def test_a_commit_of_a_deleted_group() -> None:
    """It makes a group again, to whose offsets another rule applies: their deadline is known from then on."""
    at_ms = 10_000_000
    history = [commit("t", 0, 0, at=at_ms), asked_for(at=at_ms + 1)]
    history += [gone(at=at_ms + HOUR_MS), commit("t", 0, 0, at=at_ms + HOUR_MS + 1_000)]
    check(placed(history), [], replace(CONTEXT, retention_ms=2 * MINUTE))


def test_a_commit_behind_an_evaluation_inside_its_run() -> None:
    """It ends what began inside the run: the evaluation at the end of the run is not the same as the one inside."""
    at_ms = 10_000_000
    history = [commit("t", 0, 0, at=at_ms)]
    history += [commit("t", 1, place, at=at_ms + 120_000 + 1_000 * place) for place in range(3)]
    history.append(commit("t", 0, 1, at=at_ms + 122_000))
    check(placed(history), [], replace(CONTEXT, retention_ms=2 * MINUTE))


#: Two members that leave, come back and leave for good: the group matters as soon as it is a day old.
_LEFT = Script(
    steps=(
        *starts(range(2)),
        *(ClientStep(10 * MINUTE, STOP, number) for number in range(2)),
        *starts(range(2), 15 * MINUTE),
        *(ClientStep(20 * MINUTE, STOP, number) for number in range(2)),
    ),
    consumer_starts=range(0),
    strategies=("range",),
    partitions=6,
    commit_interval_ms=MINUTE,
)


@pytest.mark.parametrize("retention_ms", [10 * MINUTE, HOUR_MS, DAY_MS])
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(_LEFT, id="left"),
        pytest.param(rolling_restart(3, at_ms=20 * MINUTE, crashing=1), id="restarted"),
        pytest.param(rolling_restart(2, at_ms=20 * MINUTE, kip848=True), id="kip848"),
    ],
)
def test_simulated_groups_near_expiry(script: Script, retention_ms: int) -> None:
    """Histories of the simulation, with retentions that end within them and after them."""
    context = replace(CONTEXT, retention_ms=retention_ms)
    check(simulated(script, HOUR_MS), [], context)
