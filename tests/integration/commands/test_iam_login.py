"""A Java file for IAM of Amazon MSK against a real broker with OAUTHBEARER, which takes unsecured tokens.

AWS itself cannot be had: a module in place of its signer makes the tokens, and Kafka's own unsecured validator of
OAUTHBEARER checks them. The rest is the way of a login to MSK: the translated file, librdkafka, refreshed tokens.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from groupreplay.streaming.base.errors import ExitCode
from groupreplay.streaming.local.broker import EmbeddedBroker, free_ports
from support.kafka.clients import commit_once, make_topics
from support.remedies import read_remedy

pytestmark = pytest.mark.broker

#: In place of AWS's library: an unsecured JSON Web Token that says who asks, and notes how it was asked.
SIGNER = """
import base64, json, os, time

def _part(fields):
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).rstrip(b"=").decode()

class MSKAuthTokenProvider:
    @staticmethod
    def generate_auth_token_from_profile(region, profile):
        with open(os.environ["ASKED"], "a") as asked:
            print(region, profile, file=asked)
        now, lives = time.time(), float(os.environ["LIVES"])
        claims = {"sub": profile, "iat": now - 300, "exp": now + (-200 if "LATE" in os.environ else lives)}
        return f"{_part({'alg': 'none'})}.{_part(claims)}.", int((now + lives) * 1000)
"""
FILE = """\
security.protocol=SASL_PLAINTEXT
sasl.mechanism=AWS_MSK_IAM
sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required awsProfileName="replayer";
sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMClientCallbackHandler
"""
GROUP = "iam-orders"
#: Asks the brokers until five tokens were made, and once more.
LASTING = """
import os, sys, time
from groupreplay.streaming.config.properties import load_properties
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.clients import Connection

servers, file = sys.argv[1:]
connection = Connection(Cluster(bootstrap_servers=servers, properties=load_properties(file).settings))
until = time.monotonic() + 240
while time.monotonic() < until:
    connection.metadata("cluster")
    with open(os.environ["ASKED"]) as asked:
        if len(asked.readlines()) >= 5:
            break
    time.sleep(0.5)
connection.metadata("cluster")
print("answered")
"""


@dataclass
class IamBroker:
    """``login`` is its address for logins; the user ``replayer`` may read the offsets topic and sees nothing else."""

    broker: EmbeddedBroker
    login: str
    folder: Path

    def environment(self, lives: float) -> dict[str, str]:
        """That of a process whose tokens live so many seconds."""
        return {
            **os.environ,
            "PYTHONPATH": str(self.folder),
            "ASKED": str(self.folder / "asked"),
            "LIVES": str(lives),
            "AWS_REGION": "eu-west-1",
            "XDG_CONFIG_HOME": "/nonexistent",
        }

    def run(self, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        """A command with the Java file."""
        cluster = ["--bootstrap-server", self.login, "--command-config", str(self.folder / "java.properties")]
        command = [sys.executable, "-m", "groupreplay", name, *cluster, *words]
        return subprocess.run(
            command, env=self.environment(60), capture_output=True, text=True, check=False, timeout=300
        )


@pytest.fixture(scope="module")
def iam(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IamBroker]:
    """One with a group."""
    folder = tmp_path_factory.mktemp("iam")
    (folder / "aws_msk_iam_sasl_signer.py").write_text(SIGNER)
    (folder / "java.properties").write_text(FILE)
    plain, controller, login = free_ports(3)
    listeners = f"PLAINTEXT://127.0.0.1:{plain},IAM://127.0.0.1:{login}"
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
    overrides = {
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": listeners,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,IAM:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.iam.oauthbearer.sasl.jaas.config": module,
        # Ends a connection whose token has expired, as MSK does.
        "listener.name.iam.oauthbearer.connections.max.reauth.ms": "60000",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:replayer",
    }
    with EmbeddedBroker(port=plain, overrides=overrides) as broker:
        make_topics(broker.bootstrap_servers, {"iam-topic": 1})
        commit_once(broker.bootstrap_servers, GROUP, TopicPartition("iam-topic", 0, 0))
        yield IamBroker(broker, f"127.0.0.1:{login}", folder)


def test_a_java_file_reads_the_groups(iam: IamBroker) -> None:
    """``list`` logs in by a token of the profile that the login module names, for the region of the environment."""
    done = iam.run("list", "-o", "json")
    assert done.returncode == ExitCode.OK, done.stderr
    assert GROUP in {row["group_id"] for row in json.loads(done.stdout)}
    assert {*(iam.folder / "asked").read_text().splitlines()} == {"eu-west-1 replayer"}


def test_tokens_are_renewed(iam: IamBroker) -> None:
    """A client that lives longer than its tokens asks for further ones, and goes on being answered."""
    asked = iam.folder / "asked"
    asked.unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", LASTING, iam.login, str(iam.folder / "java.properties")],
        env=iam.environment(lives=6),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stdout) == (0, "answered\n"), done.stderr
    assert len(asked.read_text().splitlines()) >= 5


def test_a_token_that_the_broker_refuses(iam: IamBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names what IAM has to allow; the policy that ``check`` prints has it."""
    monkeypatch.setenv("LATE", "yes")
    refused = iam.run("list")
    assert refused.returncode == ExitCode.CONNECTION
    assert "the brokers refused the login by IAM" in refused.stderr
    read_remedy("streaming.kafka.client_errors: allow kafka-cluster:Connect", refused.stderr)
    (found,) = [
        one for one in json.loads(iam.run("check", "-o", "json").stdout) if one["check"] == "iam policy"
    ]
    assert "kafka-cluster:Connect" in found["fix"]
    monkeypatch.delenv("LATE")
    assert iam.run("list").returncode == ExitCode.OK


def test_check_prints_the_policy_in_place_of_acls(iam: IamBroker) -> None:
    """All rights in one document that IAM takes, and no command for ACLs, which MSK does not have with IAM."""
    done = iam.run("check", "--output", "json")
    found = {result["check"]: result for result in json.loads(done.stdout)}
    policy = json.loads(found["iam policy"]["fix"])
    assert found["cluster"]["status"] == "ok"
    assert found["iam policy"]["status"] == "ok"
    assert policy["Version"] == "2012-10-17"
    assert [statement["Effect"] for statement in policy["Statement"]] == ["Allow"] * 5
    assert "kafka-acls.sh" not in done.stdout
