"""Builders for a log of raw records in bytes, and a generator of large random logs."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from groupreplay.codecs import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)

SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)


class Raw(NamedTuple):
    """A record as the Kafka source gives it."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def commit(
    group: str = "g",
    topic: str = "t",
    partition: int = 0,
    *,
    offset: int = 0,
    version: int = 4,
    **fields: Any,
) -> tuple[bytes, bytes]:
    """Key and value of an offset commit."""
    values = {"metadata": "", "commit_timestamp_ms": 1_000, **fields}
    return commit_key(group, topic, partition), encode_value(
        OffsetCommitValue(version=version, offset=offset, **values)
    )


def commit_key(group: str = "g", topic: str = "t", partition: int = 0, *, legacy: bool = False) -> bytes:
    """Key of an offset commit."""
    kind = LegacyOffsetCommitKey if legacy else OffsetCommitKey
    return encode_key(kind(group=group, topic=topic, partition=partition))


def generation(group: str = "g", number: int = 0) -> tuple[bytes, bytes]:
    """Key and value of a classic group without members."""
    value = GroupMetadataValue(
        version=3, protocol_type="consumer", generation=number, protocol=None, leader=None, members=()
    )
    return encode_key(GroupMetadataKey(group=group)), encode_value(value)


def log(
    records: Iterable[tuple[bytes | None, bytes | None]], *, partition: int = 0, first_offset: int = 0
) -> list[Raw]:
    """Records one after the other, a second apart."""
    return [
        Raw(partition, first_offset + place, 1_000 * (first_offset + place), key, value)
        for place, (key, value) in enumerate(records)
    ]


def batches(rows: Sequence[Raw], size: int = 10_000) -> Iterator[pa.RecordBatch]:
    """The rows as Arrow batches, as Spark hands them to ``pack``."""
    for start in range(0, len(rows), size):
        columns = zip(*rows[start : start + size], strict=True)
        yield pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)],
            schema=SCHEMA,
        )


def random_log(seed: int, count: int, *, partition: int = 0) -> list[Raw]:
    """A log with commits of all versions, tombstones, group records, and damaged or unknown bytes."""
    rng = random.Random(seed)
    return log((_random_record(rng) for _ in range(count)), partition=partition)


_METADATA = ["", "", "", "m", "métadonnées", "x" * 126, "x" * 127, "x" * 128, "x" * 4_096, "é" * 70, "\0"]


def _random_record(rng: random.Random) -> tuple[bytes | None, bytes | None]:
    group = f"g{rng.randrange(5)}"
    key = commit_key(group, rng.choice(["t", "tøpic", "other"]), rng.randrange(3), legacy=rng.random() < 0.05)
    value = _random_commit(rng)
    if rng.random() < 0.8:
        return key, value
    return rng.choice(
        [
            (key, None),
            (key, None),
            generation(group, rng.randrange(9)),
            generation(group, rng.randrange(9)),
            (key + b"rest", value),
            (key[: rng.randrange(len(key))], value),
            (key, value[: rng.randrange(len(value))]),
            (key, value[: rng.randrange(len(value))]),
            (key, _flipped(rng, value)),
            (key, _flipped(rng, value)),
            (_flipped(rng, key), value),
            (None, value),
            (b"", value),
            (key, b""),
            (key, value + b"rest"),
            (b"\x03\xe8unknown", value),
            (key, b"\0\x09" + value[2:]),
            (key, b"\xff\xff" + value[2:]),
        ]
    )


def _random_commit(rng: random.Random) -> bytes:
    version = rng.randrange(5)
    fields: dict[str, object] = {
        "offset": rng.choice([rng.randrange(100), rng.randrange(-(2**63), 2**63)]),
        "metadata": rng.choice(_METADATA),
        "commit_timestamp_ms": rng.choice([rng.randrange(2**41), -1]),
    }
    if version >= 3:
        fields["leader_epoch"] = rng.choice([-1, rng.randrange(2**31)])
    if version == 1:
        fields["expire_timestamp_ms"] = rng.choice([-1, rng.randrange(2**41)])
    if version == 4 and rng.random() < 0.5:
        fields["topic_id"] = rng.randbytes(16)
    value = encode_value(OffsetCommitValue(version=version, **fields))  # type: ignore[arg-type]
    if version == 4 and rng.random() < 0.1:
        # A tag of a later release in place of the (last) byte that says there are none.
        value = value[:-1] + b"\x01\x07\x03abc" if value[-1] == 0 else value
    return value


def _flipped(rng: random.Random, value: bytes) -> bytes:
    place = rng.randrange(len(value))
    return value[:place] + bytes([value[place] ^ (1 << rng.randrange(8))]) + value[place + 1 :]
