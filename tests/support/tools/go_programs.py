"""Programs of others that Go builds, once, into the cache of the project."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from groupreplay.streaming.base.files import cache_folder


def place(package: str) -> Path:
    """Where the program of ``MODULE/PATH/NAME@VERSION`` is after a build."""
    path, _, version = package.rpartition("@")
    name = path.rpartition("/")[2]
    return cache_folder() / f"{name}-{version}" / "bin" / name


def go_program(package: str) -> Path:
    """The program of ``MODULE/PATH/NAME@VERSION``, which is built where it is missing; skips the test without Go."""
    program, go = place(package), shutil.which("go")
    if program.exists():
        return program
    if go is None:
        pytest.skip(f"Go is not on this machine, which builds {package}")
    folder = program.parent.parent
    # One process at a time: the machine has other things to do.
    environment = {**os.environ, "GOPATH": str(folder), "GOFLAGS": "-p=1 -modcacherw"}
    command = [go, "install", package]
    built = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if built.returncode:
        pytest.skip(f"{package} could not be built: {built.stderr[-2_000:]}")
    # Sources and objects are ten times the program.
    shutil.rmtree(folder / "pkg", ignore_errors=True)
    return program
