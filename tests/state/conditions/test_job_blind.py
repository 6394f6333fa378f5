"""When the job is blind: from what its rounds and heartbeats say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from groupreplay.state import OFFSETS_TOPIC, Event, Severity
from groupreplay.state.conditions.job_blind import GRANT_DESCRIBE, HeldBackBy, JobBlind
from groupreplay.state.events.event import Cause, Evidence
from groupreplay.state.job.observations import LogObservation, LogRecord, OpenTransaction
from groupreplay.state.job_watch import JobWatch
from support.histories.builders import check
from support.tools.job_observations import (
    CONTEXT,
    MINUTE,
    WELL,
    beat,
    clock_beat,
    fed,
    later,
    place,
    story,
    taken,
)


def test_a_hanging_transaction() -> None:
    """The stable offset stands still below the high watermark for a minute; it moves on when it ends."""
    stuck = {0: (7, 5), 1: (9, 9)}
    events = fed(
        [
            taken(MINUTE),
            taken(2 * MINUTE, stuck),
            taken(3 * MINUTE, {0: (8, 5), 1: (9, 9)}),
            taken(3 * MINUTE + 1, {0: (9, 5), 1: (12, 9)}),
            taken(4 * MINUTE, {0: (9, 9), 1: (12, 10)}),
        ]
    )
    assert story(events) == [
        (3 * MINUTE + 1, "hanging_transaction", "firing", 2 * MINUTE),
        (4 * MINUTE, "hanging_transaction", "resolved", 2 * MINUTE),
    ]
    check(events[0].fact, partitions=(0,), brokers=(), threshold_ms=MINUTE, severity=Severity.ERROR)
    at = 3 * MINUTE + 1
    cause = Cause(topic="group-probes", partition=0, offset=at, timestamp_ms=at)
    check(events[0], evidence=Evidence.PROBE, group_id=None, cause=cause)


def test_a_hanging_transaction_that_is_named() -> None:
    """The event has its producer and the groups that wait; a transaction of another offset is not named."""
    stuck, held = {0: (7, 5), 1: (9, 9)}, OpenTransaction(0, 4_711, 3, 5, ("payments",))
    other = OpenTransaction(1, 4_712, 0, 8)
    events = fed(
        [
            replace(taken(MINUTE, stuck), transactions=(other,)),
            replace(taken(2 * MINUTE, stuck), transactions=(held,)),
            # Once is enough: a later round may not have read it.
            taken(3 * MINUTE, stuck),
            taken(4 * MINUTE, {0: (9, 9), 1: (12, 10)}),
        ]
    )
    named = HeldBackBy(partition=0, producer_id=4_711, producer_epoch=3, first_offset=5, groups=("payments",))
    assert [(event.fact.status, event.fact.transactions) for event in events] == [
        ("firing", (named,)),
        ("resolved", (named,)),
    ]
    assert JobBlind.firing_text(msgspec.to_builtins(events[0].fact)) == (
        "hanging transaction, partitions 0: producer 4711, open since offset 5, holds commits of payments; if producer "
        "4711 is gone, kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic __consumer_offsets "
        "--partition 0 --start-offset 5 ends its transaction"
    )


def test_a_producer_that_becomes_known_later() -> None:
    """The condition goes on with its id, and an update names it."""
    stuck, held = {0: (7, 5), 1: (9, 9)}, OpenTransaction(0, 4_711, 3, 5)
    events = fed(
        [
            taken(MINUTE, stuck),
            taken(3 * MINUTE, stuck),
            replace(taken(4 * MINUTE, stuck), transactions=(held,)),
        ]
    )
    assert [(event.time_ms, len(event.fact.transactions)) for event in events] == [
        (3 * MINUTE, 0),
        (4 * MINUTE, 1),
    ]
    assert events[0].fact.condition_id == events[1].fact.condition_id


def test_transactions_that_come_and_go_are_normal() -> None:
    """There is one open at each look, but never the same: the stable offset moves."""
    assert fed([taken(at * 10_000, {0: (at + 3, at), 1: (9, 9)}) for at in range(1, 60)]) == []


def test_a_partition_that_does_not_answer_is_neither_held_nor_free() -> None:
    """What was known of it stays, and the time goes on."""
    stuck = {0: (7, 5), 1: (9, 9)}
    rounds = [taken(MINUTE, stuck), taken(MINUTE + 10_000, {1: (9, 9)}), taken(3 * MINUTE, stuck)]
    assert story(fed(rounds)) == [(3 * MINUTE, "hanging_transaction", "firing", MINUTE)]


def test_missing_rights() -> None:
    """ConditionUpdate at once, with the command that grants them; a round that cannot tell changes nothing."""
    events = fed(
        [
            taken(1, rights="unknown"),
            taken(2, rights="missing"),
            taken(3, rights="unknown"),
            taken(4, rights="missing"),
            taken(5, rights="ok"),
        ]
    )
    assert story(events) == [(2, "no_rights", "firing", 2), (5, "no_rights", "resolved", 2)]
    check(events[0].fact, fix=GRANT_DESCRIBE)


def test_silent_brokers() -> None:
    """Three rounds in a row without an answer; one answer in between begins the count anew."""
    away = {1: None, 2: "timed out"}
    events = fed(
        [
            taken(1, brokers=away),
            taken(2, brokers=away),
            taken(3),
            taken(4, brokers=away),
            taken(5, brokers=away),
            taken(6, {1: (9, 9)}, brokers=away),
            taken(7),
        ]
    )
    assert story(events) == [(6, "brokers_silent", "firing", 4), (7, "brokers_silent", "resolved", 4)]
    check(events[0].fact, partitions=(), brokers=(2,))


def test_partitions_without_an_answer() -> None:
    """A broker that is gone is no longer listed; its partitions are missed all the same."""
    events = fed([taken(at, {1: (9, 9)}) for at in (1, 2, 3)])
    assert story(events) == [(3, "brokers_silent", "firing", 1)]
    check(events[0].fact, partitions=(0,), brokers=())


def test_a_changed_number_of_partitions() -> None:
    """Groups move to other partitions, which the job does not read; a round that cannot tell is no change."""
    more = {**WELL, 2: (0, 0)}
    rounds = [taken(1, count=None), taken(2), taken(3, more, count=3), taken(4, count=None)]
    assert story(fed(rounds)) == [(3, "partition_count_changed", "firing", 3)]


def test_the_job_s_own_clock() -> None:
    """Off by more than a minute; it is over when a heartbeat says so."""
    off_ms = 60 * MINUTE
    events = fed([clock_beat(at, off) for at, off in ((1, 60_000), (2, off_ms), (3, -off_ms), (4, 0))])
    assert story(events) == [(2, "clock", "firing", 2), (4, "clock", "resolved", 2)]
    check(events[0].fact, partitions=(), brokers=(), off_ms=off_ms, offset=None, threshold_ms=60_000)
    assert JobBlind.firing_text(msgspec.to_builtins(events[0].fact)).startswith(
        "clock, 1 h 0 min ahead; chronyc"
    )


def test_heartbeats_and_rounds_report_each_their_own() -> None:
    """A heartbeat begins and ends nothing that a round has shown, and the other way round; the last round counts."""
    silent = {1: "timed out"}
    observations = [
        *(taken(at, brokers=silent) for at in (1, 2)),
        clock_beat(3, -61_000),
        taken(4, brokers=silent),
        *(clock_beat(at, 0) for at in (5, MINUTE, 10 * MINUTE)),
        taken(10 * MINUTE + 1),
    ]
    assert story(fed(observations)) == [
        (3, "clock", "firing", 3),
        (4, "brokers_silent", "firing", 1),
        (5, "clock", "resolved", 3),
        (10 * MINUTE + 1, "brokers_silent", "resolved", 1),
    ]


@pytest.mark.parametrize("leaders", [{}, {3: 7, 4: 7}])
def test_the_clock_of_a_coordinator(leaders: dict[int, int]) -> None:
    """The record that shows it is the cause: its place, and a time that is right; the broker only if it is known."""
    watch = JobWatch(CONTEXT)
    now = 1_700_000_000_000
    watch.apply([replace(taken(now), leaders=leaders), clock_beat(now + 1, 0, {3: 10, 4: 0, 5: 0})])
    wrong = LogObservation((LogRecord(3, 11, now - 20 * MINUTE), LogRecord(5, 1, now)))
    watch = JobWatch.from_snapshot(CONTEXT, watch.snapshot())
    (event,) = watch.apply([wrong])
    assert story([event]) == [(now + 1, "clock", "firing", now + 1)]
    brokers = (7,) if leaders else ()
    check(event.fact, partitions=(3,), brokers=brokers, off_ms=-20 * MINUTE - 1, offset=11)
    check(
        event,
        cause=Cause(topic=OFFSETS_TOPIC, partition=3, offset=11, timestamp_ms=now + 1),
        evidence=Evidence.PROBE,
    )
    # Another partition of that broker shows the same, the round too: nothing new.
    again = LogObservation((LogRecord(4, 1, now - 20 * MINUTE),))
    assert watch.apply([later(now + 2, taken(now + 2)), again]) == []
    right = LogObservation((LogRecord(3, 12, now + 3), LogRecord(4, 2, now + 3)))
    ends = clock_beat(now + 4, 0, {3: 13, 4: 3, 5: 2})
    assert story(watch.apply([right])) == [(now + 1, "clock", "resolved", now + 1)]
    assert watch.apply([ends]) == []
    assert watch.conditions() == []


def test_both_clocks_are_two_conditions() -> None:
    """Each begins and ends by itself; a record that is right again does not end the other one."""
    watch = JobWatch(CONTEXT)
    now = 1_700_000_000_000
    watch.apply([clock_beat(now, 10 * MINUTE, {3: 10})])
    watch.apply([LogObservation((LogRecord(3, 11, now - 20 * MINUTE),))])
    assert [one["off_ms"] for one in watch.conditions()] == [-20 * MINUTE, 10 * MINUTE]
    watch.apply([LogObservation((LogRecord(3, 12, now),))])
    assert [one["off_ms"] for one in watch.conditions()] == [10 * MINUTE]


def test_a_partition_without_a_leader() -> None:
    """Half a minute of heartbeats without its end; the prober's rounds add to the same condition."""
    second = 1_000
    events = fed(
        [
            replace(beat(0, 0), unanswered=(1,)),
            replace(beat(10 * second, 0), unanswered=()),
            replace(beat(20 * second, 0), unanswered=(1,)),
            replace(beat(40 * second, 0), unanswered=(1,)),
            replace(beat(50 * second, 0), unanswered=(0, 1)),
            *(taken(at * second, {0: (5, 5)}) for at in (51, 52, 53)),
            replace(beat(60 * second, 0), unanswered=()),
            taken(61 * second),
        ]
    )
    assert story(events) == [
        (50 * second, "brokers_silent", "firing", 20 * second),
        (61 * second, "brokers_silent", "resolved", 20 * second),
    ]
    check(events[0].fact, partitions=(1,), brokers=(), fix=None, reason=None)


def test_rounds_and_heartbeats_find_one_condition() -> None:
    """What one of them misses is told once more, with all of it, as long as the condition holds."""
    events = fed(
        [
            *(taken(at, brokers={2: "timed out"}) for at in (1, 2, 3)),
            replace(beat(4, 0), unanswered=(1,)),
            replace(beat(MINUTE, 0), unanswered=(1,)),
            taken(MINUTE + 1),
            beat(MINUTE + 2, 0),
        ]
    )
    assert [
        (one.time_ms, one.fact.status, one.fact.brokers, one.fact.partitions) for one in blind(events)
    ] == [
        (3, "firing", (2,), ()),
        (MINUTE, "firing", (2,), (1,)),
        (MINUTE + 1, "firing", (), (1,)),
        (MINUTE + 2, "resolved", (), (1,)),
    ]
    assert len({one.fact.condition_id for one in blind(events)}) == 1


def blind(events: Sequence[Event]) -> list[Any]:
    """The events, all about ``job.blind``."""
    assert all(isinstance(one.fact, JobBlind) for one in events)
    return list(events)


def test_a_query_that_reads_nothing() -> None:
    """At once, since the driver knows how long that lasts; another text of the failure is no news, the first one is."""
    stopped = replace(beat(5 * MINUTE, 1), query_stopped_ms=3 * MINUTE)
    events = fed(
        [
            stopped,
            replace(stopped, place=place(6 * MINUTE), taken_ms=6 * MINUTE, query_error="one"),
            replace(
                stopped, place=place(7 * MINUTE), taken_ms=7 * MINUTE, query_stopped_ms=1, query_error="two"
            ),
            beat(8 * MINUTE, 8 * MINUTE),
        ]
    )
    assert story(events) == [
        (5 * MINUTE, "query_stopped", "firing", 3 * MINUTE),
        (6 * MINUTE, "query_stopped", "firing", 3 * MINUTE),
        (8 * MINUTE, "query_stopped", "resolved", 3 * MINUTE),
    ]
    assert [one.fact.reason for one in blind(events)] == [None, "one", "one"]
    text = JobBlind.firing_text(msgspec.to_builtins(events[1].fact))
    assert text.startswith("query stopped: one; groupreplay check")
