"""The replicas of one partition as one log: what another leader has overwritten is left out, the rest is merged.

Which records count is what a consumer with ``read_committed`` gets: those of aborted transactions are left out, and
nothing behind the first open transaction is read.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from groupreplay.streaming.base.memory import keep_freed_memory
from groupreplay.streaming.contract.log import BATCH_ROWS
from groupreplay.streaming.sources.log_segments import (
    NO_EPOCH,
    Batch,
    Replica,
    is_abort,
    records_of,
    unreported,
)
from groupreplay.streaming.sources.record_columns import Columns, columns_of_batches, columns_of_records

#: Receives a sentence about something that is not read.
Note = Callable[[str], None]
_NO_END: Final = 1 << 63
#: Batches are taken apart together up to this size; a larger one alone.
_CHUNK_BYTES: Final = 16 << 20


def columns_of_partition(
    replicas: Sequence[Replica], *, uncommitted: bool, note: Note, transactions: Transactions | None = None
) -> Iterator[Columns]:
    """The records of the partition, offsets ascending, some ten thousand at a time.

    ``uncommitted``: whatever was written. ``transactions`` are ``transactions_of_partition``, if that is known already.

    Raises:
        GroupReplayError: a segment cannot be opened.
    """
    keep_freed_memory()
    log = MergedLog(replicas)
    if uncommitted:
        transactions = Transactions()
    elif transactions is None:
        transactions = transactions_of_partition(replicas)
    end = min(transactions.open.values(), default=_NO_END)
    for producer, offset in sorted(transactions.open.items()):
        note(
            f"partition {log.partition}: a transaction of producer {producer} is open since offset {offset}; records "
            f"from offset {end} on are not read, as read_committed has it: --read-uncommitted reads them"
        )
    batches = log.batches(note)
    overlapping = _overlapping(batches) if len(replicas) > 1 else map(_alone, batches)
    yield from columns_of_pieces(
        _pieces(overlapping, transactions, end), partial(_unreadable, log.partition, note)
    )


def columns_of_pieces(
    pieces: Iterable[Sequence[Batch]], unreadable: Callable[[Batch, str], None]
) -> Iterator[Columns]:
    """The records of batches, some ten thousand at a time; ``unreadable`` gets those that cannot be read.

    A piece is the batches with the same offsets, of several replicas.
    """
    for is_plain, alike in groupby(pieces, key=_is_plain):
        for chunk in _chunks(alike):
            columns = columns_of_batches([batch.block for [batch] in chunk]) if is_plain else None
            if columns is not None:
                yield columns
            elif records := [record for batches in chunk for record in _merged(batches, unreadable)]:
                yield columns_of_records(records)


def _pieces(
    overlapping: Iterable[Sequence[Batch]], transactions: Transactions, end: int
) -> Iterator[Sequence[Batch]]:
    """The batches before the offset ``end`` that count, each once; those with the same offsets together."""
    for batches in overlapping:
        if batches[0].base_offset >= end:
            return
        if len(batches) == 1:
            if not batches[0].is_control and not transactions.has_aborted(batches[0]):
                yield batches
            continue
        counting = {
            (batch.base_offset, batch.checksum): batch
            for batch in batches
            if not batch.is_control and not transactions.has_aborted(batch)
        }
        if counting:
            yield [*counting.values()]


def _is_plain(piece: Sequence[Batch]) -> bool:
    """Whether the records are those of one batch that is not compressed."""
    return len(piece) == 1 and piece[0].is_plain


def _chunks(pieces: Iterable[Sequence[Batch]]) -> Iterator[list[Sequence[Batch]]]:
    """Lists of a size at which one step for all of them pays, and memory stays small."""
    chunk, offsets, size = list[Sequence[Batch]](), 0, 0
    for piece in pieces:
        chunk.append(piece)
        offsets += piece[-1].last_offset - piece[0].base_offset + 1
        for batch in piece:
            size += len(batch.block)
        if offsets >= BATCH_ROWS or size >= _CHUNK_BYTES:
            yield chunk
            chunk, offsets, size = [], 0, 0
    if chunk:
        yield chunk


def transactions_of_partition(replicas: Sequence[Replica]) -> Transactions:
    """How the transactions of a partition ended. Raises GroupReplayError."""
    if not any(replica.may_have_transactions() for replica in replicas):
        return Transactions()
    return transactions_of(MergedLog(replicas).batches(unheard))


def unheard(_: str) -> None:
    """For a pass before the one that reports."""


def _unreadable(partition: int, note: Note, batch: Batch, reason: str) -> None:
    note(f"partition {partition}: the batch at offset {batch.base_offset} is not read: {reason}")


def _alone(batch: Batch) -> list[Batch]:
    return [batch]


def _merged(batches: Sequence[Batch], unreadable: Callable[[Batch, str], None]) -> list[Any]:
    """The records of batches whose offsets overlap, each offset once."""
    lists = list[list[Any]]()
    for batch in batches:
        records = records_of(batch)
        if isinstance(records, str):
            unreadable(batch, records)
        else:
            lists.append(records)
    if len(lists) == 1:
        return lists[0]
    by_offset = {record.offset: record for records in lists for record in records}
    return [by_offset[offset] for offset in sorted(by_offset)]


def _overlapping(batches: Iterable[Batch]) -> Iterator[list[Batch]]:
    """Batches in lists, of which no offset of one is in the next; of one replica each batch has its own."""
    group, last = list[Batch](), NO_EPOCH
    for batch in batches:
        if group and batch.base_offset > last:
            yield group
            group = []
        group.append(batch)
        last = max(last, batch.last_offset)
    if group:
        yield group


@dataclass(slots=True)
class Transactions:
    """``open``: producer id -> first offset without a marker behind it; ``aborted``: -> first and last offsets."""

    open: dict[int, int] = field(default_factory=dict)
    aborted: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))

    def has_aborted(self, batch: Batch) -> bool:
        """Whether the batch belongs to a transaction that was aborted."""
        if batch.producer_id is None or batch.producer_id not in self.aborted:
            return False
        spans = self.aborted[batch.producer_id]
        place = bisect_right(spans, batch.base_offset, key=lambda span: span[0])
        return place > 0 and batch.base_offset <= spans[place - 1][1]


def transactions_of(batches: Iterable[Batch]) -> Transactions:
    """How the transactions in a log ended."""
    transactions = Transactions()
    for batch in batches:
        if batch.producer_id is None:
            continue
        if not batch.is_control:
            transactions.open.setdefault(batch.producer_id, batch.base_offset)
        elif (aborts := is_abort(batch)) is not None:
            begin = transactions.open.pop(batch.producer_id, None)
            if aborts and begin is not None:
                transactions.aborted[batch.producer_id].append((begin, batch.base_offset))
    return transactions


class MergedLog:
    """The batches of all replicas of a partition that belong to its history, by base offset.

    The replica with the newest leader epoch, and of these the longest, has the history: Kafka truncates the others to
    it (KIP-101). What they have of the same epochs counts, so a gap of one is filled from another.
    """

    def __init__(self, replicas: Sequence[Replica]) -> None:
        self._replicas = replicas
        self.partition = replicas[0].partition
        self._history = max(map(_history, replicas), key=attrgetter("rank")) if len(replicas) > 1 else None

    def batches(self, note: Note) -> Iterator[Batch]:
        """In order of base offset; of several replicas the same batch comes several times."""
        return heapq.merge(
            *(self._accepted(replica, note) for replica in self._replicas), key=attrgetter("base_offset")
        )

    def _accepted(self, replica: Replica, note: Note) -> Iterator[Batch]:
        overwritten = 0
        for batch in replica.batches(lambda damage: note(f"partition {self.partition}: {damage}")):
            if self._history is None or self._history.has(batch):
                yield batch
            else:
                overwritten += 1
        if overwritten:
            note(
                f"partition {self.partition}: {overwritten} batches in {replica.folder} are not read: another leader "
                "has overwritten them"
            )


@dataclass(frozen=True, slots=True)
class _History:
    """Leader epochs with their first offsets, and the end of a log."""

    epochs: Sequence[tuple[int, int]]
    end: int

    @property
    def rank(self) -> tuple[int, int]:
        return (self.epochs[-1][0] if self.epochs else NO_EPOCH, self.end)

    def has(self, batch: Batch) -> bool:
        """Whether the batch is older than the end, and of the leader of its offset."""
        place = bisect_right(self.epochs, batch.base_offset, key=lambda epoch: epoch[1])
        # The log of the newest leader may begin later than the others; what is before belongs to older leaders.
        led_by = self.epochs[place - 1][0] if place else batch.leader_epoch
        return batch.base_offset < self.end and batch.leader_epoch == led_by


def _history(replica: Replica) -> _History:
    epochs, end = dict[int, int](), 0
    for batch in replica.batches(unreported):
        epochs.setdefault(batch.leader_epoch, batch.base_offset)
        end = batch.last_offset + 1
    # Compaction may have removed the first batches of an epoch: the file has its start.
    epochs |= dict(replica.epochs())
    return _History(sorted(epochs.items(), key=lambda epoch: epoch[1]), end)
