"""Which errors of a cluster pass by themselves."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, UnreachableError
from groupreplay.streaming.kafka.client_errors import PARTITION_AWAY, UNREACHABLE, explained
from support.job.spark_sessions import small_session

#: Errors that Kafka's clients try again, and that do not pass here.
OTHERWISE = {
    "CORRUPT_MESSAGE",
    # A missing topic is told as such.
    "UNKNOWN_TOPIC_OR_PARTITION",
    "UNKNOWN_TOPIC_ID",
    "INCONSISTENT_TOPIC_ID",
    "ELECTION_NOT_NEEDED",
    # Of sessions that the client begins anew by itself.
    "FETCH_SESSION_ID_NOT_FOUND",
    "INVALID_FETCH_SESSION_EPOCH",
    "FETCH_SESSION_TOPIC_ID_ERROR",
    "SHARE_SESSION_NOT_FOUND",
    "INVALID_SHARE_SESSION_EPOCH",
    "SHARE_SESSION_LIMIT_REACHED",
}
#: An old error that Kafka's own client does not try again, and librdkafka does.
ALSO = {"BROKER_NOT_AVAILABLE"}


@pytest.mark.spark
def test_what_kafka_tries_again_passes() -> None:
    """Every error that is a RetriableException of Kafka's own clients, except those that are named here."""
    from py4j.java_gateway import is_instance_of

    context = small_session().sparkContext
    errors = context._jvm.org.apache.kafka.common.protocol.Errors.values()
    retriable = "org.apache.kafka.common.errors.RetriableException"
    passing = {
        error.name()
        for error in errors
        if error.exception() is not None and is_instance_of(context._gateway, error.exception(), retriable)
    }
    codes = {error.code(): error.name() for error in errors}
    ours = {codes[code] for code in UNREACHABLE | PARTITION_AWAY if code > 0}
    assert ours - ALSO == passing - OTHERWISE


@pytest.mark.parametrize("code", [KafkaError.FENCED_LEADER_EPOCH, KafkaError.OFFSET_NOT_AVAILABLE])
def test_a_moment_after_an_election(code: int) -> None:
    """A client that asked the former leader is told so: the job waits, as for a broker that is away."""
    error = explained(KafkaError(code), "__consumer_offsets", "h:1")
    assert isinstance(error, UnreachableError)
    assert (error.what.partition(":")[0], error.exit_code) == (
        "the cluster cannot serve a partition now",
        ExitCode.CONNECTION,
    )


def test_an_error_that_does_not_pass() -> None:
    """Any other error ends what was asked, in librdkafka's words."""
    error = explained(KafkaError(KafkaError.INVALID_REQUEST), "t", "h:1")
    assert type(error) is GroupReplayError
    assert error.what.startswith("Kafka returned an error: ")


@pytest.mark.parametrize(
    ("topic", "fix"),
    [
        ("__consumer_offsets", "the offsets topic is created with the first committed offset"),
        ("group-states", "groupreplay run creates the job's topics"),
    ],
)
def test_a_topic_that_is_missing(topic: str, fix: str) -> None:
    """Who creates it depends on the topic: `serve` reads the job's own."""
    error = explained(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), topic, "h:1")
    assert (error.exit_code, (error.fix or "").partition(";")[0]) == (ExitCode.DATA, fix)
