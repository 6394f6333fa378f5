"""Amazon MSK with logins by IAM: the rights of the job as an IAM policy, and tokens for librdkafka.

Such clusters have no Kafka ACLs. Actions and resources as in the Service Authorization Reference of AWS, "Apache
Kafka APIs for Amazon MSK clusters". The options of logins are those of Java's ``IAMLoginModule``
(github.com/aws/aws-msk-iam-auth), so one file serves both clients. A token is a signed address of
``kafka-cluster:Connect`` in the region of the cluster, made by AWS's own library (OAUTHBEARER); it is valid for 15
minutes, and librdkafka asks for the next one by itself.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, unusable
from groupreplay.streaming.config.properties import iam_options
from groupreplay.streaming.config.settings import Cluster

if TYPE_CHECKING:
    from groupreplay.streaming.kafka.rights import Right

log = logging.getLogger(__name__)

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
#: The address of a broker names its region; that of a serverless cluster, and those in China, too.
_ADDRESS: Final = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com\b")
#: As the libraries of AWS look for it.
_VARIABLES: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
#: Options of Java's login module that a token can be made by; the others change only where AWS is asked.
_KEYS_OF_ROLES: Final = (
    "awsRoleAccessKeyId",
    "awsRoleSecretAccessKey",
    "awsRoleSessionToken",
    "awsRoleExternalId",
)


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


class IamTokens:
    """The tokens of one login, for ``oauth_cb``; ``options`` are those of the login module.

    Raises:
        GroupReplayError: the region is not known, or an option cannot be used here.
        ModuleNotFoundError: AWS's library is missing (extra ``msk``).
    """

    def __init__(self, servers: str, options: Mapping[str, str]) -> None:
        import aws_msk_iam_sasl_signer  # noqa: F401 - known to be missing here, not in a callback

        for name in _KEYS_OF_ROLES:
            if name in options:
                raise unusable(
                    f"the Python client cannot use the option {name}",
                    "sasl.jaas.config",
                    'put the role into a profile of ~/.aws/config, and name that: awsProfileName="…"',
                )
        self._servers = servers
        self._region = need_region(servers)
        self._options = options
        self._first: tuple[str, float] | None = None
        self._lock = threading.Lock()

    def __call__(self, _: str = "") -> tuple[str, float]:
        """A token, and when it expires, in seconds since 1970; librdkafka asks again after an exception."""
        with self._lock:
            first, self._first = self._first, None
        if first is not None:
            return first
        try:
            return self._made()
        except Exception as error:
            log.warning("no token for the login by IAM could be made, retrying: %s", error)
            raise

    def check(self) -> None:
        """Makes the token that the next client uses: librdkafka itself says only that it has none.

        Raises:
            GroupReplayError: AWS's library could not make one.
        """
        try:
            made = self._made()
        except Exception as error:  # of several libraries
            raise GroupReplayError(
                f"no token for the login by IAM could be made: {error}",
                where=self._servers,
                fix="aws sts get-caller-identity tells whether AWS credentials are found here",
                exit_code=ExitCode.CONNECTION,
            ) from error
        with self._lock:
            self._first = made

    def _made(self) -> tuple[str, float]:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider as Signer

        profile, role = self._options.get("awsProfileName"), self._options.get("awsRoleArn")
        if role:
            session = self._options.get("awsRoleSessionName") or "groupreplay"
            token, expires_ms = Signer.generate_auth_token_from_role_arn(self._region, role, session)
        elif profile:
            token, expires_ms = Signer.generate_auth_token_from_profile(self._region, profile)
        else:
            token, expires_ms = Signer.generate_auth_token(self._region)
        return token, expires_ms / 1000


def iam_tokens(cluster: Cluster) -> IamTokens | None:
    """The tokens for the login of this cluster; None: it is no login by IAM."""
    options = iam_options(cluster.properties)
    return None if options is None else IamTokens(cluster.bootstrap_servers, options)


def region_of(servers: str) -> str | None:
    """The AWS region of a cluster by the addresses of its brokers, else by the environment; None: not known."""
    named = _ADDRESS.search(servers)
    if named is not None:
        return named[1]
    return next((os.environ[name] for name in _VARIABLES if os.environ.get(name)), None)


def need_region(servers: str) -> str:
    """The same.

    Raises:
        GroupReplayError: nothing names it.
    """
    region = region_of(servers)
    if region is None:
        raise unusable(
            "the AWS region of the cluster is not known, which a login by IAM needs",
            servers,
            "export AWS_REGION=REGION, or use the addresses of the brokers as MSK names them",
        )
    return region
