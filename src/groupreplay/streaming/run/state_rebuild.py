"""Gives a group whose stored state was damaged what the log still holds of it, while the job runs.

The call of a group cannot read the log, and the query reads every record once. So the driver reads the group's
partition up to where the query is, and writes the group's records to ``group-probes``; the call applies them in place
of what it knows since the damage. They count only if the query has applied no later record of the group meanwhile. For
a group that is never at rest that depends on the moment, so they are written a few times.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from confluent_kafka import KafkaException

from groupreplay.codecs.kafka_terms import partition_for
from groupreplay.state.policy.context import OFFSETS_TOPIC
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.contract.log import with_units
from groupreplay.streaming.contract.probe_messages import GroupRecords, encode_message
from groupreplay.streaming.engine.packing.pack import INPUT_COLUMNS, packed_rows
from groupreplay.streaming.engine.probe_rows import ProbeFilter
from groupreplay.streaming.engine.wire import GROUP_TAG, PackedRecords, packed_groups, to_wire
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.publisher import Publisher
from groupreplay.streaming.kafka.topic_reader import read_messages

log = logging.getLogger(__name__)

#: How often a group's records are written: once for each look, ten seconds apart.
_TRIES: Final = 5
#: At most so many groups wait; a disk that has damaged more of them needs a new checkpoint.
_MOST_GROUPS: Final = 100


def group_rows(batches: Iterable[pa.RecordBatch], group_id: str) -> PackedRecords | None:
    """The records of one group among all of its partition, packed; None without any. ``read_to`` is not set."""
    wanted, blobs = GROUP_TAG + group_id.encode(), list[bytes]()
    for keys, packed, _ in packed_rows(with_units(batch, INPUT_COLUMNS) for batch in batches):
        blobs += [blob for key, blob in zip(keys, packed, strict=True) if key == wanted and blob is not None]
    return PackedRecords(0, packed_groups(blobs)) if blobs else None


@dataclass(slots=True, kw_only=True)
class StateRebuild:
    """The groups that lack what the log holds. Not thread-safe.

    ``read`` gives all records of a partition of the log below an offset. ``read_to`` gives the next offset of each
    partition after the last finished batch. ``send`` writes to ``group-probes``. Both of the brokers raise
    GroupReplayError.
    """

    probe_filter: ProbeFilter
    partitions: int
    read: Callable[[int, int], Iterable[pa.RecordBatch]]
    read_to: Callable[[], dict[int, int]]
    send: Callable[[GroupRecords], object]
    _tries: dict[str, int] = field(default_factory=dict)

    def note(self, group_id: str) -> None:
        """The state of a group was damaged."""
        if len(self._tries) < _MOST_GROUPS:
            self._tries.setdefault(group_id, _TRIES)

    def tick(self) -> None:
        """Writes the records of each group that was noted. Call it every ten seconds; it raises nothing."""
        for group_id in list(self._tries):
            try:
                self._write(group_id)
            except (GroupReplayError, KafkaException) as error:
                log.warning("the records of group %r cannot be handed to its call: %s", group_id[:100], error)
            self._tries[group_id] -= 1
            if not self._tries[group_id]:
                del self._tries[group_id]

    def _write(self, group_id: str) -> None:
        partition = partition_for(group_id, self.partitions)
        read_to = self.read_to().get(partition, 0)
        records = group_rows(self.read(partition, read_to), group_id)
        if records is not None:
            packed = to_wire(PackedRecords(read_to, records.groups))
            about = self.probe_filter
            self.send(
                GroupRecords(
                    cluster_id=about.cluster_id,
                    run_id=about.run_id or "",
                    group_id=group_id,
                    read_to=read_to,
                    packed=packed,
                )
            )


def state_rebuild(
    source: Cluster,
    sink: Cluster,
    probe_filter: ProbeFilter,
    partitions: int,
    read_to: Callable[[], dict[int, int]],
) -> StateRebuild:
    """For a job on these clusters, with connections of its own: it runs in another thread."""
    connection, publisher = Connection(source), Publisher(sink)

    def read(partition: int, end: int) -> Iterator[pa.RecordBatch]:
        first = connection.first_offsets(OFFSETS_TOPIC, partitions)[partition]
        return read_messages(connection, OFFSETS_TOPIC, {partition: first}, {partition: end})

    def send(message: GroupRecords) -> None:
        publisher.publish(probe_filter.topic, [encode_message(message)])

    return StateRebuild(
        probe_filter=probe_filter, partitions=partitions, read=read, read_to=read_to, send=send
    )
