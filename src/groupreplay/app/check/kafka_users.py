"""The logins of groupreplay as resources of Strimzi, which its User Operator makes: ``check -o kafkauser``.

The rights are those that ``check`` looks for and prints as ``kafka-acls.sh`` commands. No broker is asked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from groupreplay.app.check import CheckSettings
from groupreplay.app.check.cluster_checks import source_rights_of
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.rights import CREATE, Right, serve_rights, sink_rights, watch_rights

#: The address inside Kubernetes of a cluster of Strimzi has the name of its Kafka resource.
_BOOTSTRAP: Final = re.compile(r"([a-z0-9][a-z0-9.-]*?)-kafka-(?:[a-z0-9]+-)?bootstrap(?=[.:])")
#: In place of a name that the address does not tell.
UNNAMED: Final = "CLUSTER"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaUser:
    """A login of one command on one cluster; its name is that of the principal."""

    name: str
    command: str
    cluster: Cluster
    rights: tuple[Right, ...]


def kafka_users(settings: CheckSettings) -> list[KafkaUser]:
    """The logins of ``run``, ``serve`` and ``watch``, one on each cluster that the command connects to."""
    source, sink = settings.source, settings.sink
    of_log = source_rights_of(settings)
    of_output = [*sink_rights(settings.topics), CREATE]
    if sink is None or sink == source:
        placed = [("run", source, [*of_log, *of_output]), ("serve", source, serve_rights(settings.topics))]
    else:
        placed = [
            ("run", source, of_log),
            ("run", sink, of_output),
            ("serve", source, serve_rights(settings.topics, output=False)),
            ("serve", sink, serve_rights(settings.topics, log=False)),
        ]
    placed.append(("watch", source, watch_rights()))
    return [
        KafkaUser(
            name="groupreplay" if command == "run" else f"groupreplay-{command}",
            command=command,
            cluster=cluster,
            rights=tuple(dict.fromkeys(rights)),
        )
        for command, cluster, rights in placed
    ]


def manifest(settings: CheckSettings) -> str:
    """All of them as YAML, ``kafka.strimzi.io/v1`` (Strimzi 0.49 and later)."""
    return "".join(f"---\n{line}\n" for line in map(_document, kafka_users(settings)))


def _document(user: KafkaUser) -> str:
    named = _BOOTSTRAP.match(user.cluster.bootstrap_servers)
    label = UNNAMED if named is None else named[1]
    which = f"; replace {UNNAMED} by the name of its Kafka resource" if named is None else ""
    lines = [
        f"# The login of groupreplay {user.command} on {json.dumps(user.cluster.bootstrap_servers)}{which}.",
        "apiVersion: kafka.strimzi.io/v1",
        "kind: KafkaUser",
        "metadata:",
        f"  name: {user.name}",
        "  labels:",
        f"    strimzi.io/cluster: {json.dumps(label)}",
        "spec:",
        *_authentication(user.cluster),
        "  authorization:",
        "    type: simple",
        "    acls:",
        *_rules(user.rights),
    ]
    return "\n".join(lines)


def _authentication(cluster: Cluster) -> list[str]:
    """What Strimzi makes: a certificate, or a password for SCRAM; nothing if the login is of another kind."""
    mechanism = cluster.properties.get("sasl.mechanism", "SCRAM-SHA-512")
    if cluster.properties.get("security.protocol", "").upper() == "SSL":
        kind = "tls"
    elif mechanism == "SCRAM-SHA-512":
        kind = "scram-sha-512"
    else:
        return [
            f"  # The login by {json.dumps(mechanism)} is made elsewhere; its principal has to be User:NAME as above."
        ]
    return ["  authentication:", f"    type: {kind}"]


def _rules(rights: Sequence[Right]) -> Iterator[str]:
    operations: dict[tuple[str, str, bool], list[str]] = {}
    for right in rights:
        operations.setdefault((right.kind, right.name, right.prefixed), []).append(right.operation)
    for (kind, name, prefixed), allowed in operations.items():
        pattern = "prefix" if prefixed else "literal"
        # The cluster has no name.
        named = f", name: {json.dumps(name)}, patternType: {pattern}" if name else ""
        yield f"      - resource: {{type: {kind}{named}}}"
        yield f"        operations: [{', '.join(allowed)}]"
