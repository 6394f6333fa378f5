"""What brokers say in their settings: their release, and how long committed offsets are retained."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from itertools import chain
from typing import Final

from confluent_kafka import KafkaException

from groupreplay.codecs.kafka_terms import GroupType
from groupreplay.state.phrases import milliseconds
from groupreplay.state.policy.context import ASSUMED_SESSIONS, NEWEST_RULES
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.config.retention import (
    CHECK_INTERVAL,
    RELEASE_NUMBER,
    RELEASE_SETTING,
    RETENTION,
    SESSIONS,
    Retention,
    answered,
    contradiction,
    effective,
    with_flags,
)
from groupreplay.streaming.config.settings import RetentionFlags
from groupreplay.streaming.kafka.clients import Connection

log = logging.getLogger(__name__)


_ZOOKEEPER: Final = "zookeeper.connect"
_ASKED: Final = (RELEASE_SETTING, _ZOOKEEPER, "broker.id", "node.id")
#: Since then a client can change settings one by one (KIP-339).
_CONFIGS_BY_BROKER: Final = (2, 3)
#: Since then a client can list transactions (KIP-664).
_LISTS_TRANSACTIONS: Final = (3, 0)


def release_text(connection: Connection) -> str:
    """The release for the terminal."""
    return known_release(connection) or "Kafka release unknown (needs DescribeConfigs on the cluster)"


def known_release(connection: Connection) -> str | None:
    """``Kafka 3.9``, or ``Kafka 4.0 or later``; None if this login may not ask for it, or no broker answers."""
    settings = _settings(connection)
    if not settings:
        return None
    release = _release(settings)
    return f"Kafka {release[0]}.{release[1]}" if release else "Kafka 4.0 or later"


def configs_address(connection: Connection) -> str:
    """The argument of ``kafka-configs.sh`` that lets it change the settings of a topic."""
    settings = _settings(connection)
    release = _release(settings)
    if release is not None and release < _CONFIGS_BY_BROKER and _ZOOKEEPER in settings:
        return f"--zookeeper {settings[_ZOOKEEPER]}"
    return f"--bootstrap-server {connection.cluster.bootstrap_servers}"


def lists_transactions(connection: Connection) -> bool:
    """Whether ``kafka-transactions.sh find-hanging`` works; True also if the release is not known."""
    release = _release(_settings(connection))
    return release is None or release >= _LISTS_TRANSACTIONS


def _settings(connection: Connection) -> dict[str, str]:
    """Settings of a broker; none if this login may not read them."""
    try:
        return connection.broker_settings(_ASKED)
    except KafkaException:
        return {}


def _release(settings: dict[str, str]) -> tuple[int, int] | None:
    """Major and minor number; None: 4.0 or later, or not known."""
    match = RELEASE_NUMBER.match(settings.get(RELEASE_SETTING, ""))
    return (int(match[1]), int(match[2])) if match else None


#: A broker setting rarely changes while the job runs.
_ASK_AGAIN_SECONDS: Final = 3_600.0


def effective_retention(
    flags: RetentionFlags, connection: Connection | None, recorded: Retention | None = None
) -> Retention:
    """The flags, and where a flag is missing the brokers' answer, or what a capture has ``recorded``. Never raises.

    A flag that contradicts the others is named in the log.
    """
    return effective(flags, _told(connection, recorded))


def _told(connection: Connection | None, recorded: Retention | None = None) -> Retention:
    """What the brokers answer, or a capture has ``recorded``."""
    answer: dict[str, str] = {}
    if connection is not None:
        try:
            answer = connection.broker_settings(
                (RETENTION, CHECK_INTERVAL, RELEASE_SETTING, *chain(*SESSIONS.values()))
            )
        except (KafkaException, GroupReplayError) as error:
            log.debug("broker settings cannot be read: %s", error)
    return answered(answer, recorded)


def _assumptions(known: Retention, answer: Retention) -> dict[str, str]:
    """By the flag that ends it, what is assumed because no broker has told it; those before 4.0 have no sessions."""
    assumed = {}
    if known.retention_ms is None:
        assumed["--retention-minutes"] = f"7 days of {RETENTION}"
    if known.broker_release is None:
        assumed["--broker-release"] = f"the rules of expiry of Kafka {NEWEST_RULES}"
    if not known.sessions and answer == Retention():
        session_ms = milliseconds(ASSUMED_SESSIONS.timeout_ms)
        name = SESSIONS[GroupType.CONSUMER.value][0]
        assumed[f"--broker-property {name}=MS"] = f"sessions of {session_ms} in groups of the newer kinds"
    return assumed


class RetentionWatch:
    """The retention while a job runs; asks a broker again every hour. ``known`` is the last answer.

    ``seconds``: a clock that no one can set.
    """

    def __init__(
        self,
        flags: RetentionFlags,
        connect: Callable[[], Connection],
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._flags = flags
        self._connect = connect
        self._seconds = seconds
        self._asked = seconds()
        self._answer = _told(connect())
        self.known = effective(flags, self._answer)
        if assumed := _assumptions(self.known, self._answer):
            log.warning(
                "settings of the brokers cannot be read; %s are assumed, and events say what rests on that; grant "
                "this login DescribeConfigs on the cluster, or give %s",
                ", ".join(assumed.values()),
                ", ".join(assumed),
            )
        if odd := contradiction(self.known.retention_ms, self.known.check_interval_ms):
            log.warning("%s", odd)

    def changed(self) -> bool:
        """Whether ``known`` has changed since the last call."""
        now = self._seconds()
        if now - self._asked < _ASK_AGAIN_SECONDS:
            return False
        self._asked = now
        # A failed answer does not mean that a setting has changed.
        answer = _told(self._connect(), self._answer)
        retention = with_flags(self._flags, answer)
        if retention == self.known:
            return False
        log.warning(
            "settings of the brokers have changed: %s, before %s",
            retention,
            self.known,
        )
        self.known, self._answer = retention, answer
        return True
