"""Memory that was freed: kept between chunks, given back once when a load has ended."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator

import pytest

from groupreplay.streaming.base import memory
from groupreplay.streaming.base.memory import FreedMemory, keep_freed_memory


@pytest.fixture(autouse=True)
def fresh_process() -> Iterator[None]:
    """A process that has not set anything yet, before and after the test."""
    keep_freed_memory.cache_clear()
    yield
    keep_freed_memory.cache_clear()


def test_two_numbers_are_set_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both thresholds are set: setting only one would leave the other to grow and shrink."""
    calls: list[tuple[int, int]] = []

    class Library:
        """A C library as ctypes shows it."""

        def __init__(self, name: str | None) -> None:
            assert name is None

        def mallopt(self, number: int, value: int) -> int:
            """Records the call."""
            calls.append((number, value))
            return 1

    monkeypatch.setattr(ctypes, "CDLL", Library)
    keep_freed_memory()
    keep_freed_memory()
    assert calls == [(-1, 128 << 20), (-3, 32 << 20)]


def test_another_c_library_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Musl and macOS have no ``mallopt``: everything works as before."""
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    keep_freed_memory()


def test_it_is_given_back_once_when_a_load_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not within a load, not after each piece of work that is small; at the first one, for what imports have left."""
    released: list[int] = []
    freed = FreedMemory(100)
    for number, work in enumerate((5, 0, 100, 500, 3, 0, 99, 100, 0)):
        monkeypatch.setattr(memory, "_release", lambda number=number: released.append(number))
        freed.note(work)
    assert released == [0, 4, 8]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc alone keeps memory so")
def test_the_system_gets_it_back() -> None:
    """Of 100 MB in small blocks that were freed below one that lives, most are no longer resident afterwards."""
    code = (
        "import os\nfrom groupreplay.streaming.base.memory import FreedMemory, keep_freed_memory\n"
        "def resident(): return int(open('/proc/self/statm').read().split()[1]) * os.sysconf('SC_PAGE_SIZE') >> 20\n"
        "import pyarrow\nkeep_freed_memory()\n"
        "before = resident()\nblocks = [bytearray(4000) for _ in range(25_000)]\nlast = bytearray(4000)\n"
        "blocks.clear()\nkept = resident() - before\nFreedMemory(1).note(0)\nprint(kept, resident() - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    kept, left = map(int, done.stdout.split())
    assert kept > 80
    assert left < 20
