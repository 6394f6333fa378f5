"""Appends to the offsets topic that fail: what the coordinator answers then, and what it takes back.

After ``CoordinatorRuntime`` and ``CoordinatorOperationExceptionHelper`` (4.3.1), and for the older coordinator
``GroupMetadataManager.storeOffsets``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from groupreplay.coordinator.classic.classic_group import ClassicGroup
from groupreplay.coordinator.consumer.consumer_group import ConsumerGroup
from groupreplay.coordinator.coordinator_state import CoordinatorState
from groupreplay.coordinator.offsets import CommittedOffsets
from groupreplay.coordinator.requests import (
    Answer,
    AppendFailed,
    EndTransaction,
    Error,
    OffsetCommit,
    Request,
)

#: Why a leader refuses records, and the error that clients get. Nothing of the records is in the log.
_ANSWERS: Final[Mapping[Error, Error]] = {
    Error.NOT_ENOUGH_REPLICAS: Error.COORDINATOR_NOT_AVAILABLE,
    Error.UNKNOWN_TOPIC_OR_PARTITION: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_LEADER_OR_FOLLOWER: Error.NOT_COORDINATOR,
    Error.KAFKA_STORAGE_ERROR: Error.NOT_COORDINATOR,
    Error.MESSAGE_TOO_LARGE: Error.UNKNOWN_SERVER_ERROR,
}
APPEND_ERRORS: Final = tuple(_ANSWERS)


def answered_error(error: Error) -> Error:
    """The error that clients get for an append that failed."""
    return _ANSWERS[error]


def failed_answer(request: Request, failed: AppendFailed, *, scala: bool) -> Answer:
    """The answer to a request whose records were not written."""
    if failed.answer is not None:
        return failed.answer
    if isinstance(request, EndTransaction):
        # The broker that ends the transaction gets the error itself, and tries again.
        return Answer(error=failed.error)
    if scala and isinstance(request, OffsetCommit) and failed.error is Error.MESSAGE_TOO_LARGE:
        return Answer(error=Error.INVALID_COMMIT_OFFSET_SIZE)
    return Answer(error=answered_error(failed.error))


@dataclass(frozen=True, slots=True)
class RuntimeSnapshot:
    """What an operation changes and Kafka takes back when its append fails (``SnapshotRegistry``).

    That is the type of the group, a consumer group and the offsets. A classic group keeps what the operation did to it,
    and timers stay as the operation left them: no append can bring back a timer that was cancelled.
    """

    group: ClassicGroup | ConsumerGroup | None
    consumer: ConsumerGroup | None
    #: What was only in the log before the operation still is.
    forgotten: ConsumerGroup | None
    offsets: CommittedOffsets
    changes: int

    @classmethod
    def of(cls, coordinator: CoordinatorState) -> RuntimeSnapshot:
        """The state before an operation."""
        group = coordinator.group
        return cls(
            group=group,
            consumer=group.copy() if isinstance(group, ConsumerGroup) else None,
            forgotten=coordinator.forgotten,
            offsets=coordinator.offsets.copy(),
            changes=len(coordinator.journal.changes),
        )

    def restore(self, coordinator: CoordinatorState, error: Error, now_ms: int) -> None:
        """Take back what the operation has changed. The older coordinator only gives up the offsets."""
        says = "Writing records to __consumer_offsets failed due to: %s."
        coordinator.trace.branch("revertLastWrittenOffset", says, error.value)
        self.take_back(coordinator, now_ms)

    def take_back(self, coordinator: CoordinatorState, now_ms: int) -> None:
        """The same without a word."""
        coordinator.offsets.restore(self.offsets)
        coordinator.journal.warnings.clear()
        if coordinator.settings.scala:
            return
        replaced = coordinator.group is not self.group
        coordinator.group, coordinator.forgotten = self.group, self.forgotten
        if self.consumer is not None:
            assert isinstance(self.group, ConsumerGroup)
            self.group.restore(self.consumer)
        if replaced or self.consumer is not None:
            coordinator.journal.forget_changes(self.changes)
        if coordinator.forgotten_after == coordinator.journal.written_count:
            # Kafka goes back to what was written last, and forgetting the group has written nothing.
            coordinator.remember_group(now_ms)
