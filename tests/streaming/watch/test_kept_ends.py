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


def test_the_memory_replaces_old_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of bounded size; each restart has all that the process knew, however often that happened."""
    monkeypatch.setattr(kept_ends, "_LEAST_BYTES", 700)
    kept, file, sizes = KeptEnds(CLUSTER_ID, has_file=True), dict[int, bytes](), set[int]()
    for number in range(120):
        added(kept, round_of(number, number, number * 30 * SECOND))
        if number % 2:
            rounds = kept.take()
            file = {at: packed for at, packed in (file | rounds.new).items() if at >= rounds.since}
            sizes.add(sum(map(len, file.values())))
        if number % 14 == 1:
            again = KeptEnds(CLUSTER_ID, file, has_file=True)
            assert again.spans("t", 0) == kept.spans("t", 0)
            assert (again._number, again._since, again._memory_size, again._size) == (
                kept._number,
                kept._since,
                kept._memory_size,
                kept._size,
            )
            kept = again
    assert min(file) > 1
    assert max(sizes) < 4_000
    assert 2 < len(kept.spans("t", 0)) == len({span.end for span in kept.spans("t", 0)})


def test_a_day_of_many_partitions_survives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more partitions than have room for all their rounds, a restart has what the process had: back to the first."""
    monkeypatch.setattr(kept_ends, "_SPANS", 3_000)
    monkeypatch.setattr(kept_ends, "_LEAST_BYTES", 20_000)
    kept, file = KeptEnds(CLUSTER_ID, has_file=True), dict[int, bytes]()
    for number in range(200):
        ends = {place: PartitionEnds(0, 9 * number + place, 9 * number) for place in range(100)}
        at_ms = number * 30 * SECOND
        added(kept, [topic_ends(number, ends, taken_ms=at_ms), ends_round(number, taken_ms=at_ms)])
        rounds = kept.take()
        file = {at: packed for at, packed in (file | rounds.new).items() if at >= rounds.since}
    again = KeptEnds(CLUSTER_ID, file)
    for place in range(100):
        spans = again.spans("t", place)
        assert spans == kept.spans("t", place)
        assert (spans[0].end, spans[-1].end) == (place, 9 * 199 + place)


def test_a_damaged_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known from before it; what came after it is."""
    monkeypatch.setattr(kept_ends, "_LEAST_BYTES", 0)
    kept = added(KeptEnds(CLUSTER_ID, has_file=True), round_of(0, 5, SECOND))
    ((number, memory),) = kept.take().new.items()
    monkeypatch.setattr(kept_ends, "_LEAST_BYTES", 1 << 20)
    after = added(kept, round_of(1, 6, 31 * SECOND)).take().new
    for damaged in (memory[:40], memory[:-5] + b"-----", memory[:7]):
        again = KeptEnds(CLUSTER_ID, {number: damaged, **after})
        assert [span.end for span in again.spans("t", 0)] == [6]


def test_a_damaged_round() -> None:
    """What was before it is not known either: nobody knows what has changed in it."""
    messages = [one for number in range(3) for one in round_of(number, number, number * 30 * SECOND)]
    rounds = dict(added(KeptEnds(CLUSTER_ID, has_file=True), messages).take().new)
    again = KeptEnds(CLUSTER_ID, {**rounds, 2: b"damaged"})
    assert [span.end for span in again.spans("t", 0)] == [2]
