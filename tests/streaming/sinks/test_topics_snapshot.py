"""The snapshot of the job's topics."""

from __future__ import annotations

import json

import msgspec
import pytest

from groupreplay.streaming.contract.messages import CONDITIONS_KEY, JOB_KEY, OWNER_KEY, STATE_KEY, KindCount
from groupreplay.streaming.sinks.known_groups import DAY_MS, Day, Holding, OpenIncident
from groupreplay.streaming.sinks.topics_snapshot import TopicsSnapshot
from support.histories.probed import START
from support.incident_stories import incident_events
from support.job.sink_messages import (
    SINCE_MS,
    counted,
    document,
    events,
    expired,
    job_document,
    stable,
    stuck,
)


def test_documents_until_their_tombstone() -> None:
    """The latest of each group; with the group its last rebalance is forgotten."""
    group, made = stable()
    snapshot = counted(events(made))
    snapshot.take_state(b"g", document(group))
    known = snapshot.groups["g"]
    assert (known.label, known.state, known.generation, known.member_count) == ("g", "Stable", 5, 2)
    assert snapshot.rebalanced_ms == {"g": START}
    snapshot.take_state(b"g", None)
    snapshot.take_state(b"never-there", None)
    assert (snapshot.groups, snapshot.rebalanced_ms) == ({}, {})


def test_what_is_counted() -> None:
    """Rebalances by group, expired offsets of groups that matter, events by kind, conditions that fired."""
    _, made = stuck()
    lost = [*events([expired(3)]), *events([expired(5, matters=False)], "idle")]
    snapshot = counted([*events(made, labels={"team": "pay"}), *lost])
    assert snapshot.today == Day(
        number=0,
        rebalances={"g": 1},  # type: ignore[arg-type]
        expired={"g": 3},  # type: ignore[arg-type]
        events={  # type: ignore[arg-type]
            ("rebalance.completed", "INFO"): 1,
            ("rebalance.started", "INFO"): 1,
            ("rebalance.slow", "WARN"): 1,
            ("rebalance.stuck", "ERROR"): 1,
            ("offsets.expired", "ERROR"): 2,
        },
        fired={
            "g": {
                Holding("rebalance.slow", "WARN"): {"team": "pay"},
                Holding("rebalance.stuck", "ERROR"): {"team": "pay"},
            }
        },
    )


def test_no_event_counts_twice() -> None:
    """A batch that was done again writes the same ids."""
    _, made = stable()
    assert counted([*events(made), *events(made)]).today.rebalances == {"g": 2}


def test_events_that_came_late_do_not_count() -> None:
    """They would appear to happen now; the time of the last rebalance is updated all the same."""
    _, made = stable()
    snapshot = counted(events(made, late_ms=120_000), START + 120_000)
    assert (snapshot.today, snapshot.rebalanced_ms) == (Day(0), {"g": START})


def test_a_new_day_begins_at_nothing() -> None:
    """At midnight by the clock or by an event that was written then; what was written before counts no more."""
    _, made = stable()
    first, second = events(made)[:2]
    snapshot = counted([first])
    snapshot.roll(DAY_MS - 1)
    assert snapshot.today.rebalances == {"g": 1}
    snapshot.roll(DAY_MS)
    assert snapshot.today == Day(1)
    snapshot.take_event(second, DAY_MS - 1)
    assert snapshot.today == Day(1)
    snapshot.take_event(events(made, "h")[0], 2 * DAY_MS)
    assert (snapshot.today.number, snapshot.today.rebalances) == (2, {"h": 1})


def test_a_day_that_has_not_begun_begins_no_count() -> None:
    """A client dates the events: one message from next year must not end the counts of today."""
    _, made = stable()
    first, second = events(made)[:2]
    snapshot = counted([first])
    snapshot.take_event(events(made, "h")[0], 365 * DAY_MS, START)
    snapshot.take_event(second, START, START)
    assert snapshot.today.rebalances == {"g": 2}


def test_a_clock_that_was_a_year_ahead_for_a_moment() -> None:
    """When it is back the counts begin again, and do not wait for that year."""
    _, made = stable()
    snapshot = counted([])
    snapshot.roll(365 * DAY_MS)
    snapshot.roll(START)
    assert counted(events(made)[:1], into=snapshot).today.rebalances == {"g": 1}


def test_two_snapshots_of_one_day_count_the_same() -> None:
    """One that began weeks ago, and one that was started a moment ago and read from midnight on."""
    _, made = stable()
    today = events(made, "h")
    old = counted(today, START + DAY_MS, counted(events(made)))
    new = counted(today, START + DAY_MS)
    assert old.today == new.today
    assert new.today.rebalances == {"h": 2}


def test_the_job() -> None:
    """Its document, its conditions, and what it could not read, each under a key of its own."""
    snapshot = TopicsSnapshot()
    holding = [{"condition": "job.blind", "severity": "ERROR", "what": "no_rights", "fix": "..."}]
    snapshot.take_job(JOB_KEY, job_document(SINCE_MS))
    snapshot.take_job(CONDITIONS_KEY, msgspec.json.encode({"cluster_id": "c", "conditions": holding}))
    tally = {"partition": 3, "bad_records": [{"kind": "malformed", "key_type": 2, "records": 4}]}
    snapshot.take_job(b"\0__consumer_offsets-3", msgspec.json.encode(tally))
    snapshot.take_job(JOB_KEY, None)
    assert snapshot.job is not None
    assert (snapshot.job.heartbeat_ms, snapshot.job.phase) == (SINCE_MS, "caught_up")
    assert snapshot.job_conditions == [Holding("job.blind", "ERROR", what="no_rights")]
    assert snapshot.bad_records == {
        b"\0__consumer_offsets-3": [KindCount(kind="malformed", key_type=2, records=4)]
    }
    assert snapshot.unreadable == 0


@pytest.mark.parametrize("value", [b"", b"no json", b"[]", b'{"id": 1}', b'{"type": "x"}', b"\xff\xfe"])
def test_what_others_wrote(value: bytes) -> None:
    """Messages of other programs are counted and change nothing."""
    snapshot = TopicsSnapshot()
    snapshot.take_state(b"g", value)
    snapshot.take_job(JOB_KEY, value)
    snapshot.take_event(value, START)
    assert (snapshot.unreadable, snapshot.groups, snapshot.job) == (3, {}, None)


def test_the_claim_of_a_run_is_no_count_of_bad_records() -> None:
    """It says nothing that is measured, and is no message of another program."""
    snapshot = TopicsSnapshot()
    snapshot.take_job(OWNER_KEY, b'{"run_id":"r"}')
    snapshot.take_job(STATE_KEY, b'{"job_id":"j","state":"AwE="}')
    assert snapshot == TopicsSnapshot(_repeats=snapshot._repeats)


def test_open_incidents() -> None:
    """An incident is known with its groups from its event on, and no more after its end."""
    opened, resolved = incident_events()
    data = json.loads(opened)["data"]
    seen = TopicsSnapshot()
    seen.take_event(opened, START)
    assert seen.incidents == {
        data["incident_id"]: OpenIncident(
            severity="WARN",
            since_ms=data["since_ms"],
            groups=frozenset(data["groups"]),
            text=data["text"],
            first=data["first"],
            runbook=data["runbook"],
        )
    }
    seen.take_event(resolved, START)
    assert (seen.incidents, seen.unreadable) == ({}, 0)
