"""How long brokers keep offsets: flags, answers, and what holds without either."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from groupreplay.state.policy.context import SessionSettings
from groupreplay.streaming.config.settings import Cluster, RetentionFlags
from groupreplay.streaming.kafka.broker_release import RELEASE_SETTING
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.retention import (
    CHECK_INTERVAL,
    RETENTION,
    SESSIONS,
    Retention,
    RetentionWatch,
    contradiction,
    effective_retention,
)
from groupreplay.streaming.local.broker import EmbeddedBroker

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


def test_clean_ups_further_apart_than_the_retention() -> None:
    """Kafka accepts that: offsets only stay for longer."""
    odd = contradiction(60_000, 120_000)
    assert odd is not None
    assert "an offset may stay for 2 min 0 s after its deadline" in odd
    assert contradiction(60_000, 60_000) is None
    assert contradiction(None, 120_000) is contradiction(60_000, None) is None


def test_the_sessions_of_each_type_of_group() -> None:
    """As the broker tells them; a type that it does not know is left out, and a refusal falls back to the capture."""
    names = SESSIONS["share"]
    told = {
        **TOLD,
        **dict(zip(names, ("50000", "45000", "5000"), strict=True)),
        SESSIONS["consumer"][0]: "45000",
    }
    found = effective_retention(RetentionFlags(retention_minutes=5, check_interval_ms=7), Broker(told))  # type: ignore[arg-type]
    assert found.sessions == {"share": SessionSettings(50_000, 45_000, 5_000)}
    assert found.for_context()["sessions"] == found.sessions
    recorded = effective_retention(RetentionFlags(), Broker(REFUSED), found)  # type: ignore[arg-type]
    assert recorded == found


def test_a_capture_has_nobody_to_ask() -> None:
    """Only a flag can tell."""
    assert effective_retention(RetentionFlags(retention_minutes=1), None).retention_ms == 60_000
    assert effective_retention(RetentionFlags(), None) == Retention()


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
    assert "Kafka 3.2 or later are assumed" in record.getMessage()
    assert "--broker-release" in record.getMessage()


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
