"""The recorded ends of partitions, collected from the messages of the topic of probes as they are read."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from groupreplay.streaming.contract.log import keys_and_values
from groupreplay.streaming.contract.messages import RESERVED
from groupreplay.streaming.contract.partition_ends import EndsChanges, EndsRound, PartitionEnds, TopicEnds
from groupreplay.streaming.contract.probe_messages import ProbeMessage, decode_message
from groupreplay.streaming.sources.source import Rows
from groupreplay.streaming.sources.unpacked_ends import UnpackedEnds
from groupreplay.timeline.lag import EndSpan

GONE: Final = "the topic was deleted, or may no longer be described"


@dataclass(frozen=True, slots=True)
class _Change:
    """What a round has found of a partition; text: why nothing."""

    number: int
    first_ms: int
    taken_ms: int
    topic_id: str
    ends: PartitionEnds | str


@dataclass(slots=True)
class _Writer:
    """One process of the prober: its complete rounds with the time before the first request, and what has changed."""

    rounds: dict[int, int] = field(default_factory=dict)
    changes: dict[tuple[str, int], list[_Change]] = field(default_factory=dict)


class RecordedEnds:
    """The ends of one cluster's partitions. Messages may be added in any order before the first question."""

    def __init__(self, cluster_id: str) -> None:
        self._cluster_id = cluster_id
        self._writers: dict[str, _Writer] = {}
        self._gone: list[TopicEnds] = []
        self._unread: list[TopicEnds | EndsChanges | EndsRound] = []
        self._unpacked = UnpackedEnds()
        self._now: dict[tuple[str, int], EndSpan] = {}

    def __bool__(self) -> bool:
        self._read()
        return any(writer.changes for writer in self._writers.values()) or bool(self._now)

    def reading(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches of the topic of probes, noting the ends in them."""
        for batch in batches:
            for key, value in keys_and_values(batch):
                if key is not None and key.startswith(RESERVED):
                    self.add(decode_message(key, value))
            yield batch

    def add(self, message: ProbeMessage | None) -> None:
        """Note a message, if it is about ends."""
        if not isinstance(message, TopicEnds | EndsChanges | EndsRound):
            return
        if message.cluster_id == self._cluster_id:
            self._unread.append(message)

    def _read(self) -> None:
        """Notes what was added: packed messages are told by those before them."""
        # Statements of a round are before its changes. A part that was written later is in its place, too.
        in_order = sorted(
            self._unread,
            key=lambda message: (message.number, message.part + 1 if isinstance(message, EndsChanges) else 0),
        )
        self._unread = []
        for message in in_order:
            for plain in self._unpacked.read(message):
                self._note(plain)

    def _note(self, message: TopicEnds | EndsRound) -> None:
        writer = self._writers.setdefault(message.writer, _Writer())
        if isinstance(message, EndsRound):
            writer.rounds[message.number] = message.taken_ms
        elif message.gone:
            self._gone.append(message)
        else:
            answers: dict[int, PartitionEnds | str] = {**message.partitions, **message.unknown}
            for number, ends in answers.items():
                change = _Change(
                    message.number, message.answered_ms, message.taken_ms, message.topic_id, ends
                )
                writer.changes.setdefault((message.topic, number), []).append(change)

    def add_now(self, topic_id: str, topic: str, partition: int, ends: PartitionEnds, at_ms: int) -> None:
        """Note what a leader has answered just now."""
        self._now[topic, partition] = _span(topic_id, ends, at_ms, at_ms)

    def spans(self, topic: str, partition: int) -> tuple[EndSpan, ...]:
        """All that is known of a partition, in the order of its times."""
        self._read()
        spans = [
            span
            for name, writer in self._writers.items()
            if (topic, partition) in writer.changes
            for span in self._of_writer(name, writer, topic, partition)
        ]
        now = self._now.get((topic, partition))
        return tuple(sorted([*spans, *([now] if now else [])], key=lambda span: span.first_ms))

    def _of_writer(self, name: str, writer: _Writer, topic: str, partition: int) -> Iterator[EndSpan]:
        numbers = sorted(writer.rounds)
        gone = [
            _Change(message.number, message.answered_ms, message.taken_ms, message.topic_id, GONE)
            for message in self._gone
            if message.topic == topic and message.writer == name
        ]
        changes = sorted([*writer.changes[topic, partition], *gone], key=lambda change: change.number)
        for place, change in enumerate(changes):
            is_last = place + 1 == len(changes)
            end = len(numbers) if is_last else bisect_left(numbers, changes[place + 1].number)
            # The last complete round before the next change found the same ends.
            same = numbers[end - 1] if end and numbers[end - 1] > change.number else None
            last_ms = change.taken_ms if same is None else writer.rounds[same]
            yield _span(change.topic_id, change.ends, change.first_ms, last_ms)


def _span(topic_id: str, ends: PartitionEnds | str, first_ms: int, last_ms: int) -> EndSpan:
    if isinstance(ends, str):
        return EndSpan(topic_id=topic_id, first_ms=first_ms, last_ms=last_ms, unknown=ends)
    return EndSpan(
        topic_id=topic_id,
        first_ms=first_ms,
        last_ms=last_ms,
        start=ends.start,
        end=ends.end,
        stable=ends.stable,
        more=ends.more,
        epoch=ends.epoch,
    )


def recorded_ends(rows: Rows) -> tuple[RecordedEnds, Rows]:
    """The ends in the probes of these rows, which are complete when the rows that are returned were read."""
    ends = RecordedEnds(rows.cluster_id)
    return ends, replace(rows, probes=ends.reading(rows.probes))
