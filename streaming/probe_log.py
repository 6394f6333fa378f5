"""What has been written to ``group-probes`` so far: for a prober that starts, and for who looks back.

Knows how to find and read the topic; must not know what an answer means.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from confluent_kafka import KafkaException

from groupreplay.streaming.clients import REQUEST_SECONDS, Connection
from groupreplay.streaming.probe_messages import GroupAnswer, decode_message
from groupreplay.streaming.prober import IN_PROGRESS
from groupreplay.streaming.rows import read_messages


def read_probes(connection: Connection, topic: str) -> Iterable[pa.RecordBatch]:
    """Everything in the topic up to its end at this moment, as ``rows.ROW_SCHEMA``; nothing without a topic.

    Raises:
        GroupReplayError: the cluster does not answer, or we may not read; also while iterating.
    """
    partitions = _partitions(connection, topic)
    if not partitions:
        return ()
    ends = connection.end_offsets(topic, partitions)
    return read_messages(connection, topic, connection.first_offsets(topic, partitions), ends)


def groups_in_progress(connection: Connection, topic: str, cluster_id: str, since_ms: int) -> set[str]:
    """The groups whose last answer since then was a rebalance in progress.

    Raises:
        GroupReplayError: the cluster does not answer, or we may not read.
    """
    partitions = _partitions(connection, topic)
    if not partitions:
        return set()
    ends = connection.end_offsets(topic, partitions)
    starts = connection.offsets_since(topic, partitions, since_ms)
    last: dict[str, GroupAnswer] = {}
    for batch in read_messages(connection, topic, starts, ends):
        for key, value in zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True):
            message = decode_message(key, value)
            if isinstance(message, GroupAnswer) and message.cluster_id == cluster_id:
                last[message.group_id] = message
    return {group for group, answer in last.items() if answer.state in IN_PROGRESS}


def _partitions(connection: Connection, topic: str) -> int:
    try:
        # All of them: to name a topic that is missing may create it.
        known = connection.admin().list_topics(timeout=REQUEST_SECONDS).topics
    except KafkaException as error:
        raise connection.explain(error, topic) from None
    found = known.get(topic)
    return 0 if found is None or found.error is not None else len(found.partitions)
