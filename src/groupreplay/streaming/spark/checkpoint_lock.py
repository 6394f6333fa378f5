"""The lock of a checkpoint in a local folder: two files, because a driver and its JVM may each outlive the other.

A JVM without its driver still writes a batch; a driver without its JVM still says in ``group-job`` how it ended.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Final, Protocol

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, UnwritableError
from groupreplay.streaming.spark.checkpoint_errors import unwritable, writing

log = logging.getLogger(__name__)

#: Locked by the JVM; says which job that is.
LOCK_FILE: Final = "groupreplay.lock"
#: Locked by the driver. A file of its own, because on NFS a lock of the JVM keeps its own driver out, too.
DRIVER_FILE: Final = "groupreplay-driver.lock"
_HELD_BY_OTHER: Final = {errno.EACCES, errno.EAGAIN}


class Lock(Protocol):
    """The right to work on a checkpoint, for one driver and its JVM."""

    def take(self) -> bool:
        """Whether this process holds the lock now, which it tries to take."""

    def owner(self) -> str:
        """Who holds it, as that process has written there."""


class OpenLock:
    """The lock of a file system without locks: always held."""

    def take(self) -> bool:
        """Always true."""
        return True

    def owner(self) -> str:
        """Nobody is known."""
        return "unknown"


class CheckpointLock:
    """The lock of the files that the JVM and the driver have open."""

    def __init__(self, jvm_file: Any, driver_file: int) -> None:
        self._jvm_file, self._driver_file = jvm_file, driver_file
        self._driver_holds = self._jvm_holds = False

    def take(self) -> bool:
        """Whether both hold their locks now, which they try to take."""
        self._driver_holds = self._driver_holds or _taken(self._driver_file)
        if self._driver_holds and not self._jvm_holds and self._taken_by_jvm():
            self._jvm_holds = True
            # The lock holds without this note, which a full disk may refuse.
            with contextlib.suppress(UnwritableError), writing(str(self._jvm_file)):
                self._jvm_file.setLength(0)
                self._jvm_file.writeBytes(f"host {socket.gethostname()}, process {os.getpid()}\n")
        return self._jvm_holds

    def owner(self) -> str:
        """Who holds it, as that process has written there."""
        self._jvm_file.seek(0)
        return str(self._jvm_file.readLine() or "unknown")

    def _taken_by_jvm(self) -> bool:
        from py4j.protocol import Py4JJavaError

        try:
            return self._jvm_file.getChannel().tryLock() is not None
        except Py4JJavaError as error:
            # The same JVM already holds it: two jobs in one process.
            if "OverlappingFileLockException" in str(error.java_exception):
                return False
            raise


def _taken(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD_BY_OTHER:
            return False
        log.warning(
            "the driver cannot lock %s: %s; only the lock of the JVM protects the checkpoint",
            DRIVER_FILE,
            error.strerror,
        )
    return True


@contextlib.contextmanager
def opened_lock(jvm: Any, folder: Path, location: str) -> Iterator[CheckpointLock]:
    """The lock of a local folder, which is not taken yet; gives it back in the end.

    Raises:
        UnwritableError: its files cannot be made.
    """
    with contextlib.ExitStack() as stack:
        # Not within `writing`: there, an OSError is the end of the JVM.
        try:
            driver_file = _private_file(folder / DRIVER_FILE)
            # The JVM opens it again: so it has this mode from its beginning.
            os.close(_private_file(folder / LOCK_FILE))
        except OSError as error:
            raise unwritable(str(error.strerror), location) from None
        stack.callback(os.close, driver_file)
        with writing(location):
            jvm_file = jvm.java.io.RandomAccessFile(str(folder / LOCK_FILE), "rw")
        stack.callback(jvm_file.close)
        yield CheckpointLock(jvm_file, driver_file)


def in_use(location: str, owner: str) -> GroupReplayError:
    """The error for a checkpoint that another job holds."""
    return GroupReplayError(
        "another job is using this checkpoint",
        where=location,
        fix=f"stop it (its owner: {owner}), or use another --checkpoint",
        exit_code=ExitCode.USAGE,
    )


def _private_file(path: Path) -> int:
    """The file, opened; whoever can read a file can lock it, and so keep the job from starting."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    # Of an earlier release, or of another owner.
    with contextlib.suppress(OSError):
        os.fchmod(file, 0o600)
    return file


def holder_of(folder: Path) -> str | None:
    """Whose driver or JVM has locked the folder, for a process without a JVM; None: nobody's.

    ``lockf`` is compatible with the file locks of Java.
    """
    note = folder / LOCK_FILE
    if not note.exists():
        return None
    if _is_locked(note, fcntl.lockf) or has_driver(folder):
        return note.read_text().strip() or "by an unknown job"
    return None


def has_driver(folder: Path) -> bool:
    """Whether a driver has locked the folder; it ends within seconds once it is asked to, its JVM may take longer."""
    return _is_locked(folder / DRIVER_FILE, fcntl.flock)


def _is_locked(path: Path, lock: Callable[[IO[str], int], None]) -> bool:
    try:
        with path.open("r+") as file:
            lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False
