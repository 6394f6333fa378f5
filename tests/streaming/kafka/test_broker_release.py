"""Which release the brokers have, and the commands that depend on it."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.broker_release import configs_address, lists_transactions, release_text
from groupreplay.streaming.kafka.clients import Connection

SERVERS = "--bootstrap-server b:9092"


@pytest.mark.parametrize(
    ("settings", "text", "address", "transactions"),
    [
        (
            {"inter.broker.protocol.version": "2.1-IV2", "zookeeper.connect": "z:2181/kafka"},
            "Kafka 2.1",
            "--zookeeper z:2181/kafka",
            False,
        ),
        # Its address is not shown: the command of a later release at least says what is missing.
        ({"inter.broker.protocol.version": "2.1-IV2"}, "Kafka 2.1", SERVERS, False),
        (
            {"inter.broker.protocol.version": "2.8-IV1", "zookeeper.connect": "z:2181"},
            "Kafka 2.8",
            SERVERS,
            False,
        ),
        ({"inter.broker.protocol.version": "3.3-IV3", "node.id": "1"}, "Kafka 3.3", SERVERS, True),
        ({"inter.broker.protocol.version": "3.10-IV0"}, "Kafka 3.10", SERVERS, True),
        ({"broker.id": "1", "node.id": "1"}, "Kafka 4.0 or later", SERVERS, True),
        (None, "Kafka release unknown (needs DescribeConfigs on the cluster)", SERVERS, True),
    ],
    ids=["2.1", "2.1 without its ZooKeeper", "2.8", "3.3", "two digits", "4.0", "hidden"],
)
def test_what_depends_on_the_release(
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, str] | None,
    text: str,
    address: str,
    transactions: bool,
) -> None:
    """Before 2.3 only ZooKeeper takes the settings of topics, before 3.0 nobody lists transactions."""
    connection = Connection(Cluster(bootstrap_servers="b:9092"))

    def broker_settings(wanted: tuple[str, ...]) -> dict[str, str]:
        if settings is None:
            raise KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED))
        return {name: settings[name] for name in wanted if name in settings}

    monkeypatch.setattr(connection, "broker_settings", broker_settings)
    assert release_text(connection) == text
    assert configs_address(connection) == address
    assert lists_transactions(connection) is transactions
