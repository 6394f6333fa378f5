"""Subscriptions of consumer groups: regular expressions (KIP-848), and the hash of the topics (KIP-1101).

Kafka resolves regular expressions in another thread; here that is done at once after the request
(``maybeUpdateRegularExpressions``, ``TopicRegexResolver``). Expressions are Python's instead of RE2's; the constructs
that RE2 does not have are refused. The hash is XXH3 with 64 bits and seed 0.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol

from groupreplay.codecs.kafka_terms import java_hash
from groupreplay.coordinator.java_maps import HashOrder, buckets_for
from groupreplay.coordinator.requests import Error, Refused

#: Expressions are resolved at most so often (``REGEX_BATCH_REFRESH_MIN_INTERVAL_MS``).
_LEAST_INTERVAL_MS: Final = 10_000
#: Look-around and back references.
_NOT_IN_RE2: Final = re.compile(r"\(\?(<?[=!]|P=|\()|(?<!\\)(\\\\)*\\[1-9]")


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that an expression matched, with a version of the cluster's metadata, and when."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class Subscribed(Protocol):
    """The part of a group that this module reads: by expression, its members and its topics, in Kafka's order."""

    @property
    def regex_members(self) -> Mapping[str, int]:
        """How many members subscribe with each expression."""

    @property
    def regexes(self) -> Mapping[str, ResolvedRegex]:
        """The resolved expressions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegexChange:
    """A member's expression before and after a request, "" for none."""

    before: str
    after: str

    def drops(self, group: Subscribed) -> bool:
        """Whether no other member has the former expression."""
        changed = self.before != self.after
        return changed and bool(self.before) and group.regex_members.get(self.before, 0) == 1

    def is_new(self, group: Subscribed) -> bool:
        """Whether no member has the new expression yet. Raises ``Refused`` for one that is not valid."""
        if self.before == self.after or not self.after or self.after in group.regex_members:
            return False
        _compiled(self.after)
        return True

    def changes_topics(self, group: Subscribed) -> bool:
        """Whether the member's topics change at once: to those of a resolved expression, or of none."""
        if self.before == self.after:
            return False
        return self.after in group.regexes if self.after else bool(self.before)

    def to_resolve(
        self, group: Subscribed, *, now_ms: int, interval_ms: int, newest_topic: int
    ) -> tuple[str, ...]:
        """The expressions to resolve now, in Kafka's order; none unless it is time to resolve all of them.

        ``newest_topic`` is the version of the metadata with the newest topic.
        """
        is_new = self.is_new(group)
        if not is_new and not group.regex_members:
            return ()
        last = next(iter(group.regexes.values()), None)
        if last is not None and now_ms <= last.timestamp_ms + _LEAST_INTERVAL_MS:
            return ()
        expressions = self._members_after(group)
        stale = last is None or last.version < newest_topic or now_ms > last.timestamp_ms + interval_ms
        if not is_new and not stale and len(expressions) == len(group.regexes):
            return ()
        # A map of the results is made twice, each with as many buckets as expressions.
        for _ in range(2):
            buckets = 1 << (len(expressions) - 1).bit_length()
            expressions = list(HashOrder(java_hash, expressions, buckets=buckets))
        return tuple(expressions)

    def _members_after(self, group: Subscribed) -> list[str]:
        """The expressions with members after the change, in the order of a changed copy of the group's table."""
        counts = dict(group.regex_members)
        order = HashOrder(java_hash, counts, buckets=buckets_for(len(counts)))
        for expression, change in ((self.before, -1), (self.after, 1)):
            if expression:
                counts[expression] = counts.get(expression, 0) + change
                if counts[expression] > 0:
                    order.compute(expression)
                else:
                    order.discard(expression)
        return list(order)


def resolve(expression: str, topics: Iterable[str]) -> frozenset[str]:
    """The topics that an expression matches from beginning to end."""
    pattern = _compiled(expression)
    return frozenset(name for name in topics if pattern.fullmatch(name))


def _compiled(expression: str) -> re.Pattern[str]:
    try:
        if _NOT_IN_RE2.search(expression):
            raise re.error("not in RE2")
        return re.compile(expression)
    except re.error as error:
        raise Refused(Error.INVALID_REGULAR_EXPRESSION) from error


_PRIMES_32: Final = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
_PRIMES_64: Final = (
    *(0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9),
    *(0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5),
)
_MIX_3: Final = 0x165667919E3779F9
_MIX_RRMXMX: Final = 0x9FB21C651E98DF25
_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_ACCUMULATORS: Final = (
    *(_PRIMES_32[2], _PRIMES_64[0], _PRIMES_64[1], _PRIMES_64[2]),
    *(_PRIMES_64[3], _PRIMES_32[1], _PRIMES_64[4], _PRIMES_32[0]),
)
_STRIPE: Final = 64
_64_BITS: Final = 2**64 - 1


def xxh3(data: bytes) -> int:
    """The hash of these bytes, unsigned."""
    size = len(data)
    if size <= 16:
        return _short(data)
    if size > 240:
        return _long(data)
    total = size * _PRIMES_64[0]
    if size <= 128:
        for place in range((size - 1) // 32 + 1):
            total += _mix(data, 16 * place, 32 * place)
            total += _mix(data, size - 16 * (place + 1), 32 * place + 16)
        return _avalanche(total)
    for place in range(8):
        total += _mix(data, 16 * place, 16 * place)
    total = _avalanche(total)
    for place in range(8, size // 16):
        total += _mix(data, 16 * place, 16 * (place - 8) + 3)
    return _avalanche(total + _mix(data, size - 16, 119))


def _number(data: bytes, at: int) -> int:
    number: int = struct.unpack_from("<Q", data, at)[0]
    return number


def _avalanche(value: int) -> int:
    value &= _64_BITS
    value = (value ^ value >> 37) * _MIX_3 & _64_BITS
    return value ^ value >> 32


def _fold(one: int, other: int) -> int:
    """The halves of a product of 128 bits, combined."""
    product = one * other
    return (product ^ product >> 64) & _64_BITS


def _mix(data: bytes, at: int, secret_at: int) -> int:
    """16 bytes, combined with the secret."""
    low = _number(data, at) ^ _number(_SECRET, secret_at)
    return _fold(low, _number(data, at + 8) ^ _number(_SECRET, secret_at + 8))


def _short(data: bytes) -> int:
    size = len(data)
    if size > 8:
        low = _number(data, 0) ^ _number(_SECRET, 24) ^ _number(_SECRET, 32)
        high = _number(data, size - 8) ^ _number(_SECRET, 40) ^ _number(_SECRET, 48)
        return _avalanche(size + int.from_bytes(low.to_bytes(8, "little"), "big") + high + _fold(low, high))
    if size >= 4:
        first, last = (int.from_bytes(data[at : at + 4], "little") for at in (0, size - 4))
        value = (last + (first << 32)) ^ _number(_SECRET, 8) ^ _number(_SECRET, 16)
        value ^= _rotate(value, 49) ^ _rotate(value, 24)
        value = value * _MIX_RRMXMX & _64_BITS
        value = (value ^ (value >> 35) + size) * _MIX_RRMXMX & _64_BITS
        return value ^ value >> 28
    if size:
        value = data[0] << 16 | data[size >> 1] << 24 | data[-1] | size << 8
        value ^= int.from_bytes(_SECRET[:4], "little") ^ int.from_bytes(_SECRET[4:8], "little")
    else:
        value = _number(_SECRET, 56) ^ _number(_SECRET, 64)
    value = (value ^ value >> 33) * _PRIMES_64[1] & _64_BITS
    value = (value ^ value >> 29) * _PRIMES_64[2] & _64_BITS
    return value ^ value >> 32


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _64_BITS


def _long(data: bytes) -> int:
    sums = list(_ACCUMULATORS)
    last = len(data) - 1
    for stripe in range(last // _STRIPE):
        _accumulate(sums, data, _STRIPE * stripe, 8 * (stripe % 16))
        if stripe % 16 == 15:
            for lane, value in enumerate(sums):
                mixed = value ^ value >> 47 ^ _number(_SECRET, 128 + 8 * lane)
                sums[lane] = mixed * _PRIMES_32[0] & _64_BITS
    _accumulate(sums, data, len(data) - _STRIPE, 121)
    total = len(data) * _PRIMES_64[0]
    for lane in range(0, 8, 2):
        low = sums[lane] ^ _number(_SECRET, 11 + 8 * lane)
        total += _fold(low, sums[lane + 1] ^ _number(_SECRET, 19 + 8 * lane))
    return _avalanche(total)


def _accumulate(sums: list[int], data: bytes, at: int, secret_at: int) -> None:
    """Add a stripe of 64 bytes to the eight sums."""
    words = struct.unpack_from("<8Q", data, at)
    keys = struct.unpack_from("<8Q", _SECRET, secret_at)
    for lane, (word, key) in enumerate(zip(words, keys, strict=True)):
        keyed = word ^ key
        sums[lane ^ 1] = (sums[lane ^ 1] + word) & _64_BITS
        sums[lane] = (sums[lane] + (keyed & 0xFFFFFFFF) * (keyed >> 32)) & _64_BITS


def group_hash(hashes: Iterable[tuple[str, int]]) -> int:
    """The hash of topics, given each one's name and hash; signed, 0 without topics."""
    in_order = [digest for _, digest in sorted(hashes)]
    return _signed(xxh3(struct.pack(f"<{len(in_order)}q", *in_order))) if in_order else 0


@lru_cache(maxsize=2**12)
def topic_hash(name: str, topic_id: bytes, partitions: int, racks: tuple[tuple[str, ...], ...] = ()) -> int:
    """The hash of one topic, signed; ``racks`` has those of each partition's replicas, none for absent ones."""
    high, low = struct.unpack(">qq", topic_id)
    parts = [struct.pack("<bqq", 0, high, low), _hashed_text(name), struct.pack("<i", partitions)]
    for number in range(partitions):
        parts.append(struct.pack("<i", number))
        for rack in sorted(racks[number]) if number < len(racks) else ():
            parts += [struct.pack("<i", len(rack)), _hashed_text(rack)]
    return _signed(xxh3(b"".join(parts)))


def _hashed_text(text: str) -> bytes:
    """Its UTF-16 units and their number."""
    units = text.encode("utf-16-le")
    return units + struct.pack("<i", len(units) // 2)


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value
