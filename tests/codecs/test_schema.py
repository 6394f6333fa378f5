"""Declarations and the plans made of them."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass
from typing import ClassVar

import pytest

from groupreplay.codecs import REGISTRY
from groupreplay.codecs.composites import Array
from groupreplay.codecs.errors import NO_LIMIT, DecodeError, EncodeError
from groupreplay.codecs.primitives import INT8, INT16, STRING
from groupreplay.codecs.schema import (
    EARLY,
    Value,
    camel_case,
    plan_of,
    quick,
    read_fields,
    wire,
    wires,
    write_fields,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(Value):
    """A value with every feature of the declarations."""

    VERSIONS: ClassVar[range] = range(4)
    FLEXIBLE_SINCE: ClassVar[int | None] = 2
    EARLY_RELEASES: ClassVar[str] = "0.1"

    always: int = wire(INT8)
    old: int = wire(INT8, until=EARLY, default=5)
    new: int = wire(INT8, since=0, default=6)
    middle_ms: int = wire(INT8, since=1, until=2, default=-1, kafka="middle")
    text: str | None = wire(STRING, tag=1, since=2, nullable=True, default=None)
    numbers: tuple[int, ...] | None = wire(
        Array(INT16), tag=4, since=2, nullable=True, default=None, omitted=()
    )


def written(value: Sample) -> str:
    """Its fields in hex."""
    out = bytearray()
    write_fields(plan_of(Sample, value.version, value.early), out, value)
    return out.hex()


def read(data: str, version: int, early: bool = False) -> Sample:
    """The value of fields in hex; all bytes are used."""
    values, at = read_fields(plan_of(Sample, version, early), bytes.fromhex(data), 0, NO_LIMIT)
    assert at == len(data) // 2
    return Sample(version=version, early=early, **values)


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (Sample(version=0, early=True, always=1, old=2), "0102"),
        (Sample(version=0, always=1, new=2), "0102"),
        (Sample(version=1, always=1, new=2, middle_ms=3), "010203"),
        (Sample(version=2, always=1, new=2, middle_ms=3, numbers=()), "01020300"),
        (Sample(version=3, always=1, new=2, numbers=()), "010200"),
        (Sample(version=3, always=1, new=2, text="t", numbers=()), "0102" + "01" + "01020274"),
        (Sample(version=3, always=1, new=2), "0102" + "01" + "0401" + "00"),
        (
            Sample(version=3, always=1, new=2, text="t", numbers=(7,)),
            "0102" + "02" + "01020274" + "0403020007",
        ),
    ],
)
def test_versions_tags_and_absence(value: Sample, data: str) -> None:
    """Each version holds its own fields; a tag is left out at the value that a reader takes it for."""
    assert written(value) == data
    assert read(data, value.version, value.early) == value


def test_missing_tags_are_what_kafka_takes_them_for() -> None:
    """A missing tag is its `omitted` value, which need not be the default of a value made by hand."""
    assert read("010200", 3).numbers == ()
    assert Sample(version=3, always=1).numbers is None


def test_unknown_tags_are_kept_in_their_place() -> None:
    """Tags of a later release come back between ours, in ascending order."""
    data = "0102" + "04" + "0000" + "01020274" + "0301ff" + "0403020007"
    value = read(data, 3)
    assert value.unknown_tags == ((0, b""), (3, b"\xff"))
    assert written(value) == data


def test_a_tag_that_spells_out_its_default_is_kept() -> None:
    """Kafka reads what it would not write; so do we, and write it back as it was."""
    data = "0102" + "01" + "040101"
    value = read(data, 3)
    assert (value.numbers, value.unknown_tags) == ((), ((4, b"\x01"),))
    assert written(value) == data


@pytest.mark.parametrize(
    ("data", "field", "at", "reason"),
    [
        ("01", "new", 1, "needs 1 bytes, 0 are left"),
        ("0102", "tags", 2, "varint that does not end"),
        ("010202" + "01020274" + "01020274", "tags", 7, "tag 1 behind tag 1; tags ascend"),
        ("010202" + "0403020007" + "01020274", "tags", 8, "tag 1 behind tag 4"),
        ("010201" + "01030274ff", "tags.text", 5, "takes 2 bytes, its tag says 3"),
        ("010201" + "0102037461", "tags.text", 5, "takes 3 bytes, its tag says 2"),
        ("010201" + "0501", "tags", 5, "needs 1 bytes, 0 are left"),
    ],
)
def test_malformed_fields_and_tags(data: str, field: str, at: int, reason: str) -> None:
    """The path and the byte are told."""
    with pytest.raises(DecodeError, match=reason) as caught:
        read_fields(plan_of(Sample, 3), bytes.fromhex(data), 0, NO_LIMIT)
    assert (caught.value.field, caught.value.at) == (field, at)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (Sample(version=3, always=1, middle_ms=4), "middle_ms: is set, but this version has no such field"),
        (Sample(version=1, always=1, text="t"), "text: is set, but this version has no such field"),
        (
            Sample(version=1, always=1, unknown_tags=((9, b""),)),
            "tags: are set, but this version has no tags",
        ),
        (Sample(version=0, always=1, old=3), "old: is set"),
        (Sample(version=3, always=300), "always: 300 is not an int8"),
        (Sample(version=3, always=1, numbers=(1, 70_000)), r"tags.numbers\[1\]: 70000 is not an int16"),
    ],
)
def test_nothing_is_dropped_silently(value: Sample, reason: str) -> None:
    """A field that the version cannot carry is refused, where Kafka drops what it calls ignorable."""
    with pytest.raises(EncodeError, match=reason):
        written(value)


def test_names() -> None:
    """Kafka's name is the camel case of ours unless declared."""
    assert camel_case("partitions_pending_revocation") == "partitionsPendingRevocation"
    assert [each.kafka for each in wires(Sample)] == ["always", "old", "new", "middle", "text", "numbers"]


def test_every_record_declares_itself_in_full() -> None:
    """Every key starts with the group; every field of a key is on the wire in every layout."""
    for key_type, (key, value) in REGISTRY.items():
        assert key_type == key.KEY_TYPE
        assert wires(key)[0].name == "group"
        assert all(each.since == EARLY and each.until is None and each.tag is None for each in wires(key))
        assert key.__doc__
        assert value.__doc__
        tags = [each.tag for each in wires(value) if each.tag is not None]
        assert tags == list(range(len(tags)))


def test_plans_are_shared() -> None:
    """A plan is made once per layout and shared."""
    assert plan_of(Sample, 3) is plan_of(Sample, 3)
    assert plan_of(Sample, 0) is not plan_of(Sample, 0, early=True)


def test_a_quick_init_is_that_of_the_dataclass() -> None:
    """The same message with the same defaults; a field without a default must be given, and none can be set later."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Plain(Value):
        count: int = wire(INT8)
        text: str = wire(STRING, default="t")

    plain = Plain(version=3, count=1)
    message = quick(Plain)(version=3, count=1)
    assert message == plain
    assert (message.text, message.unknown_tags, message.early, message.dialect) == ("t", (), False, "")
    with pytest.raises(TypeError, match="count"):
        Plain(version=3)  # type: ignore[call-arg]
    with pytest.raises(FrozenInstanceError):
        message.count = 2  # type: ignore[misc]
