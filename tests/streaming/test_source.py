"""The options of the connector, and which messages count as heartbeats."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import pytest
from spark_sessions import small_session

from groupreplay.streaming.settings import Cluster
from groupreplay.streaming.source import TopicPlan, connection_options, heartbeat_rows, read_options


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


@pytest.mark.spark
def test_only_heartbeats_of_this_run_count() -> None:
    """Whatever else stands in the topic, from other runs or from strangers, is no heartbeat and no error."""
    messages = [
        (b"\0", b'{"run_id":"mine","caught_up_ms":1700000000123}'),
        (b"\0", b'{"run_id":"mine","caught_up_ms":null}'),
        (b"\0", b'{"run_id":"mine","caught_up_ms":"soon"}'),
        (b"\0", b'{"run_id":"mine","caught_up_ms":9223372036854775807}'),
        (b"\0", b'{"run_id":"other","caught_up_ms":1700000000999}'),
        (b"group", b'{"run_id":"mine","caught_up_ms":1700000000999}'),
        (b"\0", b"\xff\xfe not json"),
        (b"\0", None),
        (None, b'{"run_id":"mine","caught_up_ms":1700000000999}'),
    ]
    frame = small_session().createDataFrame(messages, "key binary, value binary")
    rows = heartbeat_rows(frame, "mine").collect()
    assert [(bytes(row.key), row.packed) for row in rows] == [(b"h:", None)] * 4
    # Collected as local time of the machine; compared as a moment.
    assert [row.caught_up and row.caught_up.astimezone(timezone.utc) for row in rows] == [
        datetime(2023, 11, 14, 22, 13, 20, 123_000, timezone.utc),
        None,
        None,
        None,
    ]
