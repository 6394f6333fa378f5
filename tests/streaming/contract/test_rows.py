"""The memory that this process keeps between chunks of rows."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest

from groupreplay.streaming.contract.rows import keep_freed_memory


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
