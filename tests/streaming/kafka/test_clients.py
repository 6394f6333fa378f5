"""Connections: librdkafka's errors in our words, and clients that leave no trace on the broker."""

from __future__ import annotations

import socket
from concurrent.futures import Future
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, TopicCollection, TopicPartition, Uuid

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, UnreachableError
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.contract.log import EpochEnd
from groupreplay.streaming.kafka import clients
from groupreplay.streaming.kafka.client_errors import ends_reading
from groupreplay.streaming.kafka.clients import Connection

CLUSTER = Cluster(bootstrap_servers="h:1")
UUID = Uuid(0x19E5A0AA_60E34B90, -0x6F8B_9FF2_495C_D85E)


HIDDEN = "the topic does not exist, or this login may not see it"


@pytest.mark.parametrize(
    ("code", "what", "exit_code"),
    [
        (KafkaError._AUTHENTICATION, "the broker refused the login", ExitCode.CONNECTION),
        (KafkaError.SASL_AUTHENTICATION_FAILED, "the broker refused the login", ExitCode.CONNECTION),
        (KafkaError._SSL, "the connection with TLS failed", ExitCode.CONNECTION),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "not authorised", ExitCode.AUTHORISATION),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, "not authorised", ExitCode.AUTHORISATION),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, HIDDEN, ExitCode.DATA),
        (KafkaError._TIMED_OUT, "cannot reach the cluster", ExitCode.CONNECTION),
        (KafkaError._RESOLVE, "cannot reach the cluster", ExitCode.CONNECTION),
        (KafkaError.INVALID_RECORD, "Kafka returned an error", ExitCode.UNEXPECTED),
    ],
)
def test_errors_in_our_words(code: int, what: str, exit_code: ExitCode) -> None:
    """Each kind of failure has its sentence and its exit code; the broker's own words are kept."""
    told = Connection(CLUSTER).explain(KafkaException(KafkaError(code, "[thrd:h:1/1]: x\nmore")), "t")
    assert (told.what, told.exit_code) == (f"{what}: x", exit_code)
    assert (told.where or "").startswith("t")


@pytest.mark.parametrize(
    ("code", "passes"),
    [
        (KafkaError._TRANSPORT, True),
        (KafkaError._MSG_TIMED_OUT, True),
        (KafkaError.LEADER_NOT_AVAILABLE, True),
        (KafkaError.NOT_ENOUGH_REPLICAS, True),
        (KafkaError._AUTHENTICATION, False),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, False),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, False),
        (KafkaError.MSG_SIZE_TOO_LARGE, False),
    ],
)
def test_what_may_pass_by_itself(code: int, passes: bool) -> None:
    """A job that has run before waits for a cluster, not for a right that somebody has to grant."""
    told = Connection(CLUSTER).explain(KafkaException(KafkaError(code, "x")), "t")
    assert isinstance(told, UnreachableError) is passes


def test_the_noted_cause_is_told() -> None:
    """A time-out says little: what librdkafka noted meanwhile is the reason."""
    connection = Connection(CLUSTER)
    connection.notes.take(KafkaError(KafkaError.SASL_AUTHENTICATION_FAILED, "bad password"))
    connection.notes.take(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    told = connection.explain(KafkaException(KafkaError(KafkaError._TIMED_OUT, "timed out")), "t")
    assert told.what == "the broker refused the login: bad password"


def test_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address where nothing answers is reported with the reason, in bounded time."""
    monkeypatch.setattr(clients, "REQUEST_SECONDS", 1.0)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
        with pytest.raises(GroupReplayError) as caught:
            Connection(Cluster(bootstrap_servers=address)).identify("t")
    assert caught.value.what.startswith("cannot reach the cluster: ")
    assert caught.value.exit_code is ExitCode.CONNECTION


class FakeAdmin:
    """A cluster of three topics: one with an id, one without (an old broker), one we may not describe."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def list_topics(self, *_: object, **__: object) -> SimpleNamespace:
        return SimpleNamespace(topics=dict.fromkeys(("orders", "old", "secret")))

    def describe_topics(self, topics: TopicCollection, request_timeout: float) -> dict[str, Future[object]]:
        self.asked.append(topics.topic_names)
        ids = {"orders": UUID, "old": None}
        answers: dict[str, Future[object]] = {name: Future() for name in topics.topic_names}
        for name, answer in answers.items():
            if name in ids:
                answer.set_result(SimpleNamespace(topic_id=ids[name]))
            else:
                answer.set_exception(KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)))
        return answers


def test_names_of_topic_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for in pieces; what has no id or may not be seen is left out."""
    monkeypatch.setattr(clients, "_TOPICS_A_REQUEST", 2)
    connection, admin = Connection(CLUSTER), FakeAdmin()
    monkeypatch.setattr(connection, "admin", lambda: admin)
    assert connection.topic_names() == {"GeWgqmDjS5CQdGANtqMnog": "orders"}
    assert admin.asked == [["old", "orders"], ["secret"]]


def test_no_names_without_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that does not answer is no reason to fail: the ids stay."""
    connection = Connection(CLUSTER)
    fail = Mock(side_effect=KafkaException(KafkaError(KafkaError._TIMED_OUT)))
    monkeypatch.setattr(connection, "admin", lambda: SimpleNamespace(list_topics=fail))
    assert connection.topic_names() == {}


def test_ends_with_the_epoch_of_their_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that does not number epochs answers -1 or nothing; both are unknown."""
    epochs = (7, 0, -1, None)

    def list_offsets(
        wanted: dict[TopicPartition, object], **_: object
    ) -> dict[TopicPartition, Future[object]]:
        answers: dict[TopicPartition, Future[object]] = {place: Future() for place in wanted}
        for place, answer in answers.items():
            epoch = epochs[place.partition]
            answer.set_result(SimpleNamespace(offset=100 + place.partition, leader_epoch=epoch))
        return answers

    connection = Connection(CLUSTER)
    monkeypatch.setattr(connection, "admin", lambda: SimpleNamespace(list_offsets=list_offsets))
    assert connection.log_ends("t", 4) == {
        0: EpochEnd(100, 7),
        1: EpochEnd(101, 0),
        2: EpochEnd(102),
        3: EpochEnd(103),
    }
    assert connection.end_offsets("t", 4) == {0: 100, 1: 101, 2: 102, 3: 103}


def test_settings_that_librdkafka_refuses() -> None:
    """A value that cannot be is the caller's mistake and shows no secret."""
    cluster = Cluster(bootstrap_servers="h:1", properties={"security.protocol": "MAGIC"})
    with pytest.raises(GroupReplayError) as caught:
        Connection(cluster).admin()
    assert (caught.value.exit_code, "MAGIC" in caught.value.what) == (ExitCode.USAGE, True)


def test_what_ends_a_reading() -> None:
    """A refusal about the group that librdkafka makes up is none: nothing is asked of that group."""
    harmless = (KafkaError._PARTITION_EOF, KafkaError.GROUP_AUTHORIZATION_FAILED)
    codes = (*harmless, KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.OFFSET_OUT_OF_RANGE)
    assert [ends_reading(KafkaError(code)) for code in codes] == [False, False, True, True]


@pytest.mark.parametrize("invalid", [OFFSET_INVALID, KafkaException(KafkaError(KafkaError._TIMED_OUT))])
def test_a_partition_without_an_answer_has_no_end(invalid: object) -> None:
    """For librdkafka it is no error: the partition of a leader that dies while it is asked has an offset below zero.

    Taken for an end it would look like a log that was cut.
    """
    connection, answers = Connection(CLUSTER), [Future[object](), Future[object]()]
    answers[0].set_result(SimpleNamespace(offset=7))
    if isinstance(invalid, Exception):
        answers[1].set_exception(invalid)
    else:
        answers[1].set_result(SimpleNamespace(offset=invalid))
    places = [TopicPartition("t", 0), TopicPartition("t", 1)]
    connection._admin = Mock()
    connection._admin.list_offsets.return_value = dict(zip(places, answers, strict=True))
    assert connection.partition_starts([("t", 0), ("t", 1)]) == {("t", 0): 7}
    with pytest.raises(GroupReplayError, match="cannot reach the cluster"):
        connection.end_offsets("t", 2)
