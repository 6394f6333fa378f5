"""Arrow's columns as NumPy arrays, and how much freed memory this process keeps for the next ones.

Memory: with glibc's tunables; without glibc nothing happens.
"""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

#: ``mallopt``'s numbers, from glibc's malloc.h.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
#: One chunk of ``pack`` needs about half of this.
_KEPT_BYTES: Final = 128 << 20
#: Larger blocks come from the system and go back at once. Some releases of glibc refuse more than 32 MB.
_LARGEST_KEPT_BYTES: Final = 32 << 20
_COLLECTED_AFTER: Final = 50_000


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


@cache
def collect_seldom() -> None:
    """Lets the process look for cyclic garbage after so many new objects, in place of 700.

    Records become many objects and hardly a cycle; looking at all of them took 4 % of the CPU time of a replay.
    """
    gc.set_threshold(_COLLECTED_AFTER)


def numbers(column: pa.Array) -> npt.NDArray[Any]:
    """A column of numbers without nulls, without a copy. Arrow's own ``to_numpy`` would import pandas."""
    return np.from_dlpack(column)
