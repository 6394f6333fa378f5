"""The rounds of the recorder as they are written to the topic of probes: small, and bounded in bytes a day.

A topic is stated as a whole at first, once in 240 rounds, and whenever it is another one; all else is the changes of a
round. If those take more than 36 MB a day, ends are rounded: by at most the records that come to the partition in two
intervals, and not at all where none has come in the last one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from groupreplay.streaming.contract.end_columns import EndChanges, EndsTable, Ints, pack_columns
from groupreplay.streaming.contract.partition_ends import EndsChanges, EndsRound, PartitionEnds, TopicEnds
from groupreplay.streaming.prober.ends import EndsTaken, WrittenTopic

log = logging.getLogger(__name__)

#: A topic is stated as a whole once in so many rounds, for readers of a part of the topic of probes.
WHOLE_ROUNDS: Final = 240
#: Changes stand alone once in so many rounds: whoever begins to read understands those that follow.
_ALONE_ROUNDS: Final = 20
#: Partitions in one statement, about 50 KB, and places in one message of changes, which takes 150 KB or so.
_PARTITIONS_A_STATEMENT: Final = 5_000
_PLACES_A_MESSAGE: Final = 100_000
#: What the changes of a day may take: with the statements of 100 000 partitions, which take 13 MB, less than 50 MB.
BYTES_A_DAY: Final = 36_000_000
_DAY_MS: Final = 86_400_000
#: To how many intervals of a partition's growth its end is rounded: to more and more, until it is enough.
_ROUNDINGS: Final = (0.0, 1 / 8, 1 / 4, 1 / 2, 0.8, 1.3)
#: So far, in powers of two, the growth of a partition may move away before it is rounded by another one.
_SLACK: Final = 0.6
#: Rounds in a row over the limit until ends are rounded more; rounds below a third of it until they are rounded less.
_PATIENCE: Final = 3
_CALM_ROUNDS: Final = 120
#: The growth of a partition is an average of about so many rounds.
_MEMORY_ROUNDS: Final = 16
#: All topics get other places when those of topics that are gone are so many.
_UNUSED_PLACES: Final = 100_000


@dataclass(frozen=True, slots=True)
class _Stated:
    """A topic as it was stated: its id, the place of its partition 0, and which partitions had no answer."""

    topic_id: str
    place: int
    count: int
    unknown: frozenset[int]


@dataclass(frozen=True, slots=True)
class _Rows:
    """Partitions by place: end, log start offset, the end minus the last stable offset, and the leader's epoch."""

    places: Ints
    ends: Ints
    starts: Ints
    waiting: Ints
    epochs: Ints

    @classmethod
    def of(cls, first: int, partitions: Mapping[int, PartitionEnds]) -> _Rows:
        """Of partitions of one topic, in ascending order."""
        rows = [(n, of.end, of.start, of.end - of.stable, of.epoch) for n, of in sorted(partitions.items())]
        table = np.array(rows, np.int64).reshape(len(rows), 5)
        return cls(first + table[:, 0], *table.T[1:])

    @classmethod
    def joined(cls, rows: Sequence[_Rows]) -> _Rows:
        """All of them, in ascending order."""
        if not rows:
            return cls.of(0, {})
        places = np.concatenate([one.places for one in rows])
        order = np.argsort(places)
        columns = ([getattr(one, name) for one in rows] for name in ("ends", "starts", "waiting", "epochs"))
        return cls(places[order], *(np.concatenate(column)[order] for column in columns))


@dataclass(slots=True)
class _Paces:
    """By place: the end itself, how many records come in a round, and whether a transaction was ever open."""

    ends: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    growth: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    transactional: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))

    def grow(self, count: int) -> None:
        """Make room for so many places."""
        missing = count - len(self.ends)
        if missing > 0:
            self.ends = np.concatenate([self.ends, np.zeros(missing, np.int64)])
            self.growth = np.concatenate([self.growth, np.zeros(missing)])
            self.transactional = np.concatenate([self.transactional, np.zeros(missing, bool)])

    def state(self, rows: _Rows) -> None:
        """These begin."""
        self.ends[rows.places] = rows.ends
        self.transactional[rows.places] |= rows.waiting > 0

    def note(self, rows: _Rows) -> NDArray[np.bool_]:
        """A round in which all else has not changed; returns which of the rows have grown."""
        growth = rows.ends - self.ends[rows.places]
        self.growth *= 1 - 1 / _MEMORY_ROUNDS
        self.growth[rows.places] += growth / _MEMORY_ROUNDS
        self.state(rows)
        return growth > 0

    def shifts(self, places: Ints, before: Ints, rounding: float) -> Ints:
        """To which powers of two the ends of these places are to be rounded; seldom other ones than before."""
        exact = np.log2(np.maximum(self.growth[places] * rounding, 1.0))
        exact[self.transactional[places]] = 0
        is_near = (exact > 0) & (exact >= before - _SLACK) & (exact < before + 1 + _SLACK)
        return np.where(is_near, before, exact.astype(np.int64))


Message: TypeAlias = "TopicEnds | EndsChanges"


@dataclass(slots=True)
class EndsPacker:
    """One recorder's rounds. Call ``forget`` when a round was not written."""

    bytes_a_day: int = BYTES_A_DAY
    _stated: dict[str, _Stated] = field(default_factory=dict)
    _table: EndsTable = field(default_factory=EndsTable)
    _paces: _Paces = field(default_factory=_Paces)
    _next_place: int = 0
    _is_lost: bool = False
    _after: int | None = None
    _alone: int = 0
    _level: int = 0
    _over: int = 0
    _calm: int = 0

    @property
    def rounding(self) -> float:
        """To how many intervals of a partition's growth its end is rounded; 0: it is not."""
        return _ROUNDINGS[self._level]

    def forget(self) -> None:
        """What was packed last may not have been written: all topics are stated again."""
        self._is_lost = True

    def pack(self, taken: EndsTaken) -> list[Message]:
        """What is written before the round's own message."""
        self._begin(taken)
        number = taken.complete.number
        messages = list[Message]()
        changed = dict[str, list[TopicEnds]]()
        for message in taken.messages:
            if message.gone:
                self._stated.pop(message.topic, None)
                messages.append(message)
            else:
                changed.setdefault(message.topic, []).append(message)
        rows = list[_Rows]()
        for name, topic in taken.topics.items():
            is_due = (number + crc32(name.encode())) % WHOLE_ROUNDS == 0
            changes = None if is_due else self._changed_rows(name, topic, changed.get(name, ()))
            if changes is None:
                messages += self._statements(name, topic, taken.complete)
            elif len(changes.places):
                rows.append(changes)
        return [*messages, *self._changes(_Rows.joined(rows), taken.complete)]

    def _begin(self, taken: EndsTaken) -> None:
        has_unused = self._next_place > 4 * taken.complete.partitions + _UNUSED_PLACES
        if has_unused or self._is_lost:
            self._stated, self._table, self._paces = {}, EndsTable(), _Paces()
            self._next_place, self._after, self._is_lost = 0, None, False

    def _changed_rows(self, name: str, topic: WrittenTopic, messages: Sequence[TopicEnds]) -> _Rows | None:
        """What has changed in a topic; None: it must be stated as a whole."""
        stated = self._stated.get(name)
        if stated is None or stated.topic_id != topic.topic_id:
            return None
        partitions = {number: ends for message in messages for number, ends in message.partitions.items()}
        is_other = (
            any(message.unknown for message in messages)
            or not stated.unknown.isdisjoint(partitions)
            or any(number >= stated.count for number in partitions)
        )
        if is_other:
            return None
        rows = _Rows.of(stated.place, partitions)
        # The log was cut.
        return None if np.any(rows.ends < self._table.end[rows.places]) else rows

    def _statements(self, name: str, topic: WrittenTopic, complete: EndsRound) -> Iterator[TopicEnds]:
        count = max(topic.partitions, default=-1) + 1
        before = self._stated.get(name)
        place = before.place if before is not None and before.count >= count else self._next_place
        self._next_place = max(self._next_place, place + count)
        self._table.grow(self._next_place)
        self._paces.grow(self._next_place)
        unknown = {n: why for n, why in topic.partitions.items() if isinstance(why, str)}
        self._stated[name] = _Stated(topic.topic_id, place, count, frozenset(unknown))
        numbers = sorted(topic.partitions)
        for first in range(0, len(numbers), _PARTITIONS_A_STATEMENT):
            chunk = numbers[first : first + _PARTITIONS_A_STATEMENT]
            known = {n: of for n in chunk if isinstance(of := topic.partitions[n], PartitionEnds)}
            rows = _Rows.of(place, known)
            shifts = self._table.shift[rows.places]
            self._table.state(rows.places, rows.ends, rows.starts, rows.waiting, shifts, rows.epochs)
            self._paces.state(rows)
            gaps = np.diff(rows.places - place, prepend=np.int64(0))
            # The least epoch is -1.
            columns = [gaps, rows.ends, rows.starts, rows.waiting, shifts, rows.epochs + 1]
            yield TopicEnds(
                **_of_round(complete),
                topic=name,
                topic_id=topic.topic_id,
                unknown={n: unknown[n] for n in chunk if n in unknown},
                place=place,
                packed=pack_columns(columns),
            )

    def _changes(self, rows: _Rows, complete: EndsRound) -> Iterator[EndsChanges]:
        changes = self._end_changes(rows)
        size = 0
        for part, low in enumerate(range(0, self._next_place, _PLACES_A_MESSAGE)):
            of_part = changes.between(low, low + _PLACES_A_MESSAGE)
            if not of_part:
                continue
            is_due = self._after is None or complete.number - self._alone >= _ALONE_ROUNDS
            packed, is_alone = self._table.packed(of_part, alone=is_due)
            self._table.apply(of_part)
            size += len(packed)
            yield EndsChanges(
                **_of_round(complete),
                after=self._after,
                alone=is_alone,
                places=self._next_place,
                part=part,
                packed=packed,
            )
            self._after = complete.number
            self._alone = complete.number if is_alone else self._alone
        self._judge(size, complete.interval_ms)

    def _end_changes(self, rows: _Rows) -> EndChanges:
        table = self._table
        has_grown = self._paces.note(rows)
        grown = rows.places[has_grown]
        # An end that stands still is written as it is, and so is one that waits for a transaction.
        exact = np.flatnonzero(table.more)
        waiting = rows.places[rows.waiting > 0]
        exact = exact[~np.isin(exact, grown) | np.isin(exact, waiting)]
        beyond = grown[rows.ends[has_grown] > (table.end + table.more)[grown]]
        places = np.union1d(exact, beyond)
        before = table.shift[places]
        shifts = self._paces.shifts(places, before, self.rounding)
        shifts[np.isin(places, exact)] = 0
        other_starts = rows.starts != table.start[rows.places]
        other_waiting = rows.waiting != table.waiting[rows.places]
        other_epochs = rows.epochs != table.epoch[rows.places]
        return EndChanges(
            places=places,
            steps=(self._paces.ends[places] - table.end[places]) >> shifts,
            start_places=rows.places[other_starts],
            start_steps=(rows.starts - table.start[rows.places])[other_starts],
            waiting_places=rows.places[other_waiting],
            waiting=rows.waiting[other_waiting],
            shift_places=places[shifts != before],
            shifts=shifts[shifts != before],
            epoch_places=rows.places[other_epochs],
            epoch_steps=(rows.epochs - table.epoch[rows.places])[other_epochs],
        )

    def _judge(self, size: int, interval_ms: int) -> None:
        """Round more if the changes of some rounds were too large, and less after an hour of small ones."""
        limit = self.bytes_a_day * interval_ms / _DAY_MS
        self._over = self._over + 1 if size > limit else 0
        self._calm = self._calm + 1 if size < limit / 3 else 0
        step = int(self._over >= _PATIENCE) - int(self._calm >= _CALM_ROUNDS)
        level = min(max(self._level + step, 0), len(_ROUNDINGS) - 1)
        if step:
            self._over = self._calm = 0
        if level != self._level:
            self._level = level
            log.info(
                "ends of partitions are recorded to within %g intervals of each one's growth now (docs/lag.md): "
                "the changes of a round took %d bytes, %d MB a day are meant for them",
                self.rounding,
                size,
                self.bytes_a_day // 1_000_000,
            )


def _of_round(complete: EndsRound) -> dict[str, Any]:
    fields = ("cluster_id", "writer", "number", "taken_ms", "answered_ms", "interval_ms")
    return {name: getattr(complete, name) for name in fields}
