"""The job with exactly the rights that README.md names, on a broker that checks them."""

from __future__ import annotations

import re
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from groupreplay.streaming.broker import EmbeddedBroker
from groupreplay.streaming.leash import Leashed
from groupreplay.streaming.scenario import Action, Stage, Step, create_topics
from groupreplay.streaming.sink_reader import SinkReader

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

DEADLINE_SECONDS = 240.0
USER = "replayer"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
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
            resource.removesuffix("*"),
            ResourcePatternType.PREFIXED if resource.endswith("*") else ResourcePatternType.LITERAL,
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


@pytest.mark.parametrize("create", [True, False], ids=["creates its topics", "finds its topics"])
def test_the_named_rights_are_enough(
    guarded: tuple[EmbeddedBroker, str], tmp_path: Path, create: bool
) -> None:
    """With the rights of the README and no other the job gets the group's document and events out.

    The right to create is needed only when the topics are missing.
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
    every = AclBindingFilter(ResourceType.ANY, None, ResourcePatternType.ANY, *anything)
    for answer in admin.delete_acls([every]).values():
        answer.result(10)
    rights = [right for right in rights_of_the_readme() if create or right[0] != "cluster"]
    assert [kind for kind, _, _ in rights] == ["topic"] * 3 + ["group"] + ["cluster"] * create
    for answer in admin.create_acls(bindings(rights)).values():
        answer.result(10)
    if not create:
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
        assert soon(lambda: job.exit_code is not None or reader.events(0.2) or reader.documents), job.tail()
        job.end(20.0)
        assert list(reader.documents) == ["backfill"], job.tail()
        assert "uthoriz" not in job.log.read_text(), job.tail()
