"""Keeps ``group-states`` equal to the state: asks groups for their documents when the topic may hold others.

A state that begins empty knows nothing of the groups that ended before it: their documents are left in the topic.
A topic that was created again, or has another name, lacks the documents of all quiet groups. Only the call of a
group knows its state, so the driver sends requests through ``group-probes``, and the call writes a document or a
tombstone.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from groupreplay.state.phrases import counted
from groupreplay.streaming.base.background import Background
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.contract.messages import MessageDecoder
from groupreplay.streaming.contract.probe_messages import (
    DocumentRequest,
    JobDocumentsRequest,
    ProbeMessage,
    encode_message,
)
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


_CHUNK: Final = 5_000
_POLL_SECONDS: Final = 0.5
#: How often the driver asks for the ids of the topics, and how soon again after a failure.
_LOOK_SECONDS: Final = 60.0
_RETRY_SECONDS: Final = 5.0


class DocumentSource(Protocol):
    """The topics as this module uses them; every method raises ``GroupReplayError`` when they cannot be asked."""

    def topics(self) -> DocumentTopics:
        """The topics as they are now."""

    def ends(self, topic: str) -> dict[int, int]:
        """The end of each partition of a topic."""

    def documents(self) -> Iterator[tuple[int, int, bytes, bytes | None]]:
        """Partition, offset, key and value of each message of ``group-states``, each partition in order."""

    def groups_in_log(self) -> Iterator[set[str]]:
        """The groups with records in the log, in parts that may repeat each other."""

    def send(self, messages: Sequence[ProbeMessage]) -> None:
        """Writes to ``group-probes``."""


class QueryProgress(Protocol):
    """How far the query is, as ``JobReport`` knows it."""

    announced_ms: int | None

    def read_of(self, topic: str) -> dict[int, int]:
        """The next offset of each partition of a source after the last finished batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncedRun:
    """The run that asks: requests of other runs are ignored.

    ``partitions`` are those of the offsets topic; ``is_only_writer``: no other job has written to the topics since the
    last run of this one.
    """

    cluster_id: str
    run_id: str
    partitions: int
    probes: str
    is_only_writer: bool = True


class _Head(msgspec.Struct):
    cluster_id: str = ""


_head: Final = MessageDecoder[_Head](_Head)


@dataclass(slots=True, kw_only=True)
class DocumentSync:
    """Compares the topics with what the checkpoint knows of them, and asks for documents when they differ.

    ``load`` and ``store`` keep the record in the checkpoint, ``is_empty``: no batch has run on it. ``wait`` waits some
    seconds and returns True when the job ends; ``show`` prints a line.
    """

    run: SyncedRun
    source: DocumentSource
    progress: QueryProgress
    load: Callable[[], SyncRecord | None]
    store: Callable[[SyncRecord], None]
    is_empty: Callable[[], bool]
    show: Callable[[str], None]
    wait: Callable[[float], bool] = lambda _: False
    _record: SyncRecord | None = field(default=None, init=False)
    _is_stored: bool = field(default=True, init=False)
    _is_done: bool = field(default=False, init=False)

    def background(self) -> Background:
        """The thread that calls ``check`` once a minute, and soon when it is woken; its end ends the waits here.

        Requests that were not served when it is closed are sent again by the next run.
        """
        thread = Background(
            name="documents",
            tick=self.check,
            pause_seconds=_LOOK_SECONDS,
            retry_seconds=_RETRY_SECONDS,
            failing="the topic of documents cannot be checked for now",
        )
        self.wait = thread.wait
        return thread

    @property
    def is_done(self) -> bool:
        """Whether the topics and the checkpoint have agreed since the start."""
        return self._is_done

    def prepare(self) -> None:
        """Call it before the first batch: documents below the present ends were written by others.

        Raises:
            GroupReplayError: the topics cannot be asked.
        """
        self._record = self.load()
        if self._record is None and self.is_empty():
            topics = self.source.topics()
            # The claim of this run is the only message in a new topic of the job.
            self._record = SyncRecord(
                topics=topics,
                unchecked=self.source.ends(topics.states),
                unchecked_job=sum(self.source.ends(topics.job).values()) > 1,
            )
            self.store(self._record)
        elif self._record is not None and not self.run.is_only_writer:
            # Stored at once: after another start this job will be the last one that has written.
            self._record = SyncRecord(topics=UNKNOWN_TOPICS)
            self.store(self._record)

    def check(self) -> None:
        """Asks for documents if the topics and the checkpoint differ; returns when all requests were served.

        Nothing is asked before the log was read to its end once: a group that seems to be unknown may be unread. The
        record is written last, so that a killed job asks again.

        Raises:
            GroupReplayError: the topics cannot be asked now.
        """
        if self._record is not None and not self._is_stored:
            # The disk was full: everything was asked, and must not be asked again.
            self._save(self._record)
        topics = self.source.topics()
        record = self._record
        if record == SyncRecord(topics=topics):
            self._is_done = True
            return
        while self.progress.announced_ms is None:
            if self.wait(_POLL_SECONDS):
                return
        if self._send(self._requests(record, topics)) and self._wait_read():
            self._save(SyncRecord(topics=topics))
            self._is_done = True

    def _save(self, record: SyncRecord) -> None:
        self._record, self._is_stored = record, False
        self.store(record)
        self._is_stored = True

    def _requests(self, record: SyncRecord | None, topics: DocumentTopics) -> Iterator[ProbeMessage]:
        """The requests that are needed, those about the job first."""
        record = record or SyncRecord(topics=UNKNOWN_TOPICS)
        known = record.topics
        if record.unchecked_job or (known.job, known.job_id) != (topics.job, topics.job_id):
            yield JobDocumentsRequest(
                cluster_id=self.run.cluster_id, run_id=self.run.run_id, partitions=self.run.partitions
            )
        if (known.states, known.states_id) == (topics.states, topics.states_id):
            if record.unchecked is not None and any(record.unchecked.values()):
                held = self._held(record.unchecked)
                yield from (self._request(one, in_topic=True) for one in sorted(held))
            return
        yield from self._requests_to_all(topics)

    def _requests_to_all(self, topics: DocumentTopics) -> Iterator[ProbeMessage]:
        self.show(f"asking all groups for their documents, because {topics.states} may hold others")
        held = self._held(None)
        yield from (self._request(one, in_topic=True) for one in sorted(held))
        asked = set(held)
        for part in self.source.groups_in_log():
            if self.wait(0):
                return
            new = part - asked
            asked |= new
            yield from (self._request(one, in_topic=False) for one in sorted(new))

    def _request(self, group_id: str, *, in_topic: bool) -> DocumentRequest:
        run = self.run
        return DocumentRequest(
            cluster_id=run.cluster_id, run_id=run.run_id, group_id=group_id, in_topic=in_topic
        )

    def _held(self, below: Mapping[int, int] | None) -> set[str]:
        """The groups of this cluster with a document in the topic; with ``below`` only those that lie below.

        A document behind these offsets was written from the present state.
        """
        held: set[str] = set()
        others: Counter[str] = Counter()
        for partition, offset, key, value in self.source.documents():
            group_id = key.decode("utf-8", "replace")
            if value is None or (below is not None and offset >= below.get(partition, 0)):
                held.discard(group_id)
                continue
            cluster_id = _cluster_of(value)
            if cluster_id == self.run.cluster_id:
                held.add(group_id)
            else:
                held.discard(group_id)
                others[cluster_id or "unknown"] += 1
        for cluster_id, count in sorted(others.items()):
            log.warning(
                "the topic of documents holds %s of cluster %s, left as they are",
                counted(count, "message"),
                cluster_id[:100],
            )
        return held

    def _send(self, requests: Iterator[ProbeMessage]) -> bool:
        """Whether all were sent; False when the job ends."""
        while chunk := list(islice(requests, _CHUNK)):
            self.source.send(chunk)
            log.info("asked for %d documents", len(chunk))
            if self.wait(0):
                return False
        return True

    def _wait_read(self) -> bool:
        """Waits until a finished batch has read all requests; False when the job ends."""
        ends = self.source.ends(self.run.probes)
        while True:
            read = self.progress.read_of(self.run.probes)
            if all(read.get(partition, 0) >= end for partition, end in ends.items()):
                return True
            if self.wait(_POLL_SECONDS):
                return False


def _cluster_of(value: bytes) -> str | None:
    """The cluster of a document; None for what is no document."""
    head = _head.decode(value)
    return None if head is None else head.cluster_id
