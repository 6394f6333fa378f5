"""Records as JSON objects, equal to those of Kafka's own formatters, and counts of undecodable records."""

from __future__ import annotations

import binascii
from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from groupreplay.app.inspection.records.group_rows import rows_of_groups
from groupreplay.app.inspection.records.member_blobs import with_members
from groupreplay.codecs import (
    LegacyOffsetCommitKey,
    Malformed,
    OffsetCommitKey,
    Skipped,
    decode_key,
    decode_value,
)
from groupreplay.codecs.kafka_json import to_json
from groupreplay.streaming.base.errors import unusable
from groupreplay.streaming.sources.source import Rows

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
