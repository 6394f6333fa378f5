"""What is looked at before the job starts, on a real broker. The trial of a Spark that the job was not tested with."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import pytest
from confluent_kafka import KafkaError
from py4j.protocol import Py4JError

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.settings import Cluster, RunSettings
from groupreplay.streaming.kafka import clients
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.raw_log import RawLog
from groupreplay.streaming.spark import preflight
from groupreplay.streaming.spark.query import TopicPlan, planned_partitions
from groupreplay.streaming.spark.session import OLD_OFFSETS
from support.histories.raw_records import commit
from support.job.jobs import write_log
from support.job.spark_sessions import small_session
from support.remedies import read_remedy

if TYPE_CHECKING:
    from groupreplay.streaming.local.broker import EmbeddedBroker


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
    spark.conf.set(OLD_OFFSETS, "false")
    try:
        with pytest.raises(GroupReplayError, match="plans to read no partition") as caught:
            preflight.check_plan(spark, connection, plan)
    finally:
        spark.conf.set(OLD_OFFSETS, "true")
    assert caught.value.exit_code == ExitCode.USAGE
    assert OLD_OFFSETS in (caught.value.fix or "")


SCRAM = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}
KERBEROS = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"}


@pytest.mark.parametrize(
    ("log_source", "master", "python", "login", "by_connector"),
    [
        ("auto", "local[2,4]", sys.executable, SCRAM, False),
        ("auto", "local", sys.executable, KERBEROS, True),
        ("auto", "spark://h:7077", sys.executable, {}, True),
        ("auto", "local[2]", "/usr/bin/python3", {}, True),
        ("connector", "local[2]", sys.executable, {}, True),
        ("python", "spark://h:7077", "/usr/bin/python3", KERBEROS, False),
    ],
)
def test_what_reads_the_log(
    log_source: str,
    master: str,
    python: str,
    login: dict[str, str],
    by_connector: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ours where every worker has the driver's Python and the client can log in, or where it is asked for.

    On a Spark without such sources, without a library of the client, or if that does not reach a broker, the connector
    does.
    """
    cluster = Cluster(bootstrap_servers="h:1", properties=login)
    settings = RunSettings(source=cluster, checkpoint="c", log_source=log_source)
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(master=master, pythonExec=python))

    def chosen() -> TopicPlan:
        return preflight.log_plan(settings, spark, Connection(cluster), 7)

    async def opened(_: RawLog, __: object) -> None:
        """A broker has answered."""

    monkeypatch.setattr(preflight, "has_python_sources", lambda: True)
    assert chosen().by_connector is (log_source != "python")
    monkeypatch.setattr(RawLog, "_open", opened)
    plan = TopicPlan(
        cluster=cluster, topic=OFFSETS_TOPIC, partitions=7, by_connector=by_connector, long_log=1_000_000
    )
    assert chosen() == plan
    # Nobody waits for the first event of a single run.
    once = preflight.log_plan(replace(settings, once=True), spark, Connection(cluster), 7)
    assert once == replace(plan, long_log=None)
    if log_source == "auto":
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "cramjam", None)
            assert chosen().by_connector
        monkeypatch.setattr(preflight, "has_python_sources", lambda: False)
        assert chosen().by_connector


@pytest.mark.parametrize("log_source", ["auto", "python", "connector"])
def test_what_goes_on_with_groups_that_are_ahead(log_source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own source, whatever reads a new checkpoint; if it is excluded, the error names what to do."""
    settings = RunSettings(source=Cluster(bootstrap_servers="h:1"), checkpoint="c", log_source=log_source)
    ours = TopicPlan(cluster=settings.source, topic=OFFSETS_TOPIC, partitions=7, by_connector=False)
    theirs = replace(ours, by_connector=True)

    def continued(plan: TopicPlan, *, is_ahead: bool) -> TopicPlan:
        checkpoint: Any = SimpleNamespace(is_ahead=lambda: is_ahead, location="/c")
        return preflight.continued_plan(settings, plan, checkpoint)

    monkeypatch.setattr(preflight, "has_python_sources", lambda: True)
    assert [continued(plan, is_ahead=False) for plan in (ours, theirs)] == [ours, theirs]
    assert continued(ours, is_ahead=True) == ours
    if log_source != "connector":
        assert continued(theirs, is_ahead=True) == ours
        monkeypatch.setattr(preflight, "has_python_sources", lambda: False)
    with pytest.raises(GroupReplayError) as caught:
        continued(theirs, is_ahead=True)
    assert (caught.value.where, caught.value.exit_code) == ("/c", ExitCode.USAGE)
    key = "streaming.spark.preflight: use --log-source python, with"
    # Applied by the case "python".
    read_remedy(key, caught.value.fix or "")


def test_an_unreachable_cluster_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens on the port: an error of connection, not a hanging job."""
    monkeypatch.setattr(clients, "REQUEST_SECONDS", 1.0)
    with pytest.raises(GroupReplayError) as caught:
        preflight.offsets_topic(Connection(Cluster(bootstrap_servers="127.0.0.1:1")))
    assert caught.value.exit_code == ExitCode.CONNECTION


@pytest.mark.parametrize(
    ("codes", "outcome"),
    [
        ([None], "record"),
        ([KafkaError.GROUP_AUTHORIZATION_FAILED, None], "record"),
        ([KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError._PARTITION_EOF], "end"),
        ([KafkaError.TOPIC_AUTHORIZATION_FAILED], "not authorised"),
    ],
)
def test_one_record(codes: list[int | None], outcome: str) -> None:
    """An error about a group is ignored, because none is read; a refusal of the topic is an error."""
    connection = Connection(Cluster(bootstrap_servers="h:1"))
    errors = [None if code is None else KafkaError(code) for code in codes]
    answers = [MagicMock(**{"error.return_value": error}) for error in errors]
    consumer = MagicMock(**{"poll.side_effect": answers, "consume.return_value": []})
    connection.consumer = lambda *_: consumer  # type: ignore[method-assign]
    try:
        found = "end" if preflight.record_at(connection, 0, 0) is None else "record"
    except GroupReplayError as error:
        found = error.what.partition(":")[0]
    assert found == outcome


@pytest.mark.parametrize(
    ("text", "what", "exit_code"),
    [
        (
            "Caused by: org.apache.kafka.common.errors.GroupAuthorizationException: Not authorized: g",
            "not authorised: org.apache.kafka.common.errors.GroupAuthorizationException: Not authorized: g",
            ExitCode.AUTHORISATION,
        ),
        (
            "java.lang.IllegalStateException: odd",
            "Spark's Kafka connector cannot read the topic's offsets: java.lang.IllegalStateException: odd",
            ExitCode.UNEXPECTED,
        ),
        (
            "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node",
            "Spark's Kafka connector cannot reach the cluster: org.apache.kafka.common.errors.TimeoutException: "
            "Timed out waiting for a node",
            ExitCode.CONNECTION,
        ),
    ],
)
def test_a_connector_that_fails_is_an_error_of_ours(
    monkeypatch: pytest.MonkeyPatch, text: str, what: str, exit_code: ExitCode
) -> None:
    """An exception of the JVM during planning becomes an error with an exit code and a remedy."""

    def failing(*_: object) -> int:
        raise Py4JError(text)

    monkeypatch.setattr(preflight, "planned_partitions", failing)
    monkeypatch.setattr(preflight, "_partitions_with_data", lambda *_: {0: 0})
    cluster = Cluster(bootstrap_servers="h:1")
    plan = TopicPlan(cluster=cluster, topic=OFFSETS_TOPIC, partitions=1)
    with pytest.raises(GroupReplayError) as caught:
        preflight.check_plan(SimpleNamespace(), Connection(cluster), plan)  # type: ignore[arg-type]
    assert (caught.value.what, caught.value.exit_code) == (what, exit_code)
    assert "groupreplay check" in (caught.value.fix or "")


@pytest.mark.spark
def test_the_watermark_reaches_the_function() -> None:
    """On every line that is known; the trial leaves no query behind."""
    spark = small_session()
    assert preflight.watermark_is_passed(spark)
    assert [one.name for one in spark.streams.active] == []


@pytest.mark.spark
@pytest.mark.long
def test_a_spark_that_passes_none_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the metadata of the column the function is told of no watermark, and no call fails."""
    from pyspark.sql import functions as sql

    monkeypatch.setattr(preflight, "caught_up_ms", lambda: sql.unix_millis("caught_up").alias("caught_up_ms"))
    monkeypatch.setattr(preflight, "_SECONDS", 15.0)
    assert not preflight.watermark_is_passed(small_session())
