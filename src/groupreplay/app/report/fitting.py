"""Makes documents of timelines so small that they fit on one page together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from groupreplay.app.report.page import data_island
from groupreplay.timeline.document import TimelineDocument
from groupreplay.timeline.limits import TimelineLimits

#: The size of a page without data: scripts and style.
_SHELL_BYTES: Final = 1_300_000
#: What the data of a page may take, of one group and of all groups: 10 MB and 20 MB with the scripts.
GROUP_BYTES: Final = 10_000_000 - _SHELL_BYTES
ALL_BYTES: Final = 20_000_000 - _SHELL_BYTES
#: The largest and the smallest part of its limits that a document gets in the next attempt.
_NEXT: Final = (0.1, 0.8)
#: After so many attempts the limits are at their least.
_ATTEMPTS: Final = 40


def fitted(
    documents: Sequence[TimelineDocument],
    remake: Callable[[int, TimelineLimits], TimelineDocument],
    limits: TimelineLimits,
    most_bytes: int,
) -> list[TimelineDocument]:
    """The documents in so many bytes together; the largest ones are made again with less of everything.

    ``remake`` makes the document with a number again, within limits. One that does not fit at the least limits is
    returned as it is then.
    """
    sizes = [island_bytes(one) for one in documents]
    most = _largest(sizes, most_bytes)
    return [
        one if size <= most else _smaller(one, number, remake, limits, most)
        for number, (one, size) in enumerate(zip(documents, sizes, strict=True))
    ]


def island_bytes(document: object) -> int:
    """The size of a document on a page; it is ASCII there."""
    return len(data_island(document))


def _largest(sizes: Sequence[int], most_bytes: int) -> int:
    """The size above which documents must shrink, so that all fit: small ones leave their share to the others."""
    left, count = most_bytes, len(sizes)
    for size in sorted(sizes):
        if size * count > left:
            return left // count
        left, count = left - size, count - 1
    return most_bytes


def _smaller(
    document: TimelineDocument,
    number: int,
    remake: Callable[[int, TimelineLimits], TimelineDocument],
    limits: TimelineLimits,
    most_bytes: int,
) -> TimelineDocument:
    for _ in range(_ATTEMPTS):
        size = island_bytes(document)
        if size <= most_bytes:
            break
        tighter = limits.scaled(min(max(most_bytes / size, _NEXT[0]), _NEXT[1]))
        if tighter == limits:
            break
        limits = tighter
        document = remake(number, limits)
    return document
