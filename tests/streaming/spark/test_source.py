"""The options of the connector."""

from __future__ import annotations

import json
from unittest.mock import MagicMock

from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.spark.source import TopicPlan, connection_options, probe_records, read_options


def test_a_topic_is_read_by_assignment_and_as_committed() -> None:
    """No group may be joined, no aborted transaction seen; the client's own properties go along."""
    cluster = Cluster(bootstrap_servers="b:9092", properties={"security.protocol": "SSL", "group.id": "mine"})
    options = read_options(TopicPlan(cluster=cluster, topic="t", partitions=3))
    assert json.loads(options["assign"]) == {"t": [0, 1, 2]}
    assert {name: options[name] for name in connection_options(cluster)} == {
        "kafka.bootstrap.servers": "b:9092",
        "kafka.security.protocol": "SSL",
    }
    assert options["kafka.isolation.level"] == "read_committed"
    assert options["startingOffsets"] == "earliest"
    assert not {"subscribe", "subscribePattern", "kafka.group.id"} & options.keys()


def test_a_partition_without_a_leader_is_an_error_soon() -> None:
    """After half a minute, in the driver after one try; another timeout in the client's properties counts there."""
    cluster = Cluster(bootstrap_servers="b:9092", properties={"default.api.timeout.ms": "90000"})
    names = ("kafka.default.api.timeout.ms", "fetchOffset.numRetries", "kafkaConsumer.pollTimeoutMs")
    found = [
        [read_options(TopicPlan(cluster=one, topic="t", partitions=3))[name] for name in names]
        for one in (Cluster(bootstrap_servers="b:9092"), cluster)
    ]
    assert found == [["30000", "1", "30000"], ["90000", "1", "30000"]]


def test_the_first_batch_does_not_take_a_month_of_probes() -> None:
    """They are read with a limit, as the log is, whose limit a flag gives."""
    spark = MagicMock()
    plan = TopicPlan(cluster=Cluster(bootstrap_servers="b:9092"), topic="t", partitions=1)
    probe_records(spark, plan)
    options = spark.readStream.format.return_value.options.call_args.kwargs
    assert 0 < int(options["maxOffsetsPerTrigger"]) <= 1_000_000
