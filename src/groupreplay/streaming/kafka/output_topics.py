"""The five topics that the job writes: creates those that are missing and checks the settings of the others."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import ConfigResource, NewTopic, TopicMetadata

from groupreplay.state.output.document import MAX_BYTES
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, UnreachableError
from groupreplay.streaming.config.logs import report_progress
from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.kafka.broker_config import configs_address
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.rights import CREATE, SETTINGS, grant_line

log = logging.getLogger(__name__)

#: The broker dates the messages: by its time the job corrects its own, and readers see how old a heartbeat is. Brokers
#: refuse the dates of clients whose clock is ahead by an hour.
_APPEND_TIME: Final = {"message.timestamp.type": "LogAppendTime"}
_THIRTY_DAYS: Final = {
    "cleanup.policy": "delete",
    "retention.ms": str(30 * 24 * 3_600_000),
    **_APPEND_TIME,
}
_COMPACT: Final = {"cleanup.policy": "compact", **_APPEND_TIME}
#: Settings of each topic, by its field in TopicNames.
TOPIC_CONFIGS: Final[Mapping[str, Mapping[str, str]]] = {
    "events": _THIRTY_DAYS,
    "states": _COMPACT,
    "dead_letters": _THIRTY_DAYS,
    "job": _COMPACT,
    "probes": _THIRTY_DAYS,
}
#: The topics that are wrong with other dates, and what is not seen then.
_NEEDS_APPEND_TIME: Final[Mapping[str, str]] = {
    "job": "the age of the job's heartbeat is that of its machine's clock",
    "probes": "nobody notices clocks that are off, nor messages from the future",
}
#: Topics in which the order of all messages matters; the others get the broker's default number of partitions.
_SINGLE_PARTITION: Final = frozenset({"job", "probes"})
_REQUEST_SECONDS: Final = 15.0
_WANT_NUMBERS: Final = "brokers before Kafka 2.4 want the numbers of partitions and replicas of each topic"
#: A stop request waits for the answer.
_MISSING_SECONDS: Final = 5.0
#: The largest message is a group's document; its key and the record batch add to it.
_MESSAGE_BYTES: Final = 2 * MAX_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTopic:
    """One of the five topics as it is on the cluster; ``settings`` None if this login may not see them."""

    kind: str
    name: str
    partitions: int
    replicas: int
    settings: Mapping[str, str] | None

    def number(self, setting: str) -> int | None:
        """A numeric setting, if it is known."""
        text = (self.settings or {}).get(setting, "")
        return int(text) if text.lstrip("-").isdigit() else None


@dataclass(frozen=True, slots=True)
class TopicProblem:
    """What is wrong with a topic, the setting that fixes it, and whether the job fails because of it."""

    what: str
    setting: str | None
    fatal: bool = False


def topic_problems(topic: OutputTopic) -> Iterator[TopicProblem]:
    """Everything that is wrong with a topic."""
    policy = (topic.settings or {}).get("cleanup.policy")
    wanted = TOPIC_CONFIGS[topic.kind]["cleanup.policy"]
    if policy not in (None, wanted):
        yield TopicProblem(f"cleanup.policy={policy}, should be {wanted}", f"cleanup.policy={wanted}")
    dated = (topic.settings or {}).get("message.timestamp.type", "LogAppendTime")
    if topic.kind in _NEEDS_APPEND_TIME and dated != "LogAppendTime":
        yield TopicProblem(
            f"message.timestamp.type={dated}, should be LogAppendTime: {_NEEDS_APPEND_TIME[topic.kind]}",
            "message.timestamp.type=LogAppendTime",
        )
    size = topic.number("max.message.bytes")
    if size is not None and size < _MESSAGE_BYTES:
        what = f"max.message.bytes={size}, a document may need {_MESSAGE_BYTES}"
        yield TopicProblem(what, f"max.message.bytes={_MESSAGE_BYTES}")
    in_sync = topic.number("min.insync.replicas")
    if in_sync is not None and in_sync > topic.replicas:
        what = f"min.insync.replicas={in_sync} with {topic.replicas} replicas: every write is rejected"
        yield TopicProblem(what, f"min.insync.replicas={topic.replicas}", fatal=True)
    if topic.partitions != 1 and topic.kind in _SINGLE_PARTITION:
        yield TopicProblem(
            f"{topic.partitions} partitions, should have 1: the order of messages matters", None
        )


def describe_topics(connection: Connection, names: TopicNames) -> list[OutputTopic]:
    """The job's topics that exist.

    Raises:
        GroupReplayError: the cluster cannot be asked.
    """
    kinds = {getattr(names, item.name): item.name for item in fields(names)}
    topics = {name: topic for name, topic in _known_topics(connection).items() if name in kinds}
    settings = _settings(connection, list(topics))
    return [
        OutputTopic(
            kind=kind,
            name=name,
            partitions=len(topics[name].partitions),
            replicas=min(len(partition.replicas) for partition in topics[name].partitions.values()),
            settings=settings.get(name),
        )
        for name, kind in kinds.items()
        if name in topics
    ]


def change_line(connection: Connection, topic: str, setting: str) -> str:
    """The kafka-configs.sh command that changes a setting of a topic."""
    return (
        f"kafka-configs.sh {configs_address(connection)} --alter "
        f"--entity-type topics --entity-name {topic} --add-config {setting}"
    )


def remedy(connection: Connection, topic: OutputTopic, problem: TopicProblem) -> str:
    """What to type or to do about a problem."""
    if problem.setting:
        return change_line(connection, topic.name, problem.setting)
    return "delete the topic and start the job: it creates the topic again, with one partition"


def ensure_topics(
    connection: Connection, names: TopicNames, only: Sequence[str] | None = None
) -> dict[str, int]:
    """Create the topics that are missing; returns the number of partitions by topic.

    Logs what is wrong with those that existed before; missing rights to see their settings are not reported.
    ``only`` limits this to some fields of TopicNames.

    Raises:
        GroupReplayError: a topic is missing and may not be created, or the cluster cannot be asked.
    """
    wanted = only or [item.name for item in fields(names)]
    partitions = _partitions(connection, names, wanted)
    created: set[str] = set()
    if missing := [field_ for field_ in wanted if getattr(names, field_) not in partitions]:
        created = create_topics(connection, names, missing)
        partitions = _await_partitions(connection, names, wanted)
        report_progress(f"created the topics {', '.join(sorted(created))}")
    existing = partitions.keys() - created
    for topic in describe_topics(connection, names) if existing else ():
        for problem in topic_problems(topic) if topic.name in existing else ():
            log.warning("topic %s has %s; %s", topic.name, problem.what, remedy(connection, topic, problem))
    return partitions


def create_missing(connection: Connection, names: TopicNames) -> list[str]:
    """Create the topics that were deleted while the job runs; returns their names.

    Raises:
        GroupReplayError: a topic is missing and may not be created, or the cluster cannot be asked.
    """
    missing = [config for config in TOPIC_CONFIGS if _is_missing(connection, getattr(names, config))]
    if missing:
        create_topics(connection, names, missing)
        _await_partitions(connection, names, missing)
    return [getattr(names, field_) for field_ in missing]


def _is_missing(connection: Connection, name: str) -> bool:
    """Whether there is no such topic; a topic that this login may not see is not missing."""
    answers = connection.admin().describe_topics(TopicCollection([name]), request_timeout=_MISSING_SECONDS)
    try:
        answers[name].result(_REQUEST_SECONDS)
    except KafkaException as error:
        if error.args[0].code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
            return True
        if error.args[0].code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise connection.explain(error, name) from None
    return False


def _partitions(connection: Connection, names: TopicNames, kinds: Sequence[str]) -> dict[str, int]:
    topics = _known_topics(connection)
    wanted = [getattr(names, kind) for kind in kinds]
    return {name: len(topics[name].partitions) for name in wanted if name in topics}


def _known_topics(connection: Connection) -> dict[str, TopicMetadata]:
    """The topics that this login may see."""
    topics = connection.metadata("output topics", seconds=_REQUEST_SECONDS).topics
    return {name: topic for name, topic in topics.items() if topic.partitions}


def create_topics(
    connection: Connection, names: TopicNames, missing: Sequence[str], *, only_try: bool = False
) -> set[str]:
    """Create these topics (fields of TopicNames), or with ``only_try`` validate that they could be created.

    Returns those that were created; another process may have created some of them first.

    Raises:
        GroupReplayError: a topic cannot be created.
    """
    plans = [
        WantedTopic(getattr(names, field_), TOPIC_CONFIGS[field_], 1 if field_ in _SINGLE_PARTITION else None)
        for field_ in missing
    ]
    creation = request_topics(connection, plans, only_try=only_try)
    created = set()
    for name, error in creation.errors.items():
        if error is None:
            created.add(name)
            log.log(logging.DEBUG if only_try else logging.INFO, "created topic %s", name)
        elif error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise _not_created(connection, plans, creation.numbers, error)
    return created


def _not_created(
    connection: Connection, plans: Sequence[WantedTopic], numbers: TopicNumbers, error: KafkaException
) -> GroupReplayError:
    explained = connection.explain(error, "output topics")
    if isinstance(explained, UnreachableError):
        return explained
    what, exit_code = explained.what, explained.exit_code
    right = CREATE if exit_code == ExitCode.AUTHORISATION else None
    if not numbers.known:
        what, exit_code = (
            f"{_WANT_NUMBERS}, and this login may not read their defaults",
            ExitCode.AUTHORISATION,
        )
        right = SETTINGS
    fix = "create them (kafka-topics.sh --create ...): " + "; ".join(map(numbers.words, plans))
    if right is not None:
        fix = f"{grant_line(right, connection.cluster)}\nor {fix}"
    return GroupReplayError(
        f"output topics are missing and cannot be created: {what}",
        where=connection.cluster.bootstrap_servers,
        fix=fix,
        exit_code=exit_code if exit_code != ExitCode.UNEXPECTED else ExitCode.DATA,
    )


def _await_partitions(connection: Connection, names: TopicNames, kinds: Sequence[str]) -> dict[str, int]:
    """The number of partitions by topic, once the brokers know the new topics."""
    deadline = time.monotonic() + _REQUEST_SECONDS
    while True:
        partitions = _partitions(connection, names, kinds)
        missing = [name for kind in kinds if (name := getattr(names, kind)) not in partitions]
        if not missing:
            return partitions
        if time.monotonic() > deadline:
            raise UnreachableError(
                "the new output topics did not appear in the cluster's metadata",
                where=", ".join(missing),
                fix="check the cluster's controller, then start again",
                exit_code=ExitCode.CONNECTION,
            )
        time.sleep(0.2)


def _settings(connection: Connection, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """The settings of topics by name; topics whose settings may not be seen are left out."""
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in sorted(names)]
    configs = {}
    for resource, answer in (connection.admin().describe_configs(resources) if resources else {}).items():
        try:
            settings = answer.result(_REQUEST_SECONDS)
            configs[resource.name] = {
                name: setting.value for name, setting in settings.items() if setting.value
            }
        except KafkaException as error:
            log.debug("the settings of topic %s cannot be read: %s", resource.name, error)
    return configs


_PARTITIONS: Final = "num.partitions"
_REPLICAS: Final = "default.replication.factor"
#: The broker's default in a request (KIP-464), which brokers before 2.4 do not know.
_DEFAULT: Final = -1
_UNSUPPORTED: Final = frozenset({KafkaError._UNSUPPORTED_FEATURE, KafkaError.UNSUPPORTED_VERSION})


@dataclass(frozen=True, slots=True)
class WantedTopic:
    """A topic to create; ``partitions`` None: as many as the broker's default."""

    name: str
    settings: Mapping[str, str]
    partitions: int | None = None


@dataclass(frozen=True, slots=True)
class TopicNumbers:
    """The numbers that a request must name; -1: the broker fills in its default. None: they are not known."""

    partitions: int | None = _DEFAULT
    replicas: int | None = _DEFAULT

    @property
    def known(self) -> bool:
        """Whether topics can be requested with them."""
        return self.partitions is not None and self.replicas is not None

    def words(self, plan: WantedTopic) -> str:
        """The arguments of ``kafka-topics.sh --create`` for a topic; a number that must be chosen is ``NUMBER``."""
        partitions = self.partitions if plan.partitions is None else plan.partitions
        words = [f"--topic {plan.name}"]
        words += [] if partitions == _DEFAULT else [f"--partitions {partitions or 'NUMBER'}"]
        words += [] if self.replicas == _DEFAULT else [f"--replication-factor {self.replicas or 'NUMBER'}"]
        return " ".join([*words, *(f"--config {name}={value}" for name, value in plan.settings.items())])


@dataclass(frozen=True, slots=True)
class Creation:
    """The error of each topic (None: it was created), and the numbers that were needed."""

    errors: Mapping[str, KafkaException | None]
    numbers: TopicNumbers


def request_topics(
    connection: Connection, plans: Sequence[WantedTopic], *, only_try: bool = False
) -> Creation:
    """Create topics, or with ``only_try`` ask whether they could be created.

    Brokers before 2.4 want both numbers of every topic: those that a broker has as its defaults. If this login may not
    read them, ``numbers`` of the result is not ``known``.
    """
    errors = _requested(connection, plans, TopicNumbers(), only_try)
    if not any(error is not None and error.args[0].code() in _UNSUPPORTED for error in errors.values()):
        return Creation(errors, TopicNumbers())
    numbers = _default_numbers(connection)
    return Creation(_requested(connection, plans, numbers, only_try) if numbers.known else errors, numbers)


def _requested(
    connection: Connection, plans: Sequence[WantedTopic], numbers: TopicNumbers, only_try: bool
) -> dict[str, KafkaException | None]:
    wanted = [
        NewTopic(
            plan.name,
            num_partitions=numbers.partitions if plan.partitions is None else plan.partitions,
            replication_factor=numbers.replicas,
            config=dict(plan.settings),
        )
        for plan in plans
    ]
    answers = connection.admin().create_topics(
        wanted, operation_timeout=_REQUEST_SECONDS, validate_only=only_try
    )
    errors: dict[str, KafkaException | None] = {}
    for name, answer in answers.items():
        try:
            answer.result(_REQUEST_SECONDS)
            errors[name] = None
        except KafkaException as error:
            errors[name] = error
    return errors


def _default_numbers(connection: Connection) -> TopicNumbers:
    """The defaults of a broker, as far as this login may read them."""
    try:
        settings = connection.broker_settings((_PARTITIONS, _REPLICAS))
    except KafkaException as error:
        log.debug("the brokers' defaults for topics cannot be read: %s", error)
        settings = {}
    numbers = {name: int(text) for name, text in settings.items() if text.isdigit()}
    return TopicNumbers(numbers.get(_PARTITIONS), numbers.get(_REPLICAS))
