"""Connections to a Kafka cluster, common requests, and librdkafka's errors as messages of this program.

No client made here joins, commits for, or creates a consumer group.
"""

from __future__ import annotations

import logging
import re
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ClusterMetadata, ConfigResource, OffsetSpec

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.properties import ClientProperties
from groupreplay.streaming.config.settings import Cluster

log = logging.getLogger(__name__)

REQUEST_SECONDS: Final = 10.0
#: Time to wait for a future: longer than the request timeout, whose error is more precise.
ANSWER_SECONDS: Final = 2 * REQUEST_SECONDS
#: Topics per DescribeTopics request: the response lists every partition of each.
_TOPICS_A_REQUEST: Final = 500

# librdkafka logs a line for every failed attempt; error_cb receives the important ones. --debug shows all lines.
_LIBRDKAFKA: Final = logging.getLogger("groupreplay.librdkafka")
_LIBRDKAFKA.addHandler(logging.NullHandler())
_LIBRDKAFKA.propagate = False

_UNREACHABLE: Final = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
    }
)

#: Error codes of librdkafka -> message, what to do, and exit code.
_EXPLANATIONS: Final = (
    (
        {KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._SSL},
        "the broker refused the login",
        "check security.protocol, the login and the certificates in the --command-config file",
        ExitCode.CONNECTION,
    ),
    (
        {
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            KafkaError.CLUSTER_AUTHORIZATION_FAILED,
            KafkaError.GROUP_AUTHORIZATION_FAILED,
        },
        "not authorised",
        "groupreplay check shows which right is missing, and the command that grants it",
        ExitCode.AUTHORISATION,
    ),
    (
        {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC},
        "the topic does not exist, or this login may not see it",
        "the offsets topic is created with the first committed offset; seeing it needs the right Describe",
        ExitCode.DATA,
    ),
    (
        _UNREACHABLE,
        "cannot reach the cluster",
        "check the address, that the broker runs, and security.protocol in the --command-config file",
        ExitCode.CONNECTION,
    ),
)


def ends_reading(error: KafkaError) -> bool:
    """Whether a reader must give up after an error that arrived instead of a record.

    The end of a partition is not such an error. Nor is a refusal about the group: librdkafka looks up the
    coordinator of the group id that it requires, but reading by assignment does not need that coordinator.
    """
    harmless = (KafkaError._PARTITION_EOF, KafkaError.GROUP_AUTHORIZATION_FAILED)
    return error.code() not in harmless and not error.retriable()


@dataclass(frozen=True, slots=True)
class TopicIdentity:
    """One incarnation of a topic: ``era`` is the topic id in Kafka's text form, ``0`` on brokers without ids."""

    cluster_id: str
    topic: str
    era: str
    partitions: int
    leaders: Mapping[int, str]


class Connection:
    """One cluster. Clients are opened when first needed; ``explain`` turns their errors into messages."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._settings: dict[str, Any] = {
            **ClientProperties(cluster.properties).for_librdkafka(),
            "bootstrap.servers": cluster.bootstrap_servers,
            "error_cb": self._note,
            "logger": _LIBRDKAFKA,
        }
        self._noted: KafkaError | None = None
        self._admin: AdminClient | None = None

    def admin(self) -> AdminClient:
        """The administration client of this cluster."""
        if self._admin is None:
            self._admin = self._open(AdminClient, {})
        return self._admin

    def forget_admin(self) -> None:
        """Open a new client for the next request: librdkafka caches the partition leaders that it once found."""
        self._admin = None

    def consumer(self, isolation_level: str = "read_committed") -> Consumer:
        """A consumer for ``assign`` only; librdkafka requires a group id, which is never sent to a broker."""
        return self._open(
            Consumer,
            {
                "group.id": f"groupreplay-{uuid.uuid4()}",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                "isolation.level": isolation_level,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 100,
                # Bounds the memory of the queue; twice the largest batch that a broker accepts by default.
                "queued.max.messages.kbytes": 32 * 1024,
            },
        )

    def producer(self) -> Producer:
        """A producer that keeps the order of messages and waits for all in-sync replicas."""
        return self._open(Producer, {"enable.idempotence": True, "message.timeout.ms": 30_000})

    def identify(self, topic: str) -> TopicIdentity:
        """Ask for the cluster id, and for the id, partitions and leaders of ``topic``.

        Raises:
            GroupReplayError: no broker answers, the topic is missing, or this login may not see it.
        """
        metadata = self.metadata(topic, topic)
        try:
            found = metadata.topics[topic]
            if found.error is not None:
                raise KafkaException(found.error)
            description = self.admin().describe_topics(
                TopicCollection([topic]), request_timeout=REQUEST_SECONDS
            )[topic]
            topic_id = description.result(REQUEST_SECONDS).topic_id
        except KafkaException as error:
            raise self.explain(error, topic) from None
        brokers = {b.id: f"{b.host}:{b.port} ({b.id})" for b in metadata.brokers.values()}
        return TopicIdentity(
            cluster_id=str(metadata.cluster_id or "unknown"),
            topic=topic,
            era=_era(topic_id),
            partitions=len(found.partitions),
            leaders={number: brokers.get(p.leader, "-") for number, p in found.partitions.items()},
        )

    def topic_id(self, topic: str) -> tuple[str, int]:
        """The id and the number of partitions of a topic; never creates it.

        Raises:
            GroupReplayError: no broker answers, the topic is missing, or this login may not see it.
        """
        try:
            answers = self.admin().describe_topics(TopicCollection([topic]), request_timeout=REQUEST_SECONDS)
            found = answers[topic].result(ANSWER_SECONDS)
        except KafkaException as error:
            raise self.explain(error, topic) from None
        return _era(found.topic_id), len(found.partitions)

    def metadata(
        self, where: str, topic: str | None = None, *, seconds: float = REQUEST_SECONDS
    ) -> ClusterMetadata:
        """The brokers, and one topic or all topics that this login may see; ``where`` is for the error message.

        A request for one missing topic may create it.

        Raises:
            GroupReplayError: no broker answers.
        """
        try:
            return self.admin().list_topics(topic, timeout=seconds)
        except KafkaException as error:
            raise self.explain(error, where) from None

    def cluster_id(self) -> str:
        """The cluster id; raises what ``metadata`` raises."""
        return str(self.metadata("cluster").cluster_id or "unknown")

    def topic_names(self) -> dict[str, str]:
        """Topic id in Kafka's text form -> name, of all topics that this login may see.

        Never raises: names are optional, and a login that may only read the offsets topic sees no other topic.
        """
        names: dict[str, str] = {}
        try:
            visible = sorted(self.metadata("cluster").topics)
            for start in range(0, len(visible), _TOPICS_A_REQUEST):
                chunk = TopicCollection(visible[start : start + _TOPICS_A_REQUEST])
                answers = self.admin().describe_topics(chunk, request_timeout=REQUEST_SECONDS)
                names.update(_identified(answers))
        except (KafkaException, GroupReplayError) as error:
            log.debug("names of topic ids are not known: %s", error)
        return names

    def broker_settings(self, wanted: Collection[str]) -> dict[str, str]:
        """Settings of one broker, by name; settings that it does not return are left out.

        Raises:
            KafkaException: no broker answers, or this login lacks DescribeConfigs on the cluster.
        """
        brokers = self.admin().list_topics(timeout=REQUEST_SECONDS).brokers
        broker = ConfigResource(ConfigResource.Type.BROKER, str(min(brokers)))
        (answer,) = self.admin().describe_configs([broker], request_timeout=REQUEST_SECONDS).values()
        found = answer.result(ANSWER_SECONDS)
        return {name: found[name].value for name in wanted if name in found and found[name].value}

    def partition_offsets(
        self,
        places: Collection[tuple[str, int]],
        *,
        first: bool,
        level: IsolationLevel = IsolationLevel.READ_COMMITTED,
        seconds: float = REQUEST_SECONDS,
    ) -> dict[tuple[str, int], int]:
        """First or end offset of some partitions of any topics; partitions without an answer are left out."""
        if not places:
            return {}
        found: dict[tuple[str, int], int] = {}
        which = OffsetSpec.earliest() if first else OffsetSpec.latest()
        for at, answer in self._list_offsets(places, which, level, seconds).items():
            try:
                found[at.topic, at.partition] = _answered(answer)
            except KafkaException as error:
                log.debug("no offset of %s-%d: %s", at.topic, at.partition, error)
        return found

    def end_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        """The current end offset of each partition (with read_committed: the last stable offset)."""
        return self._offsets(topic, partitions, OffsetSpec.latest())

    def high_watermarks(self, topic: str, partitions: int) -> dict[int, int]:
        """The current end offset of each partition, behind the records of open transactions."""
        return self._offsets(topic, partitions, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)

    def first_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        """The log start offset of each partition."""
        return self._offsets(topic, partitions, OffsetSpec.earliest())

    def offsets_since(self, topic: str, partitions: int, since_ms: int) -> dict[int, int]:
        """The first offset of each partition with a timestamp of ``since_ms`` or later; -1 if there is none."""
        return self._offsets(topic, partitions, OffsetSpec.for_timestamp(since_ms))

    def newest_ms(self, topic: str, partitions: int) -> int | None:
        """The latest timestamp of any record; None for an empty topic and for brokers older than 3.0.

        Raises:
            KafkaException: no broker answers.
        """
        wanted = {TopicPartition(topic, number): OffsetSpec.max_timestamp() for number in range(partitions)}
        answers = self.admin().list_offsets(wanted, request_timeout=REQUEST_SECONDS).values()
        return max((at for one in answers if (at := one.result(ANSWER_SECONDS).timestamp) > 0), default=None)

    def explain(self, error: KafkaException, where: str) -> GroupReplayError:
        """The error as a message; an error that librdkafka reported in the background is often the real cause."""
        if self._admin is not None:
            self._admin.poll(0)  # calls error_cb, which nothing else does for this client
        cause = error.args[0]
        code = cause.code() if isinstance(cause, KafkaError) else None
        if code in _UNREACHABLE and self._noted is not None:
            cause, code = self._noted, self._noted.code()
        text = _first_line(cause.str() if isinstance(cause, KafkaError) else str(cause))
        for codes, what, fix, exit_code in _EXPLANATIONS:
            if code in codes:
                server = f"{where}, {self.cluster.bootstrap_servers}"
                return GroupReplayError(f"{what}: {text}", where=server, fix=fix, exit_code=exit_code)
        return GroupReplayError(f"Kafka returned an error: {text}", where=where)

    def _offsets(
        self,
        topic: str,
        partitions: int,
        which: OffsetSpec,
        level: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> dict[int, int]:
        try:
            answers = self._list_offsets([(topic, number) for number in range(partitions)], which, level)
            return {at.partition: _answered(answer) for at, answer in answers.items()}
        except KafkaException as error:
            explained = self.explain(error, topic)
            self.forget_admin()
            raise explained from None

    def _list_offsets(
        self,
        places: Collection[tuple[str, int]],
        which: OffsetSpec,
        level: IsolationLevel = IsolationLevel.READ_COMMITTED,
        seconds: float = REQUEST_SECONDS,
    ) -> Any:
        return self.admin().list_offsets(
            {TopicPartition(topic, number): which for topic, number in places},
            isolation_level=level,
            request_timeout=seconds,
        )

    def _open(self, kind: Any, extra: Mapping[str, Any]) -> Any:
        try:
            return kind({**self._settings, **extra})
        except KafkaException as error:
            raise GroupReplayError(
                f"the Kafka client rejects its settings: {_first_line(str(error.args[0]))}",
                where=self.cluster.bootstrap_servers,
                fix="check the --command-config file",
                exit_code=ExitCode.USAGE,
            ) from None

    def _note(self, error: KafkaError) -> None:
        # "All brokers down" follows the error with the reason, and must not replace it.
        if self._noted is None or error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._noted = error


def _answered(answer: Any) -> int:
    """The offset in an answer to ListOffsets. Raises KafkaException when the broker did not give one."""
    offset: int = answer.result(ANSWER_SECONDS).offset
    if offset == OFFSET_INVALID:
        # So librdkafka returns a partition whose leader was asked and did not answer, without an error.
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
    return offset


def _identified(answers: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, answer in answers.items():
        try:
            topic_id = _era(answer.result().topic_id)
        except KafkaException as error:
            log.debug("the id of topic %s is not known: %s", name, error)
            continue
        if topic_id != "0":
            yield topic_id, name


def _era(topic_id: Any) -> str:
    if topic_id is None:
        return "0"
    bits = [topic_id.get_most_significant_bits(), topic_id.get_least_significant_bits()]
    raw = b"".join((value & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "big") for value in bits)
    return urlsafe_b64encode(raw).decode().rstrip("=") if any(raw) else "0"


def _first_line(text: str) -> str:
    # librdkafka puts the name of its thread first.
    return re.sub(r"^\[thrd:[^\]]*\]:\s*", "", text.strip()).split("\n", 1)[0]
