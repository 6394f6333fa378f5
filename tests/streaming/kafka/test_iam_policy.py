"""The IAM policy of the job, compared with what AWS publishes about its actions."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.kafka.iam_policy import grant_text, iam_policy
from groupreplay.streaming.kafka.rights import CREATE, GROUP_SETTINGS, Right, sink_rights, source_rights
from support.paths import ROOT

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
