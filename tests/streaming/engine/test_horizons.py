"""The caught-up times that heartbeats record beside the log."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.streaming.contract.probe_messages import HeartbeatMessage, encode_message
from groupreplay.streaming.engine.horizons import Horizons
from support.histories.raw_records import Raw
from support.job.captures import CLUSTER_ID, ERA, rows_batch

HOUR = 3_600_000


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


def test_the_last_heartbeat_of_an_hour_stays() -> None:
    """The table is coarse: its size is that of the time, not of the number of heartbeats."""
    horizons = noted(*(heartbeat(HOUR + place * 10_000, {0: place}) for place in range(700)))
    assert times(horizons, 0, 0, 358, 359, 698, 699) == [7_190_000, 7_190_000, 10_590_000, 10_590_000, 0]
    assert len(horizons._ends[0].offsets) == 2


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
