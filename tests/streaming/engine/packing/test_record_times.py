"""Wrong times in a chunk: what is reported, and with which times the records are applied; caught-up times; silences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.codecs import GroupMetadataKey, GroupMetadataValue, decode_value, encode_value
from groupreplay.state.snapshot.observations import REST_MS, SILENCE_MS, CommitRun
from groupreplay.streaming.contract.probe_messages import HeartbeatMessage, encode_message
from groupreplay.streaming.engine.packing import record_times
from groupreplay.streaming.engine.packing.record_times import Horizons, Stretches, rest_cuts, silence_cuts
from groupreplay.streaming.engine.wire import BadRecordBytes, unpack_bad_records, unpack_group
from support.histories.raw_records import Raw, commit, commit_key, generation
from support.job.captures import CLUSTER_ID, ERA, rows_batch
from support.job.packed import packed_by_key

NOW = 1_700_000_000_000
DAY = 86_400_000
FAR = 2**60
HOUR = 3_600_000


def raws(*times: tuple[int, int], group: str = "g") -> list[Raw]:
    """Commits with (record time, commit time), one after the other, each with another offset."""
    return [
        Raw(0, place, record_ms, *commit(group, offset=place, commit_timestamp_ms=commit_ms))
        for place, (record_ms, commit_ms) in enumerate(times)
    ]


def runs(rows: list[Raw], **known: Any) -> list[tuple[int, int, list[int], list[int]]]:
    """First and last time of each run of commits of group g, its commit times and when its offsets changed."""
    items = unpack_group(packed_by_key(rows, **known)[b"g:g"]).items
    return [
        (one.first_ms, one.last_ms, one.rows["commit_timestamp_ms"].tolist(), one.rows["changed_ms"].tolist())
        for one in items
        if isinstance(one, CommitRun)
    ]


def reported(rows: list[Raw], **known: Any) -> list[BadRecordBytes]:
    """What goes to the counts of partition 0."""
    return unpack_bad_records(packed_by_key(rows, **known).get(b"x:0", []))


@pytest.mark.parametrize(("caught_up_ms", "limit_ms"), [(NOW, NOW + DAY), (0, 4_102_444_800_000)])
def test_the_limit(caught_up_ms: int, limit_ms: int) -> None:
    """A time at the limit moves the group's clock; a later one has the time of the record before it."""
    rows = raws((NOW, NOW), (limit_ms, limit_ms), (limit_ms + 1, limit_ms + 1))
    assert runs(rows, caught_up_ms=caught_up_ms) == [
        (NOW, NOW, [NOW], [-1]),
        (limit_ms, limit_ms, [limit_ms], [limit_ms]),
    ]
    (bad,) = reported(rows, caught_up_ms=caught_up_ms)
    assert (bad.record.offset, bad.record.field, bad.record.read_ms) == (2, "timestamp", caught_up_ms)


def test_a_commit_has_the_time_of_its_record() -> None:
    """If its own time cannot be, which a client of an old protocol may choose; or if it has none, which is no error."""
    rows = raws((NOW, FAR), (NOW + 1_000, -1), (NOW + 2_000, -7))
    assert runs(rows) == [(NOW, NOW + 2_000, [NOW + 2_000], [NOW + 2_000])]
    (bad,) = reported(rows)
    assert (bad.record.offset, bad.record.others, bad.record.field) == (0, 1, "commitTimestamp")
    assert bad.record.reason == (
        "timestamp 1152921504606846976 is after the year 2100; the record was applied with its record's time"
    )
    assert (bad.is_dead_letter, bad.record.read_ms, bad.key, bad.value) == (False, None, None, None)


def test_records_without_a_time_in_the_chunk() -> None:
    """Only the group's state has their time: they are a run of their own, and what changed in it is known."""
    rows = raws((FAR, FAR), (-5, NOW), (NOW + 10, NOW + 10), (FAR, FAR))
    assert runs(rows, caught_up_ms=NOW) == [
        (-1, -1, [-2], [-2]),
        (NOW + 10, NOW + 10, [NOW + 10], [NOW + 10]),
    ]
    assert unpack_group(packed_by_key(rows, caught_up_ms=NOW)[b"g:g"]).caught_up_ms == NOW


def test_each_group_has_its_own_time() -> None:
    """The record before it is one of its group that was applied: a bad record, and another group's, give no time."""
    rows = [
        Raw(0, 0, NOW, *commit("other")),
        Raw(0, 1, NOW + 5, commit_key("g"), b"\0\4broken"),
        Raw(0, 2, FAR, *commit("g", commit_timestamp_ms=FAR)),
    ]
    assert runs(rows) == [(-1, -1, [-2], [-1])]


def test_a_record_without_a_timestamp_is_no_error() -> None:
    """Kafka's -1: the commit keeps its own time, and nothing is reported."""
    rows = raws((NOW, NOW), (-1, NOW + 7))
    assert runs(rows) == [(NOW, NOW, [NOW + 7], [NOW + 7])]
    assert reported(rows) == []


def test_a_run_ends_where_the_clock_went_back() -> None:
    """By more than a minute, from one record of the group to the next; so the state sees every setback."""
    rows = raws(
        (NOW, NOW), (NOW + DAY, NOW + DAY), (NOW + 5, NOW + 5), (NOW - 59_995, NOW), (NOW + 9, NOW + 9)
    )
    found = [(first_ms, last_ms) for first_ms, last_ms, _, _ in runs(rows, caught_up_ms=NOW)]
    assert found == [(NOW, NOW), (NOW + DAY, NOW + DAY), (NOW + 5, NOW + 9)]


def test_the_time_inside_a_group_record_is_reported() -> None:
    """It is left in the record, for the state to cut it; one that has no such time is no error."""
    key, value = generation("g")
    known = decode_value(GroupMetadataKey(group="g"), value)
    assert isinstance(known, GroupMetadataValue)
    far = encode_value(replace(known, current_state_timestamp_ms=FAR))
    (bad,) = reported([Raw(0, 0, NOW, key, value), Raw(0, 1, NOW, key, far)])
    assert (bad.record.offset, bad.record.field, bad.record.key_type) == (1, "currentStateTimestamp", 2)


def test_one_report_for_five_minutes_and_a_partition() -> None:
    """A clock that is wrong for hours does not become an object for each record."""
    rows = [one._replace(partition=place % 2) for place, one in enumerate(raws(*[(FAR, FAR)] * 1_000))]
    blobs = packed_by_key(rows, caught_up_ms=NOW)
    for partition in (0, 1):
        (bad,) = unpack_bad_records(blobs[b"x:%d" % partition])
        assert (bad.record.offset, bad.record.others) == (partition, 499)


def test_a_bad_record_without_a_time_has_the_caught_up_time() -> None:
    """It is reported as what it is; its event must not lie in another century."""
    rows = [Raw(0, 0, FAR, commit_key("g"), b"\0\4broken"), Raw(0, 1, -1, commit_key("g"), b"\0\4broken")]
    found = [
        (bad.record.kind, bad.record.timestamp_ms, bad.record.time_ms)
        for bad in reported(rows, caught_up_ms=NOW)
    ]
    assert found == [("malformed", FAR, NOW), ("malformed", -1, NOW)]


def heartbeat(
    caught_up_ms: int | None, offsets: Mapping[int, int], cluster_id: str = CLUSTER_ID, era: str = ERA
) -> HeartbeatMessage:
    """A heartbeat, written 5 s after the ends were taken."""
    return HeartbeatMessage(
        cluster_id=cluster_id,
        era=era,
        job_id="j",
        run_id="r",
        at_ms=5_000 + (caught_up_ms or 0),
        caught_up_ms=caught_up_ms,
        offsets=dict(offsets),
    )


def noted(*heartbeats: HeartbeatMessage, otherwise_ms: int = 0) -> Horizons:
    """The table of these heartbeats."""
    horizons = Horizons(otherwise_ms)
    for one in heartbeats:
        horizons.note(one)
    return horizons


def times(horizons: Horizons, partition: int, *offsets: int) -> list[int]:
    """The caught-up time of each record, which is the same for one record and for many."""
    found: list[int] = horizons.caught_up_ms(partition, np.array(offsets, np.int64)).tolist()
    assert found == [horizons.first_ms(partition, offset) for offset in offsets]
    return found


def test_the_first_heartbeat_behind_a_record() -> None:
    """Its end offset is above the record's offset; after the last heartbeat nothing is known."""
    horizons = noted(heartbeat(1 * HOUR, {0: 10, 1: 5}), heartbeat(2 * HOUR, {0: 20, 1: 5}))
    assert times(horizons, 0, 0, 9, 10, 19, 20) == [HOUR, HOUR, 2 * HOUR, 2 * HOUR, 0]
    assert times(horizons, 1, 4, 5) == [HOUR, 0]
    assert times(horizons, 2, 0) == [0]


def test_the_end_of_a_live_topic() -> None:
    """What no heartbeat has passed was read now."""
    assert times(noted(heartbeat(HOUR, {0: 10}), otherwise_ms=9 * HOUR), 0, 9, 10) == [HOUR, 9 * HOUR]


def test_the_last_heartbeat_of_five_minutes_stays() -> None:
    """The table is coarse: its size is that of the time, not of the number of heartbeats."""
    horizons = noted(*(heartbeat(HOUR + place * 10_000, {0: place}) for place in range(70)))
    first, second, last = 3_890_000, 4_190_000, 4_290_000
    assert times(horizons, 0, 0, 28, 29, 58, 59, 68, 69) == [first, first, second, second, last, last, 0]
    assert len(horizons._ends[0].offsets) == 3


def test_what_goes_back_is_no_evidence() -> None:
    """A heartbeat of a lagging job, of another clock, or forged, changes nothing; nor does one without an end."""
    plain = noted(heartbeat(5 * HOUR, {0: 10}), heartbeat(7 * HOUR, {0: 30}))
    other = noted(
        heartbeat(None, {0: 3}),
        heartbeat(5 * HOUR, {0: 10}),
        heartbeat(0, {0: 2**63 - 1}),
        heartbeat(6 * HOUR, {0: 4}),
        heartbeat(6 * HOUR, {0: 2**63}),
        heartbeat(7 * HOUR, {0: 30}),
    )
    assert times(other, 0, 0, 9, 10, 29, 30) == times(plain, 0, 0, 9, 10, 29, 30)


def test_heartbeats_among_messages() -> None:
    """Those of this log are noted, and every batch passes through."""
    messages = [
        encode_message(heartbeat(1 * HOUR, {0: 5})),
        encode_message(heartbeat(2 * HOUR, {0: 50}, cluster_id="other")),
        encode_message(heartbeat(2 * HOUR, {0: 50}, era="other")),
        (b"\0", b"no JSON"),
        (None, None),
    ]
    batches = [rows_batch([Raw(0, place, 0, *one)]) for place, one in enumerate(messages)]
    horizons = Horizons()
    assert list(horizons.reading(batches, CLUSTER_ID, ERA)) == batches
    assert times(horizons, 0, 4, 5) == [HOUR, 0]


def test_the_latest_time() -> None:
    """That of a record is at most its caught-up time; without one, a time of this century."""
    horizons = noted(heartbeat(HOUR, {0: 10}))
    offsets = np.array([8, 9])
    assert horizons.latest_ms(0, offsets, np.array([1_000, 5 * HOUR])) == HOUR
    assert horizons.latest_ms(0, offsets, np.array([1_000, -5])) == 1_000
    assert horizons.latest_ms(0, offsets + 10, np.array([1_000, 2**62])) == 1_000
    assert horizons.last_limit_ms() == 25 * HOUR


@given(
    st.lists(st.tuples(st.integers(0, 40 * HOUR), st.integers(0, 100)), max_size=40),
    st.lists(st.integers(0, 110), min_size=1),
)
def test_later_records_have_no_earlier_time(beats: list[tuple[int, int]], offsets: list[int]) -> None:
    """Whatever the heartbeats say: so the first record of a stretch has the lowest limit."""
    horizons = noted(*(heartbeat(at_ms, {0: end}) for at_ms, end in beats))
    found = [one or 2**62 for one in times(horizons, 0, *sorted(offsets))]
    assert found == sorted(found)


def cuts(rows: list[tuple[int, int]], left_out: tuple[int, ...] = ()) -> list[int] | None:
    """The rows that end a run, of rows with (stream, time)."""
    stream, at_ms = np.array(rows, np.int64).T
    applied = np.ones(len(rows), bool)
    applied[list(left_out)] = False
    one_partition = Stretches(np.zeros(len(rows), np.int64), np.arange(len(rows)), np.array([len(rows) - 1]))
    found = silence_cuts(at_ms, applied, stream, one_partition)
    return None if found is None else np.flatnonzero(found).tolist()


def test_each_stream_has_its_own_silence() -> None:
    """Others commit meanwhile; a silence of one of them is none of the first."""
    rows = [(0, 0), (1, 0), (1, 60_000), (0, SILENCE_MS - 1), (1, SILENCE_MS), (0, 2 * SILENCE_MS - 1)]
    assert cuts(rows) == [3]
    assert cuts(rows[:-1]) is None


def test_rows_that_reach_no_group_break_no_silence() -> None:
    """Records that cannot be read, of this or of no group."""
    rows = [(0, 0), (0, 90_000), (-1, 95_000), (0, SILENCE_MS)]
    assert cuts(rows) is None
    assert cuts(rows, left_out=(1,)) == [0]


def test_times_that_cannot_be() -> None:
    """No time is no silence, and the largest difference of two times is no error."""
    assert cuts([(0, -1), (0, 10 * SILENCE_MS)]) is None
    assert cuts([(0, 0), (-1, -(2**63)), (-1, 2**63 - 1), (0, SILENCE_MS)]) == [0]


@pytest.mark.parametrize("seed", range(20))
def test_the_quick_way_leaves_nothing_out(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rows as without the table that leaves most streams out."""
    random, at_ms = Random(seed), 0
    back = random.choice(((), (-19_000,), (-90_000,)))
    rows = []
    for _ in range(200):
        at_ms += random.choice((0, 1, 20_000, 50_000, SILENCE_MS - 1, SILENCE_MS, *back)) * random.randrange(
            2
        )
        rows.append((random.randrange(random.choice((1, 3))), at_ms))
    found = cuts(rows)
    monkeypatch.setattr(record_times, "_MOST_QUARTERS", 0)
    assert cuts(rows) == found


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.integers(0, 3),
            st.sampled_from([0, 1, REST_MS // 2, REST_MS]),
        ),
        min_size=1,
        max_size=40,
    )
)
def test_a_run_ends_before_a_partition_that_rested(rows: list[tuple[int, int, int]]) -> None:
    """After the last row of its stream from before the request whose commit of a slot comes so long after the last."""
    stream, slot = (np.array(rows, np.int64)[:, column] for column in (0, 1))
    # A slot belongs to one stream; slot 3 has records that are no commits.
    slot = np.where(slot == 3, -1, slot + 3 * stream)
    at_ms = np.cumsum(np.array(rows, np.int64)[:, 2])
    everything = np.ones(len(rows), bool)
    one_partition = Stretches(np.zeros(len(rows), np.int64), np.arange(len(rows)), np.array([len(rows) - 1]))
    expected = set()
    for row in range(len(rows)):
        mine = [other for other in range(row) if slot[row] >= 0 and slot[other] == slot[row]]
        if mine and at_ms[row] - at_ms[mine[-1]] >= REST_MS:
            others = [one for one in range(row) if stream[one] == stream[row] and at_ms[one] < at_ms[row]]
            expected.add(max(others))
    found = rest_cuts(at_ms, slot >= 0, everything, stream, slot, one_partition)
    assert set(np.flatnonzero([] if found is None else found).tolist()) == expected
