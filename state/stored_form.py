"""The form of everything that is stored: its first bytes, and how long a text in it may be.

The first bytes are the version of the form, and which release may read it.

A positional array does not show that it has more fields than its reader knows: msgpack's readers ignore them, and would
write the state back without them. So the second byte is the least *reader* that may read the state, a number that a
release raises whenever it adds something that must not get lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Final, Generic, TypeVar

import msgspec

#: Characters of a text that is longer in the log: metadata of an offset, names in the history of a slot.
MOST_CHARACTERS: Final = 256
_DIGEST_BYTES: Final = 8

_Stored = TypeVar("_Stored")
#: Damaged bytes: besides msgspec's own errors, text that is not UTF-8, and nesting deeper than Python's stack.
_DAMAGE: Final = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError)


def bounded_text(text: str) -> str:
    """A text as it is stored: cut to MOST_CHARACTERS, with an ellipsis and a hash of all of it at the end.

    Clients choose it, and a group has many. With the hash, two texts that differ are never stored as the same one.
    """
    if len(text) <= MOST_CHARACTERS:
        return text
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{text[: MOST_CHARACTERS - 1 - len(digest)]}…{digest}"


class SnapshotError(ValueError):
    """A stored state that this release cannot read; names what was found and what this release reads."""


class StoredForm(Generic[_Stored]):
    """How one kind of state is stored: two bytes and a msgpack body.

    ``reader`` is the number of this release as a reader: it is written as the least reader, and states that demand a
    higher one are refused. ``older`` are the versions without that second byte, with the readers of their bodies.
    """

    def __init__(
        self,
        what: str,
        *,
        version: int,
        reader: int,
        kind: type[_Stored],
        older: Mapping[int, Callable[[memoryview], _Stored]],
    ) -> None:
        self.what: Final = what
        self.version: Final = version
        self.reader: Final = reader
        self.kind: Final = kind
        self._older: Final = older
        self._decoder: Final = msgspec.msgpack.Decoder(kind)
        self._encoder: Final = msgspec.msgpack.Encoder()

    def write(self, state: _Stored) -> bytes:
        """The state in the present version."""
        return bytes((self.version, self.reader)) + self._encoder.encode(state)

    def read(self, blob: bytes) -> _Stored:
        """The inverse of ``write``, for older versions, too.

        Raises:
            SnapshotError: a later release wrote it, or the bytes are damaged.
        """
        version, body = blob[0] if blob else None, memoryview(blob)[1:]
        try:
            if version is not None and version in self._older:
                return self._older[version](body)
            if version == self.version and body:
                least, body = body[0], body[1:]
                if least <= self.reader:
                    return self._decoder.decode(body)
                raise SnapshotError(
                    f"{self.what} version {version} for readers from {least} on, this release is reader {self.reader}"
                )
        except SnapshotError:
            raise
        except _DAMAGE as error:
            raise SnapshotError(f"{self.what} of version {version} is damaged: {error}") from error
        found = "nothing" if version is None else version
        known = " and ".join(map(str, (*self._older, self.version)))
        raise SnapshotError(f"{self.what} version {found}, this release reads versions {known}")
