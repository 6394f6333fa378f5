"""What earlier probers have written to their topic: a prober that starts goes on where they ended."""

from __future__ import annotations

from dataclasses import dataclass, field

from groupreplay.state.snapshot.observations import PendingTransaction
from groupreplay.streaming.contract.probe_messages import GroupAnswer, GroupTransactionsAnswer, RoundSummary
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.topic_reader import read_messages
from groupreplay.streaming.prober.open_transactions import ByGroup
from groupreplay.streaming.prober.prober import IN_PROGRESS
from groupreplay.streaming.sources.source import probe_messages
from groupreplay.streaming.sources.topic import partitions_of


@dataclass(frozen=True, slots=True)
class LastRounds:
    """The groups that were rebalancing in their last answer, and the open transactions of its groups.

    ``listed_ms`` is when a round has listed all groups (None: not known).
    """

    in_progress: frozenset[str] = frozenset()
    listed_ms: int | None = None
    transactions: ByGroup = field(default_factory=dict)


def last_rounds(connection: Connection, topic: str, cluster_id: str, since_ms: int) -> LastRounds:
    """The rounds since then, of any prober of that cluster.

    Raises:
        GroupReplayError: the cluster does not answer, or this login may not read the topic.
    """
    partitions = partitions_of(connection, topic)
    if not partitions:
        return LastRounds()
    ends = connection.end_offsets(topic, partitions)
    starts = connection.offsets_since(topic, partitions, since_ms)
    last: dict[str, GroupAnswer] = {}
    transactions: dict[str, tuple[PendingTransaction, ...]] = {}
    listed_ms: int | None = None
    for message in probe_messages(read_messages(connection, topic, starts, ends)):
        if isinstance(message, GroupAnswer) and message.cluster_id == cluster_id:
            last[message.group_id] = message
        elif isinstance(message, GroupTransactionsAnswer) and message.cluster_id == cluster_id:
            transactions[message.group_id] = message.transactions
        elif isinstance(message, RoundSummary) and _is_complete(message, cluster_id):
            listed_ms = message.taken_ms
    begun = frozenset(group for group, answer in last.items() if answer.state in IN_PROGRESS)
    return LastRounds(begun, listed_ms, transactions)


def _is_complete(summary: RoundSummary, cluster_id: str) -> bool:
    return summary.cluster_id == cluster_id and not any(summary.brokers.values())
