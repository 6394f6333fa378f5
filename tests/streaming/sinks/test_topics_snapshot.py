"""What stays of the messages in the job's topics."""

from __future__ import annotations

import msgspec
import pytest

from groupreplay.streaming.contract.job_document import CONDITIONS_KEY, JOB_KEY, KindCount
from groupreplay.streaming.sinks.topics_snapshot import DAY_MS, Day, Holding, TopicsSnapshot
from support.histories.probed import START
from support.job.sink_messages import SINCE_MS, document, events, expired, job_document, stable, stuck


def test_documents_until_their_tombstone() -> None:
    """The latest of each group; with the group its last rebalance is forgotten."""
    group, said = stable()
    picture = TopicsSnapshot()
    picture.take_state(b"g", document(group))
    for value in events(said):
        picture.take_event(value, START)
    known = picture.groups[b"g"]
    assert (known.group_id, known.state, known.generation, known.member_count) == ("g", "Stable", 5, 2)
    assert picture.rebalanced_ms == {"g": START}
    picture.take_state(b"g", None)
    picture.take_state(b"never-there", None)
    assert (picture.groups, picture.rebalanced_ms) == ({}, {})


def test_what_is_counted() -> None:
    """Rebalances by group, expired offsets of groups that matter, events by kind, conditions that fired."""
    _, said = stuck()
    picture = TopicsSnapshot()
    for value in [
        *events(said, labels={"team": "pay"}),
        *events([expired(3)]),
        *events([expired(5, matters=False)], "idle"),
    ]:
        picture.take_event(value, START)
    assert picture.today == Day(
        number=0,
        rebalances={"g": 1},  # type: ignore[arg-type]
        expired={"g": 3},  # type: ignore[arg-type]
        events={  # type: ignore[arg-type]
            ("rebalance.completed", "INFO"): 1,
            ("rebalance.started", "INFO"): 1,
            ("rebalance.slow", "WARN"): 1,
            ("rebalance.stuck", "ERROR"): 1,
            ("offsets.expired", "WARN"): 1,
            ("offsets.expired", "INFO"): 1,
        },
        fired={
            ("g", Holding("rebalance.slow", "WARN")): {"team": "pay"},
            ("g", Holding("rebalance.stuck", "ERROR")): {"team": "pay"},
        },
    )


def test_no_event_counts_twice() -> None:
    """A batch that was done again writes the same ids."""
    _, said = stable()
    picture = TopicsSnapshot()
    for value in [*events(said), *events(said)]:
        picture.take_event(value, START)
    assert picture.today.rebalances == {"g": 2}


def test_events_that_came_late_do_not_count() -> None:
    """They would look like something that happens now; when the group was rebalanced is known all the same."""
    _, said = stable()
    picture = TopicsSnapshot()
    for value in events(said, late_ms=120_000):
        picture.take_event(value, START + 120_000)
    assert (picture.today, picture.rebalanced_ms) == (Day(0), {"g": START})


def test_a_new_day_begins_at_nothing() -> None:
    """At midnight by the clock or by an event that was written then; what was written before counts no more."""
    _, said = stable()
    first, second = events(said)[:2]
    picture = TopicsSnapshot()
    picture.take_event(first, START)
    picture.roll(DAY_MS - 1)
    assert picture.today.rebalances == {"g": 1}
    picture.roll(DAY_MS)
    assert picture.today == Day(1)
    picture.take_event(second, DAY_MS - 1)
    assert picture.today == Day(1)
    picture.take_event(events(said, "h")[0], 2 * DAY_MS)
    assert (picture.today.number, picture.today.rebalances) == (2, {"h": 1})


def test_two_pictures_of_one_day_count_the_same() -> None:
    """One that began weeks ago, and one that was started a moment ago and read from midnight on."""
    _, said = stable()
    yesterday, today = events(said), events(said, "h")
    old, new = TopicsSnapshot(), TopicsSnapshot()
    for value in yesterday:
        old.take_event(value, START)
    for picture in (old, new):
        for value in today:
            picture.take_event(value, START + DAY_MS)
    assert old.today == new.today
    assert new.today.rebalances == {"h": 2}


def test_the_job() -> None:
    """Its document, its conditions, and what it could not read, each under a key of its own."""
    picture = TopicsSnapshot()
    holding = [{"condition": "job.blind", "severity": "ERROR", "what": "no_rights", "fix": "..."}]
    picture.take_job(JOB_KEY, job_document(SINCE_MS))
    picture.take_job(CONDITIONS_KEY, msgspec.json.encode({"cluster_id": "c", "conditions": holding}))
    tally = {"partition": 3, "bad_records": [{"kind": "malformed", "key_type": 2, "records": 4}]}
    picture.take_job(b"\0__consumer_offsets-3", msgspec.json.encode(tally))
    picture.take_job(JOB_KEY, None)
    assert picture.job is not None
    assert (picture.job.heartbeat_ms, picture.job.phase) == (SINCE_MS, "caught_up")
    assert picture.job_conditions == [Holding("job.blind", "ERROR", what="no_rights")]
    assert picture.bad_records == {
        b"\0__consumer_offsets-3": [KindCount(kind="malformed", key_type=2, records=4)]
    }
    assert picture.unreadable == 0


@pytest.mark.parametrize("value", [b"", b"no json", b"[]", b'{"id": 1}', b'{"type": "x"}', b"\xff\xfe"])
def test_what_others_wrote(value: bytes) -> None:
    """It is counted and changes nothing."""
    picture = TopicsSnapshot()
    picture.take_state(b"g", value)
    picture.take_job(JOB_KEY, value)
    picture.take_event(value, START)
    assert (picture.unreadable, picture.groups, picture.job) == (3, {}, None)
