"""The partition of the offsets topic that holds a group, and its leader, which is the group's coordinator.

Kafka's client library is loaded only where a cluster is asked.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from groupreplay.codecs.kafka_terms import DEFAULT_PARTITIONS, partition_for
from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.settings import Cluster

if TYPE_CHECKING:
    from groupreplay.streaming.kafka.clients import Connection

log = logging.getLogger(__name__)


def locate(group_id: str, cluster: Cluster | None, partitions: int | None) -> dict[str, Any]:
    """``group_id``, ``partition``, ``coordinator`` (``host:port (id)``, None without a cluster), ``partitions``.

    ``partitions`` is the number of them: that of the cluster, or the given one, or Kafka's default. ``assumed`` is true
    for the default.

    Raises:
        GroupReplayError: the cluster cannot be reached, or its number of partitions is not ``partitions``.
    """
    if cluster is None:
        count = partitions or DEFAULT_PARTITIONS
        return {
            "group_id": group_id,
            "partition": partition_for(group_id, count),
            "coordinator": None,
            "partitions": count,
            "assumed": partitions is None,
        }
    from groupreplay.streaming.kafka.clients import Connection

    identity = Connection(cluster).identify(OFFSETS_TOPIC)
    if partitions not in (None, identity.partitions):
        raise GroupReplayError(
            f"the topic has {identity.partitions} partitions, not {partitions}",
            where=f"{OFFSETS_TOPIC}, {cluster.bootstrap_servers}",
            fix="leave out --partitions",
            exit_code=ExitCode.USAGE,
        )
    return {
        "group_id": group_id,
        "partition": partition_for(group_id, identity.partitions),
        "coordinator": identity.coordinator_of(group_id),
        "partitions": identity.partitions,
        "assumed": False,
    }


def group_names(connection: Connection) -> list[str]:
    """The ids of the groups that the brokers list to this login, as far as they answer.

    librdkafka lists only groups of consumers.
    """
    from confluent_kafka import KafkaException

    from groupreplay.streaming.kafka.clients import REQUEST_SECONDS

    try:
        listed = connection.admin().list_consumer_groups(request_timeout=REQUEST_SECONDS).result()
    except KafkaException as error:
        log.debug("no list of groups: %s", error)
        return []
    return sorted(group.group_id for group in listed.valid)
