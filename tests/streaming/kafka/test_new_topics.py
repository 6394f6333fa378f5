"""Topics with the brokers' defaults, on brokers that know requests for them and on those before 2.4."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewTopic

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.new_topics import TopicNumbers, WantedTopic, request_topics
from groupreplay.streaming.kafka.output_topics import create_topics
from support.job.jobs import topic_names

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
        wanted = [(one.topic, one.num_partitions, one.replication_factor) for one in topics]
        self.requests.append((wanted, validate_only))
        is_refused = self.needs_numbers and any(-1 in numbers for _, *numbers in wanted)
        return {one.topic: SimpleNamespace(result=refuse if is_refused else created) for one in topics}

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
