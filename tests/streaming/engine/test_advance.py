"""What one call does with state, timers and rows, on Spark's real ``GroupState`` and without a JVM."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from pyspark.sql.streaming.state import GroupState

from groupreplay.state import Context, Group
from groupreplay.state.job.observations import ObservationPlace, RoundObservation
from groupreplay.state.job_watch import JobWatch
from groupreplay.state.policy.context import Redaction
from groupreplay.state.policy.rules import GroupRule, Policy
from groupreplay.state.replay.offset_sets import OCCASION_MS
from groupreplay.state.snapshot.observations import Probe
from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.contract.messages import Output
from groupreplay.streaming.engine.advance import AdvanceResult, advance
from groupreplay.streaming.engine.wire import DOCUMENT_WANTED, PackedDocumentRequest, PackedProbe, to_wire
from groupreplay.streaming.spark.operator import OUTPUT_COLUMNS, Job, step
from support.histories.builders import asked_for, member
from support.histories.builders import generation as named_generation
from support.histories.raw_records import commit, commit_key, generation, log
from support.job.captures import raw
from support.job.packed import packed_by_key

CONTEXT = Context(cluster_id="c")
JOB = Job(context=CONTEXT, topics=TopicNames(events="my-events"))
NOW_MS = 10_000_000


def packed(
    records: Sequence[tuple[bytes | None, bytes | None]], *, first_offset: int = 0
) -> dict[bytes, list[bytes]]:
    """What ``pack`` makes of the records: packed blobs by key."""
    return packed_by_key(log(records, first_offset=first_offset))


def group_state(blob: bytes | None = None, *, timed_out: bool = False, caught_up_ms: int = NOW_MS) -> Any:
    """Spark's own class, as it is handed to the function."""
    return GroupState(
        optionalValue=None if blob is None else (blob,),
        batchProcessingTimeMs=NOW_MS,
        eventTimeWatermarkMs=caught_up_ms,
        timeoutConf="ProcessingTimeTimeout",
        hasTimedOut=timed_out,
        watermarkPresent=True,
        defined=blob is not None,
        updated=False,
        removed=False,
        timeoutTimestamp=-1,
        keyAsUnsafe=b"",
        valueSchema=None,
    )


def frame(key: bytes, blob: bytes | None, caught_up_ms: int | None = None) -> pd.DataFrame:
    """One row as Spark gives it."""
    return pd.DataFrame(
        {"key": [key], "packed": [blob], "caught_up_ms": [-1 if caught_up_ms is None else caught_up_ms]}
    )


def call(
    key: bytes, blobs: Sequence[bytes | None], state: Any, caught_up_ms: int | None = None
) -> list[dict[str, Any]]:
    """The rows of one call, its frames as Spark gives them: in any number."""
    frames = [frame(key, blob) for blob in blobs]
    if caught_up_ms is not None:
        frames.append(frame(key, None, caught_up_ms))
    empty = pd.DataFrame({"key": [], "packed": [], "caught_up_ms": []})
    out = list(step((key,), frames or [empty], state, job=JOB))
    assert all(tuple(frame.columns) == OUTPUT_COLUMNS for frame in out)
    return [row for frame in out for row in frame.to_dict("records")]


def changes(state: Any) -> dict[str, Any]:
    """What Spark will do with the state after the call."""
    return {
        "updated": state._updated,
        "removed": state._removed,
        "wakes_in_ms": None if state._timeout_timestamp < 0 else state._timeout_timestamp - NOW_MS,
    }


def described(state: Any) -> dict[str, Any]:
    """The group that the state holds."""
    return Group.from_snapshot("g", CONTEXT, state.get[0]).describe()


def test_data_makes_a_state_and_rows_for_the_topics() -> None:
    """A new group: its event and its document go to their topics, its state is kept, no timer is needed."""
    blobs, state = packed([generation("g"), commit("other")]), group_state()
    rows = call(b"g:g", blobs[b"g:g"], state)
    assert [(row["topic"], row["key"]) for row in rows] == [("my-events", b"g"), ("group-states", b"g")]
    headers, event = (json.loads(rows[0][part]) for part in ("headers", "value"))
    assert (headers["content-type"], headers["ce_id"]) == ("application/cloudevents+json", event["id"])
    assert event["type"] == "groupreplay.group.created.v1"
    assert rows[1]["headers"] is None
    assert changes(state) == {"updated": True, "removed": False, "wakes_in_ms": None}
    assert described(state)["state"] == "Empty"


def test_what_is_written_hides_what_is_kept() -> None:
    """Documents and events alike; the state has the names, by which it knows who answers the prober."""
    context = replace(CONTEXT, redaction=Redaction(frozenset({"hosts", "member-id"}), b"sixteen bytes or"))
    life = [
        asked_for(at=1_000),
        named_generation(1, member("sec-1", [0], client_id="c", host="/sec-host"), at=2_000),
    ]
    blobs = packed([(one.key, one.value) for one in raw(life)])[b"g:g"]
    result = advance(b"g:g", None, blobs, now_ms=NOW_MS, recorded_ms=NOW_MS, context=context)
    assert [row.output.value for row in result.rows] == ["events", "events", "states"]
    assert all(b"sec-" not in (row.value or b"") for row in result.rows)
    assert b"sec-1" in (result.blob or b"")


def test_rows_in_several_frames_are_one_call() -> None:
    """Spark may cut the rows of one key into frames and hand them over in any order."""
    early = packed([commit("g", offset=1)])[b"g:g"]
    late, state = packed([commit("g", offset=2)], first_offset=7)[b"g:g"], group_state()
    call(b"g:g", [*late, *early], state)
    assert [one["offset"] for one in described(state)["offsets"]] == [2]


def test_a_first_start_sets_no_timer_for_a_group_at_rest() -> None:
    """Before the end of the log is known, and although nothing was evaluated: events begin a second before now."""
    begin_ms, state = NOW_MS - 1_000, group_state(caught_up_ms=-1)
    job = replace(JOB, context=replace(CONTEXT, emit_since_ms=begin_ms), started_ms=begin_ms)
    inputs = [frame(b"g:g", *packed([generation("g"), commit("other")])[b"g:g"])]
    assert [row for out in step((b"g:g",), inputs, state, job=job) for row in out["topic"]] == [
        "group-states"
    ]
    assert changes(state) == {"updated": True, "removed": False, "wakes_in_ms": None}


def test_data_that_changes_nothing_leave_state_and_timer_alone() -> None:
    """Records that were applied before are no reason to write the state; Spark then keeps its timer."""
    blobs = packed([generation("g")])[b"g:g"]
    first = group_state()
    call(b"g:g", blobs, first)
    again = group_state(first.get[0])
    assert call(b"g:g", blobs, again) == []
    assert changes(again) == {"updated": False, "removed": False, "wakes_in_ms": None}


@pytest.fixture
def open_operation() -> tuple[bytes, int]:
    """(state, deadline) of a group whose last record, a tombstone, may not be the end of its operation."""
    blobs = packed([generation("g"), commit("g"), (commit_key("g"), None)])[b"g:g"]
    state = group_state(caught_up_ms=0)
    call(b"g:g", blobs, state)
    return state.get[0], 2_001


@pytest.mark.parametrize("behind_ms", [1, 1_001])
def test_a_deadline_waits_for_the_caught_up_time(open_operation: tuple[bytes, int], behind_ms: int) -> None:
    """A timer that is due by the clock does not fire before the log is known to be read so far.

    The call sets a new timer, later than now: PySpark would fire the old one in every batch for ever.
    """
    blob, deadline_ms = open_operation
    state = group_state(blob, timed_out=True, caught_up_ms=deadline_ms - behind_ms)
    assert call(b"g:g", [], state) == []
    assert changes(state) == {"updated": True, "removed": False, "wakes_in_ms": 10_000}
    assert len(described(state)["offsets"]) == 1


def test_a_due_deadline_is_served_and_its_timer_gone(open_operation: tuple[bytes, int]) -> None:
    """Once the log is known past the open operation it is applied; only what was lost is remembered for a while."""
    blob, deadline_ms = open_operation
    state = group_state(blob, timed_out=True, caught_up_ms=deadline_ms + OCCASION_MS)
    call(b"g:g", [], state)
    # What is left is the memory of the lost offset, which lasts for weeks.
    assert changes(state)["wakes_in_ms"] > 20 * 86_400_000
    assert state._updated or state._removed


def test_data_serve_deadlines_too(open_operation: tuple[bytes, int]) -> None:
    """A group with data in every batch is never called by its timer, and its deadlines are served."""
    blob, _ = open_operation
    state = group_state(blob)
    call(b"g:g", packed([commit("g", partition=1)], first_offset=9)[b"g:g"], state)
    offsets = described(state)["offsets"]
    assert [one["partition"] for one in offsets] == [1]


def test_the_wait_counts_from_the_caught_up_time() -> None:
    """A live job is called again as soon as the caught-up time can have passed the deadline, not sooner."""
    blobs = packed([commit("g"), (commit_key("g"), None)], first_offset=NOW_MS // 1_000)[b"g:g"]
    state = group_state(caught_up_ms=NOW_MS - 3_000)
    call(b"g:g", blobs, state)
    assert changes(state)["wakes_in_ms"] == 1_001 + 3_000


def test_a_group_with_nothing_left_is_removed() -> None:
    """A deleted group leaves no state, and its document is a tombstone."""
    key, _ = generation("g")
    first = group_state()
    call(b"g:g", packed([generation("g")])[b"g:g"], first)
    state = group_state(first.get[0])
    rows = call(b"g:g", packed([(key, None), commit("z")], first_offset=5)[b"g:g"], state)
    assert [(row["topic"], row["value"] is None) for row in rows] == [
        ("my-events", False),
        ("group-states", True),
    ]
    assert changes(state) == {"updated": False, "removed": True, "wakes_in_ms": None}


def test_heartbeats_touch_nothing() -> None:
    """The row of a heartbeat carries the watermark and leaves no state."""
    state = group_state()
    assert call(b"h:", [None], state) == []
    assert changes(state) == {"updated": False, "removed": False, "wakes_in_ms": None}


def test_the_job_hears_of_itself() -> None:
    """Its rounds become events of the job, and a document of what holds; both without a group."""
    refused = RoundObservation(
        NOW_MS, ObservationPlace("group-probes", 0, 4), {1: None}, "missing", {0: (5, 5)}, 1
    )
    state = group_state()
    rows = call(b"j:", [to_wire(refused)], state)
    assert [(row["topic"], row["key"]) for row in rows] == [
        ("my-events", b"\0job"),
        ("group-job", b"\0conditions"),
        ("group-job", b"\0state"),
    ]
    event, document, _ = (json.loads(row["value"]) for row in rows)
    assert (event["type"], event["subject"]) == ("groupreplay.job.blind.v1", "job")
    assert (event["data"]["group_id"], event["data"]["what"]) == (None, "no_rights")
    assert document["cluster_id"] == "c"
    assert [one["condition_id"] for one in document["conditions"]] == [event["data"]["condition_id"]]
    assert changes(state) == {"updated": True, "removed": False, "wakes_in_ms": None}
    again = group_state(state.get[0])
    assert call(b"j:", [to_wire(refused)], again) == []
    assert not changes(again)["updated"]


def test_a_probe_waits_for_the_caught_up_time() -> None:
    """Records of both sources in one call: the probe is held until the log is known to be read so far."""
    asked = Probe(taken_ms=NOW_MS + 60_000, state="PreparingRebalance", topic="p", partition=0, offset=3)
    blobs, state = packed([generation("g")])[b"g:g"], group_state()
    rows = call(b"g:g", [to_wire(PackedProbe(asked)), *blobs], state)
    assert [json.loads(row["value"]).get("type") for row in rows if row["topic"] == "my-events"] == [
        "groupreplay.group.created.v1"
    ]
    assert changes(state)["wakes_in_ms"] == 60_000


def test_a_row_of_the_group_may_know_more_than_the_watermark() -> None:
    """A caught-up time among the rows applies at once; an unknown one changes nothing."""
    blobs = packed([generation("g")])[b"g:g"]
    asked = Probe(taken_ms=NOW_MS - 5, state="PreparingRebalance", topic="p", partition=0, offset=3)
    states = [group_state(caught_up_ms=NOW_MS - 10) for _ in range(3)]
    rows = [
        call(b"g:g", [*blobs, to_wire(PackedProbe(asked)), *unknown], state, known)
        for state, unknown, known in zip(states, ([], [None], []), (None, None, NOW_MS - 4), strict=True)
    ]
    kinds = [
        [json.loads(row["value"])["type"] for row in some if row["topic"] == "my-events"] for some in rows
    ]
    created, started = "groupreplay.group.created.v1", "groupreplay.rebalance.started.v1"
    assert kinds == [[created], [created], [created, started]]


def test_bad_records_become_dead_letters_events_and_counters() -> None:
    """Each record that cannot be used becomes a dead letter; the first of a kind is an event, all are counted."""
    key, value = commit("g")
    blobs = packed([(b"\xff", None), (key, value[:5]), (key, value[:6])])[b"x:0"]
    result = advance(b"x:0", None, blobs, now_ms=0, recorded_ms=1, context=CONTEXT)
    assert [(row.output, row.key) for row in result.rows] == [
        (Output.EVENTS, b"\0__consumer_offsets-0"),
        (Output.EVENTS, b"g"),
        (Output.DEAD_LETTERS, b"__consumer_offsets-0-0"),
        (Output.DEAD_LETTERS, b"__consumer_offsets-0-1"),
        (Output.DEAD_LETTERS, b"__consumer_offsets-0-2"),
        (Output.JOB, b"\0__consumer_offsets-0"),
    ]
    assert json.loads(result.rows[-1].value or b"") == {
        "cluster_id": "c",
        "partition": 0,
        "bad_records": [
            {"kind": "malformed", "key_type": None, "records": 1},
            {"kind": "malformed", "key_type": 1, "records": 2},
        ],
    }
    again = advance(b"x:0", result.blob, blobs, now_ms=0, recorded_ms=1, context=CONTEXT)
    assert (again.rows, again.changed, again.blob) == ([], False, result.blob)


def test_a_record_with_a_wrong_time_is_no_dead_letter() -> None:
    """It was applied: it is an event and counted."""
    blobs = packed_by_key(log([commit("g", commit_timestamp_ms=2**60), commit("g", commit_timestamp_ms=-9)]))
    result = advance(b"x:0", None, blobs[b"x:0"], now_ms=0, recorded_ms=1, context=CONTEXT)
    assert [row.output for row in result.rows] == [Output.EVENTS, Output.JOB]
    counted = json.loads(result.rows[-1].value or b"")["bad_records"]
    assert counted == [{"kind": "timestamp", "key_type": None, "records": 2}]
    group = advance(b"g:g", None, blobs[b"g:g"], now_ms=0, recorded_ms=1, context=CONTEXT)
    assert group.blob is not None
    (offset,) = Group.from_snapshot("g", CONTEXT, group.blob).describe()["offsets"]
    assert (offset["commit_timestamp_ms"], offset["log_offset"]) == (1_000, 1)


def requested(blobs: Sequence[bytes], *, in_topic: bool) -> list[bytes]:
    """Packed records and a request for the document, in one call."""
    return [*blobs, to_wire(PackedDocumentRequest(in_topic))]


def states(result: AdvanceResult) -> list[tuple[bytes, str | None]]:
    """The messages for the topic of documents: key, and the state in the document."""
    rows = [row for row in result.rows if row.output is Output.STATES]
    return [(row.key, None if row.value is None else json.loads(row.value)["state"]) for row in rows]


@pytest.mark.parametrize("in_topic", [True, False])
def test_a_request_for_an_unknown_group(in_topic: bool) -> None:
    """A tombstone replaces the document that the topic holds; nothing is written else, and nothing is stored."""
    result = advance(b"g:g", None, requested([], in_topic=in_topic), now_ms=1, recorded_ms=1, context=CONTEXT)
    assert states(result) == ([(b"g", None)] if in_topic else [])
    assert (result.removable, result.deadline_ms) == (True, None)
    state = group_state()
    call(b"g:g", requested([], in_topic=in_topic), state)
    assert changes(state) == {"updated": False, "removed": False, "wakes_in_ms": None}


@pytest.mark.parametrize("in_topic", [True, False])
def test_a_request_for_a_known_group(in_topic: bool) -> None:
    """Its document is written again; later calls write it when it changes, as before."""
    blob = advance(
        b"g:g", None, packed([generation("g")])[b"g:g"], now_ms=0, recorded_ms=1, context=CONTEXT
    ).blob
    result = advance(b"g:g", blob, requested([], in_topic=in_topic), now_ms=1, recorded_ms=1, context=CONTEXT)
    assert (states(result), result.blob, result.removable) == ([(b"g", "Empty")], blob, False)
    assert advance(b"g:g", blob, [], now_ms=1, recorded_ms=1, context=CONTEXT).rows == []


def test_a_request_before_the_log_was_read() -> None:
    """Without a caught-up time the group may exist and merely be unread: its document stays."""
    result = advance(b"g:g", None, requested([], in_topic=True), now_ms=0, recorded_ms=1, context=CONTEXT)
    assert (result.rows, result.removable) == ([], True)


def test_a_request_with_an_open_operation(open_operation: tuple[bytes, int]) -> None:
    """Records that may be the beginning of the group: its document or its tombstone follows when they are applied."""
    blobs = packed([commit("h"), (commit_key("g"), None)])[b"g:g"]
    first = advance(b"g:g", None, requested(blobs, in_topic=True), now_ms=1, recorded_ms=1, context=CONTEXT)
    assert (states(first), first.removable) == ([], False)
    last = advance(b"g:g", first.blob, [], now_ms=NOW_MS, recorded_ms=NOW_MS, context=CONTEXT)
    assert (states(last), last.removable) == ([(b"g", None)], True)
    blob, deadline_ms = open_operation
    known = advance(
        b"g:g", blob, requested([], in_topic=True), now_ms=deadline_ms - 1, recorded_ms=1, context=CONTEXT
    )
    assert states(known) == [(b"g", "Empty")]


def test_a_request_for_an_ignored_group() -> None:
    """A group that the rules leave out has no document, also if an earlier job wrote one."""
    ignoring = replace(CONTEXT, policy=Policy(groups=(GroupRule(groups="g", ignore=True),)))
    blobs = packed([generation("g")])[b"g:g"]
    result = advance(b"g:g", None, requested(blobs, in_topic=True), now_ms=1, recorded_ms=1, context=ignoring)
    assert states(result) == [(b"g", None)]


def test_a_request_for_the_documents_of_the_job() -> None:
    """Conditions and counts are written as they are, also if there are none: an earlier job may have left others."""
    results = [
        advance(key, None, [DOCUMENT_WANTED], now_ms=1, recorded_ms=1, context=CONTEXT)
        for key in (b"j:", b"x:3")
    ]
    empty = b64encode(JobWatch(CONTEXT).snapshot_for_driver()).decode()
    assert [(row.key, json.loads(row.value or b"")) for one in results for row in one.rows] == [
        (b"\0conditions", {"cluster_id": "c", "conditions": []}),
        (b"\0state", {"cluster_id": "c", "job_id": "", "era": "0", "state": empty}),
        (b"\0__consumer_offsets-3", {"cluster_id": "c", "partition": 3, "bad_records": []}),
    ]
    assert [(one.blob, one.changed) for one in results] == [(None, False)] * 2
    blobs = packed([(b"\xff", None)])[b"x:0"]
    first = advance(b"x:0", None, blobs, now_ms=0, recorded_ms=1, context=CONTEXT)
    again = advance(b"x:0", first.blob, [DOCUMENT_WANTED], now_ms=1, recorded_ms=1, context=CONTEXT)
    assert (again.rows, again.changed) == ([first.rows[-1]], False)


def test_recorded_time_is_the_clock_or_the_event() -> None:
    """``run`` records the time of emission, ``replay`` the time of the event, to print the same output twice."""
    blobs = packed([generation("g")])[b"g:g"]

    def recorded(recorded_ms: int | None) -> str:
        rows = advance(b"g:g", None, blobs, now_ms=0, recorded_ms=recorded_ms, context=CONTEXT).rows
        return str(json.loads(rows[0].value or b"")["recordedtime"])

    assert recorded(60_000) == "1970-01-01T00:01:00.000Z"
    assert recorded(None) == "1970-01-01T00:00:00.000Z"
