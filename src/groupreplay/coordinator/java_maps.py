"""The order of Java's and Kafka's hash tables, on which Kafka's coordinator depends where it goes through members.

It decides who leads, who gets which partition, which of two tied votes wins, and the order of records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from math import ceil
from typing import Generic, TypeVar

from groupreplay.codecs.kafka_terms import java_hash

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_LOAD_FACTOR = 0.75
#: The multiplier of ``BaseHashTable.findSlot``.
_GOLDEN = -7046029254386353131
_64_BITS = 2**64 - 1


def uuid_hash(topic_id: bytes) -> int:
    """``hashCode`` of Kafka's ``Uuid`` of these 16 bytes."""
    both = int.from_bytes(topic_id[:8], "big") ^ int.from_bytes(topic_id[8:], "big")
    return (both >> 32 ^ both) & 0xFFFFFFFF


class HashOrder(Generic[_Key]):
    """The keys of a ``HashMap`` in its order: by bucket, in a bucket in the order of insertion.

    It grows with its keys and does not shrink. Buckets of eight keys, which Java makes trees, are not modelled.
    """

    def __init__(
        self, hash_of: Callable[[_Key], int], keys: Iterable[_Key] = (), *, buckets: int = 16
    ) -> None:
        self._hash_of = hash_of
        self._keys: dict[_Key, None] = {}
        self._buckets = buckets
        for key in keys:
            self.add(key)

    def add(self, key: _Key) -> None:
        """Put a key; a key that is there keeps its place."""
        self._keys[key] = None
        while len(self._keys) > self._most:
            self._buckets *= 2

    @property
    def _most(self) -> int:
        return int(self._buckets * _LOAD_FACTOR)

    def compute(self, key: _Key) -> None:
        """Insert a key as ``compute`` does: as the first one of its bucket, and it grows only before that."""
        if key not in self._keys:
            if len(self._keys) > self._most:
                self._buckets *= 2
            self._keys = {key: None, **self._keys}

    def discard(self, key: _Key) -> None:
        """Remove a key if it is there."""
        self._keys.pop(key, None)

    def __iter__(self) -> Iterator[_Key]:
        return iter(sorted(self._keys, key=self._bucket))

    def _bucket(self, key: _Key) -> int:
        value = self._hash_of(key) & 0xFFFFFFFF
        return (value ^ value >> 16) & (self._buckets - 1)


def buckets_for(size: int, *, java_release: int = 17) -> int:
    """The buckets of a ``HashMap`` that is made as a copy of a map of this size.

    Before Java 19 a copy of three, or six, or twelve keys has twice the buckets that it needs (JDK-8281631).
    """
    if size == 0:
        return 16
    least = int(size / _LOAD_FACTOR) + 1 if java_release < 19 else ceil(size / _LOAD_FACTOR)
    return 1 << (least - 1).bit_length()


class TimelineMap(MutableMapping[str, _Value]):
    """A map in the order of Kafka's ``TimelineHashMap``: by slot, in a slot the last one comes first.

    It may grow with each assignment, also of a key that is there, and does not shrink: not even where it goes back to
    a copy, which stands for Kafka's snapshot.
    """

    __slots__ = ("_before", "_slots", "_touched", "_values")

    def __init__(self) -> None:
        self._values: dict[str, _Value] = {}
        self._slots: list[list[str]] = [[], []]
        #: The last copy, and its keys that were assigned or deleted since then.
        self._before: TimelineMap[_Value] | None = None
        self._touched: dict[str, None] = {}

    def __copy__(self) -> TimelineMap[_Value]:
        copied: TimelineMap[_Value] = TimelineMap()
        copied._values = dict(self._values)
        copied._slots = [list(slot) for slot in self._slots]
        self._before, self._touched = copied, {}
        return copied

    def reverted(self, before: TimelineMap[_Value]) -> TimelineMap[_Value]:
        """The map with the content of its last copy, in Kafka's order (``SnapshottableHashTable.executeRevert``).

        What was changed since then is put anew, in the order of a table of its own. A map that is another one than
        that of the copy is the copy.
        """
        if self._before is not before:
            return before
        self._before, touched = None, self._touched
        for key in [key for key in self._values if key in touched or key not in before]:
            del self[key]
        changed: TimelineMap[None] = TimelineMap()
        for key in touched:
            changed[key] = None
        for slot in changed._slots:
            for key in slot:
                self[key] = before[key]
        return self

    def _touch(self, key: str) -> None:
        if self._before is not None and key in self._before:
            self._touched[key] = None

    def __getitem__(self, key: str) -> _Value:
        return self._values[key]

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __setitem__(self, key: str, value: _Value) -> None:
        if (len(self._values) + 1) * _LOAD_FACTOR > len(self._slots):
            self._grow()
        if key not in self._values:
            self._slots[self._slot(key)].append(key)
        self._values[key] = value
        self._touch(key)

    def __delitem__(self, key: str) -> None:
        del self._values[key]
        self._touch(key)
        self._slots[self._slot(key)].remove(key)

    def __iter__(self) -> Iterator[str]:
        for slot in self._slots:
            yield from reversed(slot)

    def __len__(self) -> int:
        return len(self._values)

    def _grow(self) -> None:
        keys = [key for slot in self._slots for key in slot]
        self._slots = [[] for _ in range(2 * len(self._slots))]
        for key in keys:
            self._slots[self._slot(key)].append(key)

    def _slot(self, key: str) -> int:
        bits = len(self._slots).bit_length() - 1
        return (java_hash(key) * _GOLDEN & _64_BITS) >> (64 - bits)


def scala_map_order(keys: Iterable[str], buckets: int = 16) -> list[str]:
    """The order of Scala's mutable ``HashMap``: by bucket, in a bucket by hash."""

    def place(name: str) -> tuple[int, int]:
        value = java_hash(name) & 0xFFFFFFFF
        value ^= value >> 16
        return value & (buckets - 1), value - 2**32 if value >= 2**31 else value

    return sorted(keys, key=place)


def scala_trie_order(keys: Iterable[str]) -> list[str]:
    """The order of Scala's immutable ``HashMap``: in each node first its own keys, then those of its nodes."""
    return _in_node([(_improved(name), name) for name in keys], 0)


def _in_node(keys: list[tuple[int, str]], shift: int) -> list[str]:
    if len(keys) < 2 or shift > 30:
        return [name for _, name in keys]
    places: dict[int, list[tuple[int, str]]] = {}
    for digest, name in keys:
        places.setdefault(digest >> shift & 31, []).append((digest, name))
    inner = [places[place] for place in sorted(places)]
    own = [entries[0][1] for entries in inner if len(entries) == 1]
    return own + [name for entries in inner if len(entries) > 1 for name in _in_node(entries, shift + 5)]


def _improved(name: str) -> int:
    """``scala.collection.Hashing.improve``."""
    value = java_hash(name) & 0xFFFFFFFF
    value = value + (~(value << 9) & 0xFFFFFFFF) & 0xFFFFFFFF
    value ^= value >> 14
    value = value + (value << 4) & 0xFFFFFFFF
    return value ^ value >> 10
