"""Segments of a log as a broker writes them, made by the builders of aiokafka's producer."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

#: Key and value; times are 1000 ms and the offset.
KeyAndValue = tuple[bytes | None, bytes | None]
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
COMMIT, ABORT = 1, 0
#: The bit of a batch's attributes.
_CONTROL = 0x20


def batch(
    base_offset: int,
    *records: KeyAndValue,
    codec: str = "none",
    epoch: int = 0,
    producer: int | None = None,
    gaps: Sequence[int] = (),
    step_ms: int = 1,
) -> bytes:
    """A record batch; with a ``producer``, of a transaction. ``gaps``: places whose records compaction has removed.

    ``step_ms`` is between two records.
    """
    # Without an idempotent producer, Kafka writes -1 in all three places.
    numbers = (-1, -1, -1) if producer is None else (producer, 0, 0)
    builder = DefaultRecordBatchBuilder(2, CODECS[codec], int(producer is not None), *numbers, 1 << 30)
    for place, (key, value) in enumerate(records):
        if place not in gaps:
            builder.append(place, 1_000 + base_offset + place * step_ms, key, value, [])
    made = bytearray(builder.build())
    made[23:27] = struct.pack(">i", len(records) - 1)
    return _numbered(made, base_offset, epoch)


def marker(base_offset: int, producer: int, kind: int) -> bytes:
    """The control batch that ends a transaction: ``COMMIT`` or ``ABORT``."""
    builder = DefaultRecordBatchBuilder(2, 0, 1, producer, 0, -1, 1 << 20)
    builder.append(0, 1_000 + base_offset, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0), [])
    made = bytearray(builder.build())
    attributes = struct.unpack_from(">h", made, 21)[0] | _CONTROL
    struct.pack_into(">h", made, 21, attributes)
    return _numbered(made, base_offset, 0)


def message_set(base_offset: int, *records: KeyAndValue, magic: int, codec: str = "none") -> bytes:
    """Messages of Kafka before 0.11: ``magic`` 0 has no times (before 0.10)."""
    builder = LegacyRecordBatchBuilder(magic, CODECS[codec], 1 << 30)
    for place, (key, value) in enumerate(records):
        builder.append(
            base_offset + place if codec == "none" or magic == 0 else place, 1_000 + place, key, value
        )
    made = bytearray(builder.build())
    if codec != "none":
        struct.pack_into(">q", made, 0, base_offset + len(records) - 1)
    return bytes(made)


def _numbered(made: bytearray, base_offset: int, epoch: int) -> bytes:
    struct.pack_into(">q", made, 0, base_offset)
    struct.pack_into(">i", made, 12, epoch)
    return with_checksum(made)


def with_checksum(made: bytearray) -> bytes:
    """The batch, whose content was changed, with the checksum of that."""
    struct.pack_into(">I", made, 17, calc_crc32c(bytes(made[21:])))
    return bytes(made)


def write_segment(folder: Path, *batches: bytes, base: int = 0, suffix: str = "") -> Path:
    """A segment file in this folder of a partition."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{base:020}.log{suffix}"
    path.write_bytes(b"".join(batches))
    return path


def write_epochs(folder: Path, epochs: Iterable[tuple[int, int]]) -> None:
    """The file with the leader epochs and their first offsets."""
    lines = [f"{epoch} {start}" for epoch, start in epochs]
    (folder / "leader-epoch-checkpoint").write_text("\n".join(["0", str(len(lines)), *lines, ""]))


def mutated(content: bytes, chance: random.Random) -> bytes:
    """One to four changes: bits, bytes that are gone, that are new, that stand elsewhere, an end that is missing."""
    changed = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        place, other = (chance.randrange(len(changed) or 1) for _ in range(2))
        match chance.randrange(5):
            case 0 if changed:
                changed[place] ^= 1 << chance.randrange(8)
            case 1:
                del changed[place : place + chance.randint(1, 80)]
            case 2:
                changed[place:place] = chance.randbytes(chance.randint(1, 80))
            case 3:
                changed[place:place] = changed[other : other + 100]
            case _:
                del changed[max(place, len(changed) // 2) :]
    return bytes(changed)
