"""Pending commits of a partition of the offsets topic, from the batches of its log behind the last stable offset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from groupreplay.codecs import (
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_key,
    decode_value,
)
from groupreplay.state.policy.pending import PendingCommit
from groupreplay.streaming.sources.log_replicas import Transactions
from groupreplay.streaming.sources.log_segments import Batch, records_of

_Place = tuple[str, str, int]


@dataclass
class _Tail:
    """The records behind the last stable offset: by place, the pending commit of each producer, and the last other."""

    partition: int
    transactions: Transactions
    last_ms: int = -1
    since_ms: dict[int, int] = field(default_factory=dict)
    pending: dict[tuple[int, _Place], PendingCommit] = field(default_factory=dict)
    others: dict[_Place, tuple[int, int]] = field(default_factory=dict)

    def add(self, batch: Batch, record: Any) -> None:
        self.last_ms = max(self.last_ms, -1 if record.timestamp is None else record.timestamp)
        key = decode_key(record.key)
        if not isinstance(key, OffsetCommitKey | LegacyOffsetCommitKey):
            return
        place = (key.group, key.topic, key.partition)
        value = decode_value(key, record.value)
        if value is None:
            # Also of another producer, and of no transaction (``OffsetMetadataManager.replay``).
            self.pending = {name: one for name, one in self.pending.items() if name[1] != place}
            self.others.pop(place, None)
        elif isinstance(value, OffsetCommitValue):
            if self._is_open(batch):
                self._add_pending(batch, record, place, value.offset)
            elif not self.transactions.has_aborted(batch):
                self.others[place] = record.offset, value.offset

    def _is_open(self, batch: Batch) -> bool:
        begin = None if batch.producer_id is None else self.transactions.open.get(batch.producer_id)
        return begin is not None and batch.base_offset >= begin

    def _add_pending(self, batch: Batch, record: Any, place: _Place, offset: int) -> None:
        assert batch.producer_id is not None
        group, topic, partition = place
        at_ms = -1 if record.timestamp is None else record.timestamp
        self.pending[batch.producer_id, place] = PendingCommit(
            group=group,
            topic=topic,
            partition=partition,
            offset=offset,
            log_partition=self.partition,
            log_offset=record.offset,
            held_from=min(self.transactions.open.values()),
            written_ms=at_ms,
            since_ms=self.since_ms.setdefault(batch.producer_id, at_ms),
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            newer_offset=None,
            first_offset=self.transactions.open[batch.producer_id],
            open_ms=at_ms,
        )

    def commits(self) -> Iterator[PendingCommit]:
        """Those that are pending at the end, by place."""
        for (_, place), one in sorted(self.pending.items(), key=lambda item: (item[0][1], item[0][0])):
            log_offset, offset = self.others.get(place, (-1, 0))
            newer_offset = None if log_offset < one.log_offset else offset
            yield replace(one, newer_offset=newer_offset, open_ms=self.last_ms)


def pending_commits(
    partition: int, batches: Iterable[Batch], transactions: Transactions
) -> Sequence[PendingCommit]:
    """What these batches leave pending; ``transactions`` are those of the same batches, or of the whole log."""
    if not transactions.open:
        return ()
    tail, begin = _Tail(partition, transactions), min(transactions.open.values())
    for batch in batches:
        if batch.last_offset < begin or batch.is_control:
            continue
        records = records_of(batch)
        for record in () if isinstance(records, str) else records:
            tail.add(batch, record)
    return tuple(tail.commits())
