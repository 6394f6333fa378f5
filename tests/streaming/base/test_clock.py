"""The clock.

The brokers' time, from the append times of messages, on a machine whose clock is off or is set. Names of time
zones.
"""

from __future__ import annotations

import re
import time
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.streaming.base.clock import UTC, AppendedMessage, BrokerClock, now_ms, time_zone
from support.paths import PACKAGE

#: Who reads the clock of the machine, which somebody may set, and for which times.
READERS = {
    "app/check/cluster_checks.py": "compares it with the brokers'",
    "app/cli/commands/serve.py": "compares it with append times; scrapes and a board have no other time",
    "app/cli/printing_flags.py": "ages in flags of a live topic; times of this year are written without it",
    "app/inspection/capture.py": "the time up to which a topic was read",
    "streaming/run/single_run.py": "Spark dates its batches and timers by it",
    "streaming/sources/topic.py": "the time up to which a topic was read",
    "streaming/prober/service.py": "one round that is printed and not written",
    "streaming/spark/event_frame.py": "a record that is dated after it moves no watermark",
    "streaming/spark/operator.py": "the time by which records were read, to a day; it has the driver's correction",
    "app/inspection/group_lag.py": "the time of the ends of now",
    "app/text/screen.py": "the time that a person sees",
}


def test_milliseconds_since_1970() -> None:
    """As a whole number, between two looks at the machine's own clock."""
    before = time.time()
    seen = now_ms()
    assert type(seen) is int
    assert int(before * 1_000) <= seen <= time.time() * 1_000


def test_nothing_else_reads_a_clock_that_can_be_set() -> None:
    """Schedules and deadlines take ``time.monotonic``, and times that are written come from ``BrokerClock``."""
    reads = re.compile(
        r"base\.clock import (\([^)]*|[^\n]*)\bnow_ms\b|base import clock|\btime\.time|datetime\.(now|today|utcnow)"
    )
    found = [path for path in sorted(PACKAGE.rglob("*.py")) if reads.search(path.read_text())]
    assert [str(path.relative_to(PACKAGE)) for path in found if path.name != "clock.py"] == sorted(READERS)


HOUR_MS = 3_600_000
START_MS = 1_700_000_000_000


class Machine:
    """A machine and a broker in one real time; the machine's clock differs from the broker's."""

    def __init__(self, off_ms: int) -> None:
        self.off_ms = off_ms
        self.real_ms = START_MS
        self.clock = BrokerClock(
            lambda: self.real_ms + self.off_ms, lambda: (self.real_ms - START_MS) / 1_000
        )

    def write(self, there_ms: int = 3, back_ms: int = 5, broker_off_ms: int = 0) -> None:
        """One message, which takes so long to the broker, and whose acknowledgement takes so long back."""
        sent = (self.real_ms - START_MS) / 1_000
        self.real_ms += there_ms
        append_ms = self.real_ms + broker_off_ms
        self.real_ms += back_ms
        self.clock.note([AppendedMessage(sent, (self.real_ms - START_MS) / 1_000, append_ms)])


def test_nothing_is_corrected_that_is_not_known() -> None:
    """Without an append time the clock of the machine is all there is."""
    machine = Machine(HOUR_MS)
    assert (machine.clock.off_ms, machine.clock.correction_ms) == (None, 0)
    assert machine.clock.now_ms() == machine.real_ms + HOUR_MS


@given(
    st.integers(-(10**12), 10**12).filter(lambda off_ms: abs(off_ms) > 5_010),
    st.lists(st.tuples(st.integers(0, 30_000), st.integers(0, 30_000)), max_size=10),
)
def test_the_fastest_answers_decide(off_ms: int, ways: list[tuple[int, int]]) -> None:
    """Slow messages bound the broker's time loosely; the fast ones leave an error of half of their way."""
    machine = Machine(off_ms)
    for there_ms, back_ms in ways:
        machine.write(there_ms, back_ms)
    machine.write(2, 4)
    assert abs(machine.clock.now_ms() - machine.real_ms) <= 3


def test_a_small_difference_is_left_as_it_is() -> None:
    """It is measured, and no time changes by it."""
    machine = Machine(-4_000)
    machine.write()
    assert (machine.clock.off_ms, machine.clock.correction_ms) == (-3_999, 0)


def test_a_slow_answer_proves_nothing() -> None:
    """A message that took twenty seconds may have been appended at any moment of them."""
    machine = Machine(0)
    machine.write(20_000, 0)
    assert (machine.clock.off_ms, machine.clock.correction_ms) == (-10_000, 0)
    machine.write()
    assert (abs(machine.clock.off_ms or 0) <= 4, machine.clock.correction_ms) == (True, 0)


def test_somebody_sets_the_clock() -> None:
    """The next time is right already, before any other message; a query that runs must start again."""
    machine = Machine(0)
    machine.write()
    mark = machine.clock.mark()
    for off_ms in (-HOUR_MS, 365 * 24 * HOUR_MS, 61_000):
        machine.off_ms = off_ms
        assert abs(machine.clock.now_ms() - machine.real_ms) <= 4
        assert machine.clock.has_moved(mark)
    machine.off_ms = 59_000
    assert not machine.clock.has_moved(mark)


def test_a_clock_that_is_set_is_noticed_without_append_times() -> None:
    """Spark waits for the next trigger by that clock: after a step back it would wait as long."""
    machine = Machine(0)
    mark = machine.clock.mark()
    machine.real_ms += 100 * HOUR_MS
    assert not machine.clock.has_moved(mark)
    machine.off_ms = -HOUR_MS
    assert machine.clock.has_moved(mark)


def test_another_broker_leads_the_topic() -> None:
    """Its clock differs: the latest message counts."""
    machine = Machine(0)
    machine.write()
    mark = machine.clock.mark()
    machine.write(broker_off_ms=HOUR_MS)
    assert abs(machine.clock.now_ms() - machine.real_ms - HOUR_MS) <= 4
    assert machine.clock.has_moved(mark)
    machine.write()
    assert machine.clock.now_ms() == machine.real_ms


@pytest.mark.parametrize(("off_ms", "ahead_ms"), [(700, 705), (-700, 0), (60_000, 4)])
def test_how_far_a_clock_may_be_ahead(off_ms: int, ahead_ms: int) -> None:
    """By the acknowledgement at most; a corrected clock by the uncertainty of its correction."""
    machine = Machine(off_ms)
    assert machine.clock.ahead_ms is None
    machine.write()
    assert machine.clock.ahead_ms == ahead_ms


def test_offsets_and_utc() -> None:
    """An offset has one form of its name; UTC has several names."""
    half_past = time_zone("-0330")
    assert (half_past.name, half_past.info.utcoffset(None)) == ("-03:30", timedelta(hours=-3, minutes=-30))
    assert [time_zone(name) for name in ("UTC", "utc", "Z", "z")] == [UTC] * 4


@pytest.mark.parametrize(
    "name", ["Mars/Olympus", "", "../../etc/passwd", "+99:00", "Europe", "CE\x00T", "+2"]
)
def test_no_such_zone(name: str) -> None:
    """A folder of the database, a path and an offset that cannot be are no zones."""
    with pytest.raises(ValueError, match="there is no time zone"):
        time_zone(name)
