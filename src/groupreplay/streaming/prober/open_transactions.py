"""The transactions that hold back the last stable offset of partitions of the offsets topic, by name.

Behind that offset nobody who reads committed records sees anything. Its own batch is the first of the oldest open
transaction (Kafka's ``ProducerStateManager.firstUnstableOffset``), and names the producer.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from groupreplay.state.job.observations import MOST_GROUPS, OpenTransaction
from groupreplay.state.policy.pending import PendingCommit
from groupreplay.state.snapshot.observations import PendingTransaction
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.contract.probe_messages import GroupTransactionsAnswer
from groupreplay.streaming.sources.pending_transactions import pending_transactions

log = logging.getLogger(__name__)

#: So many offsets from the last stable one on are read: the transaction may be open for days.
_MOST_OFFSETS: Final = 5_000
#: Partitions that are read in a round; the others have their turn in the next ones.
_MOST_PARTITIONS: Final = 10

#: So often an answer that is the same is written again: a prober that starts reads the last hour of its topic.
_REPEAT_SECONDS: Final = 1_800.0

#: By partition: two offsets.
Ends = Mapping[int, tuple[int, int]]
#: The open transactions of each group.
ByGroup = Mapping[str, tuple[PendingTransaction, ...]]
_Read = Callable[[Ends], Mapping[int, bytes]]


class _Known(NamedTuple):
    """A transaction, as the round and as each group with commits in it are told of it."""

    transaction: OpenTransaction
    of_groups: Mapping[str, PendingTransaction]


class OpenTransactions:
    """Reads what is behind a last stable offset that two rounds in a row have found; once for each.

    ``read`` returns the batches of partitions from the first offset (committed or not) up to the second one; it raises
    GroupReplayError. ``written``: what an earlier process has last written of each group.
    """

    def __init__(
        self,
        read: _Read,
        *,
        cluster_id: str,
        interval_ms: int,
        seconds: Callable[[], float],
        written: ByGroup | None = None,
    ) -> None:
        self._read = read
        self._cluster_id = cluster_id
        self._interval_ms = interval_ms
        self._seconds = seconds
        self._before: Mapping[int, int] = {}
        self._known: dict[int, _Known] = {}
        self._written = {group: (answer, seconds()) for group, answer in (written or {}).items() if answer}
        self._warned = False

    def find(self, ends: Ends) -> tuple[OpenTransaction, ...]:
        """Those that are open; ``ends``: high watermark and last stable offset of the partitions that answered."""
        held = {number: stable for number, (high, stable) in ends.items() if stable < high}
        self._known = {
            number: known
            for number, known in self._known.items()
            if held.get(number) == known.transaction.first_offset
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
        return tuple(self._known[number].transaction for number in sorted(self._known))

    def answers(self, ends: Ends, taken_ms: int) -> tuple[GroupTransactionsAnswer, ...]:
        """What must be written of groups after ``find`` of the same ends: what has begun or ended, and old ones again.

        What was written of a partition that does not answer stays true, and so does what this process has not read yet.
        ``taken_ms`` is a time before the ends were asked for.
        """
        found = dict[str, tuple[PendingTransaction, ...]]()
        for known in self._known.values():
            for group, transaction in known.of_groups.items():
                found[group] = (*found.get(group, ()), transaction)
        now = self._seconds()
        answers = list[GroupTransactionsAnswer]()
        for group in sorted({*found, *self._written}):
            written, at = self._written.get(group, ((), now))
            kept = tuple(each for each in written if _may_be_open(each, ends))
            transactions = found.get(group, kept)
            if transactions != written or now - at >= _REPEAT_SECONDS:
                answers.append(
                    GroupTransactionsAnswer(
                        cluster_id=self._cluster_id,
                        group_id=group,
                        taken_ms=taken_ms,
                        transactions=transactions,
                        interval_ms=self._interval_ms,
                    )
                )
        return tuple(answers)

    def remember(self, answers: Iterable[GroupTransactionsAnswer]) -> None:
        """These were written."""
        now = self._seconds()
        for answer in answers:
            self._written[answer.group_id] = answer.transactions, now
            if not answer.transactions:
                del self._written[answer.group_id]

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
            if (known := _oldest(number, spans[number][0], data)) is not None:
                self._known[number] = known


def _may_be_open(transaction: PendingTransaction, ends: Ends) -> bool:
    """The last stable offset of its partition is still its first record, or is not known."""
    return (
        transaction.log_partition not in ends
        or ends[transaction.log_partition][1] == transaction.first_offset
    )


def _oldest(partition: int, first_offset: int, data: bytes) -> _Known | None:
    """The transaction whose first record is at this offset; None: the marker that ends it is there by now."""
    from groupreplay.streaming.sources.log_replicas import transactions_of
    from groupreplay.streaming.sources.log_segments import batches_in
    from groupreplay.streaming.sources.pending_commits import pending_commits

    batches = list(batches_in(data))
    transactions = transactions_of(batches)
    holders = {
        batch.producer_id: batch.producer_epoch for batch in batches if batch.base_offset == first_offset
    }
    for producer_id, epoch in holders.items():
        if producer_id is None or transactions.open.get(producer_id) != first_offset:
            continue
        commits = defaultdict[str, list[PendingCommit]](list)
        for commit in pending_commits(partition, batches, transactions):
            if commit.producer_id == producer_id:
                commits[commit.group].append(commit)
        of_groups = {group: pending_transactions(found)[0] for group, found in sorted(commits.items())}
        groups = tuple(of_groups)[:MOST_GROUPS]
        return _Known(OpenTransaction(partition, producer_id, epoch, first_offset, groups), of_groups)
    return None
