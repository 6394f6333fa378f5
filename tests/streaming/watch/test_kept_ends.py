"""The recorded ends of ``watch``: a restart with a state file has the same ones, and the memory of both is bounded."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from groupreplay.streaming.contract.partition_ends import EndsRound, PartitionEnds, TopicEnds
from groupreplay.streaming.sources.recorded_ends import RecordedEnds
from groupreplay.streaming.watch import kept_ends
from groupreplay.streaming.watch.kept_ends import KeptEnds, Rounds
from support.job.probes import CLUSTER_ID, ends_round, topic_ends

SECOND = 1_000


def round_of(number: int, end: int, at_ms: int, writer: str = "w") -> list[TopicEnds | EndsRound]:
    """A round of the prober that has found another end of one partition."""
    ends = {0: PartitionEnds(0, end, end)}
    return [
        topic_ends(number, ends, taken_ms=at_ms, writer=writer),
        ends_round(number, taken_ms=at_ms, writer=writer),
    ]


def added(kept: KeptEnds, messages: Sequence[TopicEnds | EndsRound]) -> KeptEnds:
    """The ends with these messages."""
    for message in messages:
        kept.add(message)
    return kept


def test_a_restart_has_the_ends_of_before() -> None:
    """The spans are those of a reader of all messages, also where the next prober finds another end."""
    before = [one for number in range(5) for one in round_of(number, 10 + number, number * 30 * SECOND)]
    first = added(KeptEnds(CLUSTER_ID, has_file=True), before)
    stored = first.take()
    assert (sorted(stored.new), stored.since, first.take()) == ([1, 2, 3, 4, 5], 1, Rounds(since=1))
    after = round_of(0, 40, 300 * SECOND, "next")
    second = added(KeptEnds(CLUSTER_ID, stored.new, has_file=True), after)
    everything = RecordedEnds(CLUSTER_ID)
    for message in (*before, *after):
        everything.add(message)
    assert second.spans("t", 0) == everything.spans("t", 0)
    assert sorted(second.take().new) == [6]


def test_without_a_file_nothing_waits() -> None:
    """The ends are known, and nothing is kept for a file that nobody writes."""
    kept = added(KeptEnds(CLUSTER_ID), round_of(0, 5, SECOND))
    assert (bool(kept), len(kept.spans("t", 0)), kept.take()) == (True, 1, Rounds(since=1))


def test_a_round_that_was_not_completed() -> None:
    """It is not stored: the prober's next process, and its next round, say again what it has found."""
    kept = added(KeptEnds(CLUSTER_ID, has_file=True), round_of(0, 5, SECOND)[:1])
    added(kept, round_of(0, 6, 2 * SECOND, "next"))
    added(kept, round_of(1, 7, 3 * SECOND, "next")[:1])
    added(kept, round_of(2, 8, 4 * SECOND, "next"))
    again = KeptEnds(CLUSTER_ID, kept.take().new)
    assert [span.end for span in again.spans("t", 0)] == [6, 8]


@pytest.mark.parametrize(("limit", "value"), [("_MOST_BYTES", 700), ("_DAY_MS", 90 * SECOND)])
def test_the_oldest_rounds_are_forgotten(monkeypatch: pytest.MonkeyPatch, limit: str, value: int) -> None:
    """By their bytes and by their age, those that were written and those that were not; never one between others."""
    monkeypatch.setattr(kept_ends, limit, value)
    kept = KeptEnds(CLUSTER_ID, has_file=True)
    file = dict[int, bytes]()
    for number in range(12):
        added(kept, round_of(number, number, number * 30 * SECOND))
        if number % 2:
            rounds = kept.take()
            file = {at: packed for at, packed in (file | rounds.new).items() if at >= rounds.since}
    assert 2 <= len(file) < 6
    assert list(file) == list(range(13 - len(file), 13))
    assert KeptEnds(CLUSTER_ID, file)._size == sum(map(len, file.values()))


def test_a_damaged_round() -> None:
    """What was before it is not known either: nobody knows what has changed in it."""
    messages = [one for number in range(3) for one in round_of(number, number, number * 30 * SECOND)]
    rounds = dict(added(KeptEnds(CLUSTER_ID, has_file=True), messages).take().new)
    again = KeptEnds(CLUSTER_ID, {**rounds, 2: b"damaged"})
    assert [span.end for span in again.spans("t", 0)] == [2]
