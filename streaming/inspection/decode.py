"""Records as JSON objects, equal to those of Kafka's own formatters, and counts of undecodable records."""

from __future__ import annotations

import binascii
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from groupreplay.codecs import Malformed, Skipped, decode_key, decode_value
from groupreplay.codecs.kafka_json import to_json
from groupreplay.streaming.base.errors import unusable
from groupreplay.streaming.kafka.topic_reader import Rows

_SHOWN = 20


@dataclass(slots=True)
class DecodeCounts:
    """Numbers of undecodable records by kind; ``examples`` describes the first ones."""

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


def decode_record(key: bytes | None, value: bytes | None) -> dict[str, Any] | Skipped | Malformed:
    """One record as Kafka's formatters print it; ``value`` None is a tombstone."""
    decoded_key = decode_key(key)
    if isinstance(decoded_key, Skipped | Malformed):
        return decoded_key
    decoded_value = decode_value(decoded_key, value)
    if isinstance(decoded_value, Skipped | Malformed):
        return decoded_value
    return to_json(decoded_key, decoded_value)


def decode_rows(
    rows: Rows, counts: DecodeCounts, *, with_position: bool = False, offset: int | None = None
) -> Iterator[dict[str, Any]]:
    """The decodable records of ``rows``, in order; ``counts`` counts the others.

    ``offset``: only the record at that offset of each partition.
    """
    for batch in rows.batches:
        for row in _chosen(batch, offset):
            position = {name: row[name] for name in ("partition", "offset", "timestamp")}
            decoded = decode_record(row["key"], row["value"])
            if isinstance(decoded, Skipped | Malformed):
                counts.add(decoded, f"partition {row['partition']}, offset {row['offset']}")
                continue
            yield {**position, **decoded} if with_position else decoded


def _chosen(batch: pa.RecordBatch, offset: int | None) -> Iterator[dict[str, Any]]:
    if offset is not None:
        batch = batch.filter(pa.compute.equal(batch.column("offset"), offset))
    yield from batch.to_pylist()


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
