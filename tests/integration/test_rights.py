"""The job with exactly the rights that README.md names, on a broker that checks them."""

from __future__ import annotations

import json
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from jobs import read_topic

from groupreplay.state.job_watch import GRANT_DESCRIBE
from groupreplay.streaming.broker import EmbeddedBroker
from groupreplay.streaming.leash import Leashed
from groupreplay.streaming.scenario import Action, Stage, Step, create_topics
from groupreplay.streaming.sink_reader import SinkReader

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

DEADLINE_SECONDS = 240.0
USER = "replayer"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
#: Rights that a job gets along without.
SPARED = {("cluster", ""), ("group", "`*`")}
OUTPUT_TOPICS = ("group-events", "group-states", "group-dead-letters", "group-job", "group-probes")


def free_port() -> int:
    """A port that nobody uses at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def guarded() -> Iterator[tuple[EmbeddedBroker, str]]:
    """A broker whose plain listener is the administrator's, and the address of the one that checks rights."""
    plain, controller, checked = free_port(), free_port(), free_port()
    listeners = f"PLAINTEXT://127.0.0.1:{plain},CHECKED://127.0.0.1:{checked}"
    overrides = {
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": listeners,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CHECKED:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.checked.plain.sasl.jaas.config": f'{LOGIN} user_{USER}="let-me-in";',
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with EmbeddedBroker(port=plain, overrides=overrides) as broker:
        yield broker, f"127.0.0.1:{checked}"


def rights_of_the_readme() -> list[tuple[str, str, list[str]]]:
    """The rows of the table under "Rights": what kind of thing, its name, the operations."""
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    section = text.partition("\n## Rights\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (topic|group|cluster)s? ?(.*?) \| ([A-Z][A-Za-z, ]*)", section, re.MULTILINE)
    return [(kind, name, operations.strip().split(", ")) for kind, name, operations in rows]


def bindings(rights: Sequence[tuple[str, str, list[str]]]) -> list[Any]:
    """The rights as what the Admin API takes."""
    from confluent_kafka.admin import (
        AclBinding,
        AclOperation,
        AclPermissionType,
        ResourcePatternType,
        ResourceType,
    )

    kinds = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP, "cluster": ResourceType.BROKER}
    operations = {"Read": "READ", "Write": "WRITE", "Describe": "DESCRIBE", "Create": "CREATE"}
    return [
        AclBinding(
            kinds[kind],
            resource if resource == "*" else resource.removesuffix("*"),
            ResourcePatternType.PREFIXED if resource[1:].endswith("*") else ResourcePatternType.LITERAL,
            f"User:{USER}",
            "*",
            AclOperation[operations[operation]],
            AclPermissionType.ALLOW,
        )
        for kind, name, allowed in rights
        for resource in (re.findall(r"`([^`]+)`", name) or ["kafka-cluster"])
        for operation in allowed
    ]


def soon(condition: Callable[[], object]) -> bool:
    """Whether the condition came true in time."""
    end = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.2)
    return True


def prober_rights(broker: EmbeddedBroker) -> set[str | None]:
    """What the job's documents have said of the prober's rights since the topics were made."""
    documents = [json.loads(one.value or b"{}") for one in read_topic(broker.bootstrap_servers, "group-job")]
    probers = [one["prober"] for one in documents if "prober" in one]
    return {None if one is None else one["rights"] for one in probers[-1:]} or {None}


def is_blind(broker: EmbeddedBroker) -> bool:
    """Whether the job's latest word of its conditions is that it has no right to see the groups."""
    documents = [json.loads(one.value or b"{}") for one in read_topic(broker.bootstrap_servers, "group-job")]
    said = [one["conditions"] for one in documents if "conditions" in one]
    return bool(said) and [one["what"] for one in said[-1]] == ["no_rights"]


@pytest.mark.parametrize("every", [True, False], ids=["every right", "no right that can be spared"])
def test_the_named_rights_are_enough(
    guarded: tuple[EmbeddedBroker, str], tmp_path: Path, every: bool
) -> None:
    """With the rights of the README and no other the job gets the group's document and events out.

    The right to create is needed only when the topics are missing, that to see all groups only by the prober:
    without it the job says that it is blind, not that no group is rebalancing.
    """
    from confluent_kafka.admin import (
        AclBindingFilter,
        AclOperation,
        AclPermissionType,
        AdminClient,
        ResourcePatternType,
        ResourceType,
    )

    broker, checked = guarded
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    anything = (None, "*", AclOperation.ANY, AclPermissionType.ANY)
    all_of_them = AclBindingFilter(ResourceType.ANY, None, ResourcePatternType.ANY, *anything)
    for answer in admin.delete_acls([all_of_them]).values():
        answer.result(10)
    rights = [right for right in rights_of_the_readme() if every or right[:2] not in SPARED]
    kinds = ["topic"] * 3 + ["group"] * (1 + every) + ["cluster"] * every
    assert [kind for kind, _, _ in rights] == kinds
    for answer in admin.create_acls(bindings(rights)).values():
        answer.result(10)
    if not every:
        create_topics(admin, dict.fromkeys(OUTPUT_TOPICS, 1))
    properties = tmp_path / "client.properties"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={LOGIN} username="{USER}" password="let-me-in";\n'
    )
    command = [sys.executable, "-m", "groupreplay.streaming.leash", "run", "--bootstrap-server", checked]
    command += ["--command-config", str(properties), "--checkpoint", str(tmp_path / "checkpoint")]
    with (
        Stage(broker.bootstrap_servers, tmp_path, [Step(0, "backfill", Action.COMMIT)]) as stage,
        Leashed([*command, "--trigger", "1"], tmp_path / "job.log") as job,
        SinkReader(broker.bootstrap_servers) as reader,
    ):
        assert soon(lambda: job.exit_code is not None or reader.find_topics()), job.tail()
        assert soon(lambda: job.exit_code is not None or reader.events(0.2) or reader.caught_up_ms), (
            job.tail()
        )
        stage.advance(0)
        # Documents come with the events, or a batch later.
        assert soon(lambda: job.exit_code is not None or (reader.events(0.2), reader.documents)[1]), (
            job.tail()
        )
        assert soon(lambda: job.exit_code is not None or prober_rights(broker) != {None}), job.tail()
        if not every:
            assert soon(lambda: job.exit_code is not None or is_blind(broker)), job.tail()
        job.end(20.0)
        assert list(reader.documents) == ["backfill"], job.tail()
        assert "uthoriz" not in job.log.read_text(), job.tail()
        assert (prober_rights(broker) - {None}, is_blind(broker)) == (
            {"ok" if every else "missing"},
            not every,
        )
        assert (GRANT_DESCRIBE in job.log.read_text()) is not every, job.tail()
