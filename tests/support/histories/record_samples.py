"""Random records of every type, made from the declarations: every version, null, tag and length."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from groupreplay.codecs import REGISTRY, Key, Value
from groupreplay.codecs.composites import Array, Nested
from groupreplay.codecs.primitives import Blob, Number, Text, Uuid, WireType
from groupreplay.codecs.schema import EARLY, Versioned, wires

#: Around the lengths where the varint in front grows, and Kafka's longest string.
_LENGTHS = (0, 1, 2, 62, 63, 64, 126, 127, 128, 129)
_RARE_LENGTHS = (16_382, 16_383, 16_384, 32_767)
_ALPHABETS = (
    "abz-._0",
    "aé",
    "aж日本",
    "a\N{GRINNING FACE}\N{MUSICAL SYMBOL G CLEF}",
    'a\x00\x1f"\\\u2028\x7f',
)
#: Tags that no release uses yet.
_UNKNOWN_TAGS = (9, 127, 128, 70_000)


def random_record(random: Random, key_type: int | None = None) -> tuple[Key, Value | None]:
    """A key, and a value of any of its versions or a tombstone."""
    key_class, value_class = REGISTRY[random.choice(sorted(REGISTRY)) if key_type is None else key_type]
    key = random_message(random, key_class, 0)
    versions = [0] if key_class.KEY_TYPE == 0 else list(value_class.VERSIONS)
    value = None if random.random() < 0.05 else random_value(random, value_class, random.choice(versions))
    return key, value


def random_value(random: Random, value_class: type[Value], version: int, early: bool = False) -> Value:
    """A value with the fields of this version, or of the early body."""
    value = random_message(random, value_class, EARLY if early else version, version=version)
    made: Value = replace(value, early=early)
    return made


def random_blob(random: Random, blob_class: type[Versioned]) -> Any:
    """A blob of any version."""
    version = random.choice(list(blob_class.VERSIONS))
    return random_message(random, blob_class, version, version=version)


def random_message(random: Random, message: type[Any], layout: int, **fixed: Any) -> Any:
    """An instance whose fields are random where this layout has them."""
    fields = dict(fixed)
    for each in wires(message):
        if not each.exists_in(layout):
            fields[each.name] = each.default
        elif each.tag is not None and random.random() < 0.5:
            fields[each.name] = each.omitted
        elif each.nullable and random.random() < 0.3:
            fields[each.name] = None
        else:
            fields[each.name] = _content(random, each.type, layout)
    return message(**fields)


def with_unknown_tags(random: Random, value: Value) -> Value:
    """The same value with tags of a later release; only for flexible versions."""
    tags = sorted(random.sample(_UNKNOWN_TAGS, random.randint(1, 3)))
    return replace(
        value, unknown_tags=tuple((tag, random.randbytes(random.choice((0, 1, 130)))) for tag in tags)
    )


def _content(random: Random, kind: WireType, layout: int) -> Any:
    match kind:
        case Number():
            return _number(random, kind)
        case Text():
            return _text(random)
        case Blob():
            return random.randbytes(_length(random))
        case Uuid():
            return random.choice((bytes(16), random.randbytes(16), b"\xff" * 16))
        case Array():
            many = random.choice((0, 1, 1, 2, 3)) if random.random() < 0.98 else random.choice((127, 128))
            if isinstance(kind.element, Nested):
                many = min(many, 4)
            return tuple(_content(random, kind.element, layout) for _ in range(many))
        case Nested():
            return random_message(random, kind.message, layout)
    raise TypeError(kind)


def _number(random: Random, kind: Number) -> int:
    signed = kind.code.islower()
    bits = 8 * kind.size
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return random.choice((low, high, 0, 1, max(low, -1), random.randint(low, high), random.randint(0, 127)))


def _length(random: Random) -> int:
    return random.choice(_RARE_LENGTHS) if random.random() < 0.002 else random.choice(_LENGTHS)


def _text(random: Random) -> str:
    """Text of a chosen length in UTF-8 bytes, as the boundary lies in bytes and not in characters."""
    length, alphabet = _length(random), random.choice(_ALPHABETS)
    characters: list[str] = []
    left = length
    while left > 0:
        character = random.choice(alphabet)
        size = len(character.encode())
        if size > left:
            character, size = "a", 1
        characters.append(character)
        left -= size
    return "".join(characters)
