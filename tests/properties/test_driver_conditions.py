"""The driver's own evaluation equals the query's: the same messages give the same events under the same ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.state import Context
from groupreplay.state.events.event import Event
from groupreplay.state.job.observations import (
    HeartbeatObservation,
    JobObservation,
    LogObservation,
    LogRecord,
    ObservationPlace,
    RoundObservation,
)
from groupreplay.state.job_watch import JobWatch
from groupreplay.streaming.contract.messages import JobStateMessage
from groupreplay.streaming.engine.advance import advance
from groupreplay.streaming.engine.json_messages import event_row
from groupreplay.streaming.engine.wire import JOB_TAG, to_wire

CONTEXT = Context(cluster_id="c", era="e", job_id="j")
START = 1_700_000_000_000
PARTITIONS = 3

_some = st.sets(st.integers(0, PARTITIONS - 1)).map(sorted).map(tuple)


@st.composite
def topics(draw: st.DrawFn) -> list[tuple[JobObservation, LogObservation | None]]:
    """The messages of a topic of probes; behind some of them the query also sees records of the log."""
    made: list[tuple[JobObservation, LogObservation | None]] = []
    at, high = START, dict.fromkeys(range(PARTITIONS), 0)
    for offset in range(draw(st.integers(1, 40))):
        at += draw(st.sampled_from([-90_000, 0, 5_000, 10_000, 30_000, 400_000, 86_400_000]))
        place = ObservationPlace("group-probes", 0, offset)
        log = None
        seen: JobObservation
        if draw(st.booleans()):
            seen = _heartbeat(draw, at, place, high)
        else:
            answered = draw(_some)
            seen = RoundObservation(
                at,
                place,
                {1: draw(st.sampled_from([None, "timed out"]))},
                draw(st.sampled_from(["ok", "missing", "unknown"])),
                {number: (9, draw(st.sampled_from([9, 5]))) for number in answered},
                draw(st.sampled_from([PARTITIONS, PARTITIONS, 5, None])),
                draw(st.sampled_from([{}, {0: 1, 1: 2, 2: 1}])),
            )
        if draw(st.integers(0, 3)) == 0:
            number = draw(st.integers(0, PARTITIONS - 1))
            high[number] += 1
            off_ms = draw(st.sampled_from([0, 0, -3_600_000, 3_600_000]))
            log = LogObservation((LogRecord(number, high[number], at + off_ms),))
        made.append((seen, log))
    return made


def _heartbeat(
    draw: st.DrawFn, at: int, place: ObservationPlace, high: dict[int, int]
) -> HeartbeatObservation:
    return HeartbeatObservation(
        at,
        place,
        draw(st.sampled_from([None, at, at - 500_000])),
        draw(st.sampled_from(["r", "r", "s"])),
        draw(st.integers(0, 5)),
        draw(st.sampled_from([0, 0, 30])),
        draw(st.sampled_from([0, 0, 1])),
        clock_off_ms=draw(st.sampled_from([0, 0, 3_600_000])),
        era="e",
        high_watermarks=dict(high),
        unanswered=draw(_some),
        query_stopped_ms=draw(st.sampled_from([None, at - 5_000])),
        query_error=draw(st.sampled_from(["", "no broker"])),
        told_to=draw(st.sampled_from([0, 0, place.offset, place.offset + 7])),
    )


def contents(events: Sequence[Event]) -> list[dict[str, Any]]:
    """The events as they are published."""
    return [msgspec.json.decode(event_row(one, CONTEXT, None).value or b"") for one in events]


@given(topics(), st.data())
def test_the_driver_continues_where_the_query_has_stopped(
    messages: list[tuple[JobObservation, LogObservation | None]], data: st.DataObject
) -> None:
    """From whatever message on, and however the query's batches are cut: id by id and field by field.

    The exception is what only the query can see: coordinators' clocks.
    """
    seed = data.draw(st.integers(0, len(messages)))
    blob, driver = None, JobWatch(CONTEXT, sees_log=False)
    of_query, of_driver = list[dict[str, Any]](), list[dict[str, Any]]()
    begin = 0
    while begin < len(messages):
        end = data.draw(st.integers(begin + 1, len(messages)))
        end = seed if begin < seed < end else end
        part = messages[begin:end]
        # The records of a batch come in any order beside its messages.
        packed = [to_wire(one) for pair in reversed(part) for one in pair if one is not None]
        result = advance(JOB_TAG, blob, packed, now_ms=1, recorded_ms=None, context=CONTEXT)
        blob = result.blob
        if begin >= seed:
            rows = [one for one in result.rows if one.event_type is not None]
            of_query += [msgspec.json.decode(one.value or b"") for one in rows]
        begin = end
        if begin == seed and blob is not None:
            driver = _handed_over(blob)
    for seen, _ in messages[seed:]:
        of_driver += contents(driver.apply([seen]))
    assert of_driver == [one for one in of_query if not _is_of_log(one)]


def _handed_over(blob: bytes) -> JobWatch:
    """A state of the query as the driver gets it: through its message."""
    state = JobWatch.from_snapshot(CONTEXT, blob).snapshot_for_driver()
    message = msgspec.json.encode(JobStateMessage(job_id="j", state=state))
    read = msgspec.json.decode(message, type=JobStateMessage).state
    return JobWatch.from_snapshot(CONTEXT, read, sees_log=False)


@given(topics(), st.data())
def test_no_id_has_two_contents(
    messages: list[tuple[JobObservation, LogObservation | None]], data: st.DataObject
) -> None:
    """Also when both are late, in other calls and by other times: what is repeated never takes another event's id."""
    query, driver = JobWatch(CONTEXT), JobWatch(CONTEXT, sees_log=False)
    known: dict[str, dict[str, Any]] = {}
    late = st.sampled_from([0, 30_000, 70_000, 10_000_000])
    for watch in (query, driver):
        begin = 0
        while begin < len(messages):
            end = data.draw(st.integers(begin + 1, len(messages)))
            part = messages[begin:end]
            logs = [log for _, log in part if log is not None and watch is query]
            recorded_ms = part[-1][0].taken_ms + data.draw(late)
            for one in contents(watch.apply([*(seen for seen, _ in part), *logs], recorded_ms)):
                assert known.setdefault(one["id"], one) == one
            begin = end


def _is_of_log(event: dict[str, Any]) -> bool:
    data = event["data"]
    return data.get("what") == "clock" and bool(data["partitions"])
