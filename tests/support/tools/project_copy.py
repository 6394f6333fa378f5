"""A copy of the project's sources, in which a test may plant offences or build the wheel."""

from __future__ import annotations

import shutil
from pathlib import Path

from support.paths import ROOT
from support.tools.source_checks import ROOMS


def copy_project(folder: Path) -> Path:
    """Copies everything that the wheel is built from to a new folder, and returns the folder."""
    folder.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    # Other tests may write compiled modules at the same time.
    leave_out = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("src", *ROOMS):
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=leave_out)
    return folder
