"""The five topics that the job writes: made when they are missing, looked at when they are there.

Knows their clean-up policies (docs/events.md); must not know what is written to them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Final

from groupreplay.streaming.errors import ExitCode, GroupReplayError
from groupreplay.streaming.settings import TopicNames

if TYPE_CHECKING:
    from groupreplay.streaming.clients import Connection

log = logging.getLogger(__name__)

_THIRTY_DAYS: Final = {"cleanup.policy": "delete", "retention.ms": str(30 * 24 * 3_600_000)}
_COMPACT: Final = {"cleanup.policy": "compact"}
#: Settings of each topic, by its field in TopicNames.
TOPIC_CONFIGS: Final[Mapping[str, Mapping[str, str]]] = {
    "events": _THIRTY_DAYS,
    "states": _COMPACT,
    "dead_letters": _THIRTY_DAYS,
    "job": _COMPACT,
    "probes": _THIRTY_DAYS,
}
#: Topics in which the order of all messages matters; the others get as many partitions as the broker likes.
_SINGLE_PARTITION: Final = frozenset({"job", "probes"})
_REQUEST_SECONDS: Final = 15.0


def ensure_topics(
    connection: Connection, names: TopicNames, only: Sequence[str] | None = None
) -> dict[str, int]:
    """Makes the topics that are missing; returns the number of partitions by topic.

    ``only`` are the fields of TopicNames that are meant, all by default.

    Raises:
        GroupReplayError: a topic is missing and may not be created, or the cluster cannot be asked.
    """
    wanted = only or [item.name for item in fields(names)]
    partitions = _partitions(connection, names, wanted)
    missing = [one for one in wanted if getattr(names, one) not in partitions]
    created: set[str] = set()
    if missing:
        created = _create(connection, names, missing)
        partitions = _await_partitions(connection, names, wanted)
    _warn_about_policies(connection, names, set(partitions) - created)
    return partitions


def _partitions(connection: Connection, names: TopicNames, kinds: Sequence[str]) -> dict[str, int]:
    from confluent_kafka import KafkaException

    try:
        known = connection.admin().list_topics(timeout=_REQUEST_SECONDS).topics
    except KafkaException as error:
        raise connection.explain(error, "output topics") from None
    wanted = [getattr(names, one) for one in kinds]
    return {name: len(known[name].partitions) for name in wanted if name in known and known[name].partitions}


def _create(connection: Connection, names: TopicNames, missing: list[str]) -> set[str]:
    """The topics that were made; somebody else may have been quicker."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import NewTopic

    # -1: the broker's defaults for partitions and replicas (KIP-464).
    wanted = [
        NewTopic(
            getattr(names, one),
            num_partitions=1 if one in _SINGLE_PARTITION else -1,
            replication_factor=-1,
            config=dict(TOPIC_CONFIGS[one]),
        )
        for one in missing
    ]
    created = set()
    for name, answer in connection.admin().create_topics(wanted, operation_timeout=_REQUEST_SECONDS).items():
        try:
            answer.result(_REQUEST_SECONDS)
            created.add(name)
            log.info("created topic %s", name)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise _not_created(connection, names, missing, error) from None
    return created


def _not_created(
    connection: Connection, names: TopicNames, missing: list[str], error: Exception
) -> GroupReplayError:
    explained = connection.explain(error, "output topics")
    lines = [
        f"--topic {getattr(names, one)} "
        + " ".join(f"--config {name}={value}" for name, value in TOPIC_CONFIGS[one].items())
        for one in missing
    ]
    fix = "create them (kafka-topics.sh --create ...): " + "; ".join(lines)
    return GroupReplayError(
        f"output topics are missing and cannot be created: {explained.what}",
        where=connection.cluster.bootstrap_servers,
        fix=fix,
        exit_code=explained.exit_code if explained.exit_code != ExitCode.UNEXPECTED else ExitCode.DATA,
    )


def _await_partitions(connection: Connection, names: TopicNames, kinds: Sequence[str]) -> dict[str, int]:
    """The partitions once every broker that is asked knows the new topics."""
    import time

    deadline = time.monotonic() + _REQUEST_SECONDS
    while True:
        partitions = _partitions(connection, names, kinds)
        missing = [name for one in kinds if (name := getattr(names, one)) not in partitions]
        if not missing:
            return partitions
        if time.monotonic() > deadline:
            raise GroupReplayError(
                "the new output topics do not show up",
                where=", ".join(missing),
                fix="look at the cluster's controller, then start again",
                exit_code=ExitCode.CONNECTION,
            )
        time.sleep(0.2)


def _warn_about_policies(connection: Connection, names: TopicNames, existing: set[str]) -> None:
    """Says when a topic would lose or hoard messages; not being allowed to look is no fault."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import ConfigResource

    wanted = {getattr(names, one): config["cleanup.policy"] for one, config in TOPIC_CONFIGS.items()}
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in sorted(existing)]
    if not resources:
        return
    for resource, answer in connection.admin().describe_configs(resources).items():
        try:
            found = answer.result(_REQUEST_SECONDS)["cleanup.policy"].value
        except KafkaException as error:
            log.debug("cannot see the settings of topic %s: %s", resource.name, error)
            continue
        if found != wanted[resource.name]:
            log.warning(
                "topic %s has cleanup.policy=%s and should have %s; change it with kafka-configs.sh",
                resource.name,
                found,
                wanted[resource.name],
            )
