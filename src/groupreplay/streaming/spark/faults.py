"""Kinds of failures of the query, by what helps: what is waited for, what is repaired, and what ends the job.

The JVM's text is all that is known of a failure: the patterns are those of Spark, Hadoop, Kafka's clients and
Python.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.logs import without_secrets
from groupreplay.streaming.spark.internals.jvm import failure_texts
from groupreplay.streaming.spark.worker_check import worker_fault

#: A failure that nothing explains ends the job after this many tries without a finished batch.
MOST_FAILURES: Final = 3


class Remedy(Enum):
    """What helps after a failure."""

    #: Waiting until a disk can be written.
    DISK = "disk"
    #: Smaller messages: the broker refuses one as too large.
    SMALLER = "smaller"
    #: Waiting until the brokers accept writes: a partition has no leader, or too few replicas are in sync.
    REPLICAS = "replicas"
    #: Waiting: a busy machine has not started a Python process within the 10 s that Spark gives it.
    WORKER = "worker"
    #: Waiting until the cluster answers.
    CLUSTER = "cluster"
    #: Creating a topic again.
    TOPIC = "topic"
    #: Unknown: a few tries.
    RETRY = "retry"


#: In this order: an error of the disk is the cause of errors that name other things.
_REMEDIES: Final = (
    (
        Remedy.DISK,
        re.compile(
            r"No space left on device|Disk quota exceeded|Quota exceeded|Read-only file system"
            r"|Input/output error|Stale file handle|Transport endpoint is not connected"
            r"|\(Permission denied\)|AccessDeniedException|\[Errno 13\] Permission denied"
            r"|AccessControlException: Permission denied"
        ),
    ),
    (Remedy.SMALLER, re.compile(r"RecordTooLargeException|RecordBatchTooLargeException|MSG_SIZE_TOO_LARGE")),
    # The client tries again until it gives up: the refusal itself is rarely seen.
    (Remedy.REPLICAS, re.compile(r"NotEnoughReplicas\w*Exception|Expiring \d+ record")),
    # Its cause is a SocketTimeoutException, which is not Kafka's (``PythonWorkerFactory.createSimpleWorker``).
    (Remedy.WORKER, re.compile(r"Python worker (?:failed )?to connect back")),
    (
        Remedy.CLUSTER,
        # What Kafka's clients throw, anywhere in the chain of causes, while a cluster cannot be reached.
        re.compile(
            r"org\.apache\.kafka\.common\.errors\."
            r"(?:Timeout|Disconnect|Network|BrokerNotAvailable|CoordinatorNotAvailable|CoordinatorLoadInProgress"
            r"|LeaderNotAvailable|NotLeaderOrFollower|ReplicaNotAvailable|KafkaStorage)Exception"
            r"|org\.apache\.kafka\.clients\.consumer\.RetriableCommitFailedException"
            r"|java\.net\.(?:Connect|UnknownHost|NoRouteToHost|SocketTimeout|Socket)Exception"
            r"|No resolvable bootstrap urls"
            # Our own source of the log, and librdkafka below it.
            r"|groupreplay\.streaming\.base\.errors\.UnreachableError"
            # A task that reads a partition which has lost its leader since the batch was planned.
            r"|Cannot fetch record for offset \d+ in \d+ milliseconds"
        ),
    ),
    (Remedy.TOPIC, re.compile(r"UnknownTopicOrPartitionException|UnknownTopicIdException")),
)

#: What the line on the terminal begins with, while the job waits.
WAITING: Final = {
    Remedy.DISK: "the checkpoint, or the disk of Spark's files, cannot be used",
    Remedy.SMALLER: "the brokers refuse a message as too large",
    Remedy.REPLICAS: "the brokers accept no messages (no leader, or fewer replicas in sync than min.insync.replicas)",
    Remedy.WORKER: "a Python process of Spark has not started in time",
    Remedy.CLUSTER: "Kafka cannot be reached",
    Remedy.TOPIC: "a topic is missing",
    Remedy.RETRY: "the query failed",
}

#: A task that has failed may hold the state for a moment; Spark gives this the name of a damaged state.
_STATE_IN_USE: Final = re.compile(r"UNRELEASED_THREAD_ERROR")


#: SPARK-55271, in the connectors of Spark 4.1: the report of a batch that an earlier query has planned fails,
#: because only the planning of a batch asks for the ends of the log. The batch itself is finished by then.
_UNREPORTED: Final = re.compile(
    r"java\.lang\.NullPointerException\b[^\n]*"
    r"\s+at org\.apache\.spark\.sql\.kafka010\.KafkaMicroBatchStream\$\.metrics\("
)


#: The lines of a stack of Python are indented; what was raised comes behind them.
_TRACEBACK: Final = "Traceback (most recent call last):"
_RAISED: Final = re.compile(rf"{re.escape(_TRACEBACK)}\n(?:[ \t][^\n]*\n)*(\w[^\n]*)")
#: An error of groupreplay is a sentence without its class.
_OWN_NAME: Final = re.compile(r"^groupreplay\.[\w.]+: ")


@dataclass(frozen=True, slots=True)
class _Fault:
    """A kind of failure that a retry does not mend; ``stored``: its cause is in the checkpoint."""

    pattern: re.Pattern[str]
    what: str
    fix: str
    exit_code: ExitCode
    stored: bool = False


#: A file of a checkpoint, below its folder.
_FILE: Final = re.compile(r"/((?:state/\d+/(?:\d+|_metadata)/[\w./-]*\w|(?:offsets|commits)/\d+|metadata))\b")
#: Spark does not name a file of the state that ends too early. The task of each partition of it has its number.
_PARTITION: Final = re.compile(r"stage failure: Task (\d+) in stage ")
#: What Spark throws when another query has written the same batch to the checkpoint.
_CONCURRENT: Final = re.compile(r"CONCURRENT_STREAM_LOG_UPDATE|Multiple streaming (?:jobs|queries)")

_FAULTS: Final = (
    _Fault(
        re.compile(r"NoSuchMethodError: [^\n]*\bconsumer\.(?:Kafka)?Consumer\.poll\(long\)"),
        "Spark's Kafka connector has clients without the call by which it finds the partitions of an internal topic",
        "start the job with --log-source python, which reads the offsets topic without the connector",
        ExitCode.USAGE,
    ),
    _Fault(
        re.compile(r"(?:Topic|Cluster|Group|TransactionalId)AuthorizationException"),
        "not authorised",
        "groupreplay check says which right is missing, and prints the command that grants it",
        ExitCode.AUTHORISATION,
    ),
    _Fault(
        re.compile(r"(?:SaslAuthentication|SslAuthentication|Authentication)Exception"),
        "the broker refused the login",
        "check the --command-config file",
        ExitCode.CONNECTION,
    ),
    _Fault(
        re.compile(r"data may have been lost|OffsetOutOfRangeException|KAFKA_DATA_LOSS|DATA_LOSS"),
        "a part of the log was deleted before it was read",
        "start again with a new --checkpoint: the state is built anew from what the log still holds",
        ExitCode.DATA,
    ),
    _Fault(
        # By default brokers refuse dates more than an hour ahead, since Kafka 4.0 (KIP-1030).
        re.compile(r"InvalidTimestampException"),
        "the broker refused the date of a message: the clock of this machine, or of an executor's, is ahead",
        "correct that clock, or set message.timestamp.type=LogAppendTime on the job's topics: kafka-configs.sh --alter",
        ExitCode.CONNECTION,
    ),
    _Fault(
        _CONCURRENT,
        "another query writes to the same checkpoint",
        "stop the other one, or give this job a --checkpoint of its own",
        ExitCode.USAGE,
        stored=True,
    ),
    _Fault(
        re.compile(
            r"CANNOT_LOAD_STATE_STORE|SnapshotError: [^\n]* is damaged|ChecksumException|Checksum error"
        ),
        "the state in the checkpoint is damaged",
        "restore the whole folder from a backup, or start again with a new --checkpoint",
        ExitCode.DATA,
        stored=True,
    ),
    _Fault(
        re.compile(r"SnapshotError"),
        "the state in the checkpoint was written by another release",
        "run the release that wrote it, or start again with a new --checkpoint",
        ExitCode.DATA,
        stored=True,
    ),
)


def remedy(text: str) -> Remedy:
    """What helps after the failure that the text describes."""
    return next((one for one, pattern in _REMEDIES if pattern.search(text)), Remedy.RETRY)


def is_concurrent(text: str) -> bool:
    """Whether the query failed because another one writes to its checkpoint."""
    return _CONCURRENT.search(text) is not None


def is_only_unreported(text: str) -> bool:
    """Whether the batch was finished, and only Spark's report of it failed: a new query has nothing to repeat."""
    return _UNREPORTED.search(text) is not None


def known_fault(text: str, checkpoint: str | None = None) -> GroupReplayError | None:
    """The error for a failure that the JVM's text names and that is permanent; None for others."""
    if _STATE_IN_USE.search(text):
        return None
    # An executor may have come after the check at the start, on a machine with another Python.
    if (workers := worker_fault(text)) is not None:
        return workers
    for fault in _FAULTS:
        if fault.pattern.search(text):
            return GroupReplayError(
                f"{fault.what}: {headline(text)}",
                where=_place(text, checkpoint) if fault.stored and checkpoint else None,
                fix=fault.fix,
                exit_code=fault.exit_code,
            )
    return None


def _place(text: str, checkpoint: str) -> str:
    """The damaged file, if the text names it, else its folder, as far as it is known."""
    if file := _FILE.search(text):
        return f"{checkpoint}/{file[1]}"
    task = _PARTITION.search(text) if "CANNOT_LOAD_STATE_STORE" in text else None
    return f"{checkpoint}/state/0/{task[1]}" if task else checkpoint


def explained(text: str, checkpoint: str) -> GroupReplayError:
    """The error of a query that failed for good."""
    return known_fault(text, checkpoint) or GroupReplayError(
        f"the query failed {MOST_FAILURES} times in a row: {headline(text)}",
        fix="--debug shows the whole error; nothing is lost: a new start continues after the last finished batch",
    )


def failure_text(exception: Any) -> str:
    """The description of a failure, with its causes: PySpark keeps those apart, and the first is often the least."""
    return without_secrets("\n".join(failure_texts(exception)))


def headline(text: str) -> str:
    """The innermost cause, else the first line; of an error of Python what was raised, not where."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    first = (causes or lines or [""])[-1 if causes else 0]
    raised = _RAISED.findall(text) if first.endswith(_TRACEBACK) else None
    return (_OWN_NAME.sub("", raised[-1]) if raised else first)[:500]
