"""A small disk of its own, which a test fills, or makes read-only, while a job writes to it."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, mebibytes: int) -> Iterator[Path]:
    """A folder on a file system of this size; skips the test where nothing may be mounted."""
    folder.mkdir()
    if sys.platform != "linux" or _call("mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", folder):
        pytest.skip("a small disk needs Linux and the right to mount a tmpfs")
    try:
        yield folder
    finally:
        # A process that ends a moment later may still have files open.
        _call("umount", "-l", folder)


@contextmanager
def filled(disk: Path) -> Iterator[None]:
    """No space is left on the disk while the block runs."""
    rest = disk / "filler"
    with rest.open("wb", buffering=0) as file:
        size = 1 << 20
        while size:
            try:
                file.write(bytes(size))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                size //= 2
    try:
        yield
    finally:
        rest.unlink()


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Everything that is opened in the folder while the block runs is read-only, as after an error of the disk.

    A mount above the folder: the kernel refuses a new mode for a disk on which a file is open for writing. It is made
    beside the folder, where nobody opens a file before it is read-only, and keeps its mode when it is mounted above.
    """
    mode = folder.with_name(f"{folder.name}-read-only")
    mode.mkdir()
    assert _call("mount", "--bind", folder, mode) == 0
    assert _call("mount", "-o", "remount,ro,bind", mode) == 0
    assert _call("mount", "--bind", mode, folder) == 0
    try:
        with pytest.raises(OSError, match="Read-only"):
            (folder / "tried").touch()
        yield
    finally:
        with suppress(OSError):
            _call("umount", "-l", folder)
        _call("umount", "-l", mode)
        mode.rmdir()


def _call(*words: object) -> int:
    return subprocess.run(list(map(str, words)), capture_output=True, check=False).returncode
