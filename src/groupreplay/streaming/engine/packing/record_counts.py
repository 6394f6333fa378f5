"""The number of records read of each type: one row of numbers for each chunk, which Spark adds up by batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from groupreplay.codecs import REGISTRY
from groupreplay.streaming.engine.packing.binary_columns import BinaryColumn, Ints, integers

if TYPE_CHECKING:
    from pyspark.sql import Column

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


def summed(column: str) -> list[Column]:
    """For Spark: the sum of each number in a column of such lists, some of them null."""
    from pyspark.sql import functions as sql

    numbers = (sql.element_at(sql.col(column), place) for place in range(1, len(RECORD_TYPES) + 1))
    return [sql.sum(one).alias(name) for one, name in zip(numbers, RECORD_TYPES, strict=True)]


def as_counts(sums: Mapping[str, int | None]) -> dict[str, int]:
    """Spark's sums, without the types that did not occur."""
    return {name: count for name, count in sums.items() if count}
