"""Structures and arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from groupreplay.codecs.composites import Array, Nested
from groupreplay.codecs.errors import NO_LIMIT, Budget, DecodeError, EncodeError
from groupreplay.codecs.primitives import INT16, INT32, STRING, Form, WireType
from groupreplay.codecs.schema import Struct, wire

CLASSIC, FLEXIBLE = Form(0, False), Form(0, True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair(Struct):
    """A structure of two fields."""

    name: str = wire(STRING)
    number: int = wire(INT16)


def written(kind: WireType, value: Any, form: Form, nullable: bool = False) -> str:
    """The hex of one value."""
    out = bytearray()
    kind.writer(form, nullable)(out, value)
    return out.hex()


def read(kind: WireType, data: str, form: Form, nullable: bool = False) -> Any:
    """The value of all these bytes."""
    value, at = kind.reader(form, nullable)(bytes.fromhex(data), 0, NO_LIMIT)
    assert at == len(data) // 2
    return value


PAIR = Pair(name="a", number=1)


@pytest.mark.parametrize(
    ("kind", "value", "form", "nullable", "data"),
    [
        (Nested(Pair), PAIR, CLASSIC, False, "0001610001"),
        (Nested(Pair), PAIR, FLEXIBLE, False, "0261000100"),
        (Nested(Pair), PAIR, FLEXIBLE, True, "010261000100"),
        (Nested(Pair), None, FLEXIBLE, True, "ff"),
        (Nested(Pair, null_mark=b"\x00"), None, FLEXIBLE, True, "00"),
        (Array(INT32), (), CLASSIC, False, "00000000"),
        (Array(INT32), (1, -1), CLASSIC, False, "0000000200000001ffffffff"),
        (Array(INT32), None, CLASSIC, True, "ffffffff"),
        (Array(INT16), (1, -1), FLEXIBLE, False, "030001ffff"),
        (Array(INT16), None, FLEXIBLE, True, "00"),
        (Array(STRING), ("a", ""), FLEXIBLE, False, "03026101"),
        (Array(Nested(Pair)), (PAIR, PAIR), FLEXIBLE, False, "03" + "0261000100" * 2),
    ],
)
def test_both_encodings(kind: WireType, value: Any, form: Form, nullable: bool, data: str) -> None:
    """Flexible structures end with their tags, nullable ones start with a mark; arrays start with a count."""
    assert written(kind, value, form, nullable) == data
    assert read(kind, data, form, nullable) == value


def test_a_nullable_structure_has_two_marks() -> None:
    """Any other byte in front than those for null and present is malformed."""
    with pytest.raises(DecodeError, match=r"no mark that says null \(ff\) or present \(01\)"):
        read(Nested(Pair), "020261000100", FLEXIBLE, nullable=True)
    with pytest.raises(DecodeError, match="no mark"):
        read(Nested(Pair), "", FLEXIBLE, nullable=True)


@pytest.mark.parametrize(
    ("kind", "data", "form", "reason"),
    [
        (Array(INT32), "00000002", CLASSIC, "counts 2 elements, 0 bytes are left"),
        (Array(INT32), "7fffffff" + "00" * 9, CLASSIC, "counts 2147483647 elements, 9 bytes are left"),
        (Array(INT32), "fffffffe", CLASSIC, "negative length -2"),
        (Array(INT32), "ffffffff", CLASSIC, "is null"),
        (Array(STRING), "00", FLEXIBLE, "is null"),
        (Array(STRING), "ffffffff07", FLEXIBLE, "counts 2147483646 elements"),
        (Array(Nested(Pair)), "0302610001", FLEXIBLE, "counts 2 elements, 4 bytes are left"),
    ],
)
def test_counts_are_checked_before_anything_is_built(
    kind: WireType, data: str, form: Form, reason: str
) -> None:
    """A count that the bytes left cannot hold is malformed at the count."""
    with pytest.raises(DecodeError, match=reason) as caught:
        read(kind, data, form)
    assert caught.value.at == 0


def test_the_broken_element_is_named() -> None:
    """The path leads to the element and its field."""
    with pytest.raises(DecodeError) as caught:
        read(Array(Nested(Pair)), "03" + "0261000100" + "0261000101", FLEXIBLE)
    assert (caught.value.field, caught.value.at) == ("[1].tags", 11)
    with pytest.raises(EncodeError, match=r"\[1\]\.number: 99999 is not an int16"):
        written(Array(Nested(Pair)), (PAIR, Pair(name="b", number=99_999)), FLEXIBLE)


@pytest.mark.parametrize("kind", [Nested(Pair), Array(INT32)])
def test_null_where_none_is_allowed(kind: WireType) -> None:
    """None raises EncodeError unless the field may be null."""
    with pytest.raises(EncodeError, match="is None"):
        written(kind, None, FLEXIBLE)


def test_equal_strings_of_an_array_are_one_object() -> None:
    """Racks and topics repeat: one object each, however often."""
    data = bytes.fromhex("03" + "03c3a9" * 2)
    values, _ = Array(STRING).reader(FLEXIBLE, False)(data, 0, Budget(len(data)))
    assert values == ("é", "é")
    assert values[0] is values[1]


def test_names_as_in_kafkas_schemas() -> None:
    """The names that the documentation prints."""
    assert Array(Nested(Pair)).name == "[]Pair"
    assert Array(INT32).name == "[]int32"
