"""Where the batches of the offsets topic begin and end, and which groups are read ahead of the others.

In each partition the records of the last minutes are behind those of all groups at rest, for each of which a first
start calls Python once: with a million groups that takes minutes. Kafka's order counts within a group alone. So there
are two places in each partition while much of the log is to be read: up to ``LogOffsets.next`` all groups were handed
on, and up to ``Ahead.offsets`` those that were active at the begin. The first place is that of the job: what is not
about one group, such as records that cannot be read, comes with it, and no deadline comes before it is at the end.

Only the standard library, because each process that Spark starts for a source imports this module.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

#: By partition the next offset.
Offsets: TypeAlias = Mapping[int, int]
#: A partition, the first offset to read, and the offset behind the last.
Span: TypeAlias = tuple[int, int, int]

#: While active groups alone are read, a batch has so many times the offsets of others: few of its records are theirs.
_FASTER: Final = 20
#: Names in the offsets of a batch, beside that of the topic.
_AHEAD: Final = "ahead"
_ENDS: Final = "aheadTo"
_GROUPS: Final = "activeGroups"


@dataclass(frozen=True, slots=True)
class ActiveGroups:
    """Groups, by the CRC-32 of their ids: another one with the same hash is read ahead as well."""

    hashes: frozenset[int]

    @classmethod
    def of(cls, groups: Iterable[bytes]) -> ActiveGroups:
        """Those with these ids."""
        return cls(frozenset(map(zlib.crc32, groups)))

    def __contains__(self, group: bytes) -> bool:
        return zlib.crc32(group) in self.hashes

    def to_text(self) -> str:
        """For the offsets of a batch: with 10 000 groups about 50 kB."""
        packed = struct.pack(f"<{len(self.hashes)}I", *sorted(self.hashes))
        return base64.b64encode(zlib.compress(packed)).decode("ascii")

    @classmethod
    def from_text(cls, text: str) -> ActiveGroups:
        """The groups of ``to_text``."""
        packed = zlib.decompress(base64.b64decode(text))
        return cls(frozenset(struct.unpack(f"<{len(packed) // 4}I", packed)))


@dataclass(frozen=True, slots=True)
class Ahead:
    """How far these groups were read: alone until they are at ``ends``, where the log ended when this began."""

    offsets: Offsets
    ends: Offsets
    groups: ActiveGroups


@dataclass(frozen=True, slots=True)
class LogOffsets:
    """Where a batch begins or ends; without ``ahead`` in the form of Spark's connector, ``{TOPIC: {"0": 17, …}}``."""

    next: Offsets
    ahead: Ahead | None = None

    def to_json(self, topic: str) -> dict[str, Any]:
        """For Spark, which compares the texts."""
        document: dict[str, Any] = {topic: _by_text(self.next)}
        if self.ahead is not None:
            ahead = self.ahead
            document |= {
                _AHEAD: _by_text(ahead.offsets),
                _ENDS: _by_text(ahead.ends),
                _GROUPS: ahead.groups.to_text(),
            }
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any], topic: str) -> LogOffsets:
        """The offsets of ``to_json``."""
        following = _by_number(document[topic])
        if not is_ahead(document):
            return cls(following)
        offsets, ends = _by_number(document[_AHEAD]), _by_number(document[_ENDS])
        return cls(following, Ahead(offsets, ends, ActiveGroups.from_text(document[_GROUPS])))

    def with_active(self, groups: ActiveGroups, ends: Offsets) -> LogOffsets:
        """From here to these ends the groups are read ahead."""
        return LogOffsets(self.next, Ahead(self.next, ends, groups))


def is_ahead(document: Mapping[str, Any]) -> bool:
    """Whether only this source can go on with the offsets of a batch: some groups were read ahead."""
    return _AHEAD in document


def of_topics(document: Mapping[str, Any]) -> dict[str, dict[int, int]]:
    """The offsets of a batch by topic, of this source or of the connector, without what was read ahead."""
    return {name: _by_number(document[name]) for name in document if name not in (_AHEAD, _ENDS, _GROUPS)}


def batch_end(start: LogOffsets, ends: Offsets, most: int | None) -> LogOffsets:
    """The end of the next batch, of about ``most`` offsets; None: of all.

    Groups that are read ahead come to the end of the log alone, and stay there.
    """
    ahead = start.ahead
    if ahead is None:
        return LogOffsets(bounded(start.next, ends, most))
    if most is not None and spans(ahead.offsets, ahead.ends):
        read = bounded(ahead.offsets, ends, _FASTER * most)
        return LogOffsets(start.next, replace(ahead, offsets=read))
    following = bounded(start.next, ends, most)
    return LogOffsets(following, None if following == ends else replace(ahead, offsets=ends))


def bounded(starts: Offsets, ends: Offsets, most: int | None) -> Offsets:
    """The ends of a batch of about ``most`` offsets: each partition gives the same share of what it has left."""
    total = between(starts, ends)
    if most is None or total <= most:
        return ends
    left = {number: end - starts.get(number, 0) for number, end in ends.items()}
    # At least one offset of each, so that none is forgotten.
    return {
        number: end if left[number] <= 0 else end - left[number] + max(1, left[number] * most // total)
        for number, end in ends.items()
    }


def between(starts: Offsets, ends: Offsets) -> int:
    """How many offsets there are, with those that compaction has removed."""
    return sum(end - starts.get(number, 0) for number, end in ends.items())


def spans(starts: Offsets, ends: Offsets) -> list[Span]:
    """What is to be read of each partition."""
    begun = [(number, starts.get(number, 0), at) for number, at in ends.items()]
    return [span for span in begun if span[1] < span[2]]


def spans_ahead(start: LogOffsets, end: LogOffsets) -> tuple[list[Span], ActiveGroups | None]:
    """The same of the groups that are read ahead in this batch, and these groups; None: there are none."""
    ahead = end.ahead or start.ahead
    if ahead is None:
        return [], None
    begins = start.ahead.offsets if start.ahead else start.next
    return spans(begins, end.ahead.offsets if end.ahead else end.next), ahead.groups


def deal(of_partitions: Sequence[Span], tasks: int) -> list[list[Span]]:
    """The spans in as many lists, or fewer, that have about the same number of offsets: the longest are dealt first."""
    hands: list[list[Span]] = [[] for _ in range(min(tasks, len(of_partitions)))]
    sizes = [0] * len(hands)
    for span in sorted(of_partitions, key=lambda each: each[1] - each[2]):
        smallest = sizes.index(min(sizes))
        hands[smallest].append(span)
        sizes[smallest] += span[2] - span[1]
    return hands


def _by_text(offsets: Offsets) -> dict[str, int]:
    return {str(number): at for number, at in sorted(offsets.items())}


def _by_number(offsets: Mapping[str, int]) -> dict[int, int]:
    return {int(number): int(at) for number, at in offsets.items()}
