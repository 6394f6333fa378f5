"""The wire format between ``pack`` and the function of a group.

It lives for one shuffle inside one job, never in a checkpoint, so it has no version. ``PackedRecords`` alone are in a
topic, for the run that has written them. Records travel as raw bytes, which ``pack`` has found decodable; commits as
NumPy rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np

from groupreplay.codecs import Malformed, Skipped, decode_key, decode_value
from groupreplay.state.job.bad_records import CORRECTED, BadRecord
from groupreplay.state.job.observations import JobObservation, LogObservation
from groupreplay.state.snapshot.commit_intervals import RHYTHM
from groupreplay.state.snapshot.commit_steps import STEPS
from groupreplay.state.snapshot.observations import (
    COMMITS,
    LULLS,
    CommitRun,
    Extent,
    GroupRecord,
    Observations,
    ProbeAnswer,
)

#: Tags of the grouping key. A group id alone could collide with a reserved word.
GROUP_TAG: Final = b"g:"
BAD_RECORDS_TAG: Final = b"x:"
HEARTBEAT_TAG: Final = b"h:"
JOB_TAG: Final = b"j:"
#: In place of a packed value for the job or for bad records: the call must write its document.
DOCUMENT_WANTED: Final = b""


class PackedRun(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=0):
    """A ``CommitRun``: ``rows``, ``steps``, ``rhythm`` and ``lulls`` are the bytes of their arrays."""

    topics: list[str]
    rows: bytes
    extent: Extent
    steps: bytes
    metadata: dict[int, str]
    topic_ids: dict[int, bytes]
    rhythm: bytes = b""
    lulls: bytes = b""

    @property
    def first_ms(self) -> int:
        """The time of the first commit."""
        return self.extent.first_ms

    @property
    def last_offset(self) -> int:
        """The log offset of the last commit."""
        return self.extent.last_offset

    @property
    def last_ms(self) -> int:
        """The time of the last commit."""
        return self.extent.last_ms


class PackedRecord(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=1):
    """A record that is not a commit with a value, with the bytes of the log."""

    offset: int
    timestamp_ms: int
    key: bytes
    value: bytes | None

    @property
    def first_ms(self) -> int:
        """Its time."""
        return self.timestamp_ms

    @property
    def last_offset(self) -> int:
        """Its log offset."""
        return self.offset

    @property
    def last_ms(self) -> int:
        """Its time."""
        return self.timestamp_ms


PackedItem: TypeAlias = PackedRun | PackedRecord


class PackedGroup(msgspec.Struct, array_like=True, frozen=True, tag=0):
    """The records of one group in one chunk of one Kafka partition, in log order.

    ``seen_to``: the last offset of that partition in the chunk, of any group. ``caught_up_ms``: the caught-up time of
    the first item, if the chunk has no time for it (``state.plausible_times``).
    """

    partition: int
    seen_to: int
    items: list[PackedItem]
    caught_up_ms: int = 0


class PackedProbe(msgspec.Struct, array_like=True, frozen=True, tag=1):
    """A prober's answer about one group; it comes from another topic than the records."""

    probe: ProbeAnswer


class PackedDocumentRequest(msgspec.Struct, array_like=True, frozen=True, tag=2):
    """A request for the document of a group; ``in_topic`` as in ``DocumentRequest``."""

    in_topic: bool


class PackedRecords(msgspec.Struct, array_like=True, frozen=True, tag=3):
    """Everything below ``read_to`` that the log holds of a group whose state was lost, from its beginning."""

    read_to: int
    groups: list[PackedGroup]


class BadRecordBytes(msgspec.Struct, array_like=True, frozen=True):
    """A record that could not be used, with the part of its bytes that a dead letter carries.

    Lengths and hashes are those of the whole key and value; all three are None for a null.
    """

    record: BadRecord
    key: bytes | None
    key_length: int | None
    key_sha256: str | None
    value: bytes | None
    value_length: int | None
    value_sha256: str | None

    @property
    def is_dead_letter(self) -> bool:
        """Whether it was not applied."""
        return self.record.kind not in CORRECTED

    @classmethod
    def of(cls, record: BadRecord, key: bytes | None, value: bytes | None, kept: int) -> BadRecordBytes:
        """The record with the first ``kept`` bytes of its key and of its value."""
        return cls(record, *_excerpt(key, kept), *_excerpt(value, kept))


def _excerpt(data: bytes | None, kept: int) -> tuple[bytes, int, str] | tuple[None, None, None]:
    """(the first bytes, the length of all, their hash)."""
    return (None,) * 3 if data is None else (data[:kept], len(data), hashlib.sha256(data).hexdigest())


_encoder: Final = msgspec.msgpack.Encoder()
_group_decoder: Final = msgspec.msgpack.Decoder(
    PackedGroup | PackedProbe | PackedDocumentRequest | PackedRecords
)
_probe_decoder: Final = msgspec.msgpack.Decoder(PackedProbe)
_records_decoder: Final = msgspec.msgpack.Decoder(PackedRecords)
_job_decoder: Final = msgspec.msgpack.Decoder(JobObservation | LogObservation)
_bad_decoder: Final = msgspec.msgpack.Decoder(list[BadRecordBytes])


def to_wire(
    value: PackedGroup
    | PackedProbe
    | PackedDocumentRequest
    | PackedRecords
    | JobObservation
    | LogObservation
    | Sequence[BadRecordBytes],
) -> bytes:
    """The packed form; the ``unpack`` functions are the inverse."""
    return _encoder.encode(value)


#: All packed forms of a request for a document; they carry no records.
DOCUMENT_REQUESTS: Final = frozenset(
    {DOCUMENT_WANTED, *(to_wire(PackedDocumentRequest(in_topic)) for in_topic in (True, False))}
)


def unpack_group(packed: Iterable[bytes]) -> Observations:
    """The input of one call for a group: records in the order of the log, probes by when they were known."""
    decoded = [_group_decoder.decode(one) for one in packed]
    groups = [one for one in decoded if isinstance(one, PackedGroup)]
    whole = max((one for one in decoded if isinstance(one, PackedRecords)), key=_read_to, default=None)
    probes = [one.probe for one in decoded if isinstance(one, PackedProbe)]
    requests = [one.in_topic for one in decoded if isinstance(one, PackedDocumentRequest)]
    probes.sort(key=lambda probe: (probe.heard_ms, probe.partition, probe.offset))
    return _of_records(
        groups,
        probes=probes,
        in_topic=any(requests) if requests else None,
        whole=None if whole is None else (whole.read_to, _of_records(whole.groups)),
    )


def unpack_probe(packed: bytes) -> ProbeAnswer:
    """The answer about a group. Raises msgspec.MsgspecError."""
    return _probe_decoder.decode(packed).probe


def _read_to(records: PackedRecords) -> int:
    return records.read_to


def _of_records(groups: Sequence[PackedGroup], **others: Any) -> Observations:
    items = [_observation(item, group.partition) for group in groups for item in group.items]
    if len(items) > 1:
        items.sort(key=lambda item: (item.partition, item.first_offset))
    seen_to: dict[int, int] = {}
    for group in groups:
        seen_to[group.partition] = max(group.seen_to, seen_to.get(group.partition, -1))
    # A group stays in one partition. In a log that contradicts this, the smaller offset is the safe one.
    return Observations(
        items=items,
        seen_to=min(seen_to.values(), default=-1),
        caught_up_ms=max((group.caught_up_ms for group in groups), default=0),
        **others,
    )


def packed_groups(packed: Iterable[bytes]) -> list[PackedGroup]:
    """The packed groups among the rows of one key, with the bytes of their records. Raises msgspec.MsgspecError."""
    decoded = (_group_decoder.decode(one) for one in packed)
    return [one for one in decoded if isinstance(one, PackedGroup)]


def are_records(blob: bytes) -> bool:
    """Whether the bytes are those of ``PackedRecords``: any program may have written them."""
    try:
        _of_records(_records_decoder.decode(blob).groups)
    except (ValueError, TypeError):
        return False
    return True


def unpack_job(packed: Iterable[bytes]) -> list[JobObservation | LogObservation]:
    """The input of one call for the job, unordered."""
    return [_job_decoder.decode(one) for one in packed if one != DOCUMENT_WANTED]


def unpack_bad_records(packed: Iterable[bytes]) -> list[BadRecordBytes]:
    """The bad records of one partition, in the order of the log."""
    wanted = (one for one in packed if one != DOCUMENT_WANTED)
    records = [record for one in wanted for record in _bad_decoder.decode(one)]
    records.sort(key=lambda bad: bad.record.offset)
    return records


def _observation(item: PackedItem, partition: int) -> GroupRecord | CommitRun:
    if isinstance(item, PackedRun):
        return CommitRun(
            partition=partition,
            topics=tuple(item.topics),
            rows=np.frombuffer(item.rows, COMMITS),
            extent=item.extent,
            steps=np.frombuffer(item.steps, STEPS),
            metadata=item.metadata,
            topic_ids=item.topic_ids,
            rhythm=np.frombuffer(item.rhythm, RHYTHM),
            lulls=np.frombuffer(item.lulls, LULLS),
        )
    key = decode_key(item.key)
    if isinstance(key, Skipped | Malformed):
        raise TypeError(f"pack let a bad key pass: {key}")
    value = decode_value(key, item.value)
    if isinstance(value, Skipped | Malformed):
        raise TypeError(f"pack let a bad value pass: {value}")
    return GroupRecord(
        partition=partition,
        offset=item.offset,
        timestamp_ms=item.timestamp_ms,
        key=key,
        value=value,
        raw=(item.key, item.value),
    )
