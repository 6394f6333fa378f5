"""Records as people read them: which ones, decoded, with what is inside of them.

Kafka's formatters print the subscription and the assignment of classic members as base64, because only the protocol
type of the group says what they are.
"""

from __future__ import annotations

import base64
import binascii
from collections import Counter
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from groupreplay.codecs import (
    Assignment,
    ConnectAssignment,
    ConnectMetadata,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    Malformed,
    OffsetCommitKey,
    Skipped,
    Subscription,
    decode_blob,
    decode_key,
    decode_value,
)
from groupreplay.codecs.kafka_json import blob_json, to_json
from groupreplay.codecs.kafka_terms import CONSUMER_PROTOCOL_TYPE
from groupreplay.codecs.schema import Versioned
from groupreplay.state.snapshot.members import CONNECT_PROTOCOL_TYPE
from groupreplay.streaming.base.errors import unusable
from groupreplay.streaming.contract.log import numbers
from groupreplay.streaming.engine.group_choice import GroupChoice
from groupreplay.streaming.engine.packing.key_columns import decode_keys
from groupreplay.streaming.sources.source import Rows


def noting_groups(batches: Iterator[pa.RecordBatch], seen: GroupChoice) -> Iterator[pa.RecordBatch]:
    """The same batches; ``seen`` is asked about the group of each of their records."""
    for batch in batches:
        rows_of_groups(batch, seen)
        yield batch


def rows_of_groups(batch: pa.RecordBatch, groups: Container[str]) -> pa.RecordBatch:
    """The rows whose key can be read and names one of the groups, in order."""
    encoded = pc.dictionary_encode(batch["key"].cast(pa.large_binary()), null_encoding="encode")
    keys = decode_keys(encoded.dictionary)
    wanted = np.array([name in groups for name in keys.groups] + [False], bool)[keys.group]
    for place in keys.odd:
        # A commit for a partition below zero is no usable key, and names a group all the same.
        key = decode_key(keys.raw.at(place))
        wanted[place] = not isinstance(key, Skipped | Malformed) and key.group in groups
    rows = np.flatnonzero(wanted[numbers(encoded.indices).astype(np.int64)])
    return batch if len(rows) == batch.num_rows else batch.take(pa.array(rows))


#: Protocol type -> for each of the two fields, Kafka's name of its schema and our class.
_SCHEMAS: Final[Mapping[str, Mapping[str, tuple[str, type[Versioned]]]]] = {
    CONSUMER_PROTOCOL_TYPE: {
        "subscription": ("ConsumerProtocolSubscription", Subscription),
        "assignment": ("ConsumerProtocolAssignment", Assignment),
    },
    CONNECT_PROTOCOL_TYPE: {
        "subscription": ("ConnectProtocol.WorkerState", ConnectMetadata),
        "assignment": ("ConnectProtocol.Assignment", ConnectAssignment),
    },
}
FIELDS: Final = ("subscription", "assignment")


def with_members(record: Mapping[str, Any], value: object) -> dict[str, Any]:
    """The JSON of a record; if it is one of a classic group, its members' subscriptions and assignments are decoded.

    Each of them becomes ``{"schema", "version", "data"}``; bytes that cannot be decoded become ``{"schema",
    "undecodable", "bytes"}`` with the reason and the base64; zero bytes, which brokers store for a member without an
    assignment, become None. Bytes after the end of the schema are ignored, as Kafka does.
    """
    if not isinstance(value, GroupMetadataValue):
        return dict(record)
    data = record["value"]["data"]
    members = [
        {**shown, **{name: _decoded(value.protocol_type, name, getattr(member, name)) for name in FIELDS}}
        for shown, member in zip(data["members"], value.members, strict=True)
    ]
    return {**record, "value": {**record["value"], "data": {**data, "members": members}}}


def _decoded(protocol_type: str, name: str, raw: bytes) -> dict[str, Any] | None:
    if not raw:
        return None
    if protocol_type not in _SCHEMAS:
        reason = f"the protocol type {protocol_type!r} has a format of its own"
        return {"schema": None, "undecodable": reason, "bytes": _base64(raw)}
    schema, kind = _SCHEMAS[protocol_type][name]
    blob = decode_blob(kind, raw)
    if isinstance(blob, Malformed):
        reason = f"field {blob.field} at byte {blob.at}: {blob.reason}"
        return {"schema": schema, "undecodable": reason, "bytes": _base64(raw)}
    data = blob_json(blob)
    if isinstance(blob, ConnectMetadata) and blob.allocation is not None:
        data["allocation"] = _decoded(protocol_type, "assignment", blob.allocation)
    return {"schema": schema, "version": blob.version, "data": data}


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


_SHOWN = 20


@dataclass(slots=True)
class DecodeCounts:
    """Numbers of undecodable records by kind; ``examples`` describes the first ones. ``chosen`` counts all records."""

    chosen: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    malformed: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Whether every record was decoded."""
        return not self.skipped and not self.malformed

    def add(self, outcome: Skipped | Malformed, position: str) -> None:
        """Count a record that could not be decoded."""
        kind = "unknown type" if outcome.key_type is None else f"type {outcome.key_type}"
        version = "" if outcome.version is None else f" v{outcome.version}"
        if isinstance(outcome, Malformed):
            self.malformed[kind] += 1
            words = f"malformed {kind}{version}: field {outcome.field} at byte {outcome.at}: {outcome.reason}"
        else:
            self.skipped[kind] += 1
            words = f"skipped {kind}{version}: {outcome.reason}"
        if len(self.examples) < _SHOWN:
            self.examples.append(f"{position}: {words}")

    def lines(self) -> list[str]:
        """Lines about the records that are missing in the output."""
        lines = list(self.examples)
        for name, counts in (("skipped", self.skipped), ("malformed", self.malformed)):
            if counts:
                by_kind = ", ".join(f"{kind}: {count}" for kind, count in sorted(counts.items()))
                lines.append(f"{counts.total()} {name} ({by_kind})")
        return lines


def decode_record(
    key: bytes | None, value: bytes | None, *, members: bool = False
) -> dict[str, Any] | Skipped | Malformed:
    """One record as Kafka's formatters print it; ``value`` None is a tombstone. ``members``: see ``with_members``."""
    decoded_key = decode_key(key)
    if isinstance(decoded_key, Skipped | Malformed):
        return decoded_key
    decoded_value = decode_value(decoded_key, value)
    if isinstance(decoded_value, Skipped | Malformed):
        return decoded_value
    record = to_json(decoded_key, decoded_value)
    return with_members(record, decoded_value) if members else record


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordChoice:
    """Which records are decoded; None for all.

    ``kind`` is ``commits`` (committed offsets) or ``groups`` (all other records). Times in milliseconds, ``until_ms``
    excluded. A choice of groups leaves out records whose key cannot be decoded.
    """

    groups: Container[str] | None = None
    kind: str | None = None
    offset: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The chosen rows of a batch."""
        if self.groups is not None:
            # First, so that the choice has seen all groups.
            batch = rows_of_groups(batch, self.groups)
        if self.offset is not None:
            batch = batch.filter(pc.equal(batch["offset"], self.offset))
        if self.since_ms is not None:
            batch = batch.filter(pc.greater_equal(batch["timestamp"], self.since_ms))
        if self.until_ms is not None:
            batch = batch.filter(pc.less(batch["timestamp"], self.until_ms))
        if self.kind is not None:
            # The first two bytes of a key are its type; a key without them is of no kind.
            types = pc.binary_slice(batch["key"], 0, 2)
            is_commit = pc.is_in(types, pa.array(_COMMIT_TYPES, pa.binary()))
            has_type = pc.equal(pc.binary_length(types), 2)
            wanted = is_commit if self.kind == "commits" else pc.and_(pc.invert(is_commit), has_type)
            batch = batch.filter(pc.fill_null(wanted, False))
        return batch


#: The types of the keys of committed offsets, as the first bytes of a key.
_COMMIT_TYPES: Final = [key.KEY_TYPE.to_bytes(2, "big") for key in (LegacyOffsetCommitKey, OffsetCommitKey)]


def decode_rows(
    rows: Rows,
    counts: DecodeCounts,
    *,
    with_position: bool = False,
    members: bool = False,
    choice: RecordChoice | None = None,
) -> Iterator[dict[str, Any]]:
    """The decodable records of ``rows`` among those of ``choice``, in order; ``counts`` counts all of them."""
    for batch in rows.batches:
        for row in (batch if choice is None else choice.of(batch)).to_pylist():
            counts.chosen += 1
            position = {name: row[name] for name in ("partition", "offset", "timestamp")}
            decoded = decode_record(row["key"], row["value"], members=members)
            if isinstance(decoded, Skipped | Malformed):
                counts.add(decoded, f"partition {row['partition']}, offset {row['offset']}")
                continue
            yield {**position, **decoded} if with_position else decoded


def bytes_of_hex(text: str, name: str) -> bytes:
    """The bytes of a hexadecimal text; blanks, colons and a leading 0x are allowed.

    Raises:
        GroupReplayError: the text is not hexadecimal.
    """
    digits = "".join(text.split()).replace(":", "").removeprefix("0x")
    try:
        return binascii.unhexlify(digits)
    except binascii.Error as error:
        fix = "give pairs of hexadecimal digits (0-9, a-f)"
        raise unusable(f"{name} is not hexadecimal: {error}", None, fix) from None
