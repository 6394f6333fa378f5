"""Stored states as bytes."""

from __future__ import annotations

from zlib import crc32

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from groupreplay.state.stored_form import DamagedStateError, SnapshotError, StoredForm, bounded_text, sealed


class Number(msgspec.Struct, array_like=True):
    """A state."""

    number: int = 0
    name: str = ""


class LaterNumber(Number, array_like=True):
    """The state of a later release."""

    more: int = 0


FORM = StoredForm[Number]("number", version=4, reader=3, kind=Number)
NUMBERS = some.builds(Number, some.integers(0, 2**63), some.text())


def body(*fields: object) -> bytes:
    """The body of a state with these fields."""
    return msgspec.msgpack.encode(fields)


def test_what_was_written_is_read() -> None:
    """Behind a byte for the version, four for the checksum and one for the least reader."""
    blob = FORM.write(Number(7, "x"))
    rest = b"\x03\x92\x07\xa1x"
    assert blob == b"\x04" + crc32(rest).to_bytes(4, "big") + rest
    assert FORM.read(blob) == Number(7, "x")


def test_a_state_of_an_earlier_release() -> None:
    """It demands less than this reader, and has fewer fields; those that are missing have their defaults."""
    assert FORM.read(sealed(4, 1, body(7))) == Number(7)


def test_a_later_release_is_refused() -> None:
    """A state with a field more is refused if it demands a later reader: it is not written back without the field."""
    later = StoredForm[LaterNumber]("number", version=4, reader=4, kind=LaterNumber)
    with pytest.raises(SnapshotError, match="number for readers from 4 on, this release is reader 3"):
        FORM.read(later.write(LaterNumber(7, "x", 9)))


def test_a_field_that_may_be_lost() -> None:
    """A later release that does not raise its number can be gone back from; the field is dropped."""
    later = StoredForm[LaterNumber]("number", version=4, reader=3, kind=LaterNumber)
    assert FORM.read(later.write(LaterNumber(7, "x", 9))) == Number(7, "x")


@pytest.mark.parametrize(
    ("blob", "what"),
    [
        (b"", "number is damaged: it has no bytes"),
        (b"\x09abc", "number of version 9 is damaged"),
        (b"\x05" + sealed(4, 3, b"\x92\x01\xa1a")[1:], "number of version 5 is damaged: no release writes"),
        (b"\xf1" + sealed(4, 3, b"\x92\x01\xa1a")[1:], "number of version 241 is damaged: no release writes"),
        (b"\x04", "number of version 4 is damaged"),
        (b"\x04\x00\x00\x00\x00", "number of version 4 is damaged: it ends after its version"),
        (b"\x04\x00\x00\x00\x00\x03\x92\x07\xa1x", "damaged: its bytes do not have its checksum"),
        (sealed(4, 3, b""), "number of version 4 is damaged"),
        (sealed(4, 3, b"\x92\x01"), "number of version 4 is damaged"),
        (sealed(4, 3, b"\x92\x01\xa1\xff"), "number of version 4 is damaged"),
        (sealed(4, 3, b"\x91" * 5_000), "number of version 4 is damaged"),
        (sealed(4, 3, b"\x92\x01\xa1a\x00"), "number of version 4 is damaged"),
    ],
)
def test_damaged_bytes(blob: bytes, what: str) -> None:
    """Missing bytes, other types, invalid UTF-8, deep nesting and bytes behind the end are one error."""
    with pytest.raises(DamagedStateError, match=what):
        FORM.read(blob)


def test_a_version_of_another_release() -> None:
    """Behind the version it has a checksum as every version, and the version is no flipped bit: it is not damaged."""
    with pytest.raises(SnapshotError, match=r"^number version 10, this release reads version 4$") as caught:
        FORM.read(sealed(10, 1, b"whatever"))
    assert not isinstance(caught.value, DamagedStateError)


@given(NUMBERS)
def test_any_flipped_bit_is_refused(state: Number) -> None:
    """Wherever it is: in the version, in the checksum, in the least reader or in the body."""
    blob = FORM.write(state)
    for place in range(8 * len(blob)):
        with pytest.raises(DamagedStateError):
            FORM.read(flipped(blob, place))


@given(NUMBERS, some.data())
def test_damage_of_many_bits_is_refused(state: Number, data: some.DataObject) -> None:
    """Two or three flipped bits, and bytes that are missing at the end."""
    blob = FORM.write(state)
    places = some.lists(some.integers(8, 8 * len(blob) - 1), min_size=2, max_size=3, unique=True)
    damaged = blob
    for place in data.draw(places):
        damaged = flipped(damaged, place)
    for wrong in (damaged, blob[: data.draw(some.integers(0, len(blob) - 1))]):
        with pytest.raises(DamagedStateError):
            FORM.read(wrong)


def flipped(blob: bytes, place: int) -> bytes:
    """The bytes with one bit flipped."""
    changed = bytearray(blob)
    changed[place // 8] ^= 1 << place % 8
    return bytes(changed)


@pytest.mark.parametrize("text", ["", "x", "x" * 256, "\U0001f600" * 256, "\ud800" * 256])
def test_a_text_of_bounded_length_is_stored_as_it_is(text: str) -> None:
    """Up to 256 characters, whatever they are."""
    assert bounded_text(text) == text


@pytest.mark.parametrize("char", ["x", "é", "\U0001f600", "\ud800"])
def test_a_long_text_is_cut(char: str) -> None:
    """To 256 characters, of which the end shows that something is missing; no character is cut in two."""
    cut = bounded_text(char * 4_096)
    assert (len(cut), cut[:239], cut[239]) == (256, char * 239, "…")
    assert bounded_text(cut) == cut


def test_different_texts_stay_different() -> None:
    """Also those that differ only behind the cut, or where one looks as if it had been cut."""
    texts = [
        "x" * 4_096,
        "x" * 4_095 + "y",
        "x" * 4_095,
        "x" * 256,
        "x" * 257,
        bounded_text("x" * 4_096) + "x",
    ]
    assert len({bounded_text(text) for text in texts}) == len(texts)
