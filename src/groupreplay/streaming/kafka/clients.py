"""Connections to a Kafka cluster and common requests.

No client made here joins, commits for, or creates a consumer group.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Collection, Iterator, Mapping
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
from confluent_kafka.admin import (
    AdminClient,
    ClusterMetadata,
    ConfigResource,
    ListOffsetsResultInfo,
    OffsetSpec,
)

from groupreplay.streaming.base.errors import GroupReplayError, unusable
from groupreplay.streaming.config.properties import ClientProperties
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.contract.log import EpochEnd
from groupreplay.streaming.kafka.client_errors import PARTITION_AWAY, Notes, first_line
from groupreplay.streaming.kafka.iam import iam_tokens
from groupreplay.streaming.kafka.topic_identity import NO_ERA, TopicIdentity, topic_id_of

log = logging.getLogger(__name__)

REQUEST_SECONDS: Final = 10.0
#: Time to wait for a future: longer than the request timeout, whose error is more precise.
ANSWER_SECONDS: Final = 2 * REQUEST_SECONDS
#: Topics per DescribeTopics request: the response lists every partition of each.
_TOPICS_A_REQUEST: Final = 500
#: How often a partition is asked for its offsets while it changes its leader, and the pause between; twice, if the
#: question is whether it answers now.
_LEADER_TRIES: Final = 6
_TRIES_NOW: Final = 2
_LEADER_PAUSE_SECONDS: Final = 0.5

# librdkafka logs a line for every failed attempt; error_cb receives the important ones. --debug shows all lines.
_LIBRDKAFKA: Final = logging.getLogger("groupreplay.librdkafka")
_LIBRDKAFKA.addHandler(logging.NullHandler())
_LIBRDKAFKA.propagate = False


class Connection:
    """One cluster. Clients are opened when first needed; ``explain`` turns their errors into messages."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.notes = Notes(cluster)
        self._settings: dict[str, Any] = {
            **ClientProperties(cluster.properties).for_librdkafka(),
            "bootstrap.servers": cluster.bootstrap_servers,
            "error_cb": self.notes.take,
            "logger": _LIBRDKAFKA,
        }
        self._tokens = iam_tokens(cluster)
        if self._tokens is not None:
            self._settings["oauth_cb"] = self._tokens
        self._admin: AdminClient | None = None

    def security(self) -> Mapping[str, Any]:
        """The settings of the connection by librdkafka's names, for another client."""
        return self._settings

    def admin(self) -> AdminClient:
        """The administration client of this cluster."""
        if self._admin is None:
            self._admin = self._open(AdminClient, {})
        return self._admin

    def forget_admin(self) -> None:
        """Open a new client for the next request: librdkafka caches the partition leaders that it once found."""
        self._admin = None

    def consumer(self, isolation_level: str = "read_committed", fetch_bytes: int = 1024 * 1024) -> Consumer:
        """A consumer for ``assign`` only; librdkafka requires a group id, which is never sent to a broker.

        ``fetch_bytes`` is requested of each partition at once.
        """
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
                "fetch.message.max.bytes": fetch_bytes,
                # Bounds the memory of the queue; twice the largest batch that a broker accepts by default.
                "queued.max.messages.kbytes": 32 * 1024,
            },
        )

    def producer(self) -> Producer:
        """A producer that keeps the order of messages and waits for all in-sync replicas."""
        return self._open(
            Producer,
            {
                "enable.idempotence": True,
                "message.timeout.ms": 30_000,
                # The brokers decide what is too large.
                "message.max.bytes": 8 << 20,
                # A third to a tenth of a round of the prober is left. Every broker knows gzip.
                "compression.type": self._settings.get("compression.type", "gzip"),
            },
        )

    def identify(self, topic: str) -> TopicIdentity:
        """Ask for the cluster id, and for the id, partitions and leaders of ``topic``.

        Raises:
            GroupReplayError: no broker answers, the topic is missing, or this login may not see it.
        """
        metadata = self.metadata(topic, topic)
        try:
            topic_metadata = metadata.topics[topic]
            if topic_metadata.error is not None:
                raise KafkaException(topic_metadata.error)
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
            era=topic_id_of(topic_id),
            partitions=len(topic_metadata.partitions),
            leaders={number: brokers.get(p.leader, "-") for number, p in topic_metadata.partitions.items()},
        )

    def topic_id(self, topic: str) -> tuple[str, int]:
        """The id and the number of partitions of a topic; never creates it.

        Raises:
            GroupReplayError: no broker answers, the topic is missing, or this login may not see it.
        """
        try:
            answers = self.admin().describe_topics(TopicCollection([topic]), request_timeout=REQUEST_SECONDS)
            description = answers[topic].result(ANSWER_SECONDS)
        except KafkaException as error:
            raise self.explain(error, topic) from None
        return topic_id_of(description.topic_id), len(description.partitions)

    def metadata(
        self, where: str, topic: str | None = None, *, seconds: float | None = None
    ) -> ClusterMetadata:
        """The brokers, and one topic or all topics that this login may see; ``where`` is for the error message.

        ``seconds`` is how long an answer may take, by default ``REQUEST_SECONDS``. A request for one missing topic may
        create it.

        Raises:
            GroupReplayError: no broker answers.
        """
        admin, patience = self.admin(), REQUEST_SECONDS if seconds is None else seconds
        try:
            return self.notes.unless_refused(lambda: admin.list_topics(topic, timeout=patience), admin)
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
        settings = self._settings_of(ConfigResource.Type.BROKER, str(min(brokers)))
        return {name: settings[name] for name in wanted if settings.get(name)}

    def topic_settings(self, topic: str) -> dict[str, str]:
        """The configuration of a topic, with the defaults.

        Raises:
            KafkaException: no broker answers, or this login lacks DescribeConfigs on the topic.
        """
        return self._settings_of(ConfigResource.Type.TOPIC, topic)

    def _settings_of(self, kind: ConfigResource.Type, name: str) -> dict[str, str]:
        resource = ConfigResource(kind, name)
        (answer,) = self.admin().describe_configs([resource], request_timeout=REQUEST_SECONDS).values()
        settings = answer.result(ANSWER_SECONDS)
        return {name: setting.value for name, setting in settings.items() if setting.value is not None}

    def partition_starts(self, places: Collection[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Log start offset of some partitions of any topics; partitions without an answer are left out."""
        level = IsolationLevel.READ_UNCOMMITTED
        starts = self._answers(places, OffsetSpec.earliest(), level, REQUEST_SECONDS)
        return {at: start.offset for at, start in starts.items()}

    def partition_ends(
        self, places: Collection[tuple[str, int]], level: IsolationLevel, seconds: float
    ) -> dict[tuple[str, int], EpochEnd]:
        """End of each partition and the epoch of its leader; partitions without an answer in time are left out."""
        return {
            at: _epoch_end(end)
            for at, end in self._answers(places, OffsetSpec.latest(), level, seconds).items()
        }

    def unanswered(self, places: Collection[tuple[str, int]], seconds: float) -> GroupReplayError | None:
        """Why one of these partitions, or without any a broker, gives no answer in time; None when all of them do."""
        try:
            if places:
                level = IsolationLevel.READ_UNCOMMITTED
                self._all_answers(places, OffsetSpec.latest(), level, seconds, _TRIES_NOW)
            else:
                self.admin().describe_cluster(request_timeout=seconds).result(2 * seconds)
        except KafkaException as error:
            explained = self.explain(error, "cluster")
            self.forget_admin()
            return explained
        except GroupReplayError as explained:
            return explained
        return None

    def _answers(
        self, places: Collection[tuple[str, int]], which: OffsetSpec, level: IsolationLevel, seconds: float
    ) -> dict[tuple[str, int], ListOffsetsResultInfo]:
        offsets = {}
        for at, answer in self._list_offsets(places, which, level, seconds).items() if places else ():
            try:
                offsets[at.topic, at.partition] = _answered(answer)
            except KafkaException as error:
                log.debug("no offset of %s-%d: %s", at.topic, at.partition, error)
        return offsets

    def end_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        """The current end offset of each partition (with read_committed: the last stable offset)."""
        return self._offsets(topic, partitions, OffsetSpec.latest())

    def log_ends(self, topic: str, partitions: int) -> dict[int, EpochEnd]:
        """The same with the epoch of the leader that answered."""
        ends = self._offset_answers(topic, partitions, OffsetSpec.latest())
        return {number: _epoch_end(end) for number, end in ends.items()}

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
        """The latest timestamp of any record; None for an empty topic. Brokers before 3.0 return that of the first.

        Raises:
            GroupReplayError: a partition does not answer.
        """
        records = self._offset_answers(topic, partitions, OffsetSpec.max_timestamp())
        return max((record.timestamp for record in records.values() if record.timestamp > 0), default=None)

    def explain(self, error: KafkaException, where: str) -> GroupReplayError:
        """The error as a message; an error that librdkafka reported in the background is often the real cause."""
        if self._admin is not None:
            self._admin.poll(0)  # calls error_cb, which nothing else does for this client
        return self.notes.explained(error.args[0], where)

    def _offsets(
        self,
        topic: str,
        partitions: int,
        which: OffsetSpec,
        level: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> dict[int, int]:
        answers = self._offset_answers(topic, partitions, which, level)
        return {number: answer.offset for number, answer in answers.items()}

    def _offset_answers(
        self,
        topic: str,
        partitions: int,
        which: OffsetSpec,
        level: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> dict[int, ListOffsetsResultInfo]:
        places = [(topic, number) for number in range(partitions)]
        return {number: answer for (_, number), answer in self._all_answers(places, which, level).items()}

    def _all_answers(
        self,
        places: Collection[tuple[str, int]],
        which: OffsetSpec,
        level: IsolationLevel,
        seconds: float = REQUEST_SECONDS,
        tries: int = _LEADER_TRIES,
    ) -> dict[tuple[str, int], ListOffsetsResultInfo]:
        """Asks again while a partition changes its leader, as Kafka's own clients do."""
        answers, where = {}, "cluster"
        try:
            for at, answer in self._list_offsets(places, which, level, seconds).items():
                where = f"{at.topic}-{at.partition}"
                answers[at.topic, at.partition] = _answered(answer)
            return answers
        except KafkaException as error:
            explained = self.explain(error, where)
            self.forget_admin()
            if tries == 1 or error.args[0].code() not in PARTITION_AWAY:
                raise explained from None
        time.sleep(_LEADER_PAUSE_SECONDS)
        return self._all_answers(places, which, level, seconds, tries - 1)

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
        if self._tokens is not None:
            self._tokens.check()
        try:
            return kind({**self._settings, **extra})
        except KafkaException as error:
            raise unusable(
                f"the Kafka client rejects its settings: {first_line(str(error.args[0]))}",
                self.cluster.bootstrap_servers,
                "check the --command-config file",
            ) from None


def _answered(answer: Any) -> ListOffsetsResultInfo:
    """An answer to ListOffsets. Raises KafkaException when the broker did not give an offset."""
    end: ListOffsetsResultInfo = answer.result(ANSWER_SECONDS)
    if end.offset == OFFSET_INVALID:
        # So librdkafka returns a partition whose leader was asked and did not answer, without an error.
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
    return end


def _epoch_end(end: ListOffsetsResultInfo) -> EpochEnd:
    epoch = end.leader_epoch
    return EpochEnd(end.offset, None if epoch is None or epoch < 0 else epoch)


def _identified(answers: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, answer in answers.items():
        try:
            topic_id = topic_id_of(answer.result().topic_id)
        except KafkaException as error:
            log.debug("the id of topic %s is not known: %s", name, error)
            continue
        if topic_id != NO_ERA:
            yield topic_id, name
