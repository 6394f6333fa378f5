"""What the process keeps of the memory that it has freed."""

from __future__ import annotations

import ctypes

import pytest

from groupreplay.streaming.engine.allocator import keep_freed_memory


def test_two_numbers_are_set_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Glibc is told both thresholds: setting one alone would leave the other one to grow and shrink."""
    told: list[tuple[int, int]] = []

    class Library:
        """A C library as ctypes shows it."""

        def __init__(self, name: str | None) -> None:
            assert name is None

        def mallopt(self, number: int, value: int) -> int:
            """Notes what it is told."""
            told.append((number, value))
            return 1

    monkeypatch.setattr(ctypes, "CDLL", Library)
    keep_freed_memory.cache_clear()
    keep_freed_memory()
    keep_freed_memory()
    keep_freed_memory.cache_clear()
    assert told == [(-1, 128 << 20), (-3, 32 << 20)]


def test_another_c_library_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Musl and macOS have no ``mallopt``: everything works as before."""
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    keep_freed_memory.cache_clear()
    keep_freed_memory()
    keep_freed_memory.cache_clear()
