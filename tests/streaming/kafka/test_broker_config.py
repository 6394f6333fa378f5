"""Which release the brokers have, and the commands that depend on it.

How long brokers keep offsets: flags, answers, and what holds without either.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from groupreplay.state.policy.context import SessionSettings
from groupreplay.streaming.config.retention import (
    CHECK_INTERVAL,
    RELEASE_SETTING,
    RETENTION,
    SESSIONS,
    Retention,
    of_brokers,
)
from groupreplay.streaming.config.settings import Cluster, RetentionFlags
from groupreplay.streaming.kafka.broker_config import (
    RetentionWatch,
    configs_address,
    effective_retention,
    lists_transactions,
    release_text,
)
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.local.broker import EmbeddedBroker

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


HOUR_SECONDS = 3_600.0
REFUSED = KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED))


class Broker:
    """A connection whose broker tells these settings, or refuses."""

    def __init__(self, settings: dict[str, str] | KafkaException) -> None:
        self.settings = settings
        self.asked = 0

    def broker_settings(self, wanted: Any) -> dict[str, str]:
        self.asked += 1
        if isinstance(self.settings, KafkaException):
            raise self.settings
        return self.settings


TOLD = {RETENTION: "2", CHECK_INTERVAL: "30000"}


@pytest.mark.parametrize(
    ("flags", "settings", "expected"),
    [
        ((None, None), TOLD, (120_000, 30_000)),
        ((5, None), TOLD, (300_000, 30_000)),
        ((None, 7), TOLD, (120_000, 7)),
        ((None, None), {}, (None, None)),
        ((None, None), REFUSED, (None, None)),
        ((5, None), REFUSED, (300_000, None)),
    ],
)
def test_flags_then_the_broker_then_nothing(
    flags: Any, settings: Any, expected: tuple[int | None, int | None]
) -> None:
    """A refusal is no failure: seven days are assumed then, and said to be."""
    given = RetentionFlags(retention_minutes=flags[0], check_interval_ms=flags[1])
    found = effective_retention(given, Broker(settings))  # type: ignore[arg-type]
    assert (found.retention_ms, found.check_interval_ms) == expected


@pytest.mark.parametrize(
    ("settings", "release", "warned"),
    [
        ({**TOLD, RELEASE_SETTING: "2.8-IV1"}, (2, 8), ""),
        # 4.0 has no such setting, and nobody knows how much later it is.
        (TOLD, (4, 0), ""),
        ({**TOLD, RELEASE_SETTING: "kafka"}, None, "names no release of Kafka"),
        ({}, None, ""),
        (REFUSED, None, ""),
    ],
)
def test_the_release_of_the_brokers(
    caplog: pytest.LogCaptureFixture, settings: Any, release: tuple[int, int] | None, warned: str
) -> None:
    """By the setting that names it; a flag wins; one that cannot be read is said in one sentence, and not guessed."""
    found = effective_retention(RetentionFlags(), Broker(settings))  # type: ignore[arg-type]
    assert found.broker_release == release
    assert [warned in record.getMessage() for record in caplog.records] == ([True] if warned else [])
    flag = RetentionFlags(broker_release=(3, 1))
    assert effective_retention(flag, Broker(settings)).broker_release == (3, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["0", "-1", "a week"])
def test_a_setting_that_kafka_has_not(caplog: pytest.LogCaptureFixture, text: str) -> None:
    """It is not used, and one sentence says so: the rest is assumed as if nobody had answered."""
    answer = {**TOLD, RETENTION: text}
    found = effective_retention(RetentionFlags(), Broker(answer))  # type: ignore[arg-type]
    assert (found.retention_ms, found.check_interval_ms) == (None, 30_000)
    (record,) = caplog.records
    assert f"{RETENTION}={text}, which is no setting of Kafka" in record.getMessage()


def test_the_sessions_of_each_type_of_group() -> None:
    """As the broker tells them; a type that it does not know is left out, and a refusal falls back to the capture."""
    names = SESSIONS["share"]
    told = {
        **TOLD,
        **dict(zip(names, ("50000", "45000", "5000"), strict=True)),
        SESSIONS["consumer"][0]: "45000",
    }
    found = effective_retention(RetentionFlags(retention_minutes=5, check_interval_ms=7), Broker(told))  # type: ignore[arg-type]
    assert found.sessions == {"share": SessionSettings(50_000, 45_000, 5_000, "broker", "broker")}
    assert found.for_context()["sessions"] == found.sessions
    recorded = effective_retention(RetentionFlags(), Broker(REFUSED), found)  # type: ignore[arg-type]
    assert recorded == found


SESSION, LEAST, HEARTBEAT = SESSIONS["consumer"]


def test_flags_of_sessions_then_the_broker_then_defaults() -> None:
    """Setting by setting; types without a flag stay as the broker tells them."""
    flags = RetentionFlags(session_settings={SESSION: 60_000})
    told = Retention(sessions={kind: of_brokers(50_000, 45_000, 4_000) for kind in ("consumer", "share")})
    assert effective_retention(flags, None, told).sessions == {
        "consumer": SessionSettings(60_000, 45_000, 4_000, "group", "broker"),
        "share": of_brokers(50_000, 45_000, 4_000),
    }
    assert effective_retention(flags, None).sessions == {
        "consumer": SessionSettings(60_000, 6_000, 5_000, "group", "default")
    }


@pytest.mark.parametrize(
    ("flags", "contradicted"),
    [
        (RetentionFlags(retention_minutes=2, check_interval_ms=30_000), None),
        (RetentionFlags(retention_minutes=5), f"{RETENTION}=2; the flag's 5 is used"),
        (RetentionFlags(check_interval_ms=7), f"{CHECK_INTERVAL}=30000; the flag's 7 is used"),
        (RetentionFlags(session_settings={SESSION: 50_000}), None),
        (RetentionFlags(session_settings={SESSION: 60_000}), f"{SESSION}=50000; the flag's 60000 is used"),
        (RetentionFlags(session_settings={HEARTBEAT: 1}), f"{HEARTBEAT}=4000; the flag's 1 is used"),
    ],
)
def test_a_flag_that_contradicts_the_broker_is_named(
    caplog: pytest.LogCaptureFixture, flags: RetentionFlags, contradicted: str | None
) -> None:
    """Both values, and which one is used; the same in a capture."""
    told = {**TOLD, SESSION: "50000", LEAST: "45000", HEARTBEAT: "4000"}
    effective_retention(flags, Broker(told))  # type: ignore[arg-type]
    recorded = effective_retention(RetentionFlags(), Broker(told))  # type: ignore[arg-type]
    effective_retention(flags, None, recorded)
    expected = [] if contradicted is None else [f"the brokers, or the capture, have {contradicted}"] * 2
    assert [record.getMessage() for record in caplog.records] == expected


def test_a_job_names_a_contradiction_once(caplog: pytest.LogCaptureFixture) -> None:
    """It asks every hour; nothing is new while both stay as they are."""
    now = [0.0]
    flags = RetentionFlags(retention_minutes=5)
    watch = RetentionWatch(flags, lambda: Broker(TOLD), lambda: now[0])  # type: ignore[arg-type,return-value]
    now[0] = HOUR_SECONDS
    assert not watch.changed()
    assert len(caplog.records) == 1


def test_a_change_is_noticed_within_the_hour(caplog: pytest.LogCaptureFixture) -> None:
    """And told once; a broker that does not answer changes nothing."""
    now = [0.0]
    broker = Broker(TOLD)
    watch = RetentionWatch(RetentionFlags(), lambda: broker, lambda: now[0])  # type: ignore[arg-type,return-value]
    broker.settings = {**TOLD, RETENTION: "9"}
    assert (watch.changed(), broker.asked) == (False, 1)
    now[0] = HOUR_SECONDS
    assert (watch.changed(), watch.known.retention_ms) == (True, 540_000)
    assert not watch.changed()
    broker.settings = REFUSED
    now[0] = 2 * HOUR_SECONDS
    assert (watch.changed(), watch.known.retention_ms) == (False, 540_000)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_an_assumption_is_said_plainly(caplog: pytest.LogCaptureFixture) -> None:
    """With the two ways to end it."""
    RetentionWatch(RetentionFlags(), lambda: Broker(REFUSED), lambda: 0)  # type: ignore[arg-type,return-value]
    (record,) = caplog.records
    assert "DescribeConfigs" in record.getMessage()
    assert "--retention-minutes" in record.getMessage()


def test_an_unknown_release_is_said_plainly(caplog: pytest.LogCaptureFixture) -> None:
    """Where a flag has given the retention."""
    RetentionWatch(RetentionFlags(retention_minutes=1), lambda: Broker(REFUSED), lambda: 0)  # type: ignore[arg-type,return-value]
    (record,) = caplog.records
    assert "the rules of expiry of Kafka 3.2 or later, sessions of 45.0 s in groups" in record.getMessage()
    assert record.getMessage().endswith(
        "or give --broker-release, --broker-property group.consumer.session.timeout.ms=MS"
    )


def test_what_a_job_assumes_of_sessions_ends_with_the_flag(caplog: pytest.LogCaptureFixture) -> None:
    """Where no broker answers; brokers that do and name no session have no such groups."""
    flags = RetentionFlags(retention_minutes=1, broker_release=(4, 0))
    RetentionWatch(flags, lambda: Broker(REFUSED), lambda: 0)  # type: ignore[arg-type,return-value]
    assert f"or give --broker-property {SESSION}=MS" in caplog.text
    caplog.clear()
    given = replace(flags, session_settings={SESSION: 1_000})
    RetentionWatch(given, lambda: Broker(REFUSED), lambda: 0)  # type: ignore[arg-type,return-value]
    RetentionWatch(RetentionFlags(), lambda: Broker(TOLD), lambda: 0)  # type: ignore[arg-type,return-value]
    assert caplog.text == ""


@pytest.mark.broker
def test_a_real_broker_tells(broker: EmbeddedBroker) -> None:
    """Under the names that Kafka has; 7 days and 10 minutes are its defaults."""
    connection = Connection(Cluster(bootstrap_servers=broker.bootstrap_servers))
    assert set(effective_retention(RetentionFlags(), connection).sessions) == {"consumer", "share", "streams"}
    told = connection.broker_settings((RETENTION, CHECK_INTERVAL))
    assert set(told) == {RETENTION, CHECK_INTERVAL}
    found = effective_retention(RetentionFlags(), connection)
    expected = int(told[RETENTION]) * 60_000, int(told[CHECK_INTERVAL])
    assert (found.retention_ms, found.check_interval_ms) == expected
