"""The topics of the job on a real broker: made, left alone, looked at, and missing.

Topics with the brokers' defaults, on brokers that know requests for them and on those before 2.4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka import output_topics
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.output_topics import (
    TOPIC_CONFIGS,
    OutputTopic,
    TopicNumbers,
    WantedTopic,
    create_missing,
    create_topics,
    ensure_topics,
    request_topics,
    topic_problems,
)
from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.jobs import topic_names
from support.kafka.clients import make_topics
from support.kafka.waiting import wait_until


@pytest.mark.broker
def test_missing_topics_are_made_with_their_policies(
    broker: EmbeddedBroker, unique: Callable[[str], str]
) -> None:
    """Documents are compacted, events kept for 30 days; a second start changes nothing."""
    names = topic_names(unique("t"))
    connection = Connection(Cluster(bootstrap_servers=broker.bootstrap_servers))
    partitions = ensure_topics(connection, names)
    assert partitions[names.job] == partitions[names.probes] == 1
    assert ensure_topics(connection, names) == partitions
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for one, wanted in TOPIC_CONFIGS.items():
        resource = ConfigResource(ConfigResource.Type.TOPIC, getattr(names, one))
        found = admin.describe_configs([resource])[resource].result(30)
        assert {name: found[name].value for name in wanted} == wanted


@pytest.mark.broker
def test_a_topic_that_was_deleted_is_created_again(
    broker: EmbeddedBroker, unique: Callable[[str], str]
) -> None:
    """With its settings, and nothing else is touched."""
    names = topic_names(unique("t"))
    connection = Connection(Cluster(bootstrap_servers=broker.bootstrap_servers))
    ensure_topics(connection, names)
    assert create_missing(connection, names) == []
    connection.admin().delete_topics([names.states])[names.states].result(30)
    wait_until(lambda: names.states not in connection.metadata("t").topics)
    assert create_missing(connection, names) == [names.states]
    resource = ConfigResource(ConfigResource.Type.TOPIC, names.states)
    found = connection.admin().describe_configs([resource])[resource].result(30)
    assert found["cleanup.policy"].value == "compact"
    assert create_missing(connection, names) == []


@pytest.mark.broker
def test_a_client_whose_clock_is_ahead_may_write(
    broker: EmbeddedBroker, unique: Callable[[str], str]
) -> None:
    """The broker dates its messages; where clients date them, it refuses those that are two hours ahead."""
    names, dated = topic_names(unique("t")), unique("dated")
    make_topics(broker.bootstrap_servers, {dated: 1})
    ensure_topics(Connection(Cluster(bootstrap_servers=broker.bootstrap_servers)), names)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    outcomes: dict[str, str | int] = {}

    def delivered(error: KafkaError | None, message: Message) -> None:
        outcomes[str(message.topic())] = message.timestamp()[0] if error is None else error.name()

    topics = [dated, *(getattr(names, kind) for kind in TOPIC_CONFIGS)]
    for topic in topics:
        ahead_ms = now_ms() + 2 * 3_600_000
        producer.produce(topic, key=b"k", value=b"v", timestamp=ahead_ms, on_delivery=delivered)
    assert producer.flush(60) == 0
    assert outcomes == dict.fromkeys(topics, TIMESTAMP_LOG_APPEND_TIME) | {dated: "INVALID_TIMESTAMP"}


@pytest.mark.broker
def test_a_wrong_policy_is_said_and_left(
    broker: EmbeddedBroker, unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic of documents that is not compacted would lose them: the operator hears of it."""
    names = topic_names(unique("t"))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(names.states, 1, 1)])[names.states].result(30)
    # The module's own logger: what other tests do to its parents changes nothing here.
    warning = Mock()
    monkeypatch.setattr(output_topics.log, "warning", warning)
    ensure_topics(Connection(Cluster(bootstrap_servers=broker.bootstrap_servers)), names)
    assert [one.args[0] % one.args[1:] for one in warning.call_args_list] == [
        f"topic {names.states} has cleanup.policy=delete, should be compact; kafka-configs.sh "
        f"--bootstrap-server {broker.bootstrap_servers} --alter --entity-type topics "
        f"--entity-name {names.states} --add-config cleanup.policy=compact"
    ]


def test_topics_that_may_not_be_made_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the right to create, the message holds what to create and how."""
    denied = Mock(side_effect=KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "no")))
    admin = SimpleNamespace(
        list_topics=lambda *_, **__: SimpleNamespace(topics={}),
        create_topics=lambda topics, **_: {topic.topic: SimpleNamespace(result=denied) for topic in topics},
    )
    connection = Connection(Cluster(bootstrap_servers="b:9092"))
    monkeypatch.setattr(connection, "admin", lambda: admin)
    with pytest.raises(GroupReplayError) as caught:
        ensure_topics(connection, topic_names("t"))
    assert caught.value.exit_code == ExitCode.AUTHORISATION
    assert "--topic t-states --config cleanup.policy=compact" in (caught.value.fix or "")


@pytest.mark.parametrize(
    ("kind", "partitions", "replicas", "settings", "what"),
    [
        ("states", 3, 3, {"cleanup.policy": "compact", "min.insync.replicas": "2"}, []),
        ("states", 3, 3, None, []),
        ("states", 3, 3, {"cleanup.policy": "delete"}, ["cleanup.policy=delete, should be compact"]),
        (
            "events",
            1,
            1,
            {"cleanup.policy": "compact", "min.insync.replicas": "2", "max.message.bytes": "1000"},
            [
                "cleanup.policy=compact, should be delete",
                "max.message.bytes=1000, a document may need 524288",
                "min.insync.replicas=2 with 1 replicas: every write is rejected",
            ],
        ),
        ("job", 2, 1, {}, ["2 partitions, should have 1: the order of messages matters"]),
        ("probes", 1, 1, {"message.timestamp.type": "LogAppendTime"}, []),
        (
            "probes",
            1,
            1,
            {"message.timestamp.type": "CreateTime"},
            [
                "message.timestamp.type=CreateTime, should be LogAppendTime: nobody notices clocks that are off, "
                "nor messages from the future"
            ],
        ),
        (
            "job",
            1,
            1,
            {"message.timestamp.type": "CreateTime"},
            [
                "message.timestamp.type=CreateTime, should be LogAppendTime: the age of the job's heartbeat is that "
                "of its machine's clock"
            ],
        ),
        ("events", 1, 1, {"message.timestamp.type": "CreateTime"}, []),
    ],
)
def test_what_is_wrong_with_a_topic(
    kind: str, partitions: int, replicas: int, settings: dict[str, str] | None, what: list[str]
) -> None:
    """Its clean-up, who dates it, its largest message, replicas in sync, order; hidden settings are no fault."""
    topic = OutputTopic(kind=kind, name="t", partitions=partitions, replicas=replicas, settings=settings)
    assert [problem.what for problem in topic_problems(topic)] == what


MANY = WantedTopic("many", {"cleanup.policy": "delete"})
ONE = WantedTopic("one", {"cleanup.policy": "compact"}, 1)
DEFAULTS = {"num.partitions": "6", "default.replication.factor": "3"}


@dataclass
class OldBroker:
    """Refuses requests for default numbers, as librdkafka does for brokers before 2.4; it has these settings."""

    settings: Mapping[str, str] | None
    needs_numbers: bool = True
    requests: list[tuple[list[tuple[str, int, int]], bool]] = field(default_factory=list)

    def create_topics(self, topics: list[NewTopic], *, validate_only: bool, **_: float) -> dict[str, Any]:
        wanted = [(topic.topic, topic.num_partitions, topic.replication_factor) for topic in topics]
        self.requests.append((wanted, validate_only))
        is_refused = self.needs_numbers and any(-1 in numbers for _, *numbers in wanted)
        return {topic.topic: SimpleNamespace(result=refuse if is_refused else created) for topic in topics}

    def broker_settings(self, wanted: tuple[str, ...]) -> dict[str, str]:
        if self.settings is None:
            raise KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED))
        return {name: self.settings[name] for name in wanted if name in self.settings}

    def poll(self, _seconds: float) -> None:
        """Nothing is reported in the background."""


def refuse(_seconds: float) -> None:
    """The answer to a request that the broker's release does not know."""
    raise KafkaException(KafkaError(KafkaError._UNSUPPORTED_FEATURE, "Default partition count (KIP-464)"))


def created(_seconds: float) -> None:
    """The answer to a request that was carried out."""


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> Callable[[OldBroker], Connection]:
    """A connection to such a broker."""

    def to(broker: OldBroker) -> Connection:
        connection = Connection(Cluster(bootstrap_servers="b:9092"))
        monkeypatch.setattr(connection, "admin", lambda: broker)
        monkeypatch.setattr(connection, "broker_settings", broker.broker_settings)
        return connection

    return to


def test_the_broker_fills_in_its_defaults(connected: Callable[[OldBroker], Connection]) -> None:
    """Since 2.4 one request is enough, and no setting is read."""
    broker = OldBroker(None, needs_numbers=False)
    creation = request_topics(connected(broker), [MANY, ONE])
    assert (creation.errors, creation.numbers) == ({"many": None, "one": None}, TopicNumbers())
    assert broker.requests == [([("many", -1, -1), ("one", 1, -1)], False)]


@pytest.mark.parametrize("only_try", [False, True])
def test_an_older_broker_gets_the_numbers_of_its_settings(
    connected: Callable[[OldBroker], Connection], only_try: bool
) -> None:
    """The second request names them; a topic with a number of its own keeps it."""
    broker = OldBroker(DEFAULTS)
    creation = request_topics(connected(broker), [MANY, ONE], only_try=only_try)
    assert (creation.errors, creation.numbers) == ({"many": None, "one": None}, TopicNumbers(6, 3))
    assert broker.requests == [
        ([("many", -1, -1), ("one", 1, -1)], only_try),
        ([("many", 6, 3), ("one", 1, 3)], only_try),
    ]


def test_numbers_that_nobody_knows_are_asked_of_the_operator(
    connected: Callable[[OldBroker], Connection],
) -> None:
    """Without the right to read the settings: which right, or the topics with numbers to choose."""
    with pytest.raises(GroupReplayError) as caught:
        create_topics(connected(OldBroker(None)), topic_names("t"), ["states", "job"])
    error = caught.value
    assert (error.exit_code, error.what) == (
        ExitCode.AUTHORISATION,
        "output topics are missing and cannot be created: brokers before Kafka 2.4 want the numbers of partitions and "
        "replicas of each topic, and this login may not read their defaults",
    )
    settings = "--config cleanup.policy=compact --config message.timestamp.type=LogAppendTime"
    assert error.fix == (
        "kafka-acls.sh --bootstrap-server b:9092 --add --allow-principal User:NAME --operation DescribeConfigs "
        "--cluster\nor create them (kafka-topics.sh --create ...): "
        f"--topic t-states --partitions NUMBER --replication-factor NUMBER {settings}; "
        f"--topic t-job --partitions 1 --replication-factor NUMBER {settings}"
    )


@pytest.mark.parametrize(
    ("numbers", "many", "one"),
    [
        (TopicNumbers(), "", " --partitions 1"),
        (
            TopicNumbers(6, 3),
            " --partitions 6 --replication-factor 3",
            " --partitions 1 --replication-factor 3",
        ),
    ],
)
def test_commands_name_the_numbers_that_are_needed(numbers: TopicNumbers, many: str, one: str) -> None:
    """Always for a topic that must have one partition; for the others on brokers that want them."""
    assert [numbers.words(MANY), numbers.words(ONE)] == [
        f"--topic many{many} --config cleanup.policy=delete",
        f"--topic one{one} --config cleanup.policy=compact",
    ]
