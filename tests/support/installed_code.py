"""Whether the code that is tested is the code of the checkout."""

from __future__ import annotations

from filecmp import cmp
from pathlib import Path

from support.tools.source_checks import ROOMS


def differing_modules(package: Path, checkout: Path) -> list[str]:
    """The modules that are not the same in the installed package and in the checkout, by their path in both."""
    if package.resolve() == (checkout / "src" / "groupreplay").resolve():
        return []
    names = {
        path.relative_to(root).as_posix()
        for root in (package, checkout)
        for room in ROOMS
        for path in (root / room).rglob("*.py")
    }
    return sorted(name for name in names if not _same(package / name, checkout / name))


def _same(one: Path, other: Path) -> bool:
    return one.is_file() and other.is_file() and cmp(one, other, shallow=False)
