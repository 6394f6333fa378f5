"""A cluster whose ends a test sets, and what its prober writes of them, packed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from groupreplay.streaming.contract.partition_ends import EndsChanges, EndsRound, PartitionEnds, TopicEnds
from groupreplay.streaming.contract.probe_messages import ProbeMessage, decode_message, encode_message
from groupreplay.streaming.kafka.log_ends import Place, ReadableTopics, TopicLayout
from groupreplay.streaming.prober.ends import EndsRecorder, take_round
from groupreplay.streaming.prober.packed_ends import EndsPacker

CLUSTER_ID = "c"
INTERVAL_MS = 30_000


@dataclass
class Cluster:
    """A cluster whose ends a test sets, and its prober, which writes packed rounds; each takes 100 ms."""

    layouts: dict[str, TopicLayout] = field(default_factory=dict)
    ends: dict[Place, PartitionEnds] = field(default_factory=dict)
    packer: EndsPacker = field(default_factory=EndsPacker)
    fails: bool = False
    written: list[tuple[bytes, bytes]] = field(default_factory=list)
    #: Of each round that was written the time before and after it, and the ends as they were.
    truth: list[tuple[int, int, Mapping[Place, PartitionEnds]]] = field(default_factory=list)
    led: list[Mapping[str, tuple[int, ...]]] = field(default_factory=list)
    _now_ms: int = 0
    _recorder: EndsRecorder | None = None

    def clock(self) -> int:
        """100 ms later each time."""
        self._now_ms += 100
        return self._now_ms

    def round(self) -> list[ProbeMessage]:
        """Takes a round; returns its messages as they are read back."""
        self._recorder = self._recorder or EndsRecorder(
            topics=lambda _: ReadableTopics(self.layouts),
            ends=lambda places, starts: {place: self.ends[place] for place in places if place in self.ends},
            cluster_id=CLUSTER_ID,
            clock=self.clock,
            interval_ms=INTERVAL_MS,
        )
        messages = list[ProbeMessage]()
        began_ms = self._now_ms + 100

        def write(some: Sequence[TopicEnds | EndsChanges | EndsRound]) -> None:
            # A round that fails fails behind its changes.
            if self.fails and isinstance(some[0], EndsRound):
                raise OSError("away")
            self.written += (encoded := [encode_message(message) for message in some])
            messages.extend(message for pair in encoded if (message := decode_message(*pair)) is not None)

        try:
            take_round(self._recorder, write, self.packer)
        except OSError:
            return messages
        finally:
            self.fails = False
        self.truth.append((began_ms, self._now_ms, dict(self.ends)))
        self.led.append({name: layout.led for name, layout in self.layouts.items()})
        self._now_ms += INTERVAL_MS
        return messages

    def grow(self, place: Place, count: int) -> None:
        """So many records come."""
        ends = self.ends[place]
        self.ends[place] = PartitionEnds(ends.start, ends.end + count, ends.stable + count)


def one_topic(partitions: int) -> Cluster:
    """A cluster with one topic."""
    ends = {
        ("t", number): PartitionEnds(5, 1_000_000 + number, 1_000_000 + number)
        for number in range(partitions)
    }
    return Cluster({"t": TopicLayout("id", tuple(range(partitions)))}, ends)
