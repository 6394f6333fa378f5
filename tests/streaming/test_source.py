"""The options of the connector."""

from __future__ import annotations

import json

from groupreplay.streaming.settings import Cluster
from groupreplay.streaming.source import TopicPlan, connection_options, read_options


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
