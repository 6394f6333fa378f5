"""The transactions that hold back the last stable offset of partitions of the offsets topic, by name.

Behind that offset nobody who reads committed records sees anything. Its own batch is the first of the oldest open
transaction (Kafka's ``ProducerStateManager.firstUnstableOffset``), and names the producer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from groupreplay.state.job.observations import MOST_GROUPS, OpenTransaction
from groupreplay.streaming.base.errors import GroupReplayError

log = logging.getLogger(__name__)

#: So many offsets from the last stable one on are read: the transaction may be open for days.
_MOST_OFFSETS: Final = 5_000
#: Partitions that are read in a round; the others have their turn in the next ones.
_MOST_PARTITIONS: Final = 10

#: By partition: two offsets.
Ends = Mapping[int, tuple[int, int]]
_Read = Callable[[Ends], Mapping[int, bytes]]


class OpenTransactions:
    """Reads what is behind a last stable offset that two rounds in a row have found; once for each.

    ``read`` returns the batches of partitions from the first offset (committed or not) up to the second one; it raises
    GroupReplayError.
    """

    def __init__(self, read: _Read) -> None:
        self._read = read
        self._before: Mapping[int, int] = {}
        self._known: dict[int, OpenTransaction] = {}
        self._warned = False

    def find(self, ends: Ends) -> tuple[OpenTransaction, ...]:
        """Those that are open; ``ends``: high watermark and last stable offset of the partitions that answered."""
        held = {number: stable for number, (high, stable) in ends.items() if stable < high}
        self._known = {
            number: known for number, known in self._known.items() if held.get(number) == known.first_offset
        }
        unread = [
            number
            for number, stable in held.items()
            if number not in self._known and self._before.get(number) == stable
        ]
        self._before = held
        spans = {
            number: (held[number], min(ends[number][0], held[number] + _MOST_OFFSETS))
            for number in unread[:_MOST_PARTITIONS]
        }
        if spans:
            self._learn(spans)
        return tuple(self._known[number] for number in sorted(self._known))

    def _learn(self, spans: Ends) -> None:
        try:
            tails = self._read(spans)
        except GroupReplayError as error:
            if not self._warned:
                log.warning(
                    "the producers of open transactions are not known: %s (%s)", error.what, error.fix
                )
            self._warned = True
            return
        for number, data in tails.items():
            if (transaction := _oldest(number, spans[number][0], data)) is not None:
                self._known[number] = transaction


def _oldest(partition: int, first_offset: int, data: bytes) -> OpenTransaction | None:
    """The transaction whose first record is at this offset; None: the marker that ends it is there by now."""
    from groupreplay.streaming.sources.log_replicas import transactions_of
    from groupreplay.streaming.sources.log_segments import batches_in
    from groupreplay.streaming.sources.pending_commits import pending_commits

    batches = list(batches_in(data))
    transactions = transactions_of(batches)
    holders = {
        batch.producer_id: batch.reader.producer_epoch
        for batch in batches
        if batch.base_offset == first_offset
    }
    for producer_id, epoch in holders.items():
        if producer_id is None or transactions.open.get(producer_id) != first_offset:
            continue
        commits = pending_commits(partition, batches, transactions)
        groups = sorted({commit.group for commit in commits if commit.producer_id == producer_id})
        return OpenTransaction(partition, producer_id, epoch, first_offset, tuple(groups[:MOST_GROUPS]))
    return None
