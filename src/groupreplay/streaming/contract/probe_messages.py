"""The messages in ``group-probes``, in JSON: answers about groups, the prober's rounds, and messages of the driver.

Other programs may write to the topic: a message that does not fit its declaration is None for the reader, never an
exception.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from groupreplay.streaming.contract.messages import RESERVED, MessageDecoder

#: A time beyond the year 2100 would let every deadline pass.
Moment: TypeAlias = Annotated[int, Meta(ge=0, le=4_102_444_800_000)]
#: All numbers are bounded: to JSON none is too large, but to the packed rows and the sums of them.
Offset: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=10**12)]
Span: TypeAlias = Annotated[int, Meta(ge=-4_102_444_800_000, le=4_102_444_800_000)]
Id: TypeAlias = Annotated[int, Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
PartitionCount: TypeAlias = Annotated[int, Meta(ge=0, le=10_000)]
Rights: TypeAlias = Literal["ok", "missing", "unknown"]

_LIMIT_BYTES: Final = 64 * 1024
#: Characters of the reason why a query is stopped that are written; a reader accepts more, of another release.
ERROR_LIMIT: Final = 300
_MOST_ERROR: Final = 4_096


class MemberAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A member in the response to DescribeGroups."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str


class GroupAnswer(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="group"):
    """The coordinator's answer about one group.

    ``taken_ms`` is the time before the request, by the prober's clock; ``state`` is Kafka's name of the state, and
    ``Dead`` means that there is no such group. ``broker`` is the coordinator's id. Rounds are ``interval_ms`` apart;
    the last round that would have found the group in a rebalance was ``unseen_ms`` before (None: not known).
    ``answered_ms`` is the time behind the answer (None: not known). The clock was ahead of the brokers' by ``ahead_ms``
    at most, as far as the prober has measured it (None: it has not).
    """

    cluster_id: str
    group_id: str
    taken_ms: Moment
    state: str
    broker: Id | None
    protocol_type: str | None
    protocol: str | None
    members: tuple[MemberAnswer, ...] = ()
    truncated: bool = False
    interval_ms: Span = 10_000
    unseen_ms: Span | None = None
    answered_ms: Moment | None = None
    ahead_ms: Span | None = None


class DeletedTopicsAnswer(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="deleted_topics"):
    """Topics that no broker knows any more, and of which the log has removed the offsets of one group.

    ``taken_ms`` is a time after the last of these tombstones was read, by the prober's clock. Rounds are
    ``interval_ms`` apart.
    """

    cluster_id: str
    group_id: str
    taken_ms: Moment
    topics: tuple[str, ...]
    interval_ms: Span = 10_000


class RoundSummary(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="round"):
    """One round of the prober, written after the answers about its groups.

    ``brokers``: by id, None for those that answered, else the error. ``partitions`` of the offsets topic that answered:
    high watermark and last stable offset; ``partition_count`` is None when no broker returned it. ``groups`` is the
    number of groups in a rebalance. ``job_id`` is None for a prober without a job. ``leaders``: the broker that leads
    each partition.
    """

    cluster_id: str
    taken_ms: Moment
    brokers: dict[Id, str | None]
    rights: Rights
    partitions: dict[Id, tuple[Offset, Offset]]
    partition_count: PartitionCount | None
    groups: Count
    job_id: str | None = None
    leaders: dict[Id, Id] = {}


class HeartbeatMessage(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="heartbeat"):
    """The job at ``at_ms``: every record written before ``caught_up_ms`` has been applied.

    ``caught_up_ms`` is None until a run has confirmed it once; ``offsets`` are the ends of the log at that time. Since
    the start of the run, ``unmissed_expired`` counts expiries in groups that do not matter, ``dead_letters`` records
    that could not be read, ``quarantined`` groups that were set aside. The run tries groups that another ``release``
    set aside again; with ``retries`` all. ``high_watermarks`` are the ends of the log, open transactions included,
    read after ``at_ms``. Before it was corrected, the clock of the driver was ahead of the brokers' by
    ``clock_off_ms`` (None: unknown). ``unanswered`` are the partitions of the log whose end no broker returned.
    ``query_stopped_ms``: since when the driver has no query that reads (None: it has one), ``query_error`` is why.
    ``told_to``: the driver has published the events of all messages below this offset of the topic itself.
    """

    cluster_id: str
    era: str
    job_id: str
    run_id: str
    at_ms: Moment
    caught_up_ms: Moment | None
    offsets: dict[Id, Offset]
    unmissed_expired: Count = 0
    dead_letters: Count = 0
    quarantined: Count = 0
    release: str = ""
    retries: bool = False
    high_watermarks: dict[Id, Offset] = {}
    clock_off_ms: Span | None = None
    unanswered: tuple[Id, ...] = ()
    query_stopped_ms: Moment | None = None
    query_error: Annotated[str, Meta(max_length=_MOST_ERROR)] = ""
    told_to: Offset = 0


class DocumentRequest(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="document"):
    """The driver of ``run_id`` asks the call of a group to write the group's document, or its tombstone.

    ``in_topic``: the topic of documents holds one of this group with unknown content; otherwise it holds none.
    """

    cluster_id: str
    run_id: str
    group_id: str
    in_topic: bool


class JobDocumentsRequest(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="job_documents"):
    """The driver of ``run_id`` asks for the job's active conditions and the counts of bad records.

    ``partitions`` is the number of partitions of the offsets topic.
    """

    cluster_id: str
    run_id: str
    partitions: PartitionCount


class ClockReading(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="clock"):
    """Written by a process that starts, to get the append time; readers ignore it."""

    cluster_id: str
    at_ms: Moment


ProbeMessage: TypeAlias = (
    GroupAnswer
    | DeletedTopicsAnswer
    | RoundSummary
    | HeartbeatMessage
    | ClockReading
    | DocumentRequest
    | JobDocumentsRequest
)
#: Messages whose key is the group that they are about; the key of all others is reserved.
_ABOUT_GROUP: Final = (GroupAnswer, DeletedTopicsAnswer, DocumentRequest)

_decoder: Final = MessageDecoder[ProbeMessage](ProbeMessage)


def encode_message(message: ProbeMessage, limit: int | None = None) -> tuple[bytes, bytes]:
    """(key, value). The answer about a very large group keeps as many members as fit into 64 KiB.

    With a smaller ``limit``, which a topic demands, an answer keeps fewer, and a heartbeat has no high watermarks.
    """
    key = message.group_id.encode() if isinstance(message, _ABOUT_GROUP) else RESERVED
    value = msgspec.json.encode(message)
    if limit is not None and isinstance(message, HeartbeatMessage) and len(value) > limit:
        return key, msgspec.json.encode(msgspec.structs.replace(message, high_watermarks={}))
    most = min(limit or _LIMIT_BYTES, _LIMIT_BYTES)
    while isinstance(message, GroupAnswer) and message.members and len(value) > most:
        half = message.members[: len(message.members) // 2]
        message = msgspec.structs.replace(message, members=half, truncated=True)
        value = msgspec.json.encode(message)
    return key, value


def decode_message(key: bytes | None, value: bytes | None) -> ProbeMessage | None:
    """The inverse of ``encode_message``; None for messages of other programs."""
    message = None if key is None else _decoder.decode(value)
    if message is None:
        return None
    if isinstance(message, _ABOUT_GROUP):
        return message if key == message.group_id.encode("utf-8", "replace") else None
    return message if key == RESERVED else None
