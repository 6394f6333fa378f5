"""What is looked at before the job starts, on a real broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from jobs import write_log
from raw_records import commit
from spark_sessions import small_session

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming import preflight
from groupreplay.streaming.clients import Connection
from groupreplay.streaming.errors import ExitCode, GroupReplayError
from groupreplay.streaming.settings import Cluster
from groupreplay.streaming.source import TopicPlan, offsets_read, planned_partitions

if TYPE_CHECKING:
    from groupreplay.streaming.broker import EmbeddedBroker

FLAG = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"


@pytest.mark.broker
@pytest.mark.spark
def test_the_connector_must_find_the_internal_topic(
    broker: EmbeddedBroker, unique: Callable[[str], str]
) -> None:
    """With our settings it plans partitions; with Spark's own it would read nothing, and we refuse."""
    cluster = Cluster(bootstrap_servers=broker.bootstrap_servers)
    connection = Connection(cluster)
    topic = preflight.offsets_topic(connection)
    write_log(broker.bootstrap_servers, [(0, *commit(unique("g")), 1_000)], topic.partitions)
    plan = TopicPlan(cluster=cluster, topic=OFFSETS_TOPIC, partitions=topic.partitions)
    spark = small_session()
    preflight.check_plan(spark, connection, plan)
    assert planned_partitions(spark, plan) > 0
    spark.conf.set(FLAG, "false")
    try:
        with pytest.raises(GroupReplayError, match="plans to read no partition") as caught:
            preflight.check_plan(spark, connection, plan)
    finally:
        spark.conf.set(FLAG, "true")
    assert caught.value.exit_code == ExitCode.DATA
    assert FLAG in (caught.value.fix or "")


def test_an_unreachable_cluster_is_told() -> None:
    """Nobody listens on the port: an error of connection, not a hanging job."""
    with pytest.raises(GroupReplayError) as caught:
        preflight.offsets_topic(Connection(Cluster(bootstrap_servers="127.0.0.1:1")))
    assert caught.value.exit_code == ExitCode.CONNECTION


@pytest.mark.parametrize(
    ("progress", "read"),
    [
        (None, {}),
        ({"sources": []}, {}),
        ({"sources": [{"endOffset": None}]}, {}),
        (
            {
                "sources": [
                    {"endOffset": '{"group-probes":{"0":3}}'},
                    {"endOffset": '{"__consumer_offsets":{"0":7,"1":0}}'},
                ]
            },
            {0: 7, 1: 0},
        ),
        ({"sources": [{"endOffset": {"__consumer_offsets": {"0": 7}}}]}, {0: 7}),
    ],
)
def test_progress_tells_how_far_the_log_was_read(
    progress: dict[str, object] | None, read: dict[int, int]
) -> None:
    """Spark gives the offsets of each source as text or as an object, and none before the first batch."""
    assert offsets_read(progress) == read
