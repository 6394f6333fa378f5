"""A copy of the project's sources, in which a test may plant offences or build the wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from support.paths import ROOT

_IDENTITY = ("-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "commit.gpgsign=false")
#: The time of each commit here, in seconds since 1970.
COMMITTED = 1_769_824_800


def copy_project(folder: Path) -> Path:
    """Copies everything that the wheel is built from to a new folder, and returns the folder."""
    folder.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    # Other tests may write compiled modules at the same time.
    leave_out = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", folder / "src", ignore=leave_out)
    return folder


def commit_all(folder: Path) -> None:
    """Makes a repository of the folder with one commit of everything that .gitignore does not exclude."""
    subprocess.run(["git", "init", "--quiet", "."], cwd=folder, check=True)
    subprocess.run(["git", "add", "--all", "."], cwd=folder, check=True)
    environment = os.environ | {"GIT_COMMITTER_DATE": f"{COMMITTED} +0000"}
    command = ["git", *_IDENTITY, "commit", "--quiet", "-m", "a commit"]
    subprocess.run(command, cwd=folder, check=True, env=environment)
