"""The rights of the job as an IAM policy, for clusters of Amazon MSK with logins by IAM: they have no Kafka ACLs.

Actions and resources as in the Service Authorization Reference of AWS, "Apache Kafka APIs for Amazon MSK clusters".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.iam_tokens import region_of

if TYPE_CHECKING:
    from groupreplay.streaming.kafka.rights import Right

#: Operation and kind of resource in Kafka -> the action; a right on settings of groups has none.
_ACTIONS: Final[Mapping[tuple[str, str], str]] = {
    ("Read", "topic"): "ReadData",
    ("Write", "topic"): "WriteData",
    ("Describe", "topic"): "DescribeTopic",
    ("Create", "topic"): "CreateTopic",
    ("DescribeConfigs", "topic"): "DescribeTopicDynamicConfiguration",
    ("Describe", "group"): "DescribeGroup",
    ("DescribeConfigs", "cluster"): "DescribeClusterDynamicConfiguration",
    # On the cluster in Kafka, on each topic in IAM.
    ("Create", "cluster"): "CreateTopic",
}
#: What every login needs, and what the job's producers do.
_CONNECT: Final = "Connect"
_WRITE_IN_ORDER: Final = "WriteDataIdempotently"


def grant_text(right: Right, cluster: Cluster) -> str:
    """What has to be allowed for a right, in one line."""
    action = _ACTIONS.get((right.operation, right.kind))
    if action is None:
        return f"IAM has no action for {right}"
    return f"allow in IAM: kafka-cluster:{action} on {_resource(right, action, cluster)}"


def iam_policy(rights: Sequence[Right], cluster: Cluster, created: Iterable[str] = ()) -> dict[str, Any]:
    """The policy document that allows these rights; ``created`` are the topics that the job creates if missing.

    ACCOUNT, CLUSTER-NAME and CLUSTER-UUID are those in the ARN of the cluster, which no broker tells.
    """
    resources: dict[str, list[str]] = {_CONNECT: [_arn("cluster", "", cluster)]}
    for right in rights:
        action = _ACTIONS.get((right.operation, right.kind))
        if action is not None and right.operation != "Create":
            resources.setdefault(action, []).append(_resource(right, action, cluster))
        if action == "WriteData":
            resources[_WRITE_IN_ORDER] = [_arn("cluster", "", cluster)]
    if names := list(created):
        resources["CreateTopic"] = [_arn("topic", name, cluster) for name in names]
    return {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": [f"kafka-cluster:{action}" for action in actions], "Resource": on}
            for on, actions in _together(resources)
        ],
    }


def _together(resources: Mapping[str, list[str]]) -> Iterable[tuple[list[str], list[str]]]:
    """The actions on the same resources in one statement."""
    actions: dict[tuple[str, ...], list[str]] = {}
    for action, names in resources.items():
        # A pattern for all names has each of them in it.
        everything = [name for name in names if name.endswith("/*")]
        actions.setdefault(tuple(everything or dict.fromkeys(names)), []).append(action)
    return ((list(names), of_them) for names, of_them in actions.items())


def _resource(right: Right, action: str, cluster: Cluster) -> str:
    if action == "CreateTopic" and right.kind == "cluster":
        return _arn("topic", "*", cluster)
    return _arn(right.kind, f"{right.name}{'*' if right.prefixed else ''}", cluster)


def _arn(kind: str, name: str, cluster: Cluster) -> str:
    region = region_of(cluster.bootstrap_servers) or "REGION"
    partition = {"cn-": "aws-cn", "us-gov-": "aws-us-gov"}
    aws = next((arn for begin, arn in partition.items() if region.startswith(begin)), "aws")
    place = f"arn:{aws}:kafka:{region}:ACCOUNT:{kind}/CLUSTER-NAME/CLUSTER-UUID"
    return f"{place}/{name}" if name else place
