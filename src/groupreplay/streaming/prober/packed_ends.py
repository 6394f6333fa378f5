"""The rounds of the recorder as they are written to the topic of probes: small, and bounded in bytes a day.

A topic is stated as a whole at first, once in 240 rounds, and whenever it is another one; all else is the changes of a
round. If those take more than 36 MB a day, ends are rounded: by at most the records that come to the partition in 1.25
intervals, and not at all where none has come in the last one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from zlib import crc32

import numpy as np

from groupreplay.streaming.contract.end_columns import EndColumns, Ints, pack_columns
from groupreplay.streaming.contract.partition_ends import EndsChanges, EndsRound, PartitionEnds, TopicEnds
from groupreplay.streaming.contract.predicted_ends import (
    PLACES_A_MESSAGE,
    ROUNDING_PARTS,
    PredictedEnds,
)
from groupreplay.streaming.prober.ends import EndsTaken, WrittenTopic

log = logging.getLogger(__name__)

#: A topic is stated as a whole once in so many rounds, for readers of a part of the topic of probes.
WHOLE_ROUNDS: Final = 240
#: Changes stand alone once in so many rounds: whoever begins to read understands those that follow.
_ALONE_ROUNDS: Final = 40
#: Partitions in one statement, about 50 KB.
_PARTITIONS_A_STATEMENT: Final = 5_000
#: What the changes of a day may take: with the statements of 100 000 partitions, which take 13 MB, less than 50 MB.
BYTES_A_DAY: Final = 36_000_000
_DAY_MS: Final = 86_400_000
#: To how many eighths of an interval of a partition's growth its end is rounded: to more, until it is enough.
ROUNDINGS: Final = (0, 1, 2, 4, 8, 10)
#: Rounds in a row over the limit until ends are rounded more; rounds below a third of it until they are rounded less.
_PATIENCE: Final = 3
_CALM_ROUNDS: Final = 120
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


Message: TypeAlias = "TopicEnds | EndsChanges"


@dataclass(slots=True)
class EndsPacker:
    """One recorder's rounds. Call ``forget`` when a round was not written."""

    bytes_a_day: int = BYTES_A_DAY
    roundings: tuple[int, ...] = ROUNDINGS
    _stated: dict[str, _Stated] = field(default_factory=dict)
    _table: PredictedEnds = field(default_factory=PredictedEnds)
    #: The ends themselves.
    _now: EndColumns = field(default_factory=EndColumns)
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
        return self.roundings[self._level] / ROUNDING_PARTS

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
            self._stated, self._table, self._now = {}, PredictedEnds(), EndColumns()
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
        return None if np.any(rows.ends < self._now.end[rows.places]) else rows

    def _statements(self, name: str, topic: WrittenTopic, complete: EndsRound) -> Iterator[TopicEnds]:
        count = max(topic.partitions, default=-1) + 1
        before = self._stated.get(name)
        place = before.place if before is not None and before.count >= count else self._next_place
        self._next_place = max(self._next_place, place + count)
        self._table.grow(self._next_place)
        self._now.grow(self._next_place)
        unknown = {n: why for n, why in topic.partitions.items() if isinstance(why, str)}
        self._stated[name] = _Stated(topic.topic_id, place, count, frozenset(unknown))
        numbers = sorted(topic.partitions)
        for first in range(0, len(numbers), _PARTITIONS_A_STATEMENT):
            chunk = numbers[first : first + _PARTITIONS_A_STATEMENT]
            known = {n: of for n in chunk if isinstance(of := topic.partitions[n], PartitionEnds)}
            rows = _Rows.of(place, known)
            paces = self._table.paces(rows.places)
            self._table.state(rows.places, rows.ends, rows.starts, rows.waiting, paces, rows.epochs)
            self._note(rows)
            gaps = np.diff(rows.places - place, prepend=np.int64(0))
            # The least epoch is -1.
            columns = [gaps, rows.ends, rows.starts, rows.waiting, paces, rows.epochs + 1]
            yield TopicEnds(
                **_of_round(complete),
                topic=name,
                topic_id=topic.topic_id,
                unknown={n: unknown[n] for n in chunk if n in unknown},
                place=place,
                packed=pack_columns(columns),
                predicted=True,
            )

    def _changes(self, rows: _Rows, complete: EndsRound) -> list[EndsChanges]:
        grown = np.zeros(self._next_place, np.bool_)
        grown[rows.places] = rows.ends > self._now.end[rows.places]
        self._note(rows)
        alone = self._after is None or complete.number - self._alone >= _ALONE_ROUNDS
        parts = range(-(-self._next_place // PLACES_A_MESSAGE))
        rounding = self.roundings[self._level]
        packed = [self._table.tell(part, self._now, grown, rounding, alone=alone) for part in parts]
        self._judge(sum(map(len, packed)), complete.interval_ms)
        if not any(packed):
            return []
        after, self._after = self._after, complete.number
        self._alone = complete.number if alone else self._alone
        return [
            EndsChanges(
                **_of_round(complete),
                after=after,
                alone=alone,
                places=self._next_place,
                part=part,
                rounding=rounding,
                packed=content,
            )
            for part, content in enumerate(packed)
        ]

    def _note(self, rows: _Rows) -> None:
        now, at = self._now, rows.places
        now.end[at], now.start[at], now.waiting[at], now.epoch[at] = (
            rows.ends,
            rows.starts,
            rows.waiting,
            rows.epochs,
        )

    def _judge(self, size: int, interval_ms: int) -> None:
        """Round more if the changes of some rounds were too large, and less after an hour of small ones."""
        limit = self.bytes_a_day * interval_ms / _DAY_MS
        self._over = self._over + 1 if size > limit else 0
        self._calm = self._calm + 1 if size < limit / 3 else 0
        step = int(self._over >= _PATIENCE) - int(self._calm >= _CALM_ROUNDS)
        level = min(max(self._level + step, 0), len(self.roundings) - 1)
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
