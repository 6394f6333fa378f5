"""Messages of the topic of probes as rows for groups, for the job and for the watermark."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import msgspec
import pytest

from groupreplay.state.job.observations import HeartbeatObservation, ObservationPlace, RoundObservation
from groupreplay.state.snapshot.observations import Observations, Probe, ProbedMember
from groupreplay.streaming.contract.probe_messages import (
    ClockReading,
    DocumentRequest,
    JobDocumentsRequest,
    ProbeMessage,
)
from groupreplay.streaming.engine.probe_rows import (
    COUNTS,
    INPUT_COLUMNS,
    PROBES_SCHEMA,
    ProbeFilter,
    group_probe,
    pack_probes,
)
from groupreplay.streaming.engine.wire import DOCUMENT_WANTED, unpack_group, unpack_job
from support.job.captures import CLUSTER_ID
from support.job.probes import PROBES, asked, beat, probes_batch, summed_up

FILTER = ProbeFilter(topic=PROBES, cluster_id=CLUSTER_ID, job_id="j", run_id="r")


def packed(
    *messages: Any, probe_filter: ProbeFilter = FILTER, append_ms: int | None = None
) -> list[tuple[bytes, bytes | None, Any]]:
    """The rows for these messages, whose offsets begin with 0."""
    batch = probes_batch(messages, append_ms=append_ms).select(list(INPUT_COLUMNS))
    made = list(pack_probes([batch], probe_filter))
    assert {rows.schema for rows in made} == {PROBES_SCHEMA}
    return [(row["key"], row["packed"], row["caught_up"]) for rows in made for row in rows.to_pylist()]


def left_out(*messages: Any, append_ms: int | None = None) -> dict[str, int]:
    """The counts that Spark adds up."""
    made = pack_probes([probes_batch(messages, append_ms=append_ms)], FILTER)
    rows = [row for batch in made for row in batch.to_pylist()]
    return {name: sum(row[name] or 0 for row in rows) for name in COUNTS}


def test_an_answer_goes_to_its_group() -> None:
    """With its place in the topic, so that an event it causes has an id of its own."""
    ((key, blob, caught_up),) = packed(asked("g", "PreparingRebalance", at=7, members=["a"]))
    assert (key, caught_up) == (b"g:g", None)
    probe = Probe(
        taken_ms=7,
        state="PreparingRebalance",
        topic=PROBES,
        partition=0,
        offset=0,
        broker=1,
        members=(ProbedMember("a-id", None, "a", "/h"),),
        unseen_ms=-1,
    )
    assert unpack_group([blob or b""]) == Observations(items=[], probes=[probe])


@pytest.mark.parametrize(
    ("append_ms", "times"),
    [(None, (6, 9)), (15, (6, 15)), (4, (4, 4))],
    ids=["no append time", "appended later", "a clock that is ahead"],
)
def test_the_times_of_an_answer(append_ms: int | None, times: tuple[int, int]) -> None:
    """By the brokers' clock as far as that is known: the question is not later than the answer."""
    answer = msgspec.structs.replace(
        asked("g", "PreparingRebalance", at=7), answered_ms=9, ahead_ms=1, unseen_ms=20_000
    )
    ((_, blob, _),) = packed(answer, append_ms=append_ms)
    (probe,) = unpack_group([blob or b""]).probes
    assert ((probe.asked_ms, probe.answered_ms), probe.unseen_ms) == (times, 20_000)


def test_a_round_goes_to_the_job() -> None:
    """All of it but the number of groups, which the answers tell."""
    ((key, blob, _),) = packed(summed_up(at=8, brokers={1: None, 2: "x"}, partitions={3: (9, 4)}))
    assert key == b"j:"
    assert unpack_job([blob or b""]) == [
        RoundObservation(8, ObservationPlace(PROBES, 0, 0), {1: None, 2: "x"}, "ok", {3: (9, 4)}, 1)
    ]


def test_a_heartbeat_of_this_run_is_the_watermark_too() -> None:
    """The job hears of it, and every group by its watermark; nothing is claimed before it is known."""
    known, unknown = beat(at=9, caught_up=1_700_000_000_123), beat(at=10, caught_up=None)
    rows = packed(known, unknown)
    assert [(key, caught_up) for key, _, caught_up in rows] == [
        (b"j:", None),
        (b"h:", datetime(2023, 11, 14, 22, 13, 20, 123_000, timezone.utc)),
        (b"j:", None),
        (b"h:", None),
    ]
    assert unpack_job([rows[0][1] or b""]) == [
        HeartbeatObservation(9, ObservationPlace(PROBES, 0, 0), 1_700_000_000_123, "r", era="e")
    ]


def test_groups_that_were_asked_about_hear_of_a_heartbeat_at_once() -> None:
    """A last row of each, with the latest time; a heartbeat that is not this run's brings none."""
    answers = [asked("g", "PreparingRebalance", at=7), asked("a", "PreparingRebalance", at=7)]
    beats = [beat(at=9, caught_up=5_000), beat(at=10, caught_up=6_000), beat(at=11, caught_up=None)]
    latest = datetime(1970, 1, 1, 0, 0, 6, tzinfo=timezone.utc)
    rows = packed(answers[0], *beats, answers[1], answers[0])
    assert rows[-2:] == [(b"g:a", None, latest), (b"g:g", None, latest)]
    assert len(rows) == 3 + 2 * len(beats) + 2
    assert len(packed(*answers, beat(at=9, caught_up=5_000, run="other"))) == 3


@pytest.mark.parametrize(
    ("run", "job", "keys"), [("other", "j", [b"j:"]), ("other", "other", []), ("r", "j", [b"j:", b"h:"])]
)
def test_heartbeats_of_others(run: str, job: str, keys: list[bytes]) -> None:
    """Another run has read further or less far; another job is nobody's business here."""
    assert [key for key, _, _ in packed(beat(at=1, caught_up=2, run=run, job=job))] == keys


def test_a_replay_hears_all_heartbeats_and_waits_for_none() -> None:
    """It has no run and no job of its own."""
    probe_filter = ProbeFilter(topic=PROBES, cluster_id=CLUSTER_ID)
    assert [key for key, _, _ in packed(beat(at=1, caught_up=2), probe_filter=probe_filter)] == [b"j:"]


def test_requests_of_this_run() -> None:
    """A request for a document goes to its group, with the caught-up time; for the job's, to each key of the job."""
    asked_for = DocumentRequest(cluster_id=CLUSTER_ID, run_id="r", group_id="g", in_topic=True)
    rows = packed(beat(at=9, caught_up=5_000), asked_for)
    assert [key for key, _, _ in rows] == [b"j:", b"h:", b"g:g", b"g:g"]
    assert rows[-1][2] == datetime(1970, 1, 1, 0, 0, 5, tzinfo=timezone.utc)
    assert unpack_group([rows[2][1] or b""]) == Observations(items=[], probes=[], in_topic=True)
    of_job = JobDocumentsRequest(cluster_id=CLUSTER_ID, run_id="r", partitions=2)
    assert packed(of_job) == [(key, DOCUMENT_WANTED, None) for key in (b"j:", b"x:0", b"x:1")]


@pytest.mark.parametrize("run_id", ["other", None])
def test_requests_of_another_run(run_id: str | None) -> None:
    """They were written for the state of that run; a replay has no topic of documents."""
    requests = [
        DocumentRequest(cluster_id=CLUSTER_ID, run_id="r", group_id="g", in_topic=True),
        JobDocumentsRequest(cluster_id=CLUSTER_ID, run_id="r", partitions=2),
    ]
    probe_filter = ProbeFilter(topic=PROBES, cluster_id=CLUSTER_ID, job_id="j", run_id=run_id)
    assert packed(*requests, probe_filter=probe_filter) == []


def test_another_cluster_is_ignored() -> None:
    """Two clusters may share a topic by mistake; their groups must not be mixed."""
    strangers = [
        msgspec.structs.replace(message, cluster_id="another")
        for message in (asked("g", "Stable", at=1), summed_up(at=1), beat(at=1, caught_up=1))
    ]
    assert packed(*strangers) == []


def test_what_cannot_be_read_is_counted_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """A stranger's message stops nothing."""
    junk: list[Any] = [(b"g", b"{"), (None, None), (b"\0", b"[]")]
    rows = packed(*junk, asked("g", "Stable", at=1))
    assert [key for key, _, _ in rows] == [b"g:g"]
    assert [record.getMessage() for record in caplog.records] == [
        "skipped 3 messages of topic group-probes, not written by groupreplay"
    ]
    assert left_out(*junk, asked("g", "Stable", at=1)) == {"probes_unreadable": 3, "probes_misdated": 0}
    # Also when no other row has room for the counts.
    assert left_out(*junk) == {"probes_unreadable": 3, "probes_misdated": 0}
    assert [key for key, _, _ in packed(*junk)] == [b"h:"]


YEAR_MS = 365 * 24 * 3_600_000
NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    "ahead",
    [
        asked("g", "PreparingRebalance", at=NOW_MS + 60_001),
        summed_up(at=NOW_MS + 60_001),
        beat(at=NOW_MS + 60_001, caught_up=NOW_MS),
        beat(at=NOW_MS, caught_up=NOW_MS + YEAR_MS),
    ],
    ids=["answer", "round", "heartbeat", "caught up"],
)
def test_a_message_from_the_future_is_counted_and_left_out(
    ahead: ProbeMessage, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody can have asked a broker later than the message was appended; one that is in time counts as before."""
    in_time = asked("g", "Stable", at=NOW_MS + 60_000)
    assert packed(ahead, in_time, append_ms=NOW_MS) == packed((b"", b""), in_time, append_ms=NOW_MS)
    assert "skipped 1 message of topic group-probes, dated more than a minute ahead" in caplog.text
    assert left_out(ahead, append_ms=NOW_MS) == {"probes_unreadable": 0, "probes_misdated": 1}
    # Where clients set the timestamps, nobody knows.
    assert left_out(ahead) == {"probes_unreadable": 0, "probes_misdated": 0}


@pytest.mark.parametrize("append_ms", [None, NOW_MS])
def test_the_answers_that_a_reader_gets_are_those_of_the_query(append_ms: int | None) -> None:
    """Messages of other clusters, of the job and of the future are none."""
    messages = [
        asked("g", "Stable", at=NOW_MS, members=["a"]),
        asked("g", "Stable", at=NOW_MS + 60_001),
        msgspec.structs.replace(asked("g", "Stable", at=NOW_MS), cluster_id="another"),
        summed_up(at=NOW_MS),
    ]
    place = ObservationPlace(PROBES, 0, 0)
    for message in messages:
        blobs = [blob or b"" for key, blob, _ in packed(message, append_ms=append_ms) if key == b"g:g"]
        probe = group_probe(message, place, append_ms, FILTER)
        assert unpack_group(blobs).probes == ([] if probe is None else [probe])
    assert group_probe(None, place, append_ms, FILTER) is None
    assert group_probe(messages[0], place, append_ms, FILTER) is not None


def test_nothing_is_caught_up_later_than_it_was_written() -> None:
    """Spark's watermark never goes back: a clock that is half a minute ahead must not raise it by as much."""
    ((_, observation, _), (_, _, caught_up)) = packed(
        beat(at=NOW_MS + 30_000, caught_up=NOW_MS + 30_000), append_ms=NOW_MS
    )
    assert caught_up == datetime.fromtimestamp(NOW_MS // 1_000, timezone.utc)
    (seen,) = unpack_job([observation or b""])
    assert seen == HeartbeatObservation(
        NOW_MS + 30_000, ObservationPlace(PROBES, 0, 0), NOW_MS + 30_000, "r", append_ms=NOW_MS, era="e"
    )


def test_the_reading_of_a_clock_is_no_observation() -> None:
    """It is written for its append time alone, by a machine whose clock may be off."""
    reading = ClockReading(cluster_id=CLUSTER_ID, at_ms=NOW_MS + YEAR_MS)
    assert packed(reading, append_ms=NOW_MS) == []
    assert left_out(reading, append_ms=NOW_MS) == {"probes_unreadable": 0, "probes_misdated": 0}


def test_rows_of_one_group_from_both_sources() -> None:
    """One call may be given packed records and probes, in any order; probes come out by time."""
    late, early = (packed(asked("g", "Stable", at=at))[0][1] or b"" for at in (9, 3))
    assert [probe.taken_ms for probe in unpack_group([late, early]).probes] == [3, 9]
