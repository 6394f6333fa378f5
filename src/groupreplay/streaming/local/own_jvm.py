"""The folder and the processes of the JVM that this process starts: both are gone when it ends, however it ends."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from groupreplay.streaming.base.ending import at_the_end
from groupreplay.streaming.local.process_table import PARENT, STATE, stat_fields

_GONE_SECONDS: Final = 0.4
_POLL_SECONDS: Final = 0.01


@contextmanager
def jvm_folder() -> Iterator[Path]:
    """The folder for temporary files of the JVM that the block starts; afterwards it is removed.

    If the process ends at once, the JVM and everything that it has started are killed, and the folder is removed.
    """
    folder = Path(tempfile.mkdtemp(prefix="groupreplay-spark-"))
    try:
        with at_the_end(partial(end_jvm, folder)):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def temporary_files_in(folder: Path) -> Iterator[None]:
    """Python's temporary files are below ``folder``: PySpark makes one for the address of the JVM."""
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before


def end_jvm(folder: Path | None = None) -> None:
    """Kills what this process has started and is in its session, with all its descendants, and removes the folder.

    A ``GuardedProcess`` has a session of its own. Without a /proc nothing is killed: there the JVM ends by itself,
    because its standard input does.
    """
    pids = _descendants()
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + _GONE_SECONDS
    while any(map(_runs, pids)) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def _descendants() -> list[int]:
    own, session = os.getpid(), os.getsid(0)
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            pid = int(entry.name)
            if os.getsid(pid) == session:
                parents[pid] = int(stat_fields(pid)[PARENT])
    found = [own]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found[1:]


def _runs(pid: int) -> bool:
    with suppress(OSError):
        return stat_fields(pid)[STATE] != "Z"
    return False
