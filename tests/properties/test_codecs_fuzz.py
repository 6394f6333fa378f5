"""Any bytes decode to a record that encodes to the same bytes, to a skip, or to a malformed record with a position."""

from __future__ import annotations

import tracemalloc
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from groupreplay.codecs import (
    REGISTRY,
    Assignment,
    Key,
    Malformed,
    Skipped,
    Subscription,
    Value,
    decode_blob,
    decode_key,
    decode_value,
    encode_blob,
    encode_key,
    encode_value,
)
from groupreplay.codecs.composites import Array, Nested
from groupreplay.codecs.errors import MEMORY_CONSTANT, MEMORY_FACTOR
from groupreplay.codecs.primitives import Text, WireType
from groupreplay.codecs.schema import EARLY, Struct, wires
from groupreplay.codecs.subscription import ConnectAssignment, ConnectMetadata
from support.histories.record_samples import random_blob, random_record, random_value, with_unknown_tags
from support.tools.fuzz_target import KEYS, check_key, check_value, fuzz_one_input

randoms = st.integers(0, 2**64 - 1).map(Random)
key_types = st.sampled_from(sorted(REGISTRY))


@given(randoms, key_types)
def test_encode_inverts_decode_on_values(random: Random, key_type: int) -> None:
    """decode(encode(v)) == v and encode(decode(b)) == b for every declared value."""
    key, value = random_record(random, key_type)
    assert decode_key(encode_key(key)) == key
    if value is not None:
        assert decode_value(key, encode_value(value)) == value
        check_value(key, encode_value(value))


@given(randoms, st.sampled_from([key for key, (_, value) in REGISTRY.items() if value.EARLY_RELEASES]))
def test_early_bodies_are_told_apart(random: Random, key_type: int) -> None:
    """A preview's body is read as such or refused as ambiguous, never as today's; and the reverse."""
    key, _ = random_record(random, key_type)
    for early in (False, True):
        value = random_value(random, REGISTRY[key_type][1], 0, early)
        read = check_value(key, encode_value(value))
        assert read == value or isinstance(read, Skipped)


@given(randoms, key_types, st.binary(max_size=4))
def test_later_tags_and_leftover_bytes_are_kept(random: Random, key_type: int, leftover: bytes) -> None:
    """Tags of a later release come back in their place; bytes behind the end come back, too."""
    key, value = random_record(random, key_type)
    check_key(encode_key(key) + leftover)
    if value is None:
        return
    if value.FLEXIBLE_SINCE is not None and value.version >= value.FLEXIBLE_SINCE:
        value = with_unknown_tags(random, value)
        assert decode_value(key, encode_value(value)) == value
    if not value.EARLY_RELEASES:
        check_value(key, encode_value(value) + leftover)


@given(randoms, st.sampled_from([Subscription, Assignment, ConnectMetadata, ConnectAssignment]))
def test_encode_inverts_decode_on_blobs(random: Random, blob_class: type[Subscription]) -> None:
    """The same for subscriptions, assignments and Connect metadata inside members."""
    blob = random_blob(random, blob_class)
    assert decode_blob(blob_class, encode_blob(blob)) == blob


@given(st.binary(max_size=200))
@example(b"\x40\x00\x00")
def test_random_bytes(data: bytes) -> None:
    """Random bytes raise nothing."""
    fuzz_one_input(data)


@given(randoms, key_types)
def test_truncation_at_every_byte(random: Random, key_type: int) -> None:
    """A record cut anywhere is malformed, or a shorter record that is written back as it is."""
    key, value = random_record(random, key_type)
    data = encode_key(key)
    for cut in range(len(data)):
        assert isinstance(check_key(data[:cut]), Malformed)
    if value is not None:
        data = encode_value(value)
        for cut in range(0, len(data), max(1, len(data) // 300)):
            check_value(key, data[:cut])


@given(randoms, key_types, st.lists(st.tuples(st.integers(0), st.integers(0, 7)), min_size=1, max_size=4))
def test_flipped_bits(random: Random, key_type: int, flips: list[tuple[int, int]]) -> None:
    """Flipped bits give another record or a refusal."""
    key, value = random_record(random, key_type)
    data = bytearray(encode_key(key) if value is None else encode_value(value))
    for at, bit in flips:
        data[at % len(data)] ^= 1 << bit
    if value is None:
        check_key(bytes(data))
    else:
        check_value(key, bytes(data))


BOMBS = (
    b"\x7f\xff\xff\xff",  # an int32 count or length of 2 billion
    b"\x80\x00\x00\x00",  # the most negative one
    b"\xff\xff\xff\xff\x07",  # a varint of 31 bits
    b"\xff\xff\xff\xff\x0f",  # of 32 bits: negative for Java
    b"\xff" * 9 + b"\x01",  # of 10 bytes
    b"\x81\x80\x00",  # a padded one
    b"\x7f\xff",
    b"\xff\xfe",
)


@given(randoms, key_types, st.sampled_from(BOMBS), st.integers(0))
def test_length_bombs(random: Random, key_type: int, bomb: bytes, position: int) -> None:
    """A huge, negative or endless length anywhere is refused, or means something else."""
    key, value = random_record(random, key_type)
    if value is None:
        return
    data = encode_value(value)
    at = 2 + position % (len(data) - 1)
    check_value(key, data[:at] + bomb + data[at:])
    check_value(key, data[:at] + bomb + data[at + len(bomb) :])


@given(st.binary(max_size=8), st.sampled_from([b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80"]))
def test_invalid_utf8_is_malformed(before: bytes, wrong: bytes) -> None:
    """A string that is not UTF-8 is malformed at the first wrong byte, never read with replacements."""
    text = before + wrong
    data = b"\x00\x02" + len(text).to_bytes(2, "big") + text
    refused = check_key(data)
    assert isinstance(refused, Malformed)
    assert refused.field == "group"
    assert data[4 : refused.at].decode() == text[: refused.at - 4].decode()
    assert refused.reason.startswith("is not UTF-8")


def smallest(kind: WireType) -> bytes:
    """The shortest flexible form of an element, which costs the most memory for its bytes."""
    match kind:
        case Array() | Text():
            return b"\x01"
        case Nested():
            inner = [each for each in wires(kind.message) if each.exists_in(0) and each.tag is None]
            return b"".join(smallest(each.type) for each in inner) + b"\x00"
    return bytes(len(getattr(kind, "zero", b"")) if kind.name == "uuid" else getattr(kind, "size", 1))


def crowded(message: type[Struct], size: int) -> list[bytes]:
    """For every array of a flexible value, on any level: bytes that are almost all elements of that array."""
    inline = [each for each in wires(message) if each.exists_in(0) and each.tag is None]
    found = []
    for position, each in enumerate(inline):
        if not isinstance(each.type, Array):
            continue
        before = b"".join(smallest(other.type) for other in inline[:position])
        after = b"".join(smallest(other.type) for other in inline[position + 1 :])
        elements = [smallest(each.type.element), _distinct(each.type.element)]
        if isinstance(each.type.element, Nested):
            elements += crowded(each.type.element.message, 20)
            elements += crowded(each.type.element.message, size)
        for element in elements:
            many = max(1, size // len(element))
            found.append(before + varint(many + 1) + element * many + after + b"\x00")
    return found


def _distinct(kind: WireType) -> bytes:
    """An element whose parts Python cannot share between objects."""
    return smallest(kind) if not isinstance(kind, Text) else b"\x03\xc3\xa9"


def varint(value: int) -> bytes:
    """An unsigned varint."""
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def assert_within_memory(key: Key, data: bytes) -> bool:
    """One decoding takes at most 8 times the bytes plus 1 MiB; returns whether the record was refused."""
    tracemalloc.start()
    value = decode_value(key, data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= MEMORY_FACTOR * len(data) + MEMORY_CONSTANT, (type(key).__name__, len(data), peak)
    return isinstance(value, Malformed)


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.long) for part in range(1, 6))])
def test_memory_stays_within_its_limit(part: int) -> None:
    """However crowded with tiny elements, one record takes at most 8 times its size and 1 MiB."""
    bodies = [
        (key, body)
        for key in KEYS
        for value_class in [REGISTRY[key.KEY_TYPE][1]]
        if value_class.FLEXIBLE_SINCE == 0
        for body in sorted(set(crowded(value_class, 100_000)))
    ]
    refused = [assert_within_memory(key, b"\x00\x00" + body) for key, body in bodies[part::6]]
    assert any(refused)
    assert not all(refused)


def test_members_and_tags_stay_within_the_limit() -> None:
    """The same for a classic group's members, for tags, and for text that takes four bytes a character."""
    group = KEYS[2]
    members = (
        b"\x00\x01\x00\x00"
        + bytes(4)
        + b"\xff\xff\xff\xff"
        + (60_000).to_bytes(4, "big")
        + bytes(26 * 60_000)
    )
    tags = (
        b"\x00\x00"
        + bytes(4)
        + varint(100_000)
        + b"".join(varint(tag) + b"\x00" for tag in range(100, 100_100))
    )
    wide = "a\N{GRINNING FACE}".encode() + b"a" * 32_000
    topics = (
        b"\x00\x00\x01\x01\x01\x01" + varint(11) + 10 * (varint(len(wide) + 1) + wide) + b"\x00" + bytes(6)
    )
    for key, data in ((group, members), (KEYS[3], tags), (KEYS[5], topics)):
        assert_within_memory(key, data)


def test_large_but_honest_records_are_read() -> None:
    """The limit refuses no record of a real size: 100 000 partitions of a member, racks of 20 000."""
    partitions = b"".join(number.to_bytes(4, "big") for number in range(100_000))
    target = b"\x00\x00\x02" + bytes(range(16)) + varint(100_001) + partitions + b"\x00\x00"
    assert isinstance(check_value(KEYS[sorted(REGISTRY).index(7)], target), Value)
    racks = b"\x04" + b"".join(
        varint(len(rack) + 1) + rack for rack in (b"us-east-1a", b"us-east-1b", b"us-east-1c")
    )
    listed = b"".join(number.to_bytes(4, "big") + racks + b"\x00" for number in range(20_000))
    legacy = b"\x00\x00\x02" + bytes(16) + b"\x02t" + bytes(4) + varint(20_001) + listed + b"\x00\x00"
    assert isinstance(check_value(KEYS[sorted(REGISTRY).index(4)], legacy), Value)


def test_early_layout_is_a_layout_of_its_own() -> None:
    """`EARLY` stands before every version, so that no range of versions holds it by accident."""
    assert all(value.VERSIONS[0] > EARLY for _, value in REGISTRY.values())
