"""``groupreplay.spark``: the public function, on a frame of a real topic, and into a table."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest

import groupreplay
from groupreplay.api.sources import open_log
from groupreplay.spark import Brokers, group_events
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.spark import event_frame
from support.job.spark_sessions import small_session
from support.kafka.clients import make_topics, new_consumer
from support.kafka.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from groupreplay.streaming.local.broker import EmbeddedBroker


@pytest.mark.broker
@pytest.mark.spark
def test_the_events_of_a_topic_in_a_table(broker: EmbeddedBroker, unique: Callable[[str], str]) -> None:
    """Read with Spark's own Kafka source and written with ``saveAsTable``: the events and ids of ``replay``."""
    name, group = unique("input"), unique("group")
    make_topics(broker.bootstrap_servers, {name: 2})
    consumer = new_consumer(broker.bootstrap_servers, group, name, heartbeat_interval_ms=200)
    wait_until(lambda: consumer.poll(0.05) is None and len(consumer.assignment()) == 2)
    consumer.close()
    source = groupreplay.topic(broker.bootstrap_servers)
    opened = open_log(source, None, None)
    assert opened.rows.partitions is not None
    wait_until(lambda: "group.emptied" in {event.name for event in groupreplay.replay(source, group=group)})
    spark = small_session()
    frame = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("assign", json.dumps({"__consumer_offsets": list(range(opened.rows.partitions))}))
        .load()
    )
    events = group_events(frame, cluster_id=opened.rows.cluster_id, topic_id=opened.rows.era)
    events.write.saveAsTable("group_events")
    found = spark.table("group_events").where(f"group_id = '{group}'").collect()
    spark.sql("DROP TABLE group_events")
    # Malformed records, which other tests may have written, are events of no group.
    events_here = groupreplay.replay(source, group=group)
    expected = {event.id: event.type for event in events_here if event.group == group}
    assert {row.event_id: row.type for row in found} == expected
    assert "groupreplay.rebalance.completed.v1" in expected.values()


def test_the_options_are_those_of_the_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Each of them reaches the context that the events depend on."""
    seen: list[Any] = []
    monkeypatch.setattr(event_frame, "event_frame", lambda *args: seen.append(args))
    rules = tmp_path / "rules.toml"
    rules.write_text('[[group]]\nmatch = "pay-*"\nlabels = { team = "shop" }\n')
    frame: Any = object()
    group_events(
        frame,
        cluster_id="c",
        topic_id="t",
        late_by="1 minute",
        brokers=Brokers(retention_minutes=3, check_interval_ms=4, release="2.8"),
        member_events=True,
        complete_since=datetime(2026, 1, 1, tzinfo=timezone.utc),
        topic_names={"id": "name"},
        labels={"a": "b"},
        rules=rules,
    )
    ((passed, context, late_by),) = seen
    assert (passed, late_by) == (frame, "1 minute")
    assert (context.cluster_id, context.era, context.member_events) == ("c", "t", True)
    assert (context.retention_ms, context.retention_check_interval_ms, context.broker_release) == (
        180_000,
        4,
        (2, 8),
    )
    assert context.complete_since_ms == 1_767_225_600_000
    assert (context.topic_names, context.labels) == ({"id": "name"}, {"a": "b"})
    assert [rule.groups for rule in context.policy.groups][-1] == "pay-*"


def test_wrong_options_are_refused() -> None:
    """Before the frame is looked at: a release that is none, and a time without a zone."""
    frame: Any = object()
    with pytest.raises(
        GroupReplayError, match=r"'new' is no release of Kafka: give two numbers, such as 3\.9"
    ):
        group_events(frame, cluster_id="c", brokers=Brokers(release="new"))
    with pytest.raises(GroupReplayError, match=r"the datetime has no time zone"):
        group_events(frame, cluster_id="c", complete_since=datetime(2026, 1, 1))
