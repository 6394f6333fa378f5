"""Offset commits over time: how many in each bucket, by topic, and when a partition had unusually none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from groupreplay.timeline.lag import Committed

Ints = npt.NDArray[np.int64]
_Span = tuple[int, int]

#: Widths of a bucket, in milliseconds.
_BUCKETS_MS: Final = tuple(
    seconds * 1000
    for seconds in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400)
)
#: A gap between two commits of a partition is a pause if it is this many times the usual one, and this long.
_PAUSE_OF_USUAL: Final = 5
_SHORTEST_PAUSE_MS: Final = 30_000
#: Fewer commits show no usual gap.
_LEAST_COMMITS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitLog:
    """All commits of a group in log order: ``places`` (topic, partition), indexes of it, and record timestamps.

    ``gaps`` are the times, in order, of which the group's partition of the log lacks records: perhaps commits.
    ``repeats``: so many commits at least have the offset of the one before. ``moves``: place, time and offset of the
    commits and of the tombstones of offsets (-1), in log order; empty: they were not kept.
    """

    places: tuple[tuple[str, int], ...] = ()
    place: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    at_ms: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    gaps: tuple[_Span, ...] = ()
    repeats: int = 0
    moves: tuple[Ints, Ints, Ints] = field(default_factory=lambda: (np.zeros(0, np.int64),) * 3)

    def within(self, since_ms: int, until_ms: int) -> CommitLog:
        """Those at or after ``since_ms`` and before ``until_ms``."""
        kept = (self.at_ms >= since_ms) & (self.at_ms < until_ms)
        return replace(self, place=self.place[kept], at_ms=self.at_ms[kept])

    def gaps_in(self, since_ms: int, until_ms: int, within_ms: int = 0) -> list[_Span]:
        """The parts of the gaps in this time; those that are at most ``within_ms`` apart are joined."""
        spans = list[_Span]()
        for gap in self.gaps:
            begin, end = max(gap[0], since_ms), min(gap[1], until_ms)
            if end < begin or begin >= until_ms:
                continue
            if spans and begin - spans[-1][1] <= within_ms:
                spans[-1] = spans[-1][0], max(end, spans[-1][1])
            else:
                spans.append((begin, end))
        return spans

    def partitions_committed(self, since_ms: int, until_ms: int) -> set[tuple[str, int]]:
        """The partitions with a commit in this time."""
        return {self.places[number] for number in np.unique(self.within(since_ms, until_ms).place).tolist()}


@dataclass(frozen=True, slots=True)
class CommittedOffsets:
    """The offsets of one partition over time, in log order; -1: none, it was removed."""

    at_ms: Ints
    offset: Ints

    def at(self, at_ms: int) -> Committed | None:
        """What is committed at a moment; None: nothing."""
        number = int(np.searchsorted(self.at_ms, at_ms, side="right"))
        if not number or self.offset[number - 1] < 0:
            return None
        return Committed(int(self.offset[number - 1]), int(self.at_ms[number - 1]))


def committed_offsets(log: CommitLog) -> Iterator[tuple[tuple[str, int], CommittedOffsets]]:
    """Those of each topic and partition."""
    numbers, at_ms, offset = log.moves
    order = np.argsort(numbers, kind="stable")
    bounds = np.searchsorted(numbers[order], np.arange(len(log.places) + 1))
    for number, place in enumerate(log.places):
        mine = order[bounds[number] : bounds[number + 1]]
        # A clock that was set back: what is later in the log counts.
        yield place, CommittedOffsets(np.maximum.accumulate(at_ms[mine]), offset[mine])


def bucket_width_ms(span_ms: int, most: int, least_ms: int = 0) -> int:
    """The smallest width of at least ``least_ms`` with which ``most`` buckets cover the span."""
    least_ms = max(-(-span_ms // most), least_ms)
    return next((width for width in _BUCKETS_MS if least_ms <= width), least_ms)


def usual_gap_ms(log: CommitLog) -> int:
    """The median time between two commits of one partition; 0 where no partition has two."""
    order = np.lexsort((log.at_ms, log.place))
    place, at_ms = log.place[order], log.at_ms[order]
    gaps = np.diff(at_ms)[place[1:] == place[:-1]]
    return int(np.median(gaps)) if len(gaps) else 0


def commit_counts(log: CommitLog, since_ms: int, until_ms: int, bucket_ms: int) -> dict[str, list[int]]:
    """Topic -> number of commits in each bucket from ``since_ms`` on."""
    buckets = max(-(-(until_ms - since_ms) // bucket_ms), 1)
    topics = sorted({topic for topic, _ in log.places})
    number = {topic: index for index, topic in enumerate(topics)}
    topic_of = np.array([number[topic] for topic, _ in log.places], np.int64)
    seen = log.within(since_ms, until_ms)
    if not len(seen.place):
        return {}
    cells = topic_of[seen.place] * buckets + (seen.at_ms - since_ms) // bucket_ms
    counts = np.bincount(cells, minlength=len(topics) * buckets).reshape(len(topics), buckets)
    return {topic: counts[index].tolist() for index, topic in enumerate(topics) if counts[index].any()}


def pauses(log: CommitLog, since_ms: int, until_ms: int) -> dict[tuple[str, int], list[tuple[int, int]]]:
    """(topic, partition) -> when it had no commit for much longer than is usual for it, in this time.

    The time from its last commit to ``until_ms`` counts, too. Times of which the log lacks records do not.
    """
    if not len(log.place):
        return {}
    order = np.lexsort((log.at_ms, log.place))
    place, at_ms = log.place[order], log.at_ms[order]
    starts = np.flatnonzero(np.r_[True, place[1:] != place[:-1]])
    spans_of: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for begin, end in zip(starts.tolist(), [*starts[1:].tolist(), len(place)], strict=True):
        if end - begin < _LEAST_COMMITS:
            continue
        times = np.r_[at_ms[begin:end], max(until_ms, int(at_ms[end - 1]))]
        gaps = np.diff(times)
        limit = max(_PAUSE_OF_USUAL * float(np.median(gaps[:-1])), _SHORTEST_PAUSE_MS)
        spans = [
            (max(since, since_ms), min(until, until_ms))
            for at in np.flatnonzero(gaps > limit)
            for since, until in _known_parts(log, int(times[at]), int(times[at + 1]))
            if until - since > limit
        ]
        if spans := [span for span in spans if span[0] < span[1]]:
            spans_of[log.places[int(place[begin])]] = spans
    return spans_of


def _known_parts(log: CommitLog, since_ms: int, until_ms: int) -> Iterator[_Span]:
    """The parts of a time of which the log has every record."""
    for begin, end in log.gaps_in(since_ms, until_ms):
        yield since_ms, begin
        since_ms = end
    yield since_ms, until_ms
