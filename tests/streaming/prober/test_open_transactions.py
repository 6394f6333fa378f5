"""Which transaction holds back a last stable offset: when it is read, and what is said of it."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from groupreplay.codecs import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from groupreplay.state.job.observations import MOST_GROUPS, OpenTransaction
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.prober.open_transactions import OpenTransactions
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


HELD = {0: (9, 5), 1: (7, 7)}


def test_it_is_read_once_and_at_the_second_look() -> None:
    """Most transactions are over by then. The groups are those of this producer alone."""
    log = Log(
        p0=batch(5, commit("b"), commit("a"), producer=9)
        + batch(7, commit("c"), producer=8)
        + batch(8, commit("d"))
    )
    transactions = OpenTransactions(log.read)
    named = (OpenTransaction(0, 9, 0, 5, ("a", "b")),)
    assert [transactions.find(HELD) for _ in range(4)] == [(), named, named, named]
    assert log.asked == [{0: (5, 9)}]
    assert transactions.find({0: (9, 9), 1: (7, 7)}) == ()


def test_a_stable_offset_that_moves_is_no_stall() -> None:
    """It is another transaction each time."""
    log = Log()
    transactions = OpenTransactions(log.read)
    assert [transactions.find({0: (at + 3, at)}) for at in range(5)] == [()] * 5
    assert log.asked == []


def test_one_that_ends_between_the_two_questions_is_not_named() -> None:
    """The log has its marker by now."""
    log = Log(p0=batch(5, commit("a"), producer=9) + marker(6, 9, COMMIT))
    transactions = OpenTransactions(log.read)
    assert [transactions.find(HELD) for _ in range(2)] == [(), ()]


def test_much_is_bounded() -> None:
    """Groups of one transaction, offsets behind the stable one, and partitions in a round."""
    log = Log(
        **{
            f"p{number}": batch(5, *(commit(f"g{n:02d}") for n in range(30)), producer=9)
            for number in range(12)
        }
    )
    transactions = OpenTransactions(log.read)
    held = dict.fromkeys(range(12), (1000000, 5))
    rounds = [transactions.find(held) for _ in range(3)]
    assert [len(named) for named in rounds] == [0, 10, 12]
    assert rounds[2][0].groups == tuple(f"g{n:02d}" for n in range(MOST_GROUPS))
    assert log.asked[0] == dict.fromkeys(range(10), (5, 5005))


def test_what_cannot_be_read_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """The rounds go on without names."""

    def read(_: Mapping[int, tuple[int, int]]) -> dict[int, bytes]:
        raise GroupReplayError("aiokafka is not installed", fix="pip install 'groupreplay[logs]'")

    transactions = OpenTransactions(read)
    with caplog.at_level(logging.WARNING):
        assert [transactions.find(HELD) for _ in range(4)] == [()] * 4
    assert caplog.messages == [
        "the producers of open transactions are not known: aiokafka is not installed (pip install 'groupreplay[logs]')"
    ]
