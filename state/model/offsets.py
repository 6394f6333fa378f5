"""Committed offsets of a group as its coordinator holds them (``OffsetMetadataManager``).

Knows commits, open transactions and when an offset may be removed; must not know how a group rebalances. The
rules of removal are written down here once more than in `retention`, from the coordinator's side: a test holds
the two together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from groupreplay.codecs import ZERO_UUID, Key, OffsetCommitKey, OffsetCommitValue, Value
from groupreplay.state.model.requests import Commit, OffsetCommit


class Group(Protocol):
    """What decides whether offsets of a group may go: in its state at all, since when, and of which topics not."""

    @property
    def may_expire(self) -> bool:
        """Whether any may."""

    @property
    def emptied_ms(self) -> int | None:
        """Since when retention counts; None: from each commit."""

    def is_subscribed(self, topic: str) -> bool:
        """Whether offsets of the topic must stay."""


#: A topic and a partition of it.
Place = tuple[str, int]
#: No topic of which the id is known.
NO_TOPICS: Final[Mapping[str, bytes]] = {}
_VERSION: Final = 4
#: Written for clients that ask for a retention time: the only version that has an expiry.
_VERSION_WITH_EXPIRY: Final = 1


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed offset and its place in the order of writing."""

    order: int
    value: OffsetCommitValue


@dataclass(slots=True)
class CommittedOffsets:
    """The offsets of one group; ``pending`` are those of open transactions, by producer id.

    A producer stays in there until its transaction ends, though it may have nothing pending any more.
    """

    committed: dict[Place, Committed] = field(default_factory=dict)
    pending: dict[int, dict[Place, Committed]] = field(default_factory=dict)
    #: Kinds of clients that have committed to the group.
    committed_by: set[str] = field(default_factory=set)
    _written: int = 0

    def begins_to_mix(self, request: OffsetCommit) -> bool:
        """Whether this is the first commit that makes the group one of consumers and of producers."""
        by = "consumers" if request.producer_id is None else "producers"
        others = len(self.committed_by)
        self.committed_by.add(by)
        return others == 1 < len(self.committed_by)

    def __bool__(self) -> bool:
        return bool(self.committed) or any(self.pending.values())

    def commit(
        self,
        group_id: str,
        request: OffsetCommit,
        commits: Iterable[Commit],
        now_ms: int,
        topic_ids: Mapping[str, bytes] = NO_TOPICS,
    ) -> list[tuple[Key, Value | None]]:
        """Take offsets over and return their records; those of a transaction wait for its end.

        The broker adds the id of a topic that it knows, but not in a transaction (before 4.4).
        """
        table = (
            self.committed
            if request.producer_id is None
            else self.pending.setdefault(request.producer_id, {})
        )
        records: list[tuple[Key, Value | None]] = []
        for one in commits:
            self._written += 1
            known = request.producer_id is None and request.retention_ms is None
            topic_id = topic_ids.get(one.topic, ZERO_UUID) if known else ZERO_UUID
            value = _value(one, request.retention_ms, now_ms, topic_id)
            table[one.topic, one.partition] = Committed(self._written, value)
            records.append((_key(group_id, (one.topic, one.partition)), value))
        return records

    def end_transaction(self, producer_id: int, *, committed: bool) -> bool:
        """Commit or drop what a producer has pending; a later commit of the same partition stays.

        False when the producer has written nothing here.
        """
        pending = self.pending.pop(producer_id, None)
        for place, one in (pending or {}).items() if committed else ():
            known = self.committed.get(place)
            if known is None or one.order > known.order:
                self.committed[place] = one
        return pending is not None

    def remove(self, group_id: str, places: Iterable[Place]) -> list[tuple[Key, Value | None]]:
        """Forget offsets, pending ones too, and return their tombstones."""
        records: list[tuple[Key, Value | None]] = []
        for place in places:
            self.committed.pop(place, None)
            for pending in self.pending.values():
                pending.pop(place, None)
            records.append((_key(group_id, place), None))
        return records

    def places(self) -> list[Place]:
        """Every partition with an offset, pending ones too."""
        pending = (place for places in self.pending.values() for place in places)
        return list(dict.fromkeys([*self.committed, *pending]))

    def expired(self, group: Group, retention_ms: int, now_ms: int) -> list[Place]:
        """The partitions whose offsets the broker would remove now (``cleanupExpiredOffsets``)."""
        if not group.may_expire:
            return []
        held = {place for places in self.pending.values() for place in places}
        return [
            place
            for place, one in self.committed.items()
            if place not in held
            and not group.is_subscribed(place[0])
            and now_ms >= _deadline_ms(one.value, retention_ms, group.emptied_ms)
        ]


def _deadline_ms(value: OffsetCommitValue, retention_ms: int, emptied_ms: int | None) -> int:
    if value.expire_timestamp_ms != -1:
        return value.expire_timestamp_ms
    return (value.commit_timestamp_ms if emptied_ms is None else emptied_ms) + retention_ms


def _key(group_id: str, place: Place) -> OffsetCommitKey:
    return OffsetCommitKey(group=group_id, topic=place[0], partition=place[1])


def _value(commit: Commit, retention_ms: int | None, now_ms: int, topic_id: bytes) -> OffsetCommitValue:
    if retention_ms is not None:
        return OffsetCommitValue(
            version=_VERSION_WITH_EXPIRY,
            offset=commit.offset,
            metadata=commit.metadata,
            commit_timestamp_ms=now_ms,
            expire_timestamp_ms=now_ms + retention_ms,
        )
    return OffsetCommitValue(
        version=_VERSION,
        offset=commit.offset,
        leader_epoch=commit.leader_epoch,
        metadata=commit.metadata,
        commit_timestamp_ms=now_ms,
        topic_id=topic_id,
    )
