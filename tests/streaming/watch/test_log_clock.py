"""The brokers' time from what ``watch`` reads."""

from __future__ import annotations

import logging
import random
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupreplay.streaming.contract.log import ROW_SCHEMA
from groupreplay.streaming.contract.partition_ends import EndsRound
from groupreplay.streaming.contract.probe_messages import GroupAnswer
from groupreplay.streaming.watch.log_clock import MOST_MS, REPLICATION_MS, LogClock
from streaming.engine.test_live import Batch, Told, followed, replayed
from support.histories.working_lives import working
from support.job.captures import raw

START_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


class Machine:
    """A machine and the coordinators of some partitions in one real time; each has a clock of its own."""

    def __init__(self, off_ms: int, partitions: int = 1) -> None:
        self.off_ms = off_ms
        self.real_ms = START_MS
        self.coordinators_off_ms = dict.fromkeys(range(partitions), 0)
        self.ends = dict.fromkeys(range(partitions), 0)
        self.clock = LogClock(lambda: self.real_ms + self.off_ms, lambda: (self.real_ms - START_MS) / 1_000)

    def ask(self) -> None:
        """Asks for the high watermarks."""
        self.clock.ask(lambda: {**self.ends})

    def record(self, partition: int = 0, copied_ms: int = 0, read_ms: int = 0, *, asks: bool = False) -> None:
        """One record: it takes so long until followers have it, and until it is read; ``asks`` before they do."""
        dated_ms = self.real_ms + self.coordinators_off_ms[partition]
        if asks:
            self.ask()
        self.real_ms += copied_ms
        offset = self.ends[partition]
        self.ends[partition] += 1
        self.real_ms += read_ms
        columns = [["t"], [partition], [offset], [dated_ms], [0], [b"k"], [b"v"]]
        arrays = [pa.array(values, field.type) for values, field in zip(columns, ROW_SCHEMA, strict=True)]
        self.clock.learn([pa.RecordBatch.from_arrays(arrays, schema=ROW_SCHEMA)])

    def error_ms(self) -> int:
        """How far the corrected clock is ahead."""
        return self.clock.now_ms() - self.real_ms


_STEPS = st.lists(
    st.tuples(
        st.booleans(),
        st.booleans(),
        st.integers(0, 2),
        st.integers(0, 20_000),
        st.integers(0, REPLICATION_MS),
        st.integers(0, 90_000),
    ),
    max_size=20,
)


@given(st.integers(-MOST_MS + 10**6, MOST_MS - 10**6), _STEPS)
def test_a_correction_never_goes_too_far(
    off_ms: int, steps: list[tuple[bool, bool, int, int, int, int]]
) -> None:
    """However late records are copied and read: beyond the brokers' time by what followers took to copy at most."""
    machine = Machine(off_ms, partitions=3)
    for asks, asks_later, partition, pause_ms, copied_ms, read_ms in steps:
        if asks:
            machine.ask()
        machine.real_ms += pause_ms
        machine.record(partition, copied_ms, read_ms, asks=asks_later)
        error_ms = machine.error_ms()
        assert min(-REPLICATION_MS if off_ms > 0 else 0, off_ms) <= error_ms <= max(0, off_ms)


@given(st.integers(-MOST_MS + 10**6, MOST_MS - 10**6))
def test_one_live_record_is_enough(off_ms: int) -> None:
    """Ahead or behind: what is left is the time between question and record, and what is never corrected."""
    machine = Machine(off_ms)
    machine.ask()
    machine.real_ms += 400
    machine.record(copied_ms=5, read_ms=300)
    corrected = machine.clock.correction_ms != 0
    assert corrected is (off_ms > REPLICATION_MS + 5_400 or off_ms < -5_305)
    assert not corrected or -310 <= machine.error_ms() <= 401


def test_an_old_record_proves_nothing() -> None:
    """One from before the question, and all that is read without one: the log may have rested for an hour."""
    machine = Machine(0)
    machine.record(read_ms=HOUR_MS)
    assert (machine.clock.correction_ms, machine.clock.off_ms) == (0, None)
    assert Machine(HOUR_MS).clock.off_ms is None


def test_partitions_that_rest_have_no_say() -> None:
    """Their last records are old: they do not prove that the clock is right."""
    machine = Machine(HOUR_MS, partitions=3)
    for partition in (0, 1):
        machine.record(partition, read_ms=HOUR_MS)
    machine.ask()
    machine.record(2)
    assert machine.error_ms() == 0


def test_one_coordinator_of_three_is_wrong() -> None:
    """Most partitions decide, in any order."""
    machine = Machine(0, partitions=3)
    machine.coordinators_off_ms[1] = -HOUR_MS
    machine.ask()
    for partition in (0, 1, 2, 1):
        machine.record(partition)
    assert machine.clock.correction_ms == 0


def test_a_coordinator_moves() -> None:
    """What the former one has proven does not hold for the next one."""
    machine = Machine(HOUR_MS)
    machine.ask()
    machine.record()
    assert machine.error_ms() <= REPLICATION_MS
    machine.coordinators_off_ms[0] = HOUR_MS
    machine.ask()
    machine.record()
    assert machine.clock.correction_ms == 0


def test_somebody_sets_the_clock() -> None:
    """What was proven holds for the brokers and the monotonic clock: the next time is right already."""
    machine = Machine(0)
    machine.ask()
    machine.record()
    for off_ms in (-HOUR_MS, 10 * HOUR_MS, 0):
        machine.off_ms = off_ms
        assert abs(machine.error_ms()) <= REPLICATION_MS


def test_records_of_a_test_are_not_believed() -> None:
    """They are dated by somebody else: more than a day off."""
    machine = Machine(0)
    machine.coordinators_off_ms[0] = -2 * MOST_MS
    machine.ask()
    machine.record()
    assert machine.clock.off_ms is None


def test_it_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """When it is found, and when it is over."""
    machine = Machine(HOUR_MS)
    machine.ask()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            machine.record()
        machine.off_ms = 0
        machine.record()
    first, last = [record.getMessage() for record in caplog.records]
    assert first.startswith("this machine's clock is ahead of the brokers' by 3600 s")
    assert last == "this machine's clock agrees with the brokers' again"


def test_answers_get_the_brokers_time() -> None:
    """The prober's process is on the same machine."""
    machine = Machine(HOUR_MS)
    answer = GroupAnswer(
        cluster_id="c",
        group_id="g",
        taken_ms=START_MS + HOUR_MS,
        answered_ms=START_MS + HOUR_MS + 5,
        state="Stable",
        protocol_type="consumer",
        protocol="range",
        broker=1,
        members=(),
    )
    assert machine.clock.dated(answer) is answer
    machine.ask()
    machine.record()
    ends = EndsRound(
        cluster_id="c", writer="w", number=0, taken_ms=START_MS, answered_ms=START_MS, topics=0, partitions=0
    )
    assert machine.clock.dated(ends).taken_ms == START_MS - HOUR_MS
    dated = machine.clock.dated(answer)
    assert (dated.taken_ms, dated.answered_ms) == (START_MS, START_MS + 5)


def _of_records(told: Told) -> set[str]:
    """The ids of all events but conditions."""
    return {event["id"] for event in told.events if "condition_id" not in event["data"]}


@settings(max_examples=2, deadline=None)
@given(st.integers(0, 2**32))
def test_time_that_goes_back_loses_no_event(seed: int) -> None:
    """Until the clock is found to be ahead, deadlines pass an hour early; what records tell is the same all the same.

    So are the conditions that begin later than the time that was told.
    """
    records = raw(working(seed, minutes=110))
    told, end_ms = replayed(Batch(records))
    cuts = sorted({0, len(records), *random.Random(seed).sample(range(1, len(records)), 60)})
    found_ms = records[len(records) // 5].timestamp_ms
    batches = []
    for begin, end in pairwise(cuts):
        last_ms = records[end - 1].timestamp_ms
        ahead_ms = HOUR_MS if last_ms < found_ms else 0
        batches.append((Batch(records[begin:end]), last_ms + ahead_ms if end < len(records) else None))
    late = followed(batches, end_ms)
    assert _of_records(late) == _of_records(told)
    later = [
        {
            event["id"]
            for event in one.events
            if "condition_id" in event["data"] and event["data"]["since_ms"] > found_ms + HOUR_MS
        }
        for one in (late, told)
    ]
    assert later[0] == later[1]
