"""Compiled readers and writers accept what the declared fields accept, and read and write the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any

from groupreplay.codecs import (
    REGISTRY,
    Assignment,
    ConnectAssignment,
    ConnectMetadata,
    Subscription,
    encode_blob,
    encode_key,
    encode_value,
)
from groupreplay.codecs.compiled import IRREGULAR, UNWRITABLE, compiled, compiled_writer
from groupreplay.codecs.errors import Budget, DecodeError
from groupreplay.codecs.primitives import Form
from groupreplay.codecs.schema import Key, Value, form_of, plan, read_fields, write_fields
from support.histories.record_samples import random_blob, random_record, random_value, with_unknown_tags
from support.tools.fuzz_target import NULL_LENGTHS

_BLOBS = (Subscription, Assignment, ConnectMetadata, ConnectAssignment)
_INJURIES = [part for parts in NULL_LENGTHS.values() for part in parts]


def _samples(random: Random) -> Iterator[tuple[Any, Form, bytes]]:
    """(message, layout, bytes of it) of every kind."""
    for key_type, (key_class, value_class) in REGISTRY.items():
        key, value = random_record(random, key_type)
        yield key_class, Form(0, False), encode_key(key)
        if value is not None:
            flexible = form_of(value_class, value.version).flexible
            tagged = with_unknown_tags(random, value) if flexible and random.random() < 0.5 else value
            for version in value_class.VERSIONS:
                yield value_class, form_of(value_class, version), encode_value(tagged)
        if value_class.EARLY_RELEASES:
            early = encode_value(random_value(random, value_class, 0, early=True))
            yield value_class, form_of(value_class, 0, early=True), early
            yield value_class, form_of(value_class, 0), early
    for blob_class in _BLOBS:
        blob = random_blob(random, blob_class)
        yield blob_class, form_of(blob_class, min(blob.version, blob_class.VERSIONS[-1])), encode_blob(blob)


def _injured(random: Random, data: bytes) -> bytes:
    at, injury = random.randint(2, len(data)), random.choice(_INJURIES)
    match random.randrange(5):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + injury + data[at:]
        case 2:
            return data[:at] + injury + data[at + len(injury) :]
        case 3:
            return data[:at] + bytes([random.randrange(256)]) + data[at + 1 :]
        case _:
            return data


def _by_fields(message: Any, form: Form, data: bytes, budget: Budget) -> Any:
    try:
        values, at = read_fields(plan(message, form), data, 2, budget)
    except DecodeError:
        return None
    if not issubclass(message, Key):
        values["version"] = 7
    if issubclass(message, Value):
        values["early"] = form.version < 0
    return message(leftover=data[at:], **values), budget.left


def _compiled(message: Any, form: Form, data: bytes, budget: Budget) -> Any:
    try:
        read, _ = compiled(message, form)(data, 2, budget, 7)
    except IRREGULAR:
        return None
    return read, budget.left


def test_what_they_read_is_what_the_fields_read() -> None:
    """Of valid, cut and changed bytes of every version: the same message at the same cost, or none of the two."""
    random = Random(20)
    read = refused = 0
    for _ in range(60):
        for message, form, data in _samples(random):
            injured = _injured(random, data)
            # A small budget is used up by some of them.
            left = random.choice((50, 500, 1_000_000))
            budgets = Budget(0), Budget(0)
            budgets[0].left = budgets[1].left = left
            expected = _by_fields(message, form, injured, budgets[0])
            found = _compiled(message, form, injured, budgets[1])
            assert found == expected, (message, form, injured.hex())
            assert repr(found) == repr(expected)
            read, refused = read + (found is not None), refused + (found is None)
    assert min(read, refused) > 400


def test_leftover_bytes_are_kept() -> None:
    """Keys are equal without them, so they are compared here."""
    key = REGISTRY[2][0](group="g", leftover=b"more")
    assert _compiled(type(key), Form(0, False), encode_key(key), Budget(100))[0].leftover == b"more"


def test_what_they_write_is_what_the_fields_write() -> None:
    """Of messages of every version, also in the layout of other versions: the same bytes, or none of the two."""
    random = Random(21)
    written = refused = 0
    for _ in range(60):
        for message, form, data in _samples(random):
            read = _by_fields(message, form, data, Budget(1_000_000))
            for layout in (form, Form(0, form.flexible), Form(form.version, False)) if read else ():
                expected, found = (
                    _written(write, read[0])
                    for write in (
                        partial(write_fields, plan(message, layout)),
                        compiled_writer(message, layout),
                    )
                )
                assert found == expected
                written, refused = written + (found is not None), refused + (found is None)
    assert min(written, refused) > 400


def _written(write: Callable[[bytearray, Any], None], message: Any) -> bytes | None:
    out = bytearray()
    try:
        write(out, message)
    except UNWRITABLE:
        return None
    return bytes(out)
