"""The ends of partitions that the prober has recorded: in memory for the pages, as rounds for the state file.

What is in memory is bounded, so the file is: from time to time all of the memory takes the place of the rounds before.
"""

from __future__ import annotations

import threading
import zlib
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
#: So many bytes of rounds, or twice those of the memory if it takes more, are replaced by the memory.
_LEAST_BYTES: Final = 1 << 20
#: Begins what is a memory and no round: no zlib stream begins so.
_MEMORY: Final = b"memory\0"
_rounds: Final = MessageDecoder[list[TopicEnds | EndsRound]](list[TopicEnds | EndsRound])


@dataclass(frozen=True, slots=True)
class Rounds:
    """What a state file is to keep: further rounds by number, and none before ``since``."""

    new: Mapping[int, bytes] = field(default_factory=dict)
    since: int = 0


@dataclass(slots=True)
class KeptEnds:
    """The ends in one cluster: one thread adds messages, others ask. ``stored``: what an earlier process has taken.

    ``has_file``: what comes is to be stored.
    """

    cluster_id: str
    stored: Mapping[int, bytes] = field(default_factory=dict)
    has_file: bool = False
    _latest: LatestEnds = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    #: The messages of a round that goes on.
    _open: list[TopicEnds | EndsRound] = field(default_factory=list, init=False)
    _new: dict[int, bytes] = field(default_factory=dict, init=False)
    _number: int = field(default=0, init=False)
    #: The first number that the file keeps: the memory, or a round that was before any.
    _since: int = field(default=1, init=False)
    #: Bytes of the memory in the file, and of the rounds after it.
    _memory_size: int = field(default=0, init=False)
    _size: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._latest = LatestEnds(self.cluster_id, _SPANS)
        for number, packed in sorted(self.stored.items()):
            self._restore(number, packed)
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
                self._number += 1
                self._new[self._number] = packed
                self._size += len(packed)
                if self._size > max(_LEAST_BYTES, 2 * self._memory_size):
                    self._replace()

    def spans(self, topic: str, partition: int) -> tuple[EndSpan, ...]:
        """What is known of a partition, in the order of its times."""
        with self._lock:
            return self._latest.spans(topic, partition)

    def take(self) -> Rounds:
        """What has changed since the last call."""
        with self._lock:
            taken = Rounds(self._new, self._since)
            self._new = {}
            return taken

    def _replace(self) -> None:
        """The memory takes the place of all rounds before."""
        memory = _MEMORY + self._latest.packed()
        self._number += 1
        self._new = {self._number: memory}
        self._since, self._memory_size, self._size = self._number, len(memory), 0

    def _restore(self, number: int, packed: bytes) -> None:
        """Applies what was taken; what was before a damaged part says nothing of what came after it."""
        self._number = number
        if packed.startswith(_MEMORY):
            self._latest = _memory_of(self.cluster_id, packed.removeprefix(_MEMORY))
            self._since, self._memory_size, self._size = number, len(packed), 0
            return
        messages = _unpacked(packed)
        if not messages:
            self._latest = LatestEnds(self.cluster_id, _SPANS)
        for message in messages:
            self._latest.add(message)
        self._size += len(packed)


def _memory_of(cluster_id: str, packed: bytes) -> LatestEnds:
    """The memory as it was; an empty one if it is damaged."""
    latest = LatestEnds(cluster_id, _SPANS)
    try:
        latest.unpack(packed)
    except (zlib.error, msgspec.MsgspecError, ValueError):
        return LatestEnds(cluster_id, _SPANS)
    return latest


def _unpacked(packed: bytes) -> list[TopicEnds | EndsRound]:
    """The messages of a round; none: it is damaged."""
    try:
        return _rounds.decode(zlib.decompress(packed)) or []
    except zlib.error:
        return []
