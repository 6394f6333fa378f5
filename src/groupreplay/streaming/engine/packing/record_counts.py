"""The number of records read of each type: one row of numbers for each chunk, which Spark adds up by batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from groupreplay.codecs import REGISTRY
from groupreplay.streaming.engine.packing.binary_columns import BinaryColumn, Ints, integers

#: What the numbers count, in their order: the record types by name, and keys of unknown types.
UNKNOWN: Final = "unknown"
RECORD_TYPES: Final = (*(key.__name__.removesuffix("Key") for key, _ in REGISTRY.values()), UNKNOWN)

#: Key type id -> place of its number; the last two entries are for ids outside the known range.
_PLACES: Final = np.full(max(REGISTRY) + 3, len(RECORD_TYPES) - 1, np.int64)
_PLACES[list(REGISTRY)] = np.arange(len(REGISTRY))


def count_types(keys: BinaryColumn, key_index: Ints) -> list[int]:
    """The number of records of each of ``RECORD_TYPES``; ``key_index`` has the index of each record's key."""
    types = np.full(len(keys), -1, np.int64)
    named = np.flatnonzero(keys.end - keys.start >= 2)
    types[named] = integers(keys.data, keys.start[named], ">i2")
    places = _PLACES[np.where((types >= 0) & (types <= max(REGISTRY)), types, -1)]
    counts: list[int] = np.bincount(places[key_index], minlength=len(RECORD_TYPES)).tolist()
    return counts


def as_counts(sums: Mapping[str, int | None]) -> dict[str, int]:
    """Spark's sums, without the types that did not occur."""
    return {name: count for name, count in sums.items() if count}
