"""librdkafka's errors as messages of this program."""

from __future__ import annotations

import re
from typing import Any, Final

from confluent_kafka import KafkaError

from groupreplay.state.policy.context import OFFSETS_TOPIC
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, UnreachableError

_NO_TOPIC: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})
_NO_OFFSETS_TOPIC: Final = (
    "the offsets topic is created with the first committed offset; seeing it needs the right Describe"
)

#: No broker answers.
UNREACHABLE: Final = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
    }
)
#: The cluster answers, and a partition cannot be read or written at this moment: what Kafka's clients try again.
PARTITION_AWAY: Final = frozenset(
    {
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.NOT_CONTROLLER,
        # The client knew another leader than the one that it asked: a moment after an election.
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        # A new leader does not know the high watermark yet.
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.LISTENER_NOT_FOUND,
        KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
        KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
    }
)

#: Error codes of librdkafka -> message, what to do, and exit code.
_EXPLANATIONS: Final = (
    (
        {KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._SSL},
        "the broker refused the login",
        "check security.protocol, the login and the certificates in the --command-config file",
        ExitCode.CONNECTION,
    ),
    (
        {
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            KafkaError.CLUSTER_AUTHORIZATION_FAILED,
            KafkaError.GROUP_AUTHORIZATION_FAILED,
        },
        "not authorised",
        "groupreplay check shows which right is missing, and the command that grants it",
        ExitCode.AUTHORISATION,
    ),
    (
        _NO_TOPIC,
        "the topic does not exist, or this login may not see it",
        "groupreplay run creates the job's topics; seeing a topic needs the right Describe",
        ExitCode.DATA,
    ),
    (
        UNREACHABLE,
        "cannot reach the cluster",
        "check the address, that the broker runs, and security.protocol in the --command-config file",
        ExitCode.CONNECTION,
    ),
    (
        PARTITION_AWAY,
        "the cluster cannot serve a partition now",
        "check that all brokers run, and min.insync.replicas",
        ExitCode.CONNECTION,
    ),
)


def ends_reading(error: KafkaError) -> bool:
    """Whether a reader must give up after an error that arrived instead of a record.

    The end of a partition is not such an error. Nor is a refusal about the group: librdkafka looks up the
    coordinator of the group id that it requires, but reading by assignment does not need that coordinator.
    """
    harmless = (KafkaError._PARTITION_EOF, KafkaError.GROUP_AUTHORIZATION_FAILED)
    return error.code() not in harmless and not error.retriable()


def explained(cause: Any, where: str, servers: str) -> GroupReplayError:
    """The error for what a client of librdkafka has raised or reported, a ``KafkaError`` or another exception."""
    is_known = isinstance(cause, KafkaError)
    code, text = cause.code() if is_known else None, first_line(cause.str() if is_known else str(cause))
    for codes, what, fix, exit_code in _EXPLANATIONS:
        if code in codes:
            hint = _NO_OFFSETS_TOPIC if codes is _NO_TOPIC and where.startswith(OFFSETS_TOPIC) else fix
            kind = UnreachableError if codes in (UNREACHABLE, PARTITION_AWAY) else GroupReplayError
            return kind(f"{what}: {text}", where=f"{where}, {servers}", fix=hint, exit_code=exit_code)
    return GroupReplayError(f"Kafka returned an error: {text}", where=where)


def first_line(text: str) -> str:
    """The first line of an error in librdkafka's words."""
    # librdkafka puts the name of its thread first.
    return re.sub(r"^\[thrd:[^\]]*\]:\s*", "", text.strip()).split("\n", 1)[0]
