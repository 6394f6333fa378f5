"""Results of a benchmark that are kept in a file while it runs, so that a run that ended goes on."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

_T = TypeVar("_T")


def kept(results: Path | None, kind: type[_T]) -> list[_T]:
    """Those of an earlier run; none without a file."""
    if results is None or not results.exists():
        return []
    return [msgspec.json.decode(line, type=kind) for line in results.read_bytes().splitlines()]


def keep(results: Path | None, result: object) -> None:
    """Adds one; nothing without a file."""
    if results is not None:
        with results.open("ab") as lines:
            lines.write(msgspec.json.encode(result) + b"\n")
