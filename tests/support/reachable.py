"""A folder that every user of this machine can enter, which one of pytest is not: modes of files in it count."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def reachable_folder() -> Iterator[Path]:
    """It is removed in the end; skips the test where temporary files are private."""
    folder = Path(tempfile.mkdtemp(prefix="groupreplay-modes-")).resolve()
    try:
        if not all(above.stat().st_mode & stat.S_IXOTH for above in folder.parents):
            pytest.skip(f"{folder.parent} cannot be entered by every user")
        folder.chmod(0o755)
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def other_umask(mask: int) -> Iterator[None]:
    """Another umask of this process, for a while."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)
