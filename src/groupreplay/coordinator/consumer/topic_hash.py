"""Kafka's hash of the topics to which a consumer group is subscribed (KIP-1101, ``Utils.computeGroupHash``)."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache

from groupreplay.coordinator.consumer.xxh3 import xxh3


def group_hash(hashes: Iterable[tuple[str, int]]) -> int:
    """The hash of topics, given each one's name and hash; signed, 0 without topics."""
    in_order = [digest for _, digest in sorted(hashes)]
    return _signed(xxh3(struct.pack(f"<{len(in_order)}q", *in_order))) if in_order else 0


@lru_cache(maxsize=2**12)
def topic_hash(name: str, topic_id: bytes, partitions: int, racks: tuple[tuple[str, ...], ...] = ()) -> int:
    """The hash of one topic, signed; ``racks`` has those of each partition's replicas, none for absent ones."""
    high, low = struct.unpack(">qq", topic_id)
    parts = [struct.pack("<bqq", 0, high, low), _text(name), struct.pack("<i", partitions)]
    for number in range(partitions):
        parts.append(struct.pack("<i", number))
        for rack in sorted(racks[number]) if number < len(racks) else ():
            parts += [struct.pack("<i", len(rack)), _text(rack)]
    return _signed(xxh3(b"".join(parts)))


def _text(text: str) -> bytes:
    """Its UTF-16 units and their number."""
    units = text.encode("utf-16-le")
    return units + struct.pack("<i", len(units) // 2)


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value
