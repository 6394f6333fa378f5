"""The form of everything that is stored: its first bytes, and how long a text in it may be.

The first bytes are the version of the form, a checksum of all that follows, and which release may read it.

The checksum stands for what the body cannot show: most bytes of a state can be changed into others that make sense, and
a state that was misread would stay wrong until the group ends.

A positional array does not show that it has more fields than its reader knows: msgpack's readers ignore them, and would
write the state back without them. So the last of these bytes is the least *reader* that may read the state, a number
that a release raises whenever it adds something that must not get lost.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, Generic, TypeVar
from zlib import crc32

import msgspec

#: The versions of all kinds of states. Those of later releases differ from each in two bits or more.
VERSIONS: Final = frozenset({0x01, 0xF0})
#: Characters of a text that is longer in the log: metadata of an offset, names in the history of a slot.
MOST_CHARACTERS: Final = 256
_DIGEST_BYTES: Final = 8
_CHECKSUM_BYTES: Final = 4

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


class DamagedStateError(SnapshotError):
    """A stored state whose bytes are not those that any release has written: nothing can read it any more."""


class StoredForm(Generic[_Stored]):
    """How one kind of state is stored: a byte, a checksum, a byte, and a msgpack body.

    ``reader`` is the number of this release as a reader: it is written as the least reader, and states that demand a
    higher one are refused. ``version`` changes only where fields at the end do not suffice; it then differs in two bits
    from the versions before and from those of other kinds, so that no flipped bit makes one of another. What follows
    the version begins with the checksum in every version: so a state of another release is told from a damaged one.
    """

    def __init__(self, what: str, *, version: int, reader: int, kind: type[_Stored]) -> None:
        self.what: Final = what
        self.version: Final = version
        self.reader: Final = reader
        self.kind: Final = kind
        self._decoder: Final = msgspec.msgpack.Decoder(kind)
        self._encoder: Final = msgspec.msgpack.Encoder()

    def write(self, state: _Stored) -> bytes:
        """The state in the present version."""
        return sealed(self.version, self.reader, self._encoder.encode(state))

    def read(self, blob: bytes) -> _Stored:
        """The inverse of ``write``.

        Raises:
            DamagedStateError: the bytes are damaged.
            SnapshotError: a later release wrote it.
        """
        if not blob:
            raise DamagedStateError(f"{self.what} is damaged: it has no bytes")
        try:
            return self._read_checked(blob[0], memoryview(blob)[1:])
        except SnapshotError:
            raise
        except _DAMAGE as error:
            raise DamagedStateError(f"{self.what} of version {blob[0]} is damaged: {error}") from error

    def _read_checked(self, version: int, rest: memoryview) -> _Stored:
        checked = rest[_CHECKSUM_BYTES:]
        if crc32(checked) != int.from_bytes(rest[:_CHECKSUM_BYTES], "big"):
            raise ValueError("its bytes do not have its checksum")
        if not checked:
            raise ValueError("it ends after its version")
        if version != self.version:
            if any((version ^ one).bit_count() < 2 for one in VERSIONS | {self.version}):
                raise ValueError(
                    f"no release writes this version, which is a bit off {self.version} or another one"
                )
            raise SnapshotError(f"{self.what} version {version}, this release reads version {self.version}")
        least = checked[0]
        if least > self.reader:
            raise SnapshotError(
                f"{self.what} for readers from {least} on, this release is reader {self.reader}"
            )
        return self._decoder.decode(checked[1:])


def sealed(version: int, least_reader: int, body: bytes) -> bytes:
    """A stored state: the bytes before its body, and the body."""
    least = bytes((least_reader,))
    checksum = crc32(body, crc32(least))
    return b"".join((bytes((version,)), checksum.to_bytes(_CHECKSUM_BYTES, "big"), least, body))
