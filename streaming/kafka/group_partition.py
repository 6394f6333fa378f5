"""The partition of the offsets topic that holds a group, and its leader, which is the group's coordinator."""

from __future__ import annotations

from typing import Any

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.state.kafka_terms import DEFAULT_PARTITIONS, partition_for
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.clients import Connection, TopicIdentity


def locate(group_id: str, cluster: Cluster | None, partitions: int | None) -> dict[str, Any]:
    """``group_id``, ``partition`` and ``coordinator`` (``host:port (id)``, None without a cluster).

    With a cluster, its number of partitions is used.

    Raises:
        GroupReplayError: the cluster cannot be reached, or its number of partitions is not ``partitions``.
    """
    if cluster is None:
        number = partition_for(group_id, partitions or DEFAULT_PARTITIONS)
        return {"group_id": group_id, "partition": number, "coordinator": None}
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
        "coordinator": coordinator_of(group_id, identity),
    }


def coordinator_of(group_id: str, identity: TopicIdentity | None) -> str | None:
    """The group's coordinator as ``host:port (id)``; None without a cluster."""
    if identity is None:
        return None
    return identity.leaders.get(partition_for(group_id, identity.partitions))
