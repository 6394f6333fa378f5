"""Words for what a prober and a job write beside the log, and for the topic that holds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from groupreplay.streaming.contract.partition_ends import EndsRound, PartitionEnds, TopicEnds
from groupreplay.streaming.contract.probe_messages import (
    ClockReading,
    DocumentRequest,
    GroupAnswer,
    GroupRecords,
    HeartbeatMessage,
    JobDocumentsRequest,
    MemberAnswer,
    ProbeMessage,
    Rights,
    RoundSummary,
    encode_message,
)
from support.histories.raw_records import Raw
from support.job.captures import CLUSTER_ID, rows_batch

PROBES = "group-probes"


def asked(group: str, state: str, *, at: int, members: Sequence[str] = ()) -> GroupAnswer:
    """An answer about a group; members by client id."""
    return GroupAnswer(
        cluster_id=CLUSTER_ID,
        group_id=group,
        taken_ms=at,
        state=state,
        broker=1,
        protocol_type="consumer",
        protocol="",
        members=tuple(
            MemberAnswer(member_id=f"{name}-id", instance_id=None, client_id=name, client_host="/h")
            for name in members
        ),
    )


def summed_up(
    *,
    at: int,
    brokers: Mapping[int, str | None] | None = None,
    rights: Rights = "ok",
    partitions: Mapping[int, tuple[int, int]] | None = None,
    count: int | None = 1,
) -> RoundSummary:
    """A round in which all is well but what is said."""
    return RoundSummary(
        cluster_id=CLUSTER_ID,
        taken_ms=at,
        brokers=dict({1: None} if brokers is None else brokers),
        rights=rights,
        partitions=dict({0: (5, 5)} if partitions is None else partitions),
        partition_count=count,
        groups=0,
    )


def beat(*, at: int, caught_up: int | None, run: str = "r", job: str = "j") -> HeartbeatMessage:
    """A heartbeat of a run."""
    return HeartbeatMessage(
        cluster_id=CLUSTER_ID, era="e", job_id=job, run_id=run, at_ms=at, caught_up_ms=caught_up, offsets={}
    )


def moment(message: ProbeMessage) -> int:
    """When it was written; 0 for requests and for records of a group, which have no time."""
    if isinstance(message, DocumentRequest | JobDocumentsRequest | GroupRecords):
        return 0
    return message.at_ms if isinstance(message, HeartbeatMessage | ClockReading) else message.taken_ms


def probes_batch(
    messages: Sequence[ProbeMessage | tuple[bytes | None, bytes | None]],
    *,
    append_ms: int | None = None,
    first_offset: int = 0,
) -> pa.RecordBatch:
    """Messages, or raw keys and values, one after the other, with the columns of a capture.

    The broker has appended all of them at one time, or (None) the clients have set the timestamps.
    """
    raw = [(0, *one) if isinstance(one, tuple) else (moment(one), *encode_message(one)) for one in messages]
    rows = [Raw(0, place, *one) for place, one in enumerate(raw, first_offset)]
    if append_ms is None:
        return rows_batch(rows, PROBES)
    return rows_batch([one._replace(timestamp_ms=append_ms) for one in rows], PROBES, appended=True)


def topic_ends(
    number: int,
    partitions: Mapping[int, PartitionEnds],
    *,
    taken_ms: int,
    took_ms: int = 100,
    topic: str = "t",
    **more: Any,
) -> TopicEnds:
    """The ends of a topic in a round of the prober."""
    fields: dict[str, Any] = {"cluster_id": CLUSTER_ID, "writer": "w", "topic_id": "id", **more}
    return TopicEnds(
        number=number,
        taken_ms=taken_ms,
        answered_ms=taken_ms + took_ms,
        topic=topic,
        partitions=dict(partitions),
        **fields,
    )


def ends_round(number: int, *, taken_ms: int, took_ms: int = 100, writer: str = "w") -> EndsRound:
    """The message behind the changes of such a round, which has asked for one partition."""
    return EndsRound(
        cluster_id=CLUSTER_ID,
        writer=writer,
        number=number,
        taken_ms=taken_ms,
        answered_ms=taken_ms + took_ms,
        topics=1,
        partitions=1,
    )
