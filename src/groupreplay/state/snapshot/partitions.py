"""Sets of partitions, as lists and as short texts like ``0-3,7``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

#: A set holds at most this many partitions; no topic has nearly as many.
MOST_PARTITIONS: Final = 100_000


def to_ranges(partitions: Iterable[int]) -> str:
    """Partitions as ranges: ``[0, 1, 2, 3, 7]`` becomes ``0-3,7``; sorted, without repeats.

    What a client can assign to itself, but what cannot be, is left out: numbers below zero, and the highest numbers
    beyond ``MOST_PARTITIONS``.
    """
    ranges: list[list[int]] = []
    for partition in sorted(one for one in set(partitions) if one >= 0)[:MOST_PARTITIONS]:
        if ranges and partition == ranges[-1][1] + 1:
            ranges[-1][1] = partition
        else:
            ranges.append([partition, partition])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


def from_ranges(text: str) -> list[int]:
    """The inverse of ``to_ranges``."""
    partitions: list[int] = []
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        partitions.extend(range(int(low), int(high or low) + 1))
    return partitions


def each(assignment: Mapping[str, str] | None) -> Iterator[tuple[str, int]]:
    """Every (topic, partition) of partitions by topic as ranges."""
    for topic, ranges in (assignment or {}).items():
        for partition in from_ranges(ranges):
            yield topic, partition


def by_topic(pairs: Iterable[tuple[str, int]]) -> dict[str, str]:
    """The inverse of ``each``: topics in sorted order."""
    topics: dict[str, list[int]] = {}
    for topic, partition in pairs:
        topics.setdefault(topic, []).append(partition)
    return {topic: to_ranges(topics[topic]) for topic in sorted(topics)}


def keys_of(topics: npt.NDArray[Any], partitions: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Places of topics and partitions, each pair in one number that sorts as they do."""
    return (topics.astype(np.int64) << 32) | partitions.astype(np.int64)
