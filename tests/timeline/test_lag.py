"""Lag from recorded ends: what is known, in which bounds, and what is unknown."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.timeline.lag import Committed, EndSpan, Lag, Range, lag_at, total


def span(end: int, first_ms: int, last_ms: int, *, topic: str = "id", **more: int) -> EndSpan:
    """Ends that were answered from a first time to a last one."""
    return EndSpan(topic_id=topic, first_ms=first_ms, last_ms=last_ms, end=end, **{"stable": end, **more})


#: 100 records until 30 s, 400 from 60 s on.
TWO = (span(100, 1_000, 30_000), span(400, 60_000, 90_000))


@pytest.mark.parametrize(
    ("at_ms", "records", "time_ms"),
    [
        (30_000, Range(0, 0, 0), Range(0, 0, 0)),
        (60_000, Range(300, 300, 300), Range(29_950, 0, 30_000)),
        (90_000, Range(300, 300, 300), Range(59_950, 30_000, 60_000)),
        # Between the answers both are estimated; behind the last one, what was known then is the least.
        (45_000, Range(150, 0, 300), Range(14_950, 0, 15_000)),
        (55_000, Range(250, 0, 300), Range(24_950, 0, 25_000)),
        (99_000, Range(300, 300, None), Range(68_950, 39_000, 69_000)),
    ],
)
def test_between_answers(at_ms: int, records: Range, time_ms: Range) -> None:
    """Bounds are the answers before and after; the time counts from when the end passed the offset."""
    lag = lag_at(TWO, Committed(100, 1), at_ms)
    assert lag == Lag(records=records, time_ms=time_ms, start=0, end=100 if at_ms < 60_000 else 400)


def test_without_bounds() -> None:
    """An offset that the end has passed before the first answer: at least so long."""
    assert lag_at(TWO, Committed(50, 1), 31_000).time_ms == Range(30_000, 30_000, None)


@pytest.mark.parametrize(
    ("spans", "committed", "at_ms", "notes"),
    [
        ((), Committed(1, 1), 5, ["the ends of the partition were not recorded"]),
        (
            TWO,
            Committed(1, 1),
            5,
            ["the ends of the partition were not recorded before 1970-01-01T00:00:01.000Z"],
        ),
        (TWO, None, 30_000, ["the group has no committed offset here"]),
        (
            (span(100, 1_000, 30_000), span(40, 60_000, 90_000)),
            Committed(70, 20_000),
            90_000,
            [
                "the committed offset is 30 past the end of the log, which was cut or is another one",
                "at least 60 records were lost between 1970-01-01T00:00:30.000Z and 1970-01-01T00:01:00.000Z: "
                "the log was cut, or is another one",
            ],
        ),
        (
            (span(100, 1_000, 30_000), span(400, 60_000, 90_000, topic="new")),
            Committed(70, 20_000),
            90_000,
            ["the topic was deleted and created again; the commit may be of the one before"],
        ),
        (
            (EndSpan(topic_id="id", first_ms=5_000, last_ms=9_000, unknown="no leader"),),
            Committed(70, 20_000),
            9_000,
            ["no leader, since 1970-01-01T00:00:05.000Z"],
        ),
    ],
)
def test_what_is_unknown(
    spans: Sequence[EndSpan], committed: Committed | None, at_ms: int, notes: list[str]
) -> None:
    """It is neither 0 nor negative but absent, and the first note says why."""
    lag = lag_at(spans, committed, at_ms)
    assert (lag.records, lag.time_ms, list(lag.notes)) == (None, None, notes)


def test_a_log_that_was_cut_and_has_grown() -> None:
    """The end passes the offset twice: the later time counts, which is that of the record that is there."""
    spans = (span(100, 1_000, 30_000), span(40, 60_000, 60_000), span(80, 90_000, 95_000))
    assert lag_at(spans, Committed(50, 92_000), 95_000) == Lag(
        records=Range(30, 30, 30),
        time_ms=Range(27_125, 5_000, 35_000),
        start=0,
        end=80,
        notes=(
            "at least 60 records were lost between 1970-01-01T00:00:30.000Z and 1970-01-01T00:01:00.000Z: "
            "the log was cut, or is another one",
        ),
    )


LOST = (
    "at least 60 records were lost between 1970-01-01T00:00:30.000Z and 1970-01-01T00:01:00.000Z"
    ", when a leader was elected without them (epoch 4, then 6)"
)
AWAY = EndSpan(topic_id="id", first_ms=31_000, last_ms=59_000, unknown="no leader")


@pytest.mark.parametrize("between", [(), (AWAY,)], ids=["at once", "after a time without a leader"])
@pytest.mark.parametrize(
    ("committed", "records", "notes"),
    [
        (Committed(30, 20_000), Range(20, 20, 20), (LOST,)),
        (
            Committed(70, 20_000),
            None,
            ("the committed offset is 20 past the end of the log, which was cut or is another one", LOST),
        ),
    ],
)
def test_an_unclean_election(
    between: tuple[EndSpan, ...], committed: Committed, records: Range | None, notes: tuple[str, ...]
) -> None:
    """A new epoch with a lower end: how many records were lost at least, and when; the lag is that of the new log."""
    before, after = span(100, 1_000, 30_000, epoch=4), span(40, 60_000, 70_000, epoch=6)
    spans = (before, *between, after, span(50, 80_000, 90_000, epoch=6))
    lag = lag_at(spans, committed, 90_000)
    assert (lag.records, lag.notes) == (records, notes)
    # What was before it is another log, of which nothing was lost then.
    assert lag_at(spans, Committed(30, 20_000), 30_000) == Lag(
        records=Range(70, 70, 70), time_ms=Range(29_000, 29_000, None), start=0, end=100
    )


def test_a_leader_that_lacks_nothing() -> None:
    """A new epoch alone is no cut."""
    spans = (span(100, 1_000, 30_000, epoch=4), span(100, 60_000, 70_000, epoch=6))
    assert lag_at(spans, Committed(30, 20_000), 70_000).notes == ()


def test_a_commit_of_the_new_topic() -> None:
    """A topic that was created again has a lag as soon as the group commits there."""
    spans = (span(100, 1_000, 30_000), span(9, 60_000, 90_000, topic="new"))
    assert lag_at(spans, Committed(4, 61_000), 90_000).records == Range(5, 5, 5)


def test_what_else_is_to_be_known() -> None:
    """Records that retention has taken, records of open transactions, and a leader that is away since."""
    log = span(100, 1_000, 30_000, start=40, stable=90)
    silent = EndSpan(topic_id="id", first_ms=60_000, last_ms=90_000, unknown="no leader")
    lag = lag_at((log, silent), Committed(10, 1), 90_000)
    assert lag.records == Range(90, 90, None)
    assert lag.notes == (
        "records are already gone: 30",
        "behind an open transaction, unreadable with read_committed: 10 records",
        "no leader, since 1970-01-01T00:01:00.000Z",
    )


@pytest.mark.parametrize(
    ("at_ms", "records", "time_ms"),
    [
        (60_000, Range(320, 300, 340), Range(27_000, 0, 30_000)),
        (90_000, Range(320, 300, 340), Range(57_000, 30_000, 60_000)),
    ],
)
def test_a_rounded_end(at_ms: int, records: Range, time_ms: Range) -> None:
    """Its rounding is in the bounds of the records; the time has those of the answers, which hold in any case."""
    rounded = (TWO[0], span(400, 60_000, 90_000, more=40))
    lag = lag_at(rounded, Committed(100, 1), at_ms)
    assert lag.records == records
    assert lag.time_ms is not None
    assert (lag.time_ms.least, lag.time_ms.most) == (time_ms.least, time_ms.most)
    # A commit within the rounding is in step, or behind by less than it.
    within = lag_at(rounded, Committed(410, 61_000), 90_000)
    assert within.records == Range(10, 0, 30)
    assert lag_at(rounded, Committed(441, 61_000), 90_000).notes == (
        "the committed offset is 1 past the end of the log, which was cut or is another one",
    )


def test_the_sum() -> None:
    """Records are added, the longest time counts, unknown partitions are counted; a bound needs all bounds."""
    well, open_end = Lag(records=Range(5, 4, 6), time_ms=Range(1, 1, 2)), Lag(records=Range(1, 1, None))
    assert total([well, well, Lag()]) == (Range(10, 8, 12), Range(1, 1, 2), 1)
    assert total([well, open_end]) == (Range(6, 5, None), Range(1, 1, 2), 0)
    assert total([Lag()]) == (None, None, 1)


@st.composite
def sampled(draw: st.DrawFn) -> tuple[list[int], list[EndSpan]]:
    """Times at which records were appended, and what a prober has seen of them at times of its own."""
    gaps = draw(st.lists(st.integers(0, 40), max_size=60))
    appended = [sum(gaps[: place + 1]) for place in range(len(gaps))]
    spans: list[EndSpan] = []
    at = draw(st.integers(1, 100))
    for _ in range(draw(st.integers(0, 12))):
        asked, seen = at, at + draw(st.integers(0, 9))
        answered = seen + draw(st.integers(0, 9))
        end = sum(time <= seen for time in appended)
        if spans and spans[-1].end == end:
            spans[-1] = span(end, spans[-1].first_ms, asked)
        else:
            spans.append(span(end, answered, asked))
        at = answered + draw(st.integers(1, 200))
    return appended, spans


@given(sampled(), st.integers(0, 60), st.integers(0, 2_500))
def test_the_bounds_hold_the_truth(history: tuple[list[int], list[EndSpan]], offset: int, at_ms: int) -> None:
    """For any log, any prober and any moment: the lag in records and in time is inside its range, never negative."""
    appended, spans = history
    end = sum(time <= at_ms for time in appended)
    # A consumer commits what it has read.
    offset = min(offset, end)
    lag = lag_at(spans, Committed(offset, at_ms), at_ms)
    if lag.records is None or lag.time_ms is None:
        assert not any(item.first_ms <= at_ms for item in spans)
        return
    truth = end - offset
    waited_ms = at_ms - appended[offset] if truth else 0
    for value, true in ((lag.records, truth), (lag.time_ms, waited_ms)):
        most = true if value.most is None else value.most
        assert 0 <= value.least <= true <= most
        assert value.least <= value.estimate <= (value.estimate if value.most is None else value.most)
