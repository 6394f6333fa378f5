"""The committed offsets of a group (``OffsetMetadataManager``): commits, open transactions and expiry.

The rules of expiry are also in `groupreplay.state.replay.retention`; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from msgspec import Struct

from groupreplay.codecs import (
    VERSION_WITH_EXPIRY,
    ZERO_UUID,
    OffsetCommitKey,
    OffsetCommitValue,
    as_written,
)
from groupreplay.coordinator.classic.classic_group import ClassicGroup
from groupreplay.coordinator.consumer.consumer_group import ConsumerGroup, Topics
from groupreplay.coordinator.requests import Commit, Marker, OffsetCommit, Record

#: (topic name, partition)
TopicPartition = tuple[str, int]
_VERSION_WITH_ID: Final = 4


class Committed(Struct, frozen=True):
    """A committed offset and its sequence number in the order of writing."""

    order: int
    value: OffsetCommitValue


@dataclass(slots=True)
class CommittedOffsets:
    """The offsets of one group; ``pending`` are those of open transactions, by producer id.

    A producer stays in ``pending`` until its transaction ends, even if none of its offsets are left.
    """

    committed: dict[TopicPartition, Committed] = field(default_factory=dict)
    pending: dict[int, dict[TopicPartition, Committed]] = field(default_factory=dict)
    #: Whether they are those of the older coordinator.
    scala: bool = False
    #: "consumers" or "producers", or both, in this generation; only the older coordinator looks at it.
    committed_by: set[str] = field(default_factory=set)
    _written: int = 0

    def copy(self) -> CommittedOffsets:
        """The offsets as they are now."""
        return replace(
            self,
            committed=dict(self.committed),
            pending={producer_id: dict(offsets) for producer_id, offsets in self.pending.items()},
        )

    def restore(self, before: CommittedOffsets) -> None:
        """Be as these offsets, of which nothing else is needed."""
        self.committed, self.pending = before.committed, before.pending

    def is_mixed(self, request: OffsetCommit) -> bool:
        """Whether consumers as well as producers had committed before this commit, of which the coordinator warns."""
        mixed = len(self.committed_by) > 1
        self.committed_by.add("consumers" if request.producer_id is None else "producers")
        return mixed

    @property
    def keep_group(self) -> bool:
        """Whether an empty group stays: it has an offset, or an open transaction."""
        if self.scala:
            return bool(self.committed or self.pending)
        return bool(self)

    def __bool__(self) -> bool:
        return bool(self.committed) or any(self.pending.values())

    def store(self, partition: TopicPartition, value: OffsetCommitValue, producer_id: int | None) -> None:
        """Store an offset; that of a transaction is pending until its end."""
        self._written += 1
        table = self.committed if producer_id is None else self.pending.setdefault(producer_id, {})
        table[partition] = Committed(self._written, value)

    def commit(
        self,
        group_id: str,
        request: OffsetCommit,
        commits: Iterable[Commit],
        now_ms: int,
        topics: Topics,
        version: int,
        *,
        since_4_4: bool = False,
    ) -> list[Record]:
        """Store offsets and return their records; offsets of a transaction are pending until its end.

        The broker adds the id of a known topic, but not in a transaction (before 4.4). A retention time needs the
        version with an expiry.
        """
        records: list[Record] = []
        for commit in commits:
            topic = topics.get(commit.topic) if request.producer_id is None or since_4_4 else None
            value = _value(
                commit, request.retention_ms, now_ms, ZERO_UUID if topic is None else topic.topic_id, version
            )
            self.store((commit.topic, commit.partition), value, request.producer_id)
            records.append((_key(group_id, (commit.topic, commit.partition)), value))
        return records

    def end_transaction(self, producer_id: int, *, committed: bool) -> bool:
        """Commit or drop the pending offsets of a producer; a later commit of the same partition stays.

        Returns False when the producer has no transaction in this group.
        """
        pending = self.pending.pop(producer_id, None)
        for partition, commit in (pending or {}).items() if committed else ():
            former = self.committed.get(partition)
            if former is None or commit.order > former.order:
                self.committed[partition] = commit
        return pending is not None

    def remove(
        self, group_id: str, partitions: Iterable[TopicPartition], *, expired: bool = False
    ) -> list[Record]:
        """Remove offsets, also pending ones unless they expire, and return their tombstones.

        The older coordinator writes none for a pending one, so it is back when another broker has loaded the log.
        """
        records: list[Record] = []
        for partition in partitions:
            committed = self.committed.pop(partition, None) is not None
            for pending in () if expired else self.pending.values():
                pending.pop(partition, None)
            if committed or not self.scala:
                records.append((_key(group_id, partition), None))
        return records

    def partitions(self) -> list[TopicPartition]:
        """Every partition with a committed or pending offset."""
        return list(dict.fromkeys(self.each_partition()))

    def each_partition(self) -> list[TopicPartition]:
        """The partition of every offset, committed or pending: one may be there several times."""
        pending = (partition for partitions in self.pending.values() for partition in partitions)
        return [*self.committed, *pending]

    def expired(
        self, group: ClassicGroup | ConsumerGroup, retention_ms: int, now_ms: int
    ) -> list[TopicPartition]:
        """The partitions whose offsets the broker would expire now (``cleanupExpiredOffsets``).

        A pending offset of the same partition holds an offset, but not with the older coordinator
        (``GroupMetadata.removeExpiredOffsets``).
        """
        if not group.may_expire:
            return []
        pending = () if self.scala else self.pending.values()
        pending_partitions = {partition for partitions in pending for partition in partitions}
        return [
            partition
            for partition, commit in self.committed.items()
            if partition not in pending_partitions
            and not group.is_subscribed(partition[0])
            and now_ms >= _deadline_ms(commit.value, retention_ms, group.emptied_ms)
        ]


def _deadline_ms(value: OffsetCommitValue, retention_ms: int, emptied_ms: int | None) -> int:
    if value.expire_timestamp_ms != -1:
        return value.expire_timestamp_ms
    return (value.commit_timestamp_ms if emptied_ms is None else emptied_ms) + retention_ms


@lru_cache(maxsize=2**14)
def _key(group_id: str, partition: TopicPartition) -> OffsetCommitKey:
    return OffsetCommitKey(group=group_id, topic=partition[0], partition=partition[1])


def _value(
    commit: Commit, retention_ms: int | None, now_ms: int, topic_id: bytes, version: int
) -> OffsetCommitValue:
    newest = OffsetCommitValue(
        version=_VERSION_WITH_ID,
        offset=commit.offset,
        leader_epoch=commit.leader_epoch,
        metadata=commit.metadata,
        commit_timestamp_ms=now_ms,
        expire_timestamp_ms=-1 if retention_ms is None else now_ms + retention_ms,
        topic_id=topic_id,
    )
    if retention_ms is not None:
        return as_written(newest, VERSION_WITH_EXPIRY)
    return newest if version == _VERSION_WITH_ID else as_written(newest, version)


@dataclass(slots=True)
class LoggedOffsets:
    """The offsets as the log has them, for the older coordinator: it may have forgotten some that the log still has.

    Those are pending offsets that were removed, and offsets whose tombstones could not be written.
    """

    offsets: CommittedOffsets = field(default_factory=CommittedOffsets)

    def append(self, records: Iterable[Record], producer_id: int | None, marker: Marker | None) -> None:
        """Records, or the end of a transaction, were written."""
        for key, value in records:
            if isinstance(key, OffsetCommitKey):
                partition = (key.topic, key.partition)
                if isinstance(value, OffsetCommitValue):
                    self.offsets.store(partition, value, producer_id)
                else:
                    self.offsets.committed.pop(partition, None)
        if marker is not None:
            assert producer_id is not None
            self.offsets.end_transaction(producer_id, committed=marker is Marker.COMMIT)

    def loaded(self) -> CommittedOffsets:
        """The offsets of a broker that has read the log."""
        return replace(self.offsets.copy(), scala=True, committed_by=set())
