"""The exporter with the rights to read three topics and no others, on a broker that checks them."""

from __future__ import annotations

import http.client
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from groupreplay.streaming.contract.job_document import JOB_KEY
from groupreplay.streaming.demo.scenario import create_topics
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.local.process_guard import GuardedProcess
from support.job.sink_messages import job_document
from support.kafka.secured import free_ports
from support.kafka.waiting import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.long]

PATIENCE_SECONDS = 120.0
USER, PASSWORD = "exporter", "let-me-in"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
TOPICS = {name: f"exported-{name}" for name in ("events", "states", "job")}


@pytest.fixture
def guarded() -> Iterator[tuple[AdminClient, str, str]]:
    """The administrator, his address, and the address that checks rights."""
    plain, controller, checked = free_ports(3)
    listeners = f"PLAINTEXT://127.0.0.1:{plain},CHECKED://127.0.0.1:{checked}"
    overrides = {
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": listeners,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CHECKED:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.checked.plain.sasl.jaas.config": f'{LOGIN} user_{USER}="{PASSWORD}";',
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with EmbeddedBroker(port=plain, overrides=overrides) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        create_topics(admin, dict.fromkeys(TOPICS.values(), 1))
        yield admin, broker.bootstrap_servers, f"127.0.0.1:{checked}"


def grant(admin: AdminClient, *topics: str) -> None:
    """Read and Describe on these."""
    allowed = [
        AclBinding(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.LITERAL,
            f"User:{USER}",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        for topic in topics
        for operation in (AclOperation.READ, AclOperation.DESCRIBE)
    ]
    for answer in admin.create_acls(allowed).values():
        answer.result(30)


def readiness(exporter: GuardedProcess) -> tuple[int, str]:
    """What it answers when asked whether it is ready; what it printed as long as it does not answer."""
    found = re.findall(r"http://(\S+)/metrics", exporter.log.read_text())
    if not found:
        return 0, exporter.tail()
    client = http.client.HTTPConnection(found[0], timeout=30)
    client.request("GET", "/readyz")
    answer = client.getresponse()
    return answer.status, answer.read().decode()


def test_reading_is_enough(guarded: tuple[AdminClient, str, str], tmp_path: Path) -> None:
    """Without one of the topics it says which; with all three it is ready, and no group had to be allowed."""
    admin, servers, checked = guarded
    producer = Producer({"bootstrap.servers": servers})
    producer.produce(TOPICS["job"], job_document(time.time_ns() // 1_000_000, trigger_seconds=3_600), JOB_KEY)
    assert producer.flush(30) == 0
    properties = tmp_path / "client.properties"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={LOGIN} username="{USER}" password="{PASSWORD}";\n'
    )
    command = [sys.executable, "-m", "groupreplay.streaming", "export", "--bootstrap-server", checked]
    command += ["--command-config", str(properties), "--listen", "127.0.0.1:0", "--debug"]
    for name, topic in TOPICS.items():
        command += [f"--{name}-topic", topic]
    with GuardedProcess(command, tmp_path / "exporter.log") as exporter:
        grant(admin, TOPICS["events"], TOPICS["job"])
        wait_until(lambda: TOPICS["states"] in readiness(exporter)[1], PATIENCE_SECONDS)
        assert readiness(exporter)[0] == 503
        grant(admin, TOPICS["states"])
        wait_until(lambda: readiness(exporter) == (200, "ok\n"), PATIENCE_SECONDS)
        assert PASSWORD not in exporter.log.read_text()
