"""How many records of each type were read: one row of numbers for each chunk, added up for each batch.

Knows the order of the numbers and their names; must not know what a record says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from groupreplay.codecs import REGISTRY
from groupreplay.streaming.engine.binary_columns import BinaryColumn, Ints, integers

if TYPE_CHECKING:
    from pyspark.sql import Column

#: What the numbers are about, in their order: the record types by their name, and keys that name none of them.
UNKNOWN: Final = "unknown"
RECORD_TYPES: Final = (*(key.__name__.removesuffix("Key") for key, _ in REGISTRY.values()), UNKNOWN)

#: Key type id -> place of its number; the last two places are for ids that are not in between.
_PLACES: Final = np.full(max(REGISTRY) + 3, len(RECORD_TYPES) - 1, np.int64)
_PLACES[list(REGISTRY)] = np.arange(len(REGISTRY))


def count_types(keys: BinaryColumn, key_index: Ints) -> list[int]:
    """How many records there are of each of ``RECORD_TYPES``; ``key_index`` says which key each record has."""
    types = np.full(len(keys), -1, np.int64)
    named = np.flatnonzero(keys.end - keys.start >= 2)
    types[named] = integers(keys.data, keys.start[named], ">i2")
    places = _PLACES[np.where((types >= 0) & (types <= max(REGISTRY)), types, -1)]
    counts: list[int] = np.bincount(places[key_index], minlength=len(RECORD_TYPES)).tolist()
    return counts


def added_up(column: str) -> list[Column]:
    """For Spark: the sum of each number in a column of such lists, null where a row has none."""
    from pyspark.sql import functions as sql

    numbers = (sql.element_at(sql.col(column), place) for place in range(1, len(RECORD_TYPES) + 1))
    return [sql.sum(one).alias(name) for one, name in zip(numbers, RECORD_TYPES, strict=True)]


def as_counts(sums: Mapping[str, int | None]) -> dict[str, int]:
    """What Spark has added up, without the types that were not there."""
    return {name: count for name, count in sums.items() if count}
