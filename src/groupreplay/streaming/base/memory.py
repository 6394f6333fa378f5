"""Memory that a process has freed: kept while there is more to do, given back to the system afterwards."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from functools import cache
from typing import Final

#: ``mallopt``'s numbers, from glibc's malloc.h.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
#: One chunk of ``pack`` needs about half of this.
_KEPT_BYTES: Final = 128 << 20
#: Larger blocks come from the system and go back at once. Some releases of glibc refuse more than 32 MB.
_LARGEST_KEPT_BYTES: Final = 32 << 20


@cache
def keep_freed_memory() -> None:
    """Lets the process keep up to 128 MB of freed memory between chunks.

    The system maps and zeroes every page that it hands out again: with glibc's own thresholds that took half of the
    time of ``pack``. The peak of the memory stays the same.
    """
    with suppress(OSError, AttributeError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_KEPT_BYTES)


class FreedMemory:
    """Gives freed memory back once, when much work is followed by little; a long load is not slowed down."""

    def __init__(self, much: int) -> None:
        self._much = much
        #: What was imported has left some as well.
        self._is_kept = True

    def note(self, work: int) -> None:
        """After a piece of work of this size; in the thread that has done it, which has Arrow's memory."""
        if work >= self._much:
            self._is_kept = True
        elif self._is_kept:
            self._is_kept = False
            _release()


def _release() -> None:
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
