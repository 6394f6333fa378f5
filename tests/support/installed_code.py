"""Whether the code that is tested is the code of the checkout."""

from __future__ import annotations

from filecmp import cmp
from pathlib import Path


def differing_modules(package: Path, checkout: Path) -> list[str]:
    """The modules that are not the same in the installed package and in the checkout, by their path in both."""
    sources = checkout / "src" / "groupreplay"
    if package.resolve() == sources.resolve():
        return []
    names = {path.relative_to(root).as_posix() for root in (package, sources) for path in root.rglob("*.py")}
    return sorted(name for name in names if not _same(package / name, sources / name))


def _same(installed: Path, source: Path) -> bool:
    return installed.is_file() and source.is_file() and cmp(installed, source, shallow=False)
