"""What is remembered of a log that was read, and whether the log in the cluster is still that one.

No IO.
Offsets alone do not show it: a log that was cut by an unclean leader election and has grown again is as long as
before. Each change of the leader begins a new *leader epoch*, and within one epoch a log only grows. So the log is
the same if the leader's log still holds, from the epoch that was seen, all offsets that were seen in it (KIP-320).
The digest of one record shows what epochs cannot: brokers that do not number epochs, or that were restored from a
backup.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import msgspec

_DIGEST_BYTES: Final = 16


class EpochEnd(msgspec.Struct, frozen=True):
    """The end of a partition (of committed records), and the epoch of the leader that returned it.

    ``epoch`` None: the broker does not number epochs.
    """

    offset: int
    epoch: int | None = None


class RecordMark(msgspec.Struct, frozen=True):
    """A record: its offset, and a digest of its key, value and timestamp."""

    offset: int
    digest: str


class PartitionMark(msgspec.Struct, frozen=True):
    """The last end of a partition that is known to belong to the log that was read, and a record below it."""

    end: EpochEnd
    record: RecordMark | None = None


class LogMarks(msgspec.Struct, frozen=True):
    """The marks of one incarnation of the topic, by partition; ``era`` is the topic's id."""

    era: str
    partitions: Mapping[int, PartitionMark]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogAnswer:
    """What the brokers answer about a partition now.

    ``in_epoch``: whether the leader's log holds all offsets below the mark's end, in the mark's epoch or earlier ones;
    None if that was not asked. ``record``: the first record at the mark's record or behind it; None if there is none,
    or if it was not asked.
    """

    end: EpochEnd
    in_epoch: bool | None = None
    record: RecordMark | None = None


def is_cut(mark: PartitionMark, answer: LogAnswer) -> bool:
    """Whether records are gone that the log once had at its end.

    A record that is missing, with later ones behind it, was compacted away.
    """
    if answer.end.offset < mark.end.offset or answer.in_epoch is False:
        return True
    if mark.record is None or answer.record is None:
        return False
    return answer.record.offset == mark.record.offset and answer.record.digest != mark.record.digest


def is_later_leader(mark: PartitionMark, end: EpochEnd) -> bool:
    """Whether the leader has changed since, so that its log must be compared with the mark's epoch.

    A leader of an earlier epoch does not know the mark's: only its records can be compared.
    """
    return mark.end.epoch is not None and end.epoch is not None and end.epoch > mark.end.epoch


def is_earlier_leader(mark: PartitionMark, end: EpochEnd) -> bool:
    """Whether an end is that of a leader from before the mark: it was replaced without knowing, or restored."""
    return mark.end.epoch is not None and end.epoch is not None and end.epoch < mark.end.epoch


def continues(mark: PartitionMark, end: EpochEnd) -> bool:
    """Whether an end proves by itself that the log has only grown: it is that of the same leader, and not lower."""
    return end.epoch == mark.end.epoch and end.offset >= mark.end.offset


def record_digest(key: bytes | None, value: bytes | None, timestamp_ms: int) -> str:
    """The digest of a record; compaction changes none of its parts. Equal records are no loss, whoever wrote them."""
    hashed = blake2b(digest_size=_DIGEST_BYTES)
    for part in (key, value):
        hashed.update(b"-" if part is None else b"%d:" % len(part) + part)
    hashed.update(b"%d" % timestamp_ms)
    return hashed.hexdigest()
