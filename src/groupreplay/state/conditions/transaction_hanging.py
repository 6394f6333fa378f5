"""``transaction.hanging``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from msgspec import Meta

from groupreplay.state import phrases
from groupreplay.state.conditions.condition import Alert, Condition, Example
from groupreplay.state.conditions.detection import (
    QUIET,
    Dependency,
    Detection,
    Evaluation,
    GroupDetector,
    GroupView,
)
from groupreplay.state.events.event import Evidence, Partitions, Severity
from groupreplay.state.phrases import Data, counted, milliseconds, timestamp
from groupreplay.state.policy.context import OFFSETS_TOPIC, BrokerRelease
from groupreplay.state.snapshot.observations import PendingTransaction

#: What ends the transaction of a producer that is gone.
ABORT: Final = (
    "if producer {producer_id} is gone, kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic "
    f"{OFFSETS_TOPIC} --partition {{log_partition}} --start-offset {{first_offset}} ends its transaction"
)
#: Since this release a pending commit keeps the offset of its partition from expiring
#: (``OffsetMetadataManager.cleanupExpiredOffsets``).
_HOLDS_EXPIRY: Final = (4, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionHanging(Condition):
    """A transaction with commits of the group has been open for long."""

    NAME = "transaction.hanging"
    DOC = (
        "A producer has committed offsets of the group in a transaction and has not ended it. Until it ends, these "
        "commits do not count, and no reader of committed records sees what any group of the same partition of "
        "`__consumer_offsets` commits behind it. Its id and its begin are the same in the job, in a copy of the "
        "brokers' folders and in a read of the topic."
    )
    SHORT = "with a hanging transaction"
    MEANING = "a transaction with commits of the group was not ended"
    GROUPS_DID = "had a transaction that was not ended"
    ALERTS = (
        Alert(
            fires="a transaction with commits of a group is open for more than a minute",
            summary="A transaction with commits of {group} hangs",
            description=(
                "A producer has committed offsets of group {group} of cluster {cluster} in a transaction and has not "
                "ended it. The event transaction.hanging names the producer, and the command that ends the transaction "
                "if the producer is gone."
            ),
        ),
    )
    EXAMPLES = (
        Example(
            Evidence.PROBE,
            {
                "producer_id": 4_711,
                "producer_epoch": 0,
                "log_partition": 12,
                "first_offset": 902_114,
                "held_from": 902_114,
                "partitions": {"orders": "0-3"},
                "partition_count": 4,
                "elapsed_ms": 75_000,
                "holds_expiry": True,
                "fix": "kafka-transactions.sh",
            },
        ),
    )
    producer_id: int
    producer_epoch: int
    log_partition: Annotated[int, Meta(description="The partition of `__consumer_offsets`.")]
    first_offset: Annotated[int, Meta(description="The first record of the transaction there.")]
    held_from: Annotated[
        int,
        Meta(
            description="Nothing from this offset on is read there (the last stable offset, when the transaction was "
            "found): earlier than `first_offset` where another transaction is open as well."
        ),
    ]
    partitions: Annotated[Partitions, Meta(description="Partitions with a pending commit, by topic.")]
    partition_count: int
    elapsed_ms: Annotated[int, Meta(description="How long it has been open, as far as it is known.")]
    holds_expiry: Annotated[
        bool | None,
        Meta(
            description="Whether the offsets of these partitions do not expire meanwhile: brokers since Kafka 4.0 keep "
            "them. Null: the release is not known."
        ),
    ]
    fix: Annotated[str, Meta(description="The command that ends it.")]

    @staticmethod
    def firing_text(data: Data) -> str:
        """See ``Condition``."""
        since_ms = data.get("since_ms")
        since = f", since {timestamp(since_ms)}" if isinstance(since_ms, int) else ""
        return (
            f"{TransactionHanging.who(data)}, open for {milliseconds(data.get('elapsed_ms'))}{since}: "
            f"{TransactionHanging.held(data)}; {TransactionHanging.remedy(data)}"
        )

    @staticmethod
    def held(data: Data, *, is_over: bool = False) -> str:
        """What waits for its end, or did."""
        wait, is_read, do = ("waited", "was read", "did") if is_over else ("wait", "is read", "do")
        waiting = f"commits of {counted(data.get('partition_count', 0), 'partition')} {wait}"
        places = phrases.partitions(data.get("partitions"))
        unread = (
            f"nothing in partition {data.get('log_partition')} of the offsets topic {is_read} from offset "
            f"{data.get('held_from')} on"
        )
        keeps = f", and these offsets {do} not expire" if data.get("holds_expiry") else ""
        return f"{waiting}: {places}; {unread}{keeps}"

    @staticmethod
    def remedy(data: Data, *, is_over: bool = False) -> str:
        """The command that ends it, and when; of one that is over there is nothing to end."""
        return "its transaction has ended" if is_over else phrases.safe_text(str(data.get("fix") or ""), 300)

    @staticmethod
    def who(data: Data) -> str:
        """See ``Condition``."""
        return f"producer {data.get('producer_id')} (epoch {data.get('producer_epoch')})"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionHangingDetector(GroupDetector):
    """A transaction with commits of the group is open for ``threshold_ms``; an error after ``error_ms``.

    The prober tells of it, or the batches behind the last stable offset, where a command reads them. It ends when they
    say so, or when a committed record of the group is read behind its first offset.
    """

    CONDITION = TransactionHanging
    DEPENDS_ON = frozenset({Dependency.PROBES, Dependency.COMMITS})
    threshold_ms: int = 60_000
    error_ms: int = 900_000

    def evaluate(self, view: GroupView) -> Evaluation:
        """See ``GroupDetector``."""
        answer = view.snapshot.transactions
        if answer is None:
            return QUIET
        evidence = Evidence.LOG if answer.topic == OFFSETS_TOPIC else Evidence.PROBE
        detections, times = list[Detection](), list[int]()
        for transaction in answer.transactions:
            if view.snapshot.log.last_offset >= transaction.first_offset:
                continue
            ages_ms = (self.threshold_ms, max(self.threshold_ms, self.error_ms))
            times += [at_ms for age in ages_ms if (at_ms := transaction.since_ms + age) > view.now_ms]
            open_ms = view.now_ms - transaction.since_ms
            if open_ms >= ages_ms[0]:
                is_error = open_ms >= ages_ms[1]
                detections.append(self._hanging(view, transaction, evidence, is_error=is_error))
        return Evaluation(tuple(detections), min(times, default=None)) if times or detections else QUIET

    def _hanging(
        self,
        view: GroupView,
        transaction: PendingTransaction,
        evidence: Evidence,
        *,
        is_error: bool,
    ) -> Detection:
        producer = {
            name: getattr(transaction, name)
            for name in ("producer_id", "producer_epoch", "log_partition", "first_offset")
        }
        return self.detection(
            transaction.since_ms,
            self.threshold_ms,
            # A producer may leave one transaction after the other open.
            subject=":".join(map(str, producer.values())),
            severity=Severity.ERROR if is_error else Severity.WARN,
            evidence=evidence,
            held_from=transaction.held_from,
            partitions=dict(transaction.partitions),
            partition_count=transaction.count,
            elapsed_ms=view.now_ms - transaction.since_ms,
            holds_expiry=_holds_expiry(view.context.broker_release),
            fix=ABORT.format_map(producer),
            **producer,
        )


def _holds_expiry(release: BrokerRelease | None) -> bool | None:
    return None if release is None else release >= _HOLDS_EXPIRY
