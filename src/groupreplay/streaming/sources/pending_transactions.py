"""Pending commits by transaction, as their group applies them.

Apart from the module that reads them: that one needs aiokafka, which not everybody has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from groupreplay.state.policy.pending import PendingCommit
from groupreplay.state.snapshot.observations import MOST_PENDING_TOPICS, PendingTransaction
from groupreplay.state.snapshot.partitions import by_topic


def pending_transactions(commits: Iterable[PendingCommit]) -> tuple[PendingTransaction, ...]:
    """The transactions to which these commits of one group belong, by their first records."""
    by_transaction = defaultdict[tuple[int, int], list[PendingCommit]](list)
    for commit in commits:
        by_transaction[commit.log_partition, commit.first_offset].append(commit)
    return tuple(_transaction(found) for _, found in sorted(by_transaction.items()))


def _transaction(commits: Sequence[PendingCommit]) -> PendingTransaction:
    first = commits[0]
    topics = by_topic((commit.topic, commit.partition) for commit in commits)
    return PendingTransaction(
        log_partition=first.log_partition,
        first_offset=first.first_offset,
        held_from=first.held_from,
        producer_id=first.producer_id,
        producer_epoch=first.producer_epoch,
        since_ms=first.since_ms,
        partitions=tuple(topics.items())[:MOST_PENDING_TOPICS],
        count=len(commits),
    )
