"""``prometheus`` and ``promtool``: installed ones, or Debian's package unpacked into the cache without root."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

from groupreplay.streaming.local.cache import cache_folder

_PACKAGE = "prometheus"
_ADVICE = "install the package prometheus (it has promtool, too), or put both on the PATH"


def prometheus_tool(name: str) -> str:
    """The path of ``prometheus`` or ``promtool``; skips the test if there is none."""
    found = shutil.which(name) or _unpacked(name)
    if found is None:
        pytest.skip(f"{name} is not on this machine and could not be fetched: {_ADVICE}")
    return found


def promtool(*words: object, stdin: bytes | None = None) -> str:
    """The output of promtool with these arguments; it must succeed."""
    command = [prometheus_tool("promtool"), *map(str, words)]
    done = subprocess.run(command, input=stdin, capture_output=True, check=False)
    output = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, output
    return output


@cache
def _unpacked(name: str) -> str | None:
    folder = cache_folder() / "prometheus"
    if not (folder / "usr" / "bin" / name).exists() and not _unpack(folder):
        return None
    return str(folder / "usr" / "bin" / name)


def _unpack(folder: Path) -> bool:
    """Downloads and unpacks the package to a temporary folder, then renames it: several tests may do so at once."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return False
    with tempfile.TemporaryDirectory(dir=folder.parent) as beside:
        try:
            command = ["apt-get", "download", _PACKAGE]
            subprocess.run(command, cwd=beside, capture_output=True, check=True, timeout=60)
        except (subprocess.SubprocessError, OSError):
            return False
        archives = list(Path(beside).glob("*.deb"))
        unpacked = Path(beside) / "unpacked"
        subprocess.run(["dpkg-deb", "-x", archives[0], unpacked], check=True, timeout=120)
        try:
            os.rename(unpacked, folder)
        except OSError:
            return folder.exists()  # another test has unpacked it first
    return True
