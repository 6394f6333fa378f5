"""Names in records that a redaction hides, and every form in which one of them could be recognised in an output."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from groupreplay.codecs import Malformed, Skipped, decode_key, decode_value
from groupreplay.codecs.kafka_json import to_json
from groupreplay.state.policy.context import FIELDS

_HIDDEN = frozenset[str]().union(*FIELDS.values())
_HASHES: tuple[Callable[[bytes], bytes], ...] = (
    *(
        lambda data, name=name: hashlib.new(name, data).digest()
        for name in ("md5", "sha1", "sha256", "sha512")
    ),
    *(
        lambda data, size=size: hashlib.blake2b(data, digest_size=size).digest()
        for size in (4, 8, 16, 32, 64)
    ),
    lambda data: hashlib.blake2s(data).digest(),
    lambda data: binascii.crc32(data).to_bytes(4, "big"),
)
#: Digits by which a hash is recognised: the shortest that the code writes.
_DIGITS = 8
_HEX = re.compile(rb"[0-9a-fA-F]{%d,}" % _DIGITS)
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{8,}={0,2}")
#: Shorter names would be found everywhere.
_LEAST = 5


def texts_of(value: Any, *, hidden: bool = False) -> Iterator[str]:
    """The texts below hidden fields of a document."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from texts_of(inner, hidden=name in _HIDDEN)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from texts_of(one, hidden=hidden)
    elif hidden and isinstance(value, str):
        yield value


def names_in(records: Iterable[tuple[bytes | None, bytes | None]]) -> set[str]:
    """The names in records that are to be hidden, as Kafka's own JSON shows them."""
    found = set[str]()
    for raw_key, raw_value in records:
        key = decode_key(raw_key)
        if isinstance(key, Skipped | Malformed):
            continue
        value = decode_value(key, raw_value)
        if not isinstance(value, Skipped | Malformed):
            found.update(texts_of(to_json(key, value)))
    return {name for name in found if len(name) >= _LEAST}


def recognised(output: bytes, names: Iterable[str]) -> set[str]:
    """What a reader with a dictionary of the names finds: ``plain NAME``, ``encoded NAME``, ``hash of NAME``."""
    names = sorted(names)
    found = {f"plain {name}" for name in names if _plain(output, name)}
    decoded = b"\n".join(_decoded(output))
    found |= {f"encoded {name}" for name in names if name.encode() in decoded}
    prefixes = {token[:_DIGITS].lower() for token in _HEX.findall(output)}
    return found | {f"hash of {form}" for form, digits in _digests(names) if digits in prefixes}


def _plain(output: bytes, name: str) -> bool:
    return name.encode() in output or msgspec.json.encode(name)[1:-1] in output


def _decoded(output: bytes) -> Iterator[bytes]:
    """What stands in base64 or hexadecimal."""
    for token in _HEX.findall(output):
        yield bytes.fromhex(token[: len(token) // 2 * 2].decode())
    for token in _BASE64.findall(output):
        padded = token.rstrip(b"=").replace(b"-", b"+").replace(b"_", b"/")
        yield base64.b64decode(padded[: len(padded) // 4 * 4])


def _digests(names: list[str]) -> Iterator[tuple[str, bytes]]:
    """The first digits of hashes: of a name, of the names of slots that are made of it, and of hashes of these."""
    places = [f"{one}@{other}" for one in names for other in names if other.startswith("/")]
    for name in [*names, *places]:
        for form in (name, f"i{name}", f"p{name}", f"m{name}"):
            for hashed in _HASHES:
                first = hashed(form.encode()).hex().encode()
                yield form, first[:_DIGITS]
                for again in _HASHES:
                    yield form, again(first).hex()[:_DIGITS].encode()
