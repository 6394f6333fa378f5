"""The release of a cluster's brokers, where a rule of expiry or a command that is printed depends on it.

A broker names it in ``inter.broker.protocol.version``, which until an upgrade is finished is the earlier release.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from groupreplay.state.policy.context import BrokerRelease

if TYPE_CHECKING:
    from groupreplay.streaming.kafka.clients import Connection

#: The setting names the release until 3.9; 4.0 removed it.
RELEASE_SETTING: Final = "inter.broker.protocol.version"
#: The first release without the setting.
_UNNAMED: Final = (4, 0)
_ZOOKEEPER: Final = "zookeeper.connect"
_ASKED: Final = (RELEASE_SETTING, _ZOOKEEPER, "broker.id", "node.id")
_NUMBER: Final = re.compile(r"(\d{1,4})\.(\d{1,4})(?!\d)")
_NAMED: Final = re.compile(rf"(?:^|\bKafka ){_NUMBER.pattern}")
#: Since then a client can change settings one by one (KIP-339).
_CONFIGS_BY_BROKER: Final = (2, 3)
#: Since then a client can list transactions (KIP-664).
_LISTS_TRANSACTIONS: Final = (3, 0)


def parsed_release(text: str) -> BrokerRelease | None:
    """``2.8``, ``2.8.1``, ``2.8-IV1``, ``Kafka 2.8`` and ``Kafka 4.0 or later``; None: no release of Kafka."""
    found = _NAMED.search(text)
    return (int(found[1]), int(found[2])) if found else None


def told_release(settings: Mapping[str, str]) -> BrokerRelease | None:
    """The release by the settings of a broker, among which are others than ``RELEASE_SETTING``; None: it is unreadable.

    4.0 stands for each later one.
    """
    named = settings.get(RELEASE_SETTING)
    return _UNNAMED if named is None else parsed_release(named)


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
    from confluent_kafka import KafkaException

    try:
        return connection.broker_settings(_ASKED)
    except KafkaException:
        return {}


def _release(settings: dict[str, str]) -> tuple[int, int] | None:
    """Major and minor number; None: 4.0 or later, or not known."""
    found = _NUMBER.match(settings.get(RELEASE_SETTING, ""))
    return (int(found[1]), int(found[2])) if found else None
