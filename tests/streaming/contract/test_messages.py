"""The decoder of messages that anybody may have written."""

from __future__ import annotations

import msgspec

from groupreplay.streaming.contract.messages import OBJECTS, Integer, MessageDecoder
from support.tools.hostile_json import BYTES


class Number(msgspec.Struct):
    """A message with one number."""

    number: Integer


def test_a_message_or_none() -> None:
    """A message of the kind is decoded; a tombstone, another kind and a number that does not fit are None."""
    decoder = MessageDecoder[Number](Number)
    values = (b'{"number":5,"more":[]}', None, b'{"number":"5"}', b'{"number":1' + b"0" * 400 + b"}")
    assert [decoder.decode(value) for value in values] == [Number(5), None, None, None]


def test_no_bytes_raise() -> None:
    """Whatever the bytes are: those of the corpus are None or an object, and no exception leaves the decoder."""
    decoders = [OBJECTS, MessageDecoder(Number), MessageDecoder(dict[str, list[int]]), MessageDecoder(str)]
    found = [decoder.decode(value) for decoder in decoders for value in BYTES]
    assert {type(one) for one in found} == {type(None), dict, str}


def test_objects_are_checked_as_a_whole() -> None:
    """Invalid UTF-8 is found in every text, also where a struct would skip the field."""
    hidden = b'{"number":5,"more":"\xff"}'
    assert OBJECTS.decode(hidden) is None
    assert MessageDecoder[Number](Number).decode(hidden) == Number(5)
