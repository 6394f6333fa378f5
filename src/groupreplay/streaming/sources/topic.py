"""A live offsets topic as a source, with the prober's answers beside it. Nothing here joins a consumer group."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from confluent_kafka import KafkaException

from groupreplay.codecs.kafka_terms import partition_for
from groupreplay.state import OFFSETS_TOPIC
from groupreplay.state.policy.pending import PendingCommit
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.base.errors import GroupReplayError, unusable
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.contract.log import ProgressCallback, next_place, no_progress
from groupreplay.streaming.kafka.clients import REQUEST_SECONDS, Connection
from groupreplay.streaming.kafka.raw_log import raw_log
from groupreplay.streaming.kafka.topic_reader import read_messages, read_spans
from groupreplay.streaming.sources.source import DataEnd, Rows, counted, with_rounds

if TYPE_CHECKING:
    from groupreplay.streaming.sources.fetched_log import FetchedLog

log = logging.getLogger(__name__)

#: From so many on, the second client is worth its start.
_MANY_RECORDS: Final = 50_000


@dataclass(frozen=True, slots=True)
class ProbesPlace:
    """The probes topic to read; ``asked_for``: the user named it, so it must exist."""

    cluster: Cluster
    topic: str
    asked_for: bool = True


@dataclass(frozen=True, slots=True)
class TopicSource:
    """The offsets topic of a cluster up to its end when it is opened; ``probes`` None: answers are not read."""

    cluster: Cluster
    probes: ProbesPlace | None = None
    origin: str = "live cluster"
    flags: Sequence[str] = ("--bootstrap-server", "HOST:PORT")

    def open(
        self,
        partitions: Sequence[int] = (),
        groups: Collection[str] | None = None,
        progress: ProgressCallback = no_progress,
    ) -> Rows:
        """See ``RecordSource``; of ``groups`` only their partitions are read."""
        rows = counted(read_topic(self.cluster, partitions, groups=groups, progress=progress))
        if self.probes is None:
            return rows
        probes = open_probes(self.probes)
        batches = () if probes is None else probes.batches
        return with_rounds(replace(rows, probes=batches, probes_topic=self.probes.topic))

    def end(self) -> DataEnd:
        """Now."""
        return DataEnd(at_ms=now_ms(), is_live=True)

    def digest(self) -> None:
        """None: the topic changes."""


def read_topic(
    cluster: Cluster,
    partitions: Sequence[int] | None = None,
    *,
    groups: Collection[str] | None = None,
    progress: ProgressCallback = no_progress,
) -> Rows:
    """The offsets topic up to its current end, partition by partition; of ``groups`` only their partitions.

    Raises:
        GroupReplayError: the cluster cannot be reached or the topic cannot be read; also while iterating.
    """
    opened_ms = now_ms()
    connection = Connection(cluster)
    identity = connection.identify(OFFSETS_TOPIC)
    numbers = chosen_partitions(partitions, identity.partitions)
    if groups is not None:
        of_groups = {partition_for(group, identity.partitions) for group in groups}
        numbers = [number for number in numbers if number in of_groups]
    ends = connection.end_offsets(OFFSETS_TOPIC, identity.partitions)
    starts = connection.first_offsets(OFFSETS_TOPIC, identity.partitions)
    return Rows(
        identity.cluster_id,
        identity.era,
        read_log(connection, [(number, starts[number], ends[number]) for number in numbers], progress),
        connection,
        identity,
        ends,
        starts,
        partitions=identity.partitions,
        pending=partial(_pending, connection, {number: ends[number] for number in numbers}),
        complete_ms=opened_ms,
        where=f"the live topic of cluster {identity.cluster_id}",
    )


def read_log(
    connection: Connection,
    spans: Sequence[tuple[int, int, int]],
    progress: ProgressCallback,
    fetched: FetchedLog | None = None,
) -> Iterator[pa.RecordBatch]:
    """The committed records of the offsets topic in these spans (partition, first offset, offset behind the last).

    If they are many, and aiokafka is there and can log in, its batches are taken apart; a consumer reads the rest.
    ``fetched`` is a client that is open already, for readings that may be small.

    Raises:
        UnreachableError: nothing arrives; also while iterating.
    """
    spans = [(number, start, end) for number, start, end in spans if start < end]
    total = left = sum(end - start for _, start, end in spans)
    if total >= _MANY_RECORDS or fetched is not None:
        nexts = {number: start for number, start, _ in spans}
        try:
            for batch in _fetched(connection, spans) if fetched is None else fetched.read(spans):
                number, following = next_place(batch)
                left -= following - nexts[number]
                nexts[number] = following
                progress(total - left, total)
                yield batch
            progress(total, total)
            return
        # Also of a release of the library that this code does not know: the consumer reports what is wrong in truth.
        except Exception as error:
            log.debug("a consumer reads the log: %s", error or type(error).__name__)
        spans = [(number, nexts[number], end) for number, _, end in spans]
    yield from read_spans(
        connection, OFFSETS_TOPIC, spans, lambda done, of: progress(total - of + done, total)
    )


def _fetched(connection: Connection, spans: Sequence[tuple[int, int, int]]) -> Iterator[pa.RecordBatch]:
    # Here, because it imports what an extra has.
    from groupreplay.streaming.sources.fetched_log import FetchedLog

    with closing(FetchedLog(connection)) as log_:
        yield from log_.read(spans)


def _pending(connection: Connection, stable: Mapping[int, int]) -> Sequence[PendingCommit]:
    """The pending commits behind the last stable offset of each partition; if they cannot be read, a line says so."""
    try:
        ends = connection.high_watermarks(OFFSETS_TOPIC, max(stable, default=-1) + 1)
        spans = {number: (begin, ends[number]) for number, begin in stable.items() if begin < ends[number]}
        if not spans:
            return ()
        fetched = raw_log(connection, OFFSETS_TOPIC, spans)
    except GroupReplayError as error:
        log.warning("what open transactions have written is not read: %s (%s)", error.what, error.fix)
        return ()
    from groupreplay.streaming.sources.log_replicas import transactions_of
    from groupreplay.streaming.sources.log_segments import batches_in
    from groupreplay.streaming.sources.pending_commits import pending_commits

    return [
        commit
        for number, data in fetched.items()
        for commit in pending_commits(number, batches_in(data), transactions_of(batches_in(data)))
    ]


def chosen_partitions(asked: Sequence[int] | None, count: int) -> list[int]:
    """The partitions to read, in order.

    Raises:
        GroupReplayError: one of them does not exist.
    """
    wanted = sorted(set(asked)) if asked else list(range(count))
    if wanted and wanted[-1] >= count:
        raise unusable(
            f"there is no partition {wanted[-1]}", OFFSETS_TOPIC, f"partitions are numbered 0 to {count - 1}"
        )
    return wanted


@dataclass(frozen=True, slots=True)
class Probes:
    """A probes topic up to ``ends``; ``batches`` have the columns of ``ROW_SCHEMA`` and can be read once."""

    connection: Connection
    topic: str
    batches: Iterable[pa.RecordBatch]
    ends: Mapping[int, int]

    def since(self) -> Iterator[pa.RecordBatch]:
        """The messages that have arrived after ``ends``."""
        ends = self.connection.end_offsets(self.topic, len(self.ends))
        return read_messages(self.connection, self.topic, self.ends, ends)


def open_probes(place: ProbesPlace) -> Probes | None:
    """The probes topic up to its current end; None if there is none.

    Raises:
        GroupReplayError: the user named the topic and it cannot be read; otherwise a warning is logged.
    """
    connection = Connection(place.cluster)
    try:
        partitions = partitions_of(connection, place.topic)
        if partitions:
            ends = connection.end_offsets(place.topic, partitions)
            starts = connection.first_offsets(place.topic, partitions)
            batches = read_messages(connection, place.topic, starts, ends)
            # Read the first batch now, so that missing rights are noticed here.
            first = next(batches, None)
            return Probes(connection, place.topic, chain([first] if first else [], batches), ends)
    except GroupReplayError as error:
        if place.asked_for:
            raise
        log.warning("the prober's answers in topic %s are not used: %s", place.topic, error.what)
        return None
    if place.asked_for:
        raise GroupReplayError(
            "the topic does not exist",
            where=f"{place.topic}, {place.cluster.bootstrap_servers}",
            fix="give the --probes-topic of the job, and its cluster",
        )
    return None


def partitions_of(connection: Connection, topic: str) -> int:
    """The number of partitions of a topic; 0 if there is none.

    Raises:
        GroupReplayError: the cluster does not answer.
    """
    try:
        # Lists all topics: a request for one missing topic may create it.
        topics = connection.admin().list_topics(timeout=REQUEST_SECONDS).topics
    except KafkaException as error:
        raise connection.explain(error, topic) from None
    listed = topics.get(topic)
    return 0 if listed is None or listed.error is not None else len(listed.partitions)
