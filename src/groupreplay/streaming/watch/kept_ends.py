"""The ends of partitions that the prober has recorded: in memory for the pages, as rounds for the state file."""

from __future__ import annotations

import threading
import zlib
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from groupreplay.streaming.contract.messages import MessageDecoder
from groupreplay.streaming.contract.partition_ends import EndsRound, TopicEnds
from groupreplay.streaming.sources.latest_ends import LatestEnds
from groupreplay.timeline.lag import EndSpan

#: Of all partitions together, of 48 bytes each: a day of a hundred partitions that change in every round.
_SPANS: Final = 288_000
#: What a state file keeps: so many bytes of rounds, which a start reads in three seconds, of a day at most.
_MOST_BYTES: Final = 4 << 20
_DAY_MS: Final = 86_400_000
_rounds: Final = MessageDecoder[list[TopicEnds | EndsRound]](list[TopicEnds | EndsRound])


@dataclass(frozen=True, slots=True)
class Rounds:
    """What a state file is to keep: further rounds by number, and none before ``since``."""

    new: Mapping[int, bytes] = field(default_factory=dict)
    since: int = 0


@dataclass(slots=True)
class KeptEnds:
    """The ends in one cluster: one thread adds messages, others ask. ``stored``: rounds of an earlier process.

    ``has_file``: further rounds are to be stored.
    """

    cluster_id: str
    stored: Mapping[int, bytes] = field(default_factory=dict)
    has_file: bool = False
    _latest: LatestEnds = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    #: The messages of a round that goes on.
    _open: list[TopicEnds | EndsRound] = field(default_factory=list, init=False)
    _new: dict[int, bytes] = field(default_factory=dict, init=False)
    #: Number, bytes and time of each round in the file.
    _kept: deque[tuple[int, int, int]] = field(default_factory=deque, init=False)
    _size: int = field(default=0, init=False)
    _number: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._latest = LatestEnds(self.cluster_id, _SPANS)
        for number, packed in sorted(self.stored.items()):
            messages = _unpacked(packed)
            if not messages:
                # What was before it says nothing of what came after it.
                self._latest = LatestEnds(self.cluster_id, _SPANS)
            for message in messages:
                self._latest.add(message)
            self._keep(number, len(packed), messages[-1].answered_ms if messages else 0)
        self.stored = {}

    def __bool__(self) -> bool:
        return bool(self._latest)

    @property
    def answered_ms(self) -> int:
        """The time behind the last round."""
        return self._latest.answered_ms

    def add(self, message: TopicEnds | EndsRound) -> None:
        """Note a message; the last one of a round is its ``EndsRound``."""
        with self._lock:
            self._latest.add(message)
            if not self.has_file:
                return
            of_round = message.writer, message.number
            # One that was never completed says nothing.
            self._open = [one for one in self._open if (one.writer, one.number) == of_round]
            self._open.append(message)
            if isinstance(message, EndsRound):
                packed = zlib.compress(msgspec.json.encode(self._open), 1)
                self._open = []
                self._new[self._number + 1] = packed
                self._keep(self._number + 1, len(packed), message.answered_ms)

    def spans(self, topic: str, partition: int) -> tuple[EndSpan, ...]:
        """What is known of a partition, in the order of its times."""
        with self._lock:
            return self._latest.spans(topic, partition)

    def take(self) -> Rounds:
        """What has changed since the last call."""
        with self._lock:
            since = self._kept[0][0] if self._kept else self._number + 1
            taken = Rounds({number: packed for number, packed in self._new.items() if number >= since}, since)
            self._new.clear()
            return taken

    def _keep(self, number: int, size: int, answered_ms: int) -> None:
        """The oldest rounds are forgotten: one between others would be missing from what these say."""
        self._number = number
        self._kept.append((number, size, answered_ms))
        self._size += size
        while self._kept and (self._size > _MOST_BYTES or self._kept[0][2] < answered_ms - _DAY_MS):
            self._size -= self._kept.popleft()[1]


def _unpacked(packed: bytes) -> list[TopicEnds | EndsRound]:
    """The messages of a round; none: it is damaged."""
    try:
        return _rounds.decode(zlib.decompress(packed)) or []
    except zlib.error:
        return []
