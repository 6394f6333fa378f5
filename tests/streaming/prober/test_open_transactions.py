"""Which transaction holds back a last stable offset: when it is read, and what is said of it."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from groupreplay.codecs import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from groupreplay.state.job.observations import MOST_GROUPS, OpenTransaction
from groupreplay.state.snapshot.observations import PendingTransaction
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.contract.probe_messages import GroupTransactionsAnswer
from groupreplay.streaming.prober.open_transactions import ByGroup, OpenTransactions
from support.histories.log_files import COMMIT, batch, marker


def commit(group: str) -> tuple[bytes | None, bytes | None]:
    """A commit of a group."""
    value = OffsetCommitValue(version=3, offset=1, metadata="", commit_timestamp_ms=1)
    return encode_key(OffsetCommitKey(group=group, topic="t", partition=0)), encode_value(value)


class Log:
    """The batches of partitions, and what was asked for."""

    def __init__(self, **batches: bytes) -> None:
        self.batches = {int(name[1:]): data for name, data in batches.items()}
        self.asked: list[Mapping[int, tuple[int, int]]] = []

    def read(self, spans: Mapping[int, tuple[int, int]]) -> dict[int, bytes]:
        """The batches of these partitions."""
        self.asked.append(spans)
        return {number: self.batches[number] for number in spans}


def asking(log: Log, written: ByGroup | None = None, seconds: list[float] | None = None) -> OpenTransactions:
    """What asks about this log; ``seconds`` is the clock."""
    clock = seconds or [0.0]
    return OpenTransactions(
        log.read, cluster_id="c", interval_ms=10, seconds=lambda: clock[0], written=written
    )


def pending(producer: int, first_offset: int, count: int = 1) -> PendingTransaction:
    """A transaction with one commit of the topic."""
    return PendingTransaction(
        log_partition=0,
        first_offset=first_offset,
        held_from=first_offset,
        producer_id=producer,
        producer_epoch=0,
        since_ms=1_000 + first_offset,
        partitions=(("t", "0"),),
        count=count,
    )


def said(transactions: OpenTransactions, ends: Mapping[int, tuple[int, int]]) -> ByGroup:
    """The answers of a round, which were written."""
    transactions.find(ends)
    answers = transactions.answers(ends, 5)
    assert all((answer.cluster_id, answer.taken_ms, answer.interval_ms) == ("c", 5, 10) for answer in answers)
    transactions.remember(answers)
    return {answer.group_id: answer.transactions for answer in answers}


HELD = {0: (9, 5), 1: (7, 7)}


def test_it_is_read_once_and_at_the_second_look() -> None:
    """Most transactions are over by then. The groups are those of this producer alone."""
    log = Log(
        p0=batch(5, commit("b"), commit("a"), producer=9)
        + batch(7, commit("c"), producer=8)
        + batch(8, commit("d"))
    )
    transactions = asking(log)
    named = (OpenTransaction(0, 9, 0, 5, ("a", "b")),)
    assert [transactions.find(HELD) for _ in range(4)] == [(), named, named, named]
    assert log.asked == [{0: (5, 9)}]
    assert transactions.find({0: (9, 9), 1: (7, 7)}) == ()


def test_a_stable_offset_that_moves_is_no_stall() -> None:
    """It is another transaction each time."""
    log = Log()
    transactions = asking(log)
    assert [transactions.find({0: (at + 3, at)}) for at in range(5)] == [()] * 5
    assert log.asked == []


def test_one_that_ends_between_the_two_questions_is_not_named() -> None:
    """The log has its marker by now."""
    log = Log(p0=batch(5, commit("a"), producer=9) + marker(6, 9, COMMIT))
    transactions = asking(log)
    assert [transactions.find(HELD) for _ in range(2)] == [(), ()]


def test_much_is_bounded() -> None:
    """Groups of one transaction, offsets behind the stable one, and partitions in a round."""
    log = Log(
        **{
            f"p{number}": batch(5, *(commit(f"g{n:02d}") for n in range(30)), producer=9)
            for number in range(12)
        }
    )
    transactions = asking(log)
    held = dict.fromkeys(range(12), (1000000, 5))
    rounds = [transactions.find(held) for _ in range(3)]
    assert [len(named) for named in rounds] == [0, 10, 12]
    assert rounds[2][0].groups == tuple(f"g{n:02d}" for n in range(MOST_GROUPS))
    assert log.asked[0] == dict.fromkeys(range(10), (5, 5005))


def test_what_cannot_be_read_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """The rounds go on without names."""

    def read(_: Mapping[int, tuple[int, int]]) -> dict[int, bytes]:
        raise GroupReplayError("aiokafka is not installed", fix="pip install 'groupreplay[logs]'")

    log = Log()
    log.read = read  # type: ignore[method-assign]
    transactions = asking(log)
    with caplog.at_level(logging.WARNING):
        assert [transactions.find(HELD) for _ in range(4)] == [()] * 4
    assert caplog.messages == [
        "the producers of open transactions are not known: aiokafka is not installed (pip install 'groupreplay[logs]')"
    ]


def test_the_groups_are_told_once_and_of_the_end() -> None:
    """Of the begin, every half an hour again, and of the end; of a partition without an answer nothing is said."""
    seconds = [0.0]
    log = Log(p0=batch(5, commit("b"), commit("a"), producer=9) + batch(7, commit("c"), producer=8))
    transactions = asking(log, seconds=seconds)
    begun = {"a": (pending(9, 5),), "b": (pending(9, 5),)}
    # The first commit of the group ``a`` is the second record; the transaction began with the first one.
    assert [said(transactions, HELD) for _ in range(3)] == [{}, begun, {}]
    assert said(transactions, {1: (7, 7)}) == {}
    seconds[0] = 1_800.0
    assert [said(transactions, HELD) for _ in range(2)] == [begun, {}]
    assert [said(transactions, {0: (9, 9), 1: (7, 7)}) for _ in range(2)] == [{"a": (), "b": ()}, {}]


def test_a_round_that_was_not_written_is_told_again() -> None:
    """Writing it has failed."""
    transactions = asking(Log(p0=batch(5, commit("a"), producer=9)))
    for _ in range(2):
        transactions.find(HELD)
    assert transactions.answers(HELD, 5) == transactions.answers(HELD, 5)
    assert [answer.group_id for answer in transactions.answers(HELD, 5)] == ["a"]


def test_a_prober_that_starts_goes_on() -> None:
    """What an earlier one has written stays true until the last stable offset moves, also before it is read again."""
    log = Log(p0=batch(5, commit("a"), producer=9))
    written = {"a": (pending(9, 5),), "gone": ()}
    transactions = asking(log, written)
    assert [said(transactions, HELD) for _ in range(3)] == [{}, {}, {}]
    assert said(asking(log, written), {0: (9, 9)}) == {"a": ()}
    assert said(asking(log, written), {0: (9, 7)}) == {"a": ()}


def test_the_next_transaction_of_a_group() -> None:
    """Takes the place of the one before in the same answer."""
    log = Log(p0=batch(5, commit("a"), producer=9))
    transactions = asking(log)
    for _ in range(2):
        said(transactions, HELD)
    log.batches[0] = batch(7, commit("a"), producer=8)
    later = {0: (9, 7)}
    assert [said(transactions, later) for _ in range(2)] == [{"a": ()}, {"a": (pending(8, 7),)}]
    assert GroupTransactionsAnswer.__struct_config__.tag == "transactions"
