"""Work on many histories in one process or in several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any


@contextmanager
def mapped(processes: int) -> Iterator[Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]]:
    """``map``, or the same by so many processes; results come in the order of what is asked."""
    if processes <= 1:
        yield map
        return
    with get_context("spawn").Pool(processes) as pool:
        yield pool.imap
