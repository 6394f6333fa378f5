"""``transaction.hanging``: whose transaction is open, for how long, and what ends it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from groupreplay.state import OFFSETS_TOPIC, Context, Event, Evidence, Group, Observations, Severity
from groupreplay.state.conditions.transaction_hanging import ABORT, TransactionHanging
from groupreplay.state.policy.rules import Policy
from groupreplay.state.snapshot.observations import PendingTransaction, PendingTransactions
from support.histories.builders import CONTEXT, GROUP, Raw, commit, observed, placed

MINUTE = 60_000
START = 100 * MINUTE
NAME = TransactionHanging.NAME
OPEN = PendingTransaction(
    log_partition=7,
    first_offset=110,
    held_from=104,
    producer_id=4_711,
    producer_epoch=3,
    since_ms=START,
    partitions=(("orders", "0-2"), ("sums", "5")),
    count=4,
)
BEFORE = [commit("orders", 0, 41, at=START - MINUTE)]


def answer(at: int, *transactions: PendingTransaction, topic: str = "group-probes") -> PendingTransactions:
    """What was known at a time."""
    return PendingTransactions(taken_ms=at, topic=topic, partition=0, offset=at, transactions=transactions)


def told(
    answers: list[PendingTransactions],
    until: int,
    history: list[Raw] = BEFORE,
    context: Context = CONTEXT,
) -> list[Event]:
    """What is said of transactions after everything up to a time has been read."""
    group = Group(GROUP, context)
    seen = observed(placed(history))
    events = group.apply(Observations(items=seen.items, seen_to=seen.seen_to, probes=answers), 0)
    events += Group.from_snapshot(GROUP, context, group.snapshot()).expire(until)
    return [event for event in events if event.fact.NAME == NAME]


def story(events: list[Event]) -> list[tuple[str, Severity, int]]:
    """Status, severity and time of each event."""
    return [(event.fact.status, event.severity, event.time_ms) for event in events]  # type: ignore[attr-defined]


def test_it_begins_gets_worse_and_ends() -> None:
    """After a minute a warning, after a quarter of an hour an error, until the prober no longer finds it."""
    answers = [answer(START + 10_000, OPEN), answer(START + 20 * MINUTE)]
    events = told(answers, START + 30 * MINUTE)
    assert story(events) == [
        ("firing", Severity.WARN, START + MINUTE),
        ("firing", Severity.ERROR, START + 15 * MINUTE),
        ("resolved", Severity.ERROR, START + 20 * MINUTE),
    ]
    facts: list[Any] = [event.fact for event in events]
    assert len({fact.condition_id for fact in facts}) == 1
    assert [fact.elapsed_ms for fact in facts] == [MINUTE, 15 * MINUTE, 20 * MINUTE]
    assert facts[0] == TransactionHanging(
        status="firing",
        condition_id=facts[0].condition_id,
        since_ms=START,
        since_ms_earliest=START,
        threshold_ms=MINUTE,
        runbook=facts[0].runbook,
        producer_id=4_711,
        producer_epoch=3,
        log_partition=7,
        first_offset=110,
        held_from=104,
        partitions={"orders": "0-2", "sums": "5"},
        partition_count=4,
        elapsed_ms=MINUTE,
        holds_expiry=None,
        fix=ABORT.format(producer_id=4_711, log_partition=7, first_offset=110),
    )
    assert {event.evidence for event in events} == {Evidence.PROBE}


def test_one_that_ends_in_time_is_no_news() -> None:
    """Most do."""
    assert told([answer(START + 10_000, OPEN), answer(START + MINUTE - 1)], START + 30 * MINUTE) == []


def test_a_committed_record_behind_it_proves_its_end() -> None:
    """Nobody who reads committed records gets one while the transaction is open."""
    history = [*BEFORE, *([commit("orders", 0, 42, at=START + 2 * MINUTE)] * 12)]
    assert placed(history)[-1].offset > OPEN.first_offset
    events = told([answer(START + 10_000, OPEN)], START + 30 * MINUTE, history)
    assert story(events) == [
        ("firing", Severity.WARN, START + MINUTE),
        # More commits of that moment may follow.
        ("resolved", Severity.WARN, START + 2 * MINUTE + 1),
    ]


def test_the_log_alone_has_the_same_condition() -> None:
    """A command that reads behind the last stable offset: the same events, at the same times."""
    read = told([answer(START, OPEN, topic=OFFSETS_TOPIC)], START + 20 * MINUTE)
    probed = told([answer(START + 10_000, OPEN)], START + 20 * MINUTE)
    assert story(read) == [
        ("firing", Severity.WARN, START + MINUTE),
        ("firing", Severity.ERROR, START + 15 * MINUTE),
    ]
    assert [event.fact for event in read] == [event.fact for event in probed]
    assert [event.evidence for event in read] == [Evidence.LOG] * 2
    assert told([answer(START, OPEN, topic=OFFSETS_TOPIC)], START + MINUTE - 1) == []


def test_several_producers() -> None:
    """Each has a condition of its own, and the next transaction of one of them, too."""
    other = PendingTransaction(**{**_fields(OPEN), "producer_id": 9, "first_offset": 112})
    again = PendingTransaction(**{**_fields(OPEN), "first_offset": 130, "since_ms": START + 5 * MINUTE})
    answers = [answer(START + 10_000, OPEN, other), answer(START + 3 * MINUTE, other)]
    answers.append(answer(START + 6 * MINUTE, other, again))
    events = told(answers, START + 6 * MINUTE)
    facts: list[Any] = [event.fact for event in events]
    assert [(fact.status, fact.producer_id, fact.first_offset) for fact in facts] == [
        ("firing", 4_711, 110),
        ("firing", 9, 112),
        ("resolved", 4_711, 110),
        ("firing", 4_711, 130),
    ]


def test_a_group_that_has_nothing_but_a_pending_commit() -> None:
    """It is kept while the transaction is open, and then forgotten."""
    group = Group(GROUP, CONTEXT)
    group.apply(Observations(probes=[answer(START + 10_000, OPEN)]), START + 20_000)
    assert not group.gone
    assert [event.fact.NAME for event in group.expire(START + MINUTE)] == [NAME]
    events = group.apply(Observations(probes=[answer(START + 2 * MINUTE)]), START + 3 * MINUTE)
    assert story(events) == [("resolved", Severity.WARN, START + 2 * MINUTE)]
    assert group.gone


@pytest.mark.parametrize(
    ("release", "holds"), [(None, None), ((3, 9), False), ((4, 0), True), ((4, 3), True)]
)
def test_whether_the_offsets_expire(release: tuple[int, int] | None, holds: bool | None) -> None:
    """Brokers since 4.0 keep them."""
    (event,) = told([answer(START, OPEN)], START + MINUTE, context=replace(CONTEXT, broker_release=release))
    fact: Any = event.fact
    assert fact.holds_expiry is holds
    data = {name: getattr(fact, name) for name in fact.__dataclass_fields__}
    kept = ", and these offsets do not expire" if holds else ""
    assert TransactionHanging.text(data) == (
        "producer 4711 (epoch 3), open for 1 min 0 s, since 1970-01-01T01:40:00.000Z: commits of 4 partitions wait: "
        f"orders 0-2, sums 5; nothing in partition 7 of the offsets topic is read from offset 104 on{kept}; "
        "if producer 4711 is gone, kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic __consumer_offsets "
        "--partition 7 --start-offset 110 ends its transaction"
    )


def test_the_numbers_are_thresholds() -> None:
    """For whoever wants to know sooner."""
    policy = Policy(thresholds={NAME: {"threshold_ms": 1_000, "error_ms": 2_000}})
    events = told([answer(START, OPEN)], START + MINUTE, context=replace(CONTEXT, policy=policy))
    assert story(events) == [
        ("firing", Severity.WARN, START + 1_000),
        ("firing", Severity.ERROR, START + 2_000),
    ]


def _fields(transaction: PendingTransaction) -> dict[str, Any]:
    return {name: getattr(transaction, name) for name in transaction.__struct_fields__}
