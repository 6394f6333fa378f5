"""What every kind of input is to the commands: a ``RecordSource`` that opens ``Rows``.

A new kind is one module with a class like ``capture.CaptureSource``, and one line in ``app.cli.inputs.KINDS``.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from groupreplay.codecs import GroupMetadataKey, GroupMetadataValue, decode_key, decode_value
from groupreplay.codecs.redpanda import REDPANDA
from groupreplay.state.policy.broker_log import BrokerLog
from groupreplay.state.policy.context import Context
from groupreplay.state.policy.pending import PendingCommit
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, unusable
from groupreplay.streaming.config.retention import Retention, effective
from groupreplay.streaming.config.settings import RetentionFlags
from groupreplay.streaming.contract.log import LogExtent, ProgressCallback, keys_and_values, no_progress
from groupreplay.streaming.contract.probe_messages import ProbeMessage, RoundSummary, decode_message

if TYPE_CHECKING:
    from groupreplay.streaming.kafka.clients import Connection
    from groupreplay.streaming.kafka.topic_identity import TopicIdentity


#: The id of a cluster that neither a capture nor a folder names.
UNKNOWN_CLUSTER: Final = "unknown"
_BLOCK_BYTES: Final = 1 << 20
#: Batches that are looked at for a group with members.
_MOST_AHEAD: Final = 40


@dataclass(frozen=True, slots=True)
class Rows:
    """Records of one incarnation of a cluster's offsets topic.

    ``batches`` have the columns of ``ROW_SCHEMA`` and can be read once: one partition each, partitions ascending,
    offsets ascending inside a partition. ``where`` names the input in messages, ``kind`` says what it is. ``probes``:
    batches of the same columns from the probes topic, if any; read them first. ``is_probed``: a prober was active while
    they were written.
    For a cluster that can be asked ``connection``, ``identity`` and ``ends`` (the first offset of each partition that
    was not read) are set, and ``starts``, the log start offsets. A capture has ``topic_names`` (id to name) as they
    were when it was written, and, if its file says so, the brokers' ``retention`` and the ``partitions`` of the topic;
    ``complete_ms`` is the time up to which the log is complete, by the clock of the machine that read it. ``extent``
    counts the records as the batches are read, once ``counted``. ``broker_log`` is what log files beside them say.
    ``pending`` reads the commits of open transactions, which are not among the records.
    """

    cluster_id: str
    era: str
    batches: Iterator[pa.RecordBatch]
    connection: Connection | None = None
    identity: TopicIdentity | None = None
    ends: Mapping[int, int] = field(default_factory=dict)
    starts: Mapping[int, int] = field(default_factory=dict)
    probes: Iterable[pa.RecordBatch] = ()
    probes_topic: str = "group-probes"
    is_probed: bool = False
    topic_names: Mapping[str, str] = field(default_factory=dict)
    retention: Retention | None = None
    partitions: int | None = None
    complete_ms: int | None = None
    where: str = ""
    kind: str = "capture"
    extent: LogExtent = field(default_factory=LogExtent)
    broker_log: BrokerLog = field(default_factory=BrokerLog)
    pending: Callable[[], Sequence[PendingCommit]] = tuple

    def complete_until(self, until_ms: int | None) -> int | None:
        """The time up to which the log is complete, but not after ``until_ms``; None if that is not known."""
        if self.complete_ms is None or until_ms is None:
            return self.complete_ms
        return min(self.complete_ms, until_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataEnd:
    """The end of the data, from which ages and times of day count back: now, or the last record of a capture."""

    at_ms: int
    is_live: bool


def end_of_records(latest_ms: int | None, where: str, kind: str) -> DataEnd:
    """The end of an input of this kind that does not go on.

    Raises:
        GroupReplayError: it has no records.
    """
    if latest_ms is None:
        raise GroupReplayError(
            "there are no records, so no age or time of day can count back from the last one",
            where=where,
            fix=f"give another {kind}",
            exit_code=ExitCode.DATA,
        )
    return DataEnd(at_ms=latest_ms, is_live=False)


def agreed(values: Iterable[tuple[Path, str | None]], kinds: str, what: str) -> str | None:
    """The one value that these captures or folders have; None: none of them has any.

    Raises:
        GroupReplayError: they have several, so they do not belong together.
    """
    places = {value: path for path, value in values if value is not None}
    if len(places) > 1:
        raise GroupReplayError(
            f"the {kinds} are from different {what}",
            where=" and ".join(str(path) for path in list(places.values())[:2]),
            fix=f"give only {kinds} of one cluster and one offsets topic",
            exit_code=ExitCode.DATA,
        )
    return next(iter(places), None)


def feed_file(update: Callable[[bytes], object], path: Path) -> None:
    """Hand the content of a file on, block by block. Raises OSError."""
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            update(block)


class RecordSource(Protocol):
    """An input that can be opened, again and again.

    ``origin`` names it in documents, and ``flags`` on a command line; neither has addresses of brokers nor folders,
    because documents are sent on.
    """

    @property
    def origin(self) -> str:
        """Such as ``tuesday.parquet``."""

    @property
    def flags(self) -> Sequence[str]:
        """Such as ``--from-file tuesday.parquet``."""

    def open(
        self,
        partitions: Sequence[int] = (),
        groups: Collection[str] | None = None,
        progress: ProgressCallback = no_progress,
    ) -> Rows:
        """The records of these partitions (none: of all), counted, with the prober's answers if they are to be read.

        A source that knows the partition of a group may leave out those that have none of ``groups``.

        Raises:
            GroupReplayError: the input cannot be read; also while iterating.
        """

    def end(self) -> DataEnd:
        """The time that ages and times of day count back from.

        Raises:
            GroupReplayError: the input cannot be read, or has no records.
        """

    def digest(self) -> str | None:
        """The SHA-256 of the input in hexadecimal digits; None for what changes.

        Raises:
            GroupReplayError: the input cannot be read.
        """


def counted(rows: Rows) -> Rows:
    """The same rows, which count themselves in their ``extent`` while they are read."""
    return replace(rows, batches=FirstBatches(rows.extent.reading(rows.batches)))


class FirstBatches:
    """Batches that are read once, of which the first ones can be looked at before."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._seen = deque[pa.RecordBatch]()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        return self._seen.popleft() if self._seen else next(self._batches)

    def ahead(self) -> Iterator[pa.RecordBatch]:
        """The first ones, which will be read again."""
        for batch in islice(self._batches, _MOST_AHEAD):
            self._seen.append(batch)
            yield batch


def dialect_of(rows: Rows) -> str:
    """Whose records these are, by the first group with members (``codecs.redpanda``); empty for Kafka's.

    Reads the first batches, which are read again; not of a broker's folders, because Redpanda's have other files.
    """
    if rows.kind == "folder":
        return ""
    batches = rows.batches.ahead() if isinstance(rows.batches, FirstBatches) else iter(())
    for raw_key, raw_value in chain.from_iterable(map(keys_and_values, map(_group_records, batches))):
        key = decode_key(raw_key)
        value = decode_value(key, raw_value) if isinstance(key, GroupMetadataKey) else None
        if isinstance(value, GroupMetadataValue) and value.members:
            return value.dialect
    return ""


def _group_records(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The records of classic groups; of a topic there are few beside the commits."""
    return batch.filter(pc.starts_with(batch["key"], GroupMetadataKey.KEY_TYPE.to_bytes(2, "big")))


def with_rounds(rows: Rows) -> Rows:
    """The same rows, with ``is_probed``; reads the first batch of the probes."""
    is_probed, probes = shows_rounds(rows.probes)
    return replace(rows, probes=probes, is_probed=is_probed)


def shows_rounds(batches: Iterable[pa.RecordBatch]) -> tuple[bool, Iterable[pa.RecordBatch]]:
    """Whether a prober was active, according to the first batch; and all the batches.

    Without a prober the topic still contains the job's heartbeats.
    """
    rest = iter(batches)
    head = [batch for batch in [next(rest, None)] if batch is not None]
    return any(isinstance(message, RoundSummary) for message in probe_messages(head)), chain(head, rest)


def probe_messages(batches: Iterable[pa.RecordBatch]) -> Iterator[ProbeMessage | None]:
    """The messages of the probes topic; None stands for those of other programs."""
    return starmap(decode_message, chain.from_iterable(map(keys_and_values, batches)))


def context_of(rows: Rows, retention: RetentionFlags, **settings: Any) -> Context:
    """The context of the groups in these rows, with the names of topics that records hold only by id.

    A cluster that can be asked comes before what a capture has recorded, and flags before both.

    Raises:
        GroupReplayError: the retention is not known, and Kafka's default does not apply to these records.
    """
    if rows.connection is None:
        names, brokers = rows.topic_names, effective(retention, rows.retention or Retention())
    else:
        from groupreplay.streaming.kafka.broker_config import effective_retention
        from groupreplay.streaming.kafka.group_admin import own_settings_now

        names = rows.connection.topic_names()
        brokers = replace(
            effective_retention(retention, rows.connection, rows.retention),
            own_settings=own_settings_now(rows.connection),
        )
    if brokers.retention_ms is None and dialect_of(rows) == REDPANDA:
        raise unusable(
            "the records are Redpanda's, whose retention of offsets no setting with Kafka's name has",
            rows.where,
            "give --retention-minutes: group_offset_retention_sec of the cluster in minutes (10080 by default)",
        )
    if rows.is_probed:
        # A job knew at each moment what the prober had written by then.
        brokers = replace(brokers, own_settings=None)
    read = {"probing": rows.is_probed, "broker_log": rows.broker_log, "pending": _by_group(rows.pending())}
    settings = {**read, **settings, **brokers.for_context()}
    return Context(cluster_id=rows.cluster_id, era=rows.era, topic_names=names, **settings)


def _by_group(pending: Iterable[PendingCommit]) -> dict[str, tuple[PendingCommit, ...]]:
    groups = defaultdict[str, list[PendingCommit]](list)
    for commit in pending:
        groups[commit.group].append(commit)
    return {group: tuple(commits) for group, commits in groups.items()}
