"""The offsets topic as its leaders send it, batch by batch, for reading much of it.

A consumer makes an object of each record. Here they become columns, as those of log folders do: a quarter of the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final, NoReturn

import numpy as np
import pyarrow as pa

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.base.memory import keep_freed_memory
from groupreplay.streaming.contract.log import numbers
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.raw_log import RawLog
from groupreplay.streaming.sources.log_replicas import columns_of_pieces
from groupreplay.streaming.sources.log_segments import Batch, batches_in, is_abort

#: Of one answer, about as many records as a chunk of columns has.
_FETCH_BYTES: Final = 4 << 20


@dataclass(slots=True)
class FetchedLog:
    """A client of the leaders, which stays open from one reading to the next until one fails."""

    connection: Connection
    _log: RawLog | None = field(default=None, init=False)

    def read(self, spans: Sequence[tuple[int, int, int]]) -> Iterator[pa.RecordBatch]:
        """The records that a consumer with ``read_committed`` gets of these spans (partition, first offset, end).

        Raises:
            GroupReplayError: something is not as it should be, here or in the log: a consumer is to read on.
        """
        keep_freed_memory()
        if self._log is None:
            self._log = RawLog(self.connection, OFFSETS_TOPIC, committed=True)
        try:
            for span in spans:
                yield from _records(self._log, *span)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Closes its connections."""
        if self._log is not None:
            self._log.close()
        self._log = None


def _records(log: RawLog, partition: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
    pieces = ([batch] for batch in _committed(log, partition, start, end))
    for columns in columns_of_pieces(pieces, _unreadable):
        # A batch may begin before the span, and end behind it.
        first, behind = np.searchsorted(numbers(columns.offsets), [start, end]).tolist()
        if first < behind:
            yield columns.rows(OFFSETS_TOPIC, partition).slice(first, behind - first)


def _committed(log: RawLog, partition: int, offset: int, end: int) -> Iterator[Batch]:
    """The batches of records that count; the next ones are asked for while these are taken apart."""
    fetching = log.fetch(partition, offset, _FETCH_BYTES)
    while offset < end:
        fetched = fetching.result()
        batches = list(batches_in(fetched.batches))
        if not batches or batches[-1].last_offset < offset:
            raise GroupReplayError(f"no whole batch with offset {offset} was sent")
        offset = batches[-1].last_offset + 1
        if offset < end:
            fetching = log.fetch(partition, offset, _FETCH_BYTES)
        yield from _without_aborted(batches, fetched.aborted)


def _without_aborted(batches: Sequence[Batch], aborted: Sequence[tuple[int, int]]) -> Iterator[Batch]:
    """The batches of records but those of aborted transactions, as a consumer leaves them out (``CompletedFetch``)."""
    begins, aborting = sorted(aborted, key=itemgetter(1), reverse=True), set[int]()
    for batch in batches:
        while begins and begins[-1][1] <= batch.last_offset:
            aborting.add(begins.pop()[0])
        if batch.is_control:
            if batch.producer_id is not None and is_abort(batch):
                aborting.discard(batch.producer_id)
        elif batch.producer_id not in aborting:
            yield batch


def _unreadable(batch: Batch, reason: str) -> NoReturn:
    raise GroupReplayError(f"the batch at offset {batch.base_offset}: {reason}")
