"""Messages that are not what a reader expects: bytes that are no JSON, and valid messages with other values in them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import msgspec

#: What any producer may write into any topic.
BYTES = (
    b"",
    b"\x00",
    b"null",
    b"true",
    b"0",
    b'""',
    b"[]",
    b"{}",
    b"no json",
    b'"open',
    b'{"a":',
    b"\xff\xfe",
    b'"\xff"',
    b'{"\xff":1}',
    b'{"a":"\xff"}',
    b'{"group_id":"\xff\xfe"}',
    b'{"a":"\xed\xa0\x80"}',
    b'{"group_id":"\\ud800"}',
    b'{"group_id":"a\\u0000b"}',
    b'{"group_id":"a","group_id":5}',
    b'{"id":"a","id":"b"}',
    b"NaN",
    b"1e999",
    b"9" * 5_000,
    b'{"since_ms":' + b"9" * 400 + b"}",
    b'{"since_ms":1e400}',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"data":' + b"[" * 100_000,
    b'{"x":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    b'{"labels":' + b'{"a":' * 5_000,
    b"\xef\xbb\xbf{}",
    b'{"a":1}\n{"a":2}',
)
_LONG = "a number of 400 digits"
_DIGITS = b"9" * 400
#: What is put in the place of each value of a valid message.
VALUES: tuple[Any, ...] = (
    _LONG,
    None,
    True,
    -1,
    2**53 + 1,
    2**63,
    -(2**63),
    1.5,
    1e308,
    "",
    "\x00\x1b[2J\u202e\n",
    "0001-01-01T00:00:00",
    "x" * 70_000,
    [],
    [None],
    {},
    {"": [{}]},
)


def spoiled(message: bytes) -> Iterator[bytes]:
    """A valid message in JSON with each of its values replaced, each of its fields missing, and its bytes damaged."""
    document = msgspec.json.decode(message)
    for path in list(_paths(document)):
        for value in VALUES:
            text = msgspec.json.encode(_replaced(document, path, value))
            yield text.replace(b'"' + _LONG.encode() + b'"', _DIGITS)
        yield msgspec.json.encode(_without(document, path))
    for place in range(0, len(message), 7):
        yield message[:place]
        yield message[:place] + b"\xff" + message[place + 1 :]
        yield message[:place] + b"\xff" + message[place:]
    yield message + b"\n"
    yield message.replace(b",", b",\n")
    yield message + message
    yield b'{"x":' + b"[" * 100_000 + b"," + message[1:]


def _paths(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield (*before, name)
        yield from _paths(inner, (*before, name))


def _replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(document)
    _parent(changed, path)[path[-1]] = value
    return changed


def _without(document: Any, path: tuple[Any, ...]) -> Any:
    changed = copy.deepcopy(document)
    del _parent(changed, path)[path[-1]]
    return changed


def _parent(document: Any, path: tuple[Any, ...]) -> Any:
    for name in path[:-1]:
        document = document[name]
    return document
