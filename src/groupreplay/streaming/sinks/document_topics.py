"""The topics that hold documents, and everything that has to be read to compare them with the state."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.contract.probe_messages import ProbeMessage, encode_message
from groupreplay.streaming.engine.packing.key_columns import decode_keys
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.publisher import MessageTooLargeError, Publisher
from groupreplay.streaming.kafka.topic_reader import read_messages
from groupreplay.streaming.sinks.job_topic import ends_of
from groupreplay.streaming.sources.topic import read_topic

log = logging.getLogger(__name__)


class DocumentTopics(msgspec.Struct, frozen=True, kw_only=True):
    """The topics that hold documents: names, and the ids that they had. A topic created again has another id."""

    states: str
    states_id: str
    job: str
    job_id: str


#: Differs from all topics.
UNKNOWN_TOPICS: Final = DocumentTopics(states="", states_id="", job="", job_id="")


class SyncRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a checkpoint knows about its topics: their documents equal the state, or will.

    With ``unchecked``, the documents below these offsets of ``group-states`` were written before the state began, and
    their groups were not asked yet. ``unchecked_job``: the same for the messages in ``group-job``.
    """

    topics: DocumentTopics
    unchecked: dict[int, int] | None = None
    unchecked_job: bool = False


class KafkaDocuments:
    """The topics of a job on its two clusters. Not thread-safe; every method raises GroupReplayError."""

    def __init__(self, source: Cluster, sink: Cluster, topics: TopicNames) -> None:
        self._source = source
        self._sink = Connection(sink)
        self._publisher = Publisher(sink)
        self._topics = topics

    def topics(self) -> DocumentTopics:
        """The topics as they are now."""
        states, job = self._topics.states, self._topics.job
        states_id, job_id = self._sink.topic_id(states)[0], self._sink.topic_id(job)[0]
        return DocumentTopics(states=states, states_id=states_id, job=job, job_id=job_id)

    def ends(self, topic: str) -> dict[int, int]:
        """The end of each partition of a topic."""
        return ends_of(self._sink, topic, self._sink.topic_id(topic)[1])

    def documents(self) -> Iterator[tuple[int, int, bytes, bytes | None]]:
        """Partition, offset, key and value of each message of ``group-states``, each partition in order."""
        topic = self._topics.states
        ends = self.ends(topic)
        starts = self._sink.first_offsets(topic, len(ends))
        for batch in read_messages(self._sink, topic, starts, ends):
            columns = (batch[name].to_pylist() for name in ("partition", "offset", "key", "value"))
            for partition, offset, key, value in zip(*columns, strict=True):
                yield partition, offset, key or b"", value

    def groups_in_log(self) -> Iterator[set[str]]:
        """The groups with records in the log, in parts that may repeat each other.

        A group with a document has at least one record that compaction keeps.
        """
        for batch in read_topic(self._source).batches:
            keys = pc.unique(batch["key"]).drop_null().cast(pa.large_binary())
            yield set(decode_keys(keys).groups)

    def send(self, messages: Sequence[ProbeMessage]) -> None:
        """Writes to ``group-probes``, and waits until the brokers have acknowledged it.

        A request that the topic refuses as too large is left out: only the id of its group makes it so.
        """
        try:
            self._publisher.publish(self._topics.probes, map(encode_message, messages))
        except MessageTooLargeError as error:
            log.warning("the documents of some groups with very long ids are not compared: %s", error)
