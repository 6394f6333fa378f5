"""Which clocks are off: what heartbeats prove about the records that coordinators have dated."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.state.job.observations import (
    Clocks,
    HeartbeatObservation,
    LogObservation,
    LogRecord,
    ObservationPlace,
    PartitionClock,
)

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
START_MS = 1_700_000_000_000
LEADERS = {0: 1, 1: 1, 2: 2}


def heartbeat(
    at_ms: int,
    high_watermarks: dict[int, int] | None = None,
    *,
    era: str = "e",
    append_ms: int | None = None,
    off_ms: int | None = None,
) -> HeartbeatObservation:
    """A heartbeat with the ends of the log."""
    return HeartbeatObservation(
        at_ms,
        ObservationPlace("group-probes", 0, at_ms),
        None,
        era=era,
        append_ms=append_ms,
        clock_off_ms=off_ms,
        high_watermarks=high_watermarks or {},
    )


class Log:
    """The clocks of brokers while a log is written, read at once, and heartbeats come every ten seconds."""

    def __init__(self) -> None:
        self.clocks = Clocks()
        self.now_ms = START_MS
        self.ends = {0: 0, 1: 0, 2: 0}
        self.off_ms = {1: 0, 2: 0}

    def write(self, *partitions: int) -> None:
        """A record in each of these partitions, dated by its leader."""
        for partition in partitions:
            offset, self.ends[partition] = self.ends[partition], self.ends[partition] + 1
            record = LogRecord(partition, offset, self.now_ms + self.off_ms[LEADERS[partition]])
            self.clocks.apply_log(LogObservation((record,)), MINUTE_MS, LEADERS)

    def beat(self) -> None:
        """Ten seconds later, a heartbeat."""
        self.now_ms += 10_000
        self.clocks.apply_heartbeat(heartbeat(self.now_ms, dict(self.ends)), MINUTE_MS, LEADERS)

    def wrong(self) -> dict[int, int]:
        """By how much the partitions are off, in minutes."""
        return {number: round(one.off_ms / MINUTE_MS) for number, one in self.clocks.wrong.items()}


@pytest.mark.parametrize("minutes", [-60, 60])
def test_one_broker_is_off(minutes: int) -> None:
    """Its partitions are found out at the next heartbeats, with the record that shows it; the others are not."""
    log = Log()
    log.beat()
    log.off_ms[2] = minutes * MINUTE_MS
    for _ in range(3):
        log.write(0, 2)
        log.beat()
    assert log.wrong() == {2: minutes}
    found = log.clocks.wrong[2]
    assert (found.offset, found.broker, found.since_ms < log.now_ms) == (2, 2, True)
    log.off_ms[2] = 0
    log.write(2)
    log.beat()
    assert log.wrong() == {}


@pytest.mark.parametrize("minutes", [-60, 60])
def test_a_partition_without_further_records_is_forgiven_with_its_broker(minutes: int) -> None:
    """Nobody writes to it any more, but another partition shows that its broker is right again."""
    log = Log()
    log.off_ms[1] = minutes * MINUTE_MS
    for _ in range(2):
        log.beat()
        log.write(0, 1)
    log.beat()
    assert log.wrong() == {0: minutes, 1: minutes}
    log.off_ms[1] = 0
    log.write(1)
    log.beat()
    log.beat()
    assert log.wrong() == {}


def test_catching_up_is_not_a_slow_clock() -> None:
    """After three hours without the job, old records are read late: the heartbeats know that they are old."""
    log = Log()
    log.write(0)
    log.beat()
    read_later = [LogRecord(0, 1 + place, log.now_ms + place * MINUTE_MS) for place in range(180)]
    log.ends[0] = 181
    log.now_ms += 3 * HOUR_MS
    # The first heartbeats of the new run, before anything was read.
    log.beat()
    log.beat()
    for one in read_later:
        log.clocks.apply_log(LogObservation((one,)), MINUTE_MS, LEADERS)
        assert log.wrong() == {}
    log.beat()
    assert log.wrong() == {}


@given(st.data())
def test_right_clocks_are_never_found_wrong(data: st.DataObject) -> None:
    """Whatever is read when, in whatever chunks, with idle partitions, holes and open transactions."""
    clocks = Clocks()
    now_ms = START_MS
    unread: dict[int, list[LogRecord]] = {0: [], 1: [], 2: []}
    ends = dict.fromkeys(unread, 0)
    for _ in range(data.draw(st.integers(1, 40))):
        now_ms += data.draw(st.integers(0, HOUR_MS))
        match data.draw(st.sampled_from(["write", "read", "beat"])):
            case "write":
                partition = data.draw(st.sampled_from(sorted(ends)))
                # Clocks that are kept well still differ by seconds; compaction leaves holes.
                skew_ms = data.draw(st.integers(-5_000, 5_000))
                unread[partition].append(LogRecord(partition, ends[partition], now_ms + skew_ms))
                ends[partition] += data.draw(st.integers(1, 5))
            case "read":
                partition = data.draw(st.sampled_from(sorted(ends)))
                count = data.draw(st.integers(0, len(unread[partition])))
                if count:
                    seen = LogObservation((unread[partition][count - 1],))
                    del unread[partition][:count]
                    assert clocks.apply_log(seen, MINUTE_MS, LEADERS) is None
            case "beat":
                # A broker may take this long to answer.
                answered = dict(ends)
                clocks.apply_heartbeat(heartbeat(now_ms, answered), MINUTE_MS, LEADERS)
        assert clocks.wrong == {}
        assert len(clocks.ends) <= 8


def test_a_topic_that_was_created_again() -> None:
    """Its offsets begin at 0: what the former heartbeats say of them is about other records."""
    clocks = Clocks()
    clocks.apply_heartbeat(heartbeat(START_MS, {0: 100}), MINUTE_MS, {})
    clocks.apply_heartbeat(heartbeat(START_MS + HOUR_MS, {0: 0}, era="later"), MINUTE_MS, {})
    later = LogObservation((LogRecord(0, 5, START_MS + HOUR_MS + MINUTE_MS),))
    assert clocks.apply_log(later, MINUTE_MS, {}) is None
    assert clocks.wrong == {}


def test_a_log_that_was_cut() -> None:
    """A partition whose end went back has other records at its old offsets."""
    clocks = Clocks()
    clocks.apply_heartbeat(heartbeat(START_MS, {0: 100, 1: 9}), MINUTE_MS, {})
    clocks.apply_heartbeat(heartbeat(START_MS + HOUR_MS, {0: 90, 1: 9}), MINUTE_MS, {})
    cut, whole = (LogRecord(number, at, START_MS + HOUR_MS) for number, at in ((0, 95), (1, 8)))
    clocks.apply_log(LogObservation((cut, whole)), MINUTE_MS, {})
    assert clocks.wrong == {1: PartitionClock(HOUR_MS, 8, START_MS + HOUR_MS, None, START_MS)}


def test_the_driver() -> None:
    """By its own measure; a heartbeat of an earlier release is compared with its append time."""
    clocks, found = Clocks(), []
    for one in (
        heartbeat(1, off_ms=MINUTE_MS),
        heartbeat(2, off_ms=-MINUTE_MS - 1),
        heartbeat(3, off_ms=HOUR_MS, append_ms=3),
        heartbeat(4, append_ms=5),
        heartbeat(HOUR_MS, append_ms=MINUTE_MS),
        heartbeat(HOUR_MS + 1),
    ):
        clocks.apply_heartbeat(one, MINUTE_MS, {})
        found.append((clocks.driver_off_ms, clocks.driver_since_ms))
    assert found == [
        (MINUTE_MS, None),
        (-MINUTE_MS - 1, 2),
        (HOUR_MS, 2),
        (-1, None),
        (59 * MINUTE_MS, HOUR_MS),
        (None, None),
    ]


@pytest.mark.parametrize("timestamp_ms", [2**63 - 1, -(2**63)])
def test_impossible_times_stay_within_bounds(timestamp_ms: int) -> None:
    """The state can still be stored, and the number read by any JSON reader."""
    clocks = Clocks()
    clocks.apply_heartbeat(heartbeat(START_MS, {0: 0}), MINUTE_MS, {})
    clocks.apply_log(LogObservation((LogRecord(0, 5, timestamp_ms),)), MINUTE_MS, {})
    clocks.apply_heartbeat(heartbeat(START_MS + 1, {0: 9}), MINUTE_MS, {})
    assert clocks.wrong[0].off_ms == (2**53 if timestamp_ms > 0 else -(2**53))


def test_a_heartbeat_with_any_number_of_partitions() -> None:
    """It is no cluster's; the state does not grow with it."""
    clocks = Clocks()
    clocks.apply_heartbeat(heartbeat(1, dict.fromkeys(range(10_001), 5)), MINUTE_MS, {})
    assert clocks.ends == ()
