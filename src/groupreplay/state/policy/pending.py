"""Commits of transactions that have not ended: no reader of committed records sees them, and what they hold back."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from groupreplay.state.phrases import safe_text, timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCommit:
    """An offset that counts when its transaction is committed, and then only if no commit has come behind it.

    ``log_partition`` and ``log_offset`` are its place in ``__consumer_offsets``; nothing from ``held_from`` on is read
    there (the last stable offset). ``first_offset`` and ``since_ms`` are those of the first record of its transaction,
    which was still open at ``open_ms``, the time of the last record of the partition. ``newer_offset`` is what was
    committed behind it, and wins (``CommitRecordMetadataAndOffset.olderThan``); None: nothing.
    """

    group: str
    topic: str
    partition: int
    offset: int
    log_partition: int
    log_offset: int
    held_from: int
    written_ms: int
    since_ms: int
    producer_id: int
    producer_epoch: int
    newer_offset: int | None
    first_offset: int
    open_ms: int

    def document(self) -> dict[str, Any]:
        """As ``describe`` prints it, beside the committed offsets."""
        return {name: value for name, value in asdict(self).items() if name != "group"}

    def text(self) -> str:
        """The commit, its transaction and what follows, in one sentence."""
        wins = "it becomes the committed offset if the transaction is committed"
        if self.newer_offset is not None:
            wins = (
                f"{self.newer_offset} was committed behind it, and stays also if the transaction is committed"
            )
        return (
            f"{safe_text(self.topic)}-{self.partition}: offset {self.offset} is pending in a transaction of producer "
            f"{self.producer_id} (epoch {self.producer_epoch}) that is open since {timestamp(self.since_ms)}: {wins}; "
            "until it ends, the offset does not expire (Kafka 4.0 or later), and nothing in partition "
            f"{self.log_partition} of the offsets topic is read from offset {self.held_from} on"
        )
