"""The ends of all partitions as they are written, in bounded memory: recent answers one by one, older ones thinned out.

For processes that follow the topic of probes for ever. An answer that is left out makes bounds wider, never wrong. A
partition takes 1.2 KB at most.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from groupreplay.streaming.contract.partition_ends import EndsRound, PartitionEnds, TopicEnds
from groupreplay.streaming.contract.probe_messages import ProbeMessage
from groupreplay.streaming.sources.recorded_ends import GONE
from groupreplay.timeline.lag import EndSpan

#: Spans of a partition, and how many of the newest are never left out.
_MOST_SPANS: Final = 24
_NEWEST: Final = 12
#: Numbers of a span: first_ms, last_ms, start, end, stable.
_WIDTH: Final = 5
_LAST: Final = 1 - _WIDTH


@dataclass(slots=True)
class _Writer:
    """One process of the prober: the time before its last complete round."""

    taken_ms: int = 0


@dataclass(slots=True)
class _Series:
    """The spans of a partition as numbers, and of each its topic id and why it is not known."""

    writer: str = ""
    numbers: array[int] = field(default_factory=lambda: array("q"))
    about: list[tuple[str, str]] = field(default_factory=list)


class LatestEnds:
    """The ends of one cluster's partitions; messages are added in the order in which they were written."""

    def __init__(self, cluster_id: str) -> None:
        self._cluster_id = cluster_id
        self._writers: dict[str, _Writer] = {}
        self._topics: dict[str, dict[int, _Series]] = {}
        self.answered_ms = 0

    def __bool__(self) -> bool:
        return bool(self._topics)

    def add(self, message: ProbeMessage | None) -> None:
        """Note a message, if it is about ends."""
        if not isinstance(message, TopicEnds | EndsRound) or message.cluster_id != self._cluster_id:
            return
        writer = self._writers.setdefault(message.writer, _Writer())
        if isinstance(message, EndsRound):
            writer.taken_ms = message.taken_ms
            self.answered_ms = max(self.answered_ms, message.answered_ms)
            return
        partitions = self._topics.setdefault(message.topic, {})
        answers: Mapping[int, PartitionEnds | str] = {**message.partitions, **message.unknown}
        if message.gone:
            answers = dict.fromkeys(partitions, GONE)
        for number, ends in answers.items():
            series = partitions.setdefault(number, _Series())
            _add(series, writer.taken_ms, message, ends)

    def spans(self, topic: str, partition: int) -> tuple[EndSpan, ...]:
        """What is known of a partition, in the order of its times."""
        series = self._topics.get(topic, {}).get(partition)
        if series is None:
            return ()
        spans = list(_spans(series))
        return (*spans[:-1], _until(spans[-1], self._writers[series.writer].taken_ms))


def _add(series: _Series, taken_ms: int, message: TopicEnds, ends: PartitionEnds | str) -> None:
    numbers, about = series.numbers, series.about
    if numbers and series.writer == message.writer:
        # The last complete round found the same as before.
        numbers[_LAST] = max(numbers[_LAST], taken_ms)
    known = (ends.start, ends.end, ends.stable) if isinstance(ends, PartitionEnds) else (0, 0, 0)
    same = (message.topic_id, ends if isinstance(ends, str) else "")
    if numbers and about[-1] == same and tuple(numbers[-3:]) == known:
        numbers[_LAST] = max(numbers[_LAST], message.taken_ms)
        series.writer = message.writer
        return
    series.writer = message.writer
    numbers.extend((message.answered_ms, message.taken_ms, *known))
    about.append(about[-1] if about and about[-1] == same else same)
    if len(about) > _MOST_SPANS:
        _thin(series)


def _thin(series: _Series) -> None:
    """Leaves out every other one of the older spans, but none at which the log or the answer is another one."""
    kept = [
        place
        for place, about in enumerate(series.about)
        if place >= len(series.about) - _NEWEST or place % 2 == 0 or about != series.about[place - 1]
    ]
    # Many different logs: the oldest are forgotten.
    kept = kept[-(_MOST_SPANS - 1) :]
    numbers = series.numbers
    series.numbers = array("q", (n for at in kept for n in numbers[at * _WIDTH : (at + 1) * _WIDTH]))
    series.about = [series.about[at] for at in kept]


def _spans(series: _Series) -> Iterator[EndSpan]:
    for place, (topic_id, unknown) in enumerate(series.about):
        first_ms, last_ms, start, end, stable = series.numbers[place * _WIDTH : (place + 1) * _WIDTH]
        yield EndSpan(
            topic_id=topic_id,
            first_ms=first_ms,
            last_ms=last_ms,
            start=start,
            end=end,
            stable=stable,
            unknown=unknown,
        )


def _until(span: EndSpan, taken_ms: int) -> EndSpan:
    """The newest span, which holds up to the last complete round."""
    return EndSpan(
        topic_id=span.topic_id,
        first_ms=span.first_ms,
        last_ms=max(span.last_ms, taken_ms),
        start=span.start,
        end=span.end,
        stable=span.stable,
        unknown=span.unknown,
    )
