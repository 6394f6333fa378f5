"""Creates topics with the brokers' own numbers of partitions and replicas, on brokers of any release."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewTopic

from groupreplay.streaming.kafka.clients import Connection

log = logging.getLogger(__name__)

_PARTITIONS: Final = "num.partitions"
_REPLICAS: Final = "default.replication.factor"
#: The broker's default in a request (KIP-464), which brokers before 2.4 do not know.
_DEFAULT: Final = -1
_UNSUPPORTED: Final = frozenset({KafkaError._UNSUPPORTED_FEATURE, KafkaError.UNSUPPORTED_VERSION})
_REQUEST_SECONDS: Final = 15.0


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
            one.name,
            num_partitions=numbers.partitions if one.partitions is None else one.partitions,
            replication_factor=numbers.replicas,
            config=dict(one.settings),
        )
        for one in plans
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
        found = connection.broker_settings((_PARTITIONS, _REPLICAS))
    except KafkaException as error:
        log.debug("the brokers' defaults for topics cannot be read: %s", error)
        found = {}
    numbers = {name: int(text) for name, text in found.items() if text.isdigit()}
    return TopicNumbers(numbers.get(_PARTITIONS), numbers.get(_REPLICAS))
