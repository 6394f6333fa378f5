"""Whether everybody can use a page: the rules of axe-core, which npm gives, in a release that a checksum names."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import pytest

from support.pictures.report_pages import OpenedPage

_VERSION: Final = "4.10.3"
#: SHA-256 of the archive of this release.
_DIGEST: Final = "0f2b4d7dcdf7d1219df8d1959ad68e565f51d14c3f0d88bb71cd59abeb956292"
#: A wide screen and a phone, light and dark: settings of a context of the browser.
SCREENS: Final[tuple[dict[str, Any], ...]] = (
    {"viewport": {"width": 1400, "height": 900}, "color_scheme": "light"},
    {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"},
    {"viewport": {"width": 1400, "height": 900}, "color_scheme": "dark"},
    {"viewport": {"width": 390, "height": 844}, "color_scheme": "light"},
)
#: The size of targets is left out unless it is asked for.
_RUN: Final = """axe.run(document, {
  runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
  rules: {"target-size": {enabled: true}},
}).then(found => found.violations.map(rule => [rule.id, ...rule.nodes.map(node => node.html)]))"""


def violations(page: OpenedPage) -> list[list[str]]:
    """The rules that a page violates, each with the elements."""
    page.page.evaluate(_script())
    found: list[list[str]] = page.page.evaluate(_RUN)
    return found


@lru_cache(1)
def _script() -> str:
    folder = Path.home() / ".cache" / "groupreplay"
    archive = folder / f"axe-core-{_VERSION}.tgz"
    if not archive.exists():
        _fetch(archive)
    content = archive.read_bytes()
    assert hashlib.sha256(content).hexdigest() == _DIGEST, f"{archive} is not the release that was published"
    with tarfile.open(archive) as package:
        script = package.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()


def _fetch(archive: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("no npm: the rules of axe-core cannot be fetched")
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
        subprocess.run(
            ["npm", "pack", f"axe-core@{_VERSION}"], cwd=scratch, check=True, capture_output=True, timeout=120
        )
        # Another worker may have it by now.
        (Path(scratch) / archive.name).replace(archive)
