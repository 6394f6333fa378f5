"""Whether a log is still the one that was read, on a model of a log with elections, compaction and retention."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.streaming.contract.log import (
    EpochEnd,
    LogAnswer,
    PartitionMark,
    RecordMark,
    continues,
    is_cut,
    is_earlier_leader,
    is_later_leader,
    record_digest,
)
from support.model.epoch_log import ModelLog

Step = Callable[[ModelLog], None]


def writes() -> st.SearchStrategy[Step]:
    """Some records of few keys, so that the cleaner finds something."""
    keys = st.lists(st.integers(0, 3), min_size=1, max_size=8)
    return keys.map(lambda chosen: lambda log: [log.append(key) for key in chosen] and None)


def cleaner() -> st.SearchStrategy[Step]:
    """Compaction or retention, up to anywhere."""
    part = st.floats(0, 1)
    return st.one_of(
        part.map(lambda share: lambda log: log.compact(int(share * log.end))),
        part.map(lambda share: lambda log: log.delete(int(share * log.end))),
    )


def elections() -> st.SearchStrategy[Step]:
    """Of replicas that have everything."""
    return st.integers(1, 3).map(lambda steps: lambda log: log.elect(log.end, steps))


def harmless() -> st.SearchStrategy[Step]:
    """What happens to a healthy topic: clean elections, the cleaner, retention."""
    return st.one_of(writes(), elections(), cleaner(), st.just(ModelLog.copy_to_new_replica))


def unclean() -> st.SearchStrategy[Step]:
    """The election of a replica that lacks the last records."""
    chosen = st.tuples(st.integers(1, 9), st.integers(1, 3))
    return chosen.map(lambda one: lambda log: log.elect(max(0, log.end - one[0]), one[1]))


def log_with(has_epochs: bool, *parts: list[Step]) -> ModelLog:
    """A log after these steps."""
    log = ModelLog(has_epochs=has_epochs)
    for steps in parts:
        for step in steps:
            step(log)
    return log


@given(
    st.booleans(), st.lists(st.one_of(harmless(), unclean()), max_size=20), st.lists(harmless(), max_size=20)
)
def test_a_healthy_log_is_never_cut(has_epochs: bool, before: list[Step], after: list[Step]) -> None:
    """Clean elections, compaction, retention and new replicas are no loss, with and without epochs."""
    log = log_with(has_epochs, before)
    mark = log.mark()
    for step in after:
        step(log)
        assert not is_cut(mark, log.answer(mark))


@given(
    st.lists(st.one_of(harmless(), unclean()), max_size=12),
    unclean(),
    st.lists(st.one_of(writes(), unclean(), elections(), cleaner())),
)
def test_a_cut_is_found_however_the_log_grows_again(before: list[Step], cut: Step, after: list[Step]) -> None:
    """Whatever was written, elected or lost behind the cut, as soon as records below the mark are gone."""
    log = log_with(True, before, [lambda log: log.append(1)])
    mark = log.mark()
    cut(log)
    assert is_cut(mark, log.answer(mark))
    for step in after:
        step(log)
        assert is_cut(mark, log.answer(mark))


@given(st.lists(writes(), min_size=1), unclean(), st.lists(writes(), max_size=20))
def test_without_epochs_the_record_shows_it(before: list[Step], cut: Step, after: list[Step]) -> None:
    """Shorter than before, or another record at the offset of the last one."""
    log = log_with(False, before)
    mark = log.mark()
    for step in (cut, *after):
        step(log)
        assert is_cut(mark, log.answer(mark))


@given(st.booleans(), st.lists(st.one_of(harmless(), unclean()), min_size=1, max_size=30))
def test_a_log_that_is_followed(has_epochs: bool, steps: list[Step]) -> None:
    """A mark that follows each answer: ends of one leader need no question; a cut is found, and only a cut."""
    log = ModelLog(has_epochs=has_epochs)
    mark = log.mark()
    for step in steps:
        before = log.end
        step(log)
        now = log.log_end()
        lost = log.end < before
        if continues(mark, now):
            assert not lost
        else:
            assert is_cut(mark, log.answer(mark)) == lost
        mark = log.mark()


SEEN = RecordMark(9, "a")


@pytest.mark.parametrize(
    ("answer", "cut"),
    [
        (LogAnswer(end=EpochEnd(10, 4)), False),
        (LogAnswer(end=EpochEnd(9, 4)), True),
        (LogAnswer(end=EpochEnd(12, 5), in_epoch=False), True),
        (LogAnswer(end=EpochEnd(12, 5), in_epoch=True, record=SEEN), False),
        (LogAnswer(end=EpochEnd(12, 5), in_epoch=True, record=RecordMark(9, "b")), True),
        (LogAnswer(end=EpochEnd(12, 5), in_epoch=True, record=RecordMark(10, "b")), False),
        (LogAnswer(end=EpochEnd(12), record=None), False),
    ],
)
def test_each_kind_of_answer(answer: LogAnswer, cut: bool) -> None:
    """A lower end, an epoch that ended before, and another record at the same offset are a cut."""
    assert is_cut(PartitionMark(EpochEnd(10, 4), SEEN), answer) is cut


@pytest.mark.parametrize(
    ("end", "grown", "later", "earlier"),
    [
        (EpochEnd(10, 4), True, False, False),
        (EpochEnd(11, 4), True, False, False),
        (EpochEnd(9, 4), False, False, False),
        (EpochEnd(11, 5), False, True, False),
        (EpochEnd(11, 3), False, False, True),
        (EpochEnd(11), False, False, False),
    ],
)
def test_what_an_end_proves(end: EpochEnd, grown: bool, later: bool, earlier: bool) -> None:
    """Only the same leader's log has certainly grown; only a later leader knows where the epoch ended."""
    mark = PartitionMark(EpochEnd(10, 4))
    answers = (continues(mark, end), is_later_leader(mark, end), is_earlier_leader(mark, end))
    assert answers == (grown, later, earlier)


def test_parts_of_a_record_are_not_confused() -> None:
    """No two of these have the same digest: empty is not missing, and bytes do not move from key to value."""
    records = [
        (b"ab", b"c", 1),
        (b"a", b"bc", 1),
        (b"abc", None, 1),
        (b"abc", b"", 1),
        (None, b"abc", 1),
        (b"ab", b"c", 2),
    ]
    assert len({record_digest(*record) for record in records}) == len(records)
