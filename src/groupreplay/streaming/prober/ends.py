"""The prober's second series: the ends of partitions, of which only what has changed is written (``packed_ends``).

It has a thread and clients of its own: rounds for rebalancing groups never wait for it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Final, Protocol
from zlib import crc32

from groupreplay.streaming.base.background import Background
from groupreplay.streaming.contract.partition_ends import (
    EndsChanges,
    EndsRound,
    PartitionEnds,
    TopicEnds,
)
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.log_ends import Place, ReadableTopics, RepeatedEnds, TopicLayout

#: A topic is written whole once in so many rounds, for readers of a part of the topic of probes.
_WHOLE_ROUNDS: Final = 120
#: Log start offsets are asked for once in so many rounds, which saves a fourth of the time.
_STARTS_ROUNDS: Final = 10
#: Partitions in one message: about 200 KB, below the limit of every topic.
_PARTITIONS_A_MESSAGE: Final = 5_000
_NO_LEADER: Final = "the partition has no leader"
_NO_ANSWER: Final = "the leader of the partition did not answer"


@dataclass(frozen=True, slots=True)
class WrittenTopic:
    """What is known of a topic: its id, and by partition its ends, or why they are not known."""

    topic_id: str
    partitions: Mapping[int, PartitionEnds | str]


@dataclass(frozen=True, slots=True)
class EndsTaken:
    """One round: its messages, and all topics as they are then. ``complete`` is written after ``messages``."""

    messages: tuple[TopicEnds, ...]
    complete: EndsRound
    topics: Mapping[str, WrittenTopic] = field(default_factory=dict)


class EndsRecorder:
    """Asks one cluster; ``left_out`` are topics that are not asked for.

    ``topics`` is called once in a round, and again with the names of topics that may have been created anew.
    """

    def __init__(
        self,
        *,
        topics: Callable[[Collection[str]], ReadableTopics],
        ends: Callable[[Collection[Place], Mapping[Place, int]], Mapping[Place, PartitionEnds]],
        cluster_id: str,
        clock: Callable[[], int],
        interval_ms: int,
        left_out: Collection[str] = (),
    ) -> None:
        self._topics, self._ends = topics, ends
        self._cluster_id, self._clock, self._interval_ms = cluster_id, clock, interval_ms
        self._left_out = frozenset(left_out)
        self._writer = uuid.uuid4().hex[:12]
        self._number = -1
        self._written: Mapping[str, WrittenTopic] = {}

    def take(self) -> EndsTaken:
        """Ask once. Call ``remember`` after the messages were written.

        Raises:
            GroupReplayError: no broker answers.
        """
        self._number += 1
        taken_ms = self._clock()
        now = self._topics_now()
        answered_ms = max(taken_ms, self._clock())
        messages = [
            message
            for name in sorted(now)
            for message in self._changes(name, now[name], taken_ms, answered_ms)
        ]
        messages += [
            self._message(name, self._written[name].topic_id, {}, taken_ms, answered_ms, gone=True)
            for name in sorted(self._written.keys() - now.keys())
        ]
        complete = EndsRound(
            cluster_id=self._cluster_id,
            writer=self._writer,
            number=self._number,
            taken_ms=taken_ms,
            answered_ms=answered_ms,
            interval_ms=self._interval_ms,
            topics=len(now),
            partitions=sum(len(topic.partitions) for topic in now.values()),
        )
        return EndsTaken(tuple(messages), complete, now)

    def remember(self, taken: EndsTaken) -> None:
        """The round was written: the next one is compared with it."""
        self._written = taken.topics

    def _topics_now(self) -> dict[str, WrittenTopic]:
        readable, layouts = self._readable(())
        ends = self._ends(_led(layouts), self._starts(layouts))
        if shorter := self._shorter(ends):
            readable, layouts = self._readable(shorter)
            # With their log start offsets: those of a topic of before say nothing of this one.
            again = {name: layout for name, layout in layouts.items() if name in shorter}
            ends = {**ends, **self._ends(_led(again), {})}
        now = {name: _topic_now(name, layout, ends) for name, layout in layouts.items()}
        for name in readable.refused.keys() & self._written.keys():
            before = self._written[name]
            unknown = dict.fromkeys(before.partitions, readable.refused[name])
            now[name] = WrittenTopic(before.topic_id, unknown)
        return now

    def _readable(self, doubted: Collection[str]) -> tuple[ReadableTopics, dict[str, TopicLayout]]:
        readable = self._topics(doubted)
        return readable, {name: of for name, of in readable.layouts.items() if name not in self._left_out}

    def _shorter(self, ends: Mapping[Place, PartitionEnds]) -> set[str]:
        """Topics with a log that ends before its last end: it was cut, or belongs to a new topic of this name."""
        return {
            name
            for (name, number), now in ends.items()
            if (topic := self._written.get(name)) is not None
            and isinstance(before := topic.partitions.get(number), PartitionEnds)
            and now.end < before.end
        }

    def _starts(self, layouts: Mapping[str, TopicLayout]) -> dict[Place, int]:
        """Log start offsets that need not be asked for in this round: they change rarely."""
        if self._number % _STARTS_ROUNDS == 0:
            return {}
        return {
            (name, number): ends.start
            for name, topic in self._written.items()
            if name in layouts and layouts[name].topic_id == topic.topic_id
            for number, ends in topic.partitions.items()
            if isinstance(ends, PartitionEnds)
        }

    def _changes(
        self, name: str, topic: WrittenTopic, taken_ms: int, answered_ms: int
    ) -> Iterator[TopicEnds]:
        before = self._written.get(name)
        is_whole = (
            before is None
            or before.topic_id != topic.topic_id
            or (self._number + crc32(name.encode())) % _WHOLE_ROUNDS == 0
        )
        partitions = (
            (number, value)
            for number, value in sorted(topic.partitions.items())
            if is_whole or before is None or before.partitions.get(number) != value
        )
        while chunk := dict(islice(partitions, _PARTITIONS_A_MESSAGE)):
            yield self._message(name, topic.topic_id, chunk, taken_ms, answered_ms)

    def _message(
        self,
        name: str,
        topic_id: str,
        partitions: Mapping[int, PartitionEnds | str],
        taken_ms: int,
        answered_ms: int,
        *,
        gone: bool = False,
    ) -> TopicEnds:
        return TopicEnds(
            cluster_id=self._cluster_id,
            writer=self._writer,
            number=self._number,
            taken_ms=taken_ms,
            answered_ms=answered_ms,
            interval_ms=self._interval_ms,
            topic=name,
            topic_id=topic_id,
            partitions={n: value for n, value in partitions.items() if isinstance(value, PartitionEnds)},
            unknown={n: value for n, value in partitions.items() if isinstance(value, str)},
            gone=gone,
        )


def _led(layouts: Mapping[str, TopicLayout]) -> list[Place]:
    return [(name, number) for name, layout in layouts.items() for number in layout.led]


def _topic_now(name: str, layout: TopicLayout, ends: Mapping[Place, PartitionEnds]) -> WrittenTopic:
    answers: dict[int, PartitionEnds | str] = dict.fromkeys(layout.leaderless, _NO_LEADER)
    answers.update((number, ends.get((name, number), _NO_ANSWER)) for number in layout.led)
    return WrittenTopic(layout.topic_id, answers)


def ends_recorder(
    connection: Connection,
    *,
    cluster_id: str,
    clock: Callable[[], int],
    interval_seconds: float,
    left_out: Collection[str],
) -> EndsRecorder:
    """A recorder of the ends in one cluster."""
    cluster = RepeatedEnds(connection)
    return EndsRecorder(
        topics=cluster.topics,
        ends=cluster.ends,
        cluster_id=cluster_id,
        clock=clock,
        interval_ms=round(1_000 * interval_seconds),
        left_out=left_out,
    )


class Packer(Protocol):
    """Makes a round smaller; ``forget`` is called when it was not written."""

    def pack(self, taken: EndsTaken) -> Sequence[TopicEnds | EndsChanges]:
        """What is written in place of the messages of the round."""

    def forget(self) -> None:
        """The last round may not have been written."""


def take_round(
    recorder: EndsRecorder,
    write: Callable[[Sequence[TopicEnds | EndsChanges | EndsRound]], object],
    packer: Packer | None = None,
) -> None:
    """Take a round and write it. If ``write`` raises, it does not count."""
    taken = recorder.take()
    try:
        if messages := taken.messages if packer is None else packer.pack(taken):
            write(messages)
        # Behind the changes: whoever reads it may conclude that all else is unchanged.
        write([taken.complete])
    except BaseException:
        if packer is not None:
            packer.forget()
        raise
    recorder.remember(taken)


def ends_thread(
    recorder: EndsRecorder,
    write: Callable[[Sequence[TopicEnds | EndsChanges | EndsRound]], object],
    interval_seconds: float,
    packer: Packer | None = None,
) -> Background:
    """The thread that records the ends every ``interval_seconds``; without a packer topic by topic, in JSON."""
    return Background(
        name="ends",
        tick=partial(take_round, recorder, write, packer),
        pause_seconds=interval_seconds,
        retry_seconds=interval_seconds,
        longest_seconds=2 * interval_seconds,
        failing="the ends of partitions are not recorded",
    )
