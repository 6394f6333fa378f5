"""The memory allocator of this process: how much of what was freed it keeps for the next chunk.

Knows glibc's tunables; must not know what the memory is for. Where there is no glibc nothing happens.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from functools import cache
from typing import Final

#: ``mallopt``'s numbers, from glibc's malloc.h.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
#: One chunk of ``pack`` needs about half of it.
_KEPT_BYTES: Final = 128 << 20
#: What is larger comes from the system and goes back at once. More than 32 MB some releases of glibc refuse.
_LARGEST_KEPT_BYTES: Final = 32 << 20


@cache
def keep_freed_memory() -> None:
    """Lets the process keep up to 128 MB that it has freed, instead of giving them back after each chunk.

    A page that comes back from the system must be mapped and zeroed again: with glibc's own thresholds half of
    the time of ``pack`` went there. The peak of the memory stays the same.
    """
    with suppress(OSError, AttributeError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_KEPT_BYTES)
