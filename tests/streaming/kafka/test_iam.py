"""The IAM policy of the job beside what AWS publishes about its actions, and tokens by the library of AWS."""

from __future__ import annotations

import base64
import json
import re
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.properties import ClientProperties
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.iam import IamTokens, grant_text, iam_policy, iam_tokens, region_of
from groupreplay.streaming.kafka.rights import CREATE, GROUP_SETTINGS, Right, sink_rights, source_rights
from support.job.captures import invoke
from support.paths import ROOT
from support.remedies import read_remedy

PUBLISHED: dict[str, Any] = json.loads((ROOT / "tests" / "golden" / "iam_actions.json").read_text())
CLUSTER = Cluster(
    bootstrap_servers="b-1.demo.abc123.c2.kafka.eu-west-1.amazonaws.com:9098",
    properties={"sasl.mechanism": "AWS_MSK_IAM"},
)
RIGHTS = [*source_rights(probe=True, ask_retention=True, ends=True), *sink_rights(TopicNames())]
PLACE = "arn:aws:kafka:eu-west-1:ACCOUNT"
NAMES = "CLUSTER-NAME/CLUSTER-UUID"


def topics(*names: str) -> list[str]:
    """Their ARNs."""
    return [f"{PLACE}:topic/{NAMES}/{name}" for name in names]


def test_the_policy_of_a_run() -> None:
    """Everything that ``check`` asks for, each action on the topics and groups that need it, and on no others."""
    written = ["group-events", "group-states", "group-dead-letters", "group-job", "group-probes"]
    read = ["__consumer_offsets", "group-events", "group-states", "group-job", "group-probes"]

    def allow(resources: list[str], *actions: str) -> dict[str, Any]:
        named = [f"kafka-cluster:{action}" for action in actions]
        return {"Effect": "Allow", "Action": named, "Resource": resources}

    assert iam_policy(RIGHTS, CLUSTER, written) == {
        "Version": "2012-10-17",
        "Statement": [
            allow(
                [f"{PLACE}:cluster/{NAMES}"],
                *("Connect", "DescribeClusterDynamicConfiguration", "WriteDataIdempotently"),
            ),
            allow(topics(*read), "ReadData"),
            allow(topics("*"), "DescribeTopic"),
            allow([f"{PLACE}:group/{NAMES}/*"], "DescribeGroup"),
            allow(topics(*written), "WriteData", "CreateTopic"),
        ],
    }


def test_without_the_prober_no_group_but_that_of_spark() -> None:
    """Fewer rights are fewer resources."""
    rights = source_rights(probe=False, ask_retention=False)
    statements = iam_policy(rights, CLUSTER)["Statement"]
    assert [(one["Action"], one["Resource"]) for one in statements] == [
        (["kafka-cluster:Connect"], [f"{PLACE}:cluster/{NAMES}"]),
        (["kafka-cluster:ReadData", "kafka-cluster:DescribeTopic"], topics("__consumer_offsets")),
        (["kafka-cluster:DescribeGroup"], [f"{PLACE}:group/{NAMES}/spark-kafka-source-*"]),
    ]


def test_each_action_is_one_of_aws() -> None:
    """It exists, belongs to this kind of resource, and what AWS says that it needs is allowed, too.

    ReadData needs AlterGroup for consumers that join a group; the job joins none.
    """
    allowed: dict[str, list[str]] = {}
    for statement in iam_policy(RIGHTS, CLUSTER, ["group-events"])["Statement"]:
        for action in statement["Action"]:
            allowed[action.partition(":")[2]] = statement["Resource"]
    for action, resources in allowed.items():
        published = PUBLISHED["actions"][action]
        form = re.sub(r"\\\$\\{\w+\\}", r"[^/]+", re.escape(PUBLISHED["resources"][published["resource"]]))
        assert all(re.fullmatch(form, resource) for resource in resources), (action, resources)
        assert {*published["needs"]} - {"AlterGroup"} <= allowed.keys(), action


@pytest.mark.parametrize("right", [*dict.fromkeys([*RIGHTS, CREATE])], ids=str)
def test_an_action_is_the_right_of_kafka(right: Right) -> None:
    """AWS names the ACL of Kafka that each action is equivalent to; for settings of groups it has no action."""
    text = grant_text(right, CLUSTER)
    if right == GROUP_SETTINGS:
        assert text == "IAM has no action for DescribeConfigs on group *"
        return
    action = text.partition("kafka-cluster:")[2].partition(" ")[0]
    operation = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", right.operation).upper()
    equivalent = PUBLISHED["actions"][action]["text"].partition("Apache Kafka's ")[2]
    assert equivalent.split()[0] == operation
    assert right.kind.upper() in equivalent.split()[1].split("/")


def test_a_region_of_another_partition() -> None:
    """ARNs in China begin otherwise; without a region the policy leaves it open."""
    china = Cluster(bootstrap_servers="b-1.d.a.c2.kafka.cn-north-1.amazonaws.com.cn:9098")
    assert "arn:aws-cn:kafka:cn-north-1:" in grant_text(CREATE, china)


MODULE = "software.amazon.msk.auth.iam.IAMLoginModule required"
#: The two forms of a Java file in the README of aws-msk-iam-auth.
FILES = {
    "AWS_MSK_IAM": {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "AWS_MSK_IAM",
        "sasl.jaas.config": f"{MODULE};",
        "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
    },
    "OAUTHBEARER": {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
        "sasl.login.callback.handler.class": "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler",
        "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler",
    },
}
SERVERS = "b-1.demo.abc123.c2.kafka.eu-west-1.amazonaws.com:9098"


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keys of nobody, and nobody's settings of AWS."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOFNOBODY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-secret-of-nobody")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def signed(token: str) -> tuple[str, str, str]:
    """Address, action and key of a token."""
    address = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    query = parse_qs(address.query)
    return address.netloc, query["Action"][0], query["X-Amz-Credential"][0].partition("/")[0]


@pytest.mark.parametrize("form", FILES)
def test_one_file_for_both_clients(form: str) -> None:
    """The Python client gets OAUTHBEARER and a token for the region of the brokers; Spark gets the file as it is."""
    properties = ClientProperties(FILES[form])
    cluster = Cluster(bootstrap_servers=SERVERS, properties=properties.settings)
    assert properties.for_librdkafka() == {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    assert properties.for_spark() == {f"kafka.{name}": value for name, value in FILES[form].items()}
    callback = Connection(cluster).security()["oauth_cb"]
    token, expires = callback("")
    assert signed(token) == ("kafka.eu-west-1.amazonaws.com", "kafka-cluster:Connect", "AKIAOFNOBODY")
    assert 800 < expires - time.time() < 910
    assert iam_tokens(Cluster(bootstrap_servers=SERVERS)) is None


def test_a_profile_signs(tmp_path: Path) -> None:
    """``awsProfileName`` names other keys, in the files of AWS."""
    (tmp_path / "credentials").write_text(
        "[night]\naws_access_key_id = AKIAOFNIGHT\naws_secret_access_key = s\n"
    )
    token, _ = IamTokens(SERVERS, {"awsProfileName": "night"})()
    assert signed(token)[2] == "AKIAOFNIGHT"


@pytest.mark.parametrize(
    ("servers", "region"),
    [
        (SERVERS, "eu-west-1"),
        (f"other:1,{SERVERS}", "eu-west-1"),
        ("boot-x1.c1.kafka-serverless.us-east-2.amazonaws.com:9098", "us-east-2"),
        ("b-1.demo.abc.c2.kafka.cn-north-1.amazonaws.com.cn:9098", "cn-north-1"),
        ("10.0.0.7:9098", "ap-south-1"),
    ],
)
def test_the_region_of_a_cluster(monkeypatch: pytest.MonkeyPatch, servers: str, region: str) -> None:
    """Its addresses name it; else the environment does, as for all tools of AWS."""
    monkeypatch.setenv("AWS_REGION", "ap-south-1")
    assert region_of(servers) == region


def written(folder: Path, more: str = "") -> Path:
    """The Java file, with options of the login module."""
    path = folder / "client.properties"
    lines = FILES["AWS_MSK_IAM"] | {
        "sasl.jaas.config": f"{MODULE}{more};",
        "security.protocol": "SASL_PLAINTEXT",
    }
    path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    return path


def test_a_region_that_nothing_names(tmp_path: Path) -> None:
    """The error names the variable; with it, and with the names of MSK, the cluster is asked."""
    words = ("list", "--command-config", written(tmp_path), "--bootstrap-server")
    refused = invoke(*words, "127.0.0.1:1")
    assert refused.exit_code == ExitCode.USAGE
    assert "the AWS region of the cluster is not known" in refused.stderr
    read_remedy("streaming.kafka.iam: export AWS_REGION=REGION", refused.stderr)
    asked = invoke(*words, "127.0.0.1:1", env={"AWS_REGION": "eu-west-1"})
    assert "cannot reach the cluster" in asked.stderr


def test_keys_of_a_role_are_refused(tmp_path: Path) -> None:
    """What AWS's library cannot be told goes by a profile, which the error says."""
    path = written(tmp_path, ' awsRoleArn="arn:aws:iam::1:role/r" awsRoleExternalId="x"')
    refused = invoke("list", "--command-config", path, "--bootstrap-server", SERVERS)
    assert refused.exit_code == ExitCode.USAGE
    assert "the Python client cannot use the option awsRoleExternalId" in refused.stderr
    read_remedy("streaming.kafka.iam: put the role into a profile", refused.stderr)
    (tmp_path / "config").write_text("[profile r]\naws_access_key_id = K\naws_secret_access_key = s\n")
    path = written(tmp_path, ' awsProfileName="r"')
    accepted = invoke(
        "list", "--command-config", path, "--bootstrap-server", "127.0.0.1:1", env={"AWS_REGION": "x"}
    )
    assert "cannot reach the cluster" in accepted.stderr


def test_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error comes before a broker is asked, and goes when keys are there."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    connection = Connection(Cluster(bootstrap_servers=SERVERS, properties=FILES["AWS_MSK_IAM"]))
    with pytest.raises(GroupReplayError) as caught:
        connection.admin()
    assert caught.value.exit_code is ExitCode.CONNECTION
    read_remedy("streaming.kafka.iam: aws sts get-caller-identity", str(caught.value))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOFNOBODY")
    connection.admin()
