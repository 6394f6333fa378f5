"""The rights (ACLs) that the job needs, whether a login holds them, and the command that grants each.

Nothing here changes the cluster.
"""

from __future__ import annotations

import shlex
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

from confluent_kafka import KafkaError, KafkaException, TopicCollection

from groupreplay.state.policy.context import OFFSETS_TOPIC
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.properties import ClientProperties, iam_options
from groupreplay.streaming.config.retention import CHECK_INTERVAL, RETENTION
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.kafka.client_errors import UNREACHABLE
from groupreplay.streaming.kafka.clients import ANSWER_SECONDS, REQUEST_SECONDS, Connection
from groupreplay.streaming.kafka.group_admin import GroupAdmin, GroupDescription, Refusal
from groupreplay.streaming.kafka.iam import grant_text

Kind = Literal["topic", "group", "cluster"]

#: Prefix of the group ids of consumers in Spark's Kafka connector; they never join a group.
SPARK_GROUPS: Final = "spark-kafka-source-"


@dataclass(frozen=True, slots=True)
class Right:
    """One operation on one resource; ``name`` is a prefix if ``prefixed``.

    ``needed``: the job does not work without it; otherwise it only sees less.
    """

    operation: str
    kind: Kind
    name: str
    why: str
    prefixed: bool = False
    needed: bool = True

    def __str__(self) -> str:
        """``Read on topic group-probes``."""
        return f"{self.operation} on {self.kind} {self.name}{'*' if self.prefixed else ''}".rstrip()


class Held(Enum):
    """Whether a login holds a right; the value is what ``check`` prints."""

    YES = "held"
    NO = "missing"
    NO_TOPIC = "unknown until the topic exists"
    NOT_TOLD = "unknown: brokers before Kafka 2.3 do not report what a login may do with a topic"
    NO_ANSWER = "unknown: no broker has answered"
    NO_SETTINGS = "not needed: the brokers have no settings of groups (before Kafka 3.8)"


_GROUPS_OF_SPARK: Final = Right(
    "Describe", "group", SPARK_GROUPS, "Spark's connector looks up the coordinator of such a group", True
)
_READ_LOG: Final = (
    Right("Read", "topic", OFFSETS_TOPIC, "to read the records"),
    Right("Describe", "topic", OFFSETS_TOPIC, "to find the first and last offsets"),
)
_ALL_GROUPS: Final = Right(
    "Describe", "group", "*", "the prober: without it rebalances in progress are not visible", needed=False
)
#: Without it the lag of the topics that it hides is not known, and nothing else.
ALL_TOPICS: Final = Right(
    "Describe",
    "topic",
    "*",
    "the ends of partitions: a topic that this login may not describe has no recorded lag",
    needed=False,
)
SETTINGS: Final = Right(
    "DescribeConfigs",
    "cluster",
    "",
    "the brokers' offsets.retention.minutes: without it 7 days are assumed, unless --retention-minutes is given",
    needed=False,
)
#: Without it what rests on the sessions of such groups is worded as assumed.
GROUP_SETTINGS: Final = Right(
    "DescribeConfigs",
    "group",
    "*",
    "the prober: without it the sessions that groups have set for themselves are not known, and those of the brokers "
    "are assumed, which the events say (assumed)",
    needed=False,
)
_READERS: Final = "for groupreplay events and serve, unless they have another login; the job does not need it"
CREATE: Final = Right("Create", "cluster", "", "to create output topics that are missing")


def source_rights(*, probe: bool, ask_retention: bool, ends: bool = False) -> list[Right]:
    """The rights on the source cluster."""
    of_prober = [_ALL_GROUPS, GROUP_SETTINGS, *([ALL_TOPICS] if ends else [])] if probe else []
    spared = [*of_prober, *([SETTINGS] if ask_retention else [])]
    return [*_READ_LOG, _GROUPS_OF_SPARK, *spared]


def sink_rights(topics: TopicNames) -> list[Right]:
    """The rights on the cluster of the job's topics, besides ``CREATE`` for those that are missing.

    With them the same login may also run ``events`` and ``serve``.
    """
    written = [topics.events, topics.states, topics.dead_letters, topics.job]
    why = "to write the job's output"
    probes = (
        "to write the prober's answers and the job's heartbeats; "
        "give this right to no other login: who holds it can forge what brokers say"
    )
    return [
        *(Right(operation, "topic", name, why) for name in written for operation in ("Write", "Describe")),
        Right("Write", "topic", topics.probes, probes),
        Right("Describe", "topic", topics.probes, why),
        Right("Read", "topic", topics.events, _READERS, needed=False),
        Right("Read", "topic", topics.states, "to find documents of groups that no longer exist"),
        Right("Read", "topic", topics.job, "to notice another job that writes the same topics"),
        Right("Read", "topic", topics.probes, "to read the prober's answers and the job's heartbeats"),
        _GROUPS_OF_SPARK,
    ]


def watch_rights() -> list[Right]:
    """The rights of ``watch``, which writes nothing and runs without Spark's connector."""
    return [*_READ_LOG, _ALL_GROUPS, GROUP_SETTINGS, ALL_TOPICS, SETTINGS]


def serve_rights(topics: TopicNames, *, log: bool = True, output: bool = True) -> list[Right]:
    """The rights of ``serve`` with a login of its own, on the cluster of the log, of the job's topics, or of both."""
    why = "the pages and metrics: documents and events of groups, heartbeats, ends of partitions"
    names = (topics.events, topics.states, topics.job, topics.probes) if output else ()
    read = [Right(operation, "topic", name, why) for name in names for operation in ("Read", "Describe")]
    # Brokers return committed offsets only of topics that the login may describe.
    of_groups = [*_READ_LOG, _ALL_GROUPS, GROUP_SETTINGS, ALL_TOPICS, SETTINGS] if log else []
    return [*read, *of_groups]


def grant_line(right: Right, cluster: Cluster) -> str:
    """The kafka-acls.sh command that grants a right to the login of this cluster; for a login by IAM its action."""
    if iam_options(cluster.properties) is not None:
        return grant_text(right, cluster)
    login = shlex.quote(f"User:{_login(cluster)}")
    named = f" {shlex.quote(right.name)}" if right.name else ""
    prefixed = " --resource-pattern-type prefixed" if right.prefixed else ""
    return (
        f"kafka-acls.sh --bootstrap-server {cluster.bootstrap_servers} --add --allow-principal {login} "
        f"--operation {right.operation} --{right.kind}{named}{prefixed}"
    )


def held(connection: Connection, rights: Sequence[Right]) -> dict[Right, Held]:
    """Whether this login holds each right.

    Raises:
        GroupReplayError: the cluster cannot be asked.
    """
    topics = _topic_operations(connection, sorted({right.name for right in rights if right.kind == "topic"}))
    about_groups = [right for right in rights if right.kind == "group" and right != GROUP_SETTINGS]
    # Describing a group makes brokers create the offsets topic, so it is not done while that topic is missing.
    without_log = topics.get(OFFSETS_TOPIC) is Held.NO_TOPIC
    groups = (
        dict.fromkeys(about_groups, Held.NO_TOPIC)
        if without_log
        else _visible_groups(connection, about_groups)
    )

    def holds(right: Right) -> Held:
        if right == GROUP_SETTINGS:
            return _tells_group_settings(connection)
        if right.kind == "group":
            return groups[right]
        if right.kind == "cluster":
            return _tells_settings(connection)
        answer = topics[right.name]
        if right == ALL_TOPICS:
            # Only who may describe all topics learns that one does not exist.
            return Held.NO if isinstance(answer, set) and not answer else Held.YES
        if not isinstance(answer, Held):
            return Held.YES if right.operation.upper() in answer else Held.NO
        # A topic that is described may be described.
        return Held.YES if answer is Held.NOT_TOLD and right.operation == "Describe" else answer

    return {right: holds(right) for right in rights}


def require(connection: Connection, rights: Sequence[Right]) -> None:
    """Check that this login holds every needed right.

    Raises:
        GroupReplayError: some are missing (with the command that grants each), or the cluster cannot be asked.
    """
    asked = [right for right in rights if right.needed]
    missing = [right for right, has in held(connection, asked).items() if has is Held.NO]
    if missing:
        raise GroupReplayError(
            "not authorised: " + ", ".join(map(str, missing)),
            where=connection.cluster.bootstrap_servers,
            fix="\n".join(grant_line(right, connection.cluster) for right in missing),
            exit_code=ExitCode.AUTHORISATION,
        )


def _login(cluster: Cluster) -> str:
    return ClientProperties(cluster.properties).for_librdkafka().get("sasl.username", "NAME")


def _topic_operations(connection: Connection, names: Sequence[str]) -> Mapping[str, set[str] | Held]:
    """The operations allowed on each topic, or why they are not known."""
    if not names:
        return {}
    operations_of: dict[str, set[str] | Held] = {}
    # No right can have been granted for a random name alone.
    asked = {f"groupreplay-{uuid.uuid4()}" if name == "*" else name: name for name in names}
    answers = connection.admin().describe_topics(
        TopicCollection(list(asked)), include_authorized_operations=True, request_timeout=REQUEST_SECONDS
    )
    for asked_name, answer in answers.items():
        name = asked[asked_name]
        try:
            operations = answer.result(ANSWER_SECONDS).authorized_operations
            # The client spells DescribeConfigs as DESCRIBE_CONFIGS.
            allowed = {operation.name.replace("_", "") for operation in operations or ()}
            operations_of[name] = allowed or Held.NOT_TOLD
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                operations_of[name] = set()
            elif code in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
                operations_of[name] = Held.NO_TOPIC
            else:
                raise connection.explain(error, name) from None
    return operations_of


def _visible_groups(connection: Connection, rights: Sequence[Right]) -> dict[Right, Held]:
    # Random names: no right can have been granted for such a group alone.
    names = {right: f"{right.name if right.prefixed else 'groupreplay-'}{uuid.uuid4()}" for right in rights}
    descriptions = GroupAdmin(connection).describe(list(names.values()))
    return {right: _seen(descriptions[name]) for right, name in names.items()}


def _seen(answer: GroupDescription | Refusal) -> Held:
    if isinstance(answer, GroupDescription):
        return Held.YES
    return Held.NO if answer.unauthorised else Held.NO_ANSWER


def _tells_group_settings(connection: Connection) -> Held:
    # Only who may see the settings of all groups gets those of a name that no right can have been granted for.
    code = GroupAdmin(connection).refusal_of_settings(f"groupreplay-{uuid.uuid4()}")
    if code in UNREACHABLE:
        return Held.NO_ANSWER
    if code is not None:
        return Held.NO if code == KafkaError.GROUP_AUTHORIZATION_FAILED else Held.NO_SETTINGS
    return Held.YES


def _tells_settings(connection: Connection) -> Held:
    try:
        connection.broker_settings((RETENTION, CHECK_INTERVAL))
    except KafkaException as error:
        refused = error.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED
        return Held.NO if refused else Held.NO_ANSWER
    return Held.YES
