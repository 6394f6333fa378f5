"""The messages about ends as they were before they were packed: what each round has found, by topic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np

from groupreplay.streaming.contract.end_columns import MOST_PLACES, EndsTable, Ints, unpack_columns
from groupreplay.streaming.contract.partition_ends import EndsChanges, EndsRound, PartitionEnds, TopicEnds

#: The number of a round before which nothing was stated of a place.
_NEVER: Final = -1
UNREAD: Final = "how the ends of the partition went on is missing in what was read"


@dataclass(frozen=True, slots=True)
class _Topic:
    """Whose partitions have the places from ``first`` on."""

    name: str
    topic_id: str
    first: int

    def message(self, of: EndsChanges) -> TopicEnds:
        """One of this topic, of the same round."""
        return TopicEnds(
            cluster_id=of.cluster_id,
            writer=of.writer,
            number=of.number,
            taken_ms=of.taken_ms,
            answered_ms=of.answered_ms,
            interval_ms=of.interval_ms,
            topic=self.name,
            topic_id=self.topic_id,
        )


@dataclass(slots=True)
class _Writer:
    """The table of one process of the prober, as far as it was read."""

    table: EndsTable = field(default_factory=EndsTable)
    #: By place: the round in which it was stated, and the number of its topic.
    stated: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    topic: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    topics: list[_Topic] = field(default_factory=list)
    #: The last changes, and whether the next ones can be told by them.
    last: tuple[int, int] | None = None
    _is_told: bool = False

    def state(self, message: TopicEnds) -> TopicEnds | None:
        """The same with all partitions one by one; None: it is no message of a prober."""
        assert message.place is not None
        try:
            gaps, ends, starts, waiting, shifts, epochs = unpack_columns(message.packed, 6)
        except ValueError:
            return None
        numbers = np.cumsum(gaps)
        count = int(max(numbers.max(initial=-1), max(message.unknown, default=-1))) + 1
        columns = {len(column) for column in (numbers, ends, starts, waiting, shifts, epochs)}
        is_sound = len(columns) == 1 and 0 <= count <= MOST_PLACES - message.place
        if not is_sound or np.any(np.diff(numbers) <= 0) or int(shifts.max(initial=0)) > 62:
            return None
        self._grow(message.place + count)
        places = message.place + numbers
        self.table.state(places, ends, starts, waiting, shifts, epochs - 1)
        self.stated[places] = message.number
        self.stated[[message.place + number for number in message.unknown]] = _NEVER
        topic = _Topic(message.topic, message.topic_id, message.place)
        if not self.topics or self.topics[-1] != topic:
            self.topics.append(topic)
        self.topic[message.place : message.place + count] = len(self.topics) - 1
        partitions = dict(zip(numbers.tolist(), self._ends(places), strict=True))
        return msgspec.structs.replace(message, place=None, packed=b"", partitions=partitions)

    def change(self, message: EndsChanges) -> Iterator[TopicEnds]:
        """What has changed, by topic; nothing of partitions that were not stated since a message is missing."""
        if self.last is not None and (message.number, message.part) <= self.last:
            return
        self._grow(message.places)
        if message.after is not None and (self.last is None or self.last[0] != message.after):
            self._is_told = False
            yield from self._forgotten(message)
        self.last = message.number, message.part
        self._is_told = self._is_told or message.alone
        try:
            if not self._is_told:
                raise ValueError("the changes before are not known")
            changes = self.table.unpacked(message.packed)
        except ValueError:
            self._is_told = False
            yield from self._forgotten(message)
            return
        self.table.apply(changes)
        moved = [changes.places, changes.start_places, changes.waiting_places, changes.epoch_places]
        places = np.unique(np.concatenate(moved))
        places = places[(self.stated[places] != _NEVER) & (self.table.end[places] >= 0)]
        for topic, at in self._by_topic(places):
            partitions = dict(zip((at - topic.first).tolist(), self._ends(at), strict=True))
            yield msgspec.structs.replace(topic.message(message), partitions=partitions)

    def _by_topic(self, places: Ints) -> Iterator[tuple[_Topic, Ints]]:
        places = places[np.argsort(self.topic[places], kind="stable")]
        borders = np.flatnonzero(np.diff(self.topic[places])) + 1
        for at in np.split(places, borders) if len(places) else ():
            yield self.topics[int(self.topic[at[0]])], at

    def _forgotten(self, message: EndsChanges) -> Iterator[TopicEnds]:
        """What was stated before this round may have changed in one that was not read."""
        places = np.flatnonzero((self.stated != _NEVER) & (self.stated < message.number))
        self.stated[places] = _NEVER
        for topic, at in self._by_topic(places):
            unknown = dict.fromkeys((at - topic.first).tolist(), UNREAD)
            yield msgspec.structs.replace(topic.message(message), unknown=unknown)

    def _ends(self, places: Ints) -> Iterator[PartitionEnds]:
        table = self.table
        columns = (table.start, table.end, table.waiting, table.epoch, table.more)
        for start, end, waiting, epoch, more in np.column_stack(
            [column[places] for column in columns]
        ).tolist():
            yield PartitionEnds(start, end, max(end - waiting, 0), epoch, more)

    def _grow(self, count: int) -> None:
        missing = count - len(self.stated)
        if missing > 0:
            self.table.grow(count)
            self.stated = np.concatenate([self.stated, np.full(missing, _NEVER, np.int64)])
            self.topic = np.concatenate([self.topic, np.full(missing, -1, np.int64)])


@dataclass(slots=True)
class UnpackedEnds:
    """Of one cluster. The messages of a writer are given in the order in which it has written them."""

    _writers: dict[str, _Writer] = field(default_factory=dict)

    def read(self, message: TopicEnds | EndsChanges | EndsRound) -> Iterator[TopicEnds | EndsRound]:
        """What a message says; one that is not packed says itself."""
        if isinstance(message, EndsChanges):
            yield from self._writers.setdefault(message.writer, _Writer()).change(message)
        elif isinstance(message, TopicEnds) and message.place is not None:
            stated = self._writers.setdefault(message.writer, _Writer()).state(message)
            if stated is not None:
                yield stated
        else:
            yield message
