"""Spark's files in a checkpoint: whether a query has run on it, and whether the files are complete.

Spark writes what a batch will read into ``offsets``, its result into ``state``, and then the batch into
``commits``: at most one batch is in the first and not in the last.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, Protocol

import msgspec

from groupreplay.streaming.base.errors import (
    ExitCode,
    GroupReplayError,
    UnreachableError,
    UnwritableError,
    unusable,
)
from groupreplay.streaming.run.identity import NEW_CHECKPOINT, Identity, damaged

log = logging.getLogger(__name__)


_FOLDERS: Final = ("offsets", "commits", "state")
_VERSION: Final = re.compile(r"v\d+")
#: A source of version 2; JSON itself never has a colon behind its first word.
_NAMED_SOURCE: Final = re.compile(r"[\w.-]+:(?=[-{])")


@dataclass(frozen=True, slots=True)
class SparkFiles:
    """Access to the files by names like ``offsets/7``; ``text`` raises ValueError for a file that cannot be read."""

    exists: Callable[[str], bool]
    numbers: Callable[[str], list[int]]
    text: Callable[[str], str]


class Damage(NamedTuple):
    """A fault, and the file that has it."""

    what: str
    name: str


def in_folder(folder: Path) -> SparkFiles:
    """The files in a local folder."""
    return SparkFiles(
        exists=lambda name: (folder / name).exists(),
        numbers=lambda name: sorted(
            int(file.name) for file in folder.glob(f"{name}/*") if file.name.isdigit()
        ),
        text=lambda name: (folder / name).read_text("utf-8"),
    )


def has_run(files: SparkFiles) -> bool:
    """Whether a query has run on this checkpoint."""
    return any(map(files.exists, _FOLDERS))


def damage(files: SparkFiles) -> Damage | None:
    """A fault that would make Spark start again from nothing, go back silently, or fail without naming the file."""
    if not has_run(files):
        return None
    if not files.exists("metadata"):
        return Damage("the checkpoint has lost its metadata file", "metadata")
    planned, finished = files.numbers("offsets"), files.numbers("commits")
    last = finished[-1] if finished else -1
    missing = [f"offsets/{last}"] if finished and last not in planned else []
    missing += [f"commits/{planned[-1] - 1}"] if planned and planned[-1] > last + 1 else []
    missing += ["state"] if finished and not files.exists("state") else []
    if missing:
        return Damage("the checkpoint is damaged: this is missing", missing[0])
    present = [
        "metadata",
        *(f"offsets/{one}" for one in planned[-2:]),
        *(f"commits/{one}" for one in finished[-1:]),
    ]
    reasons = ((name, _unreadable(files, name)) for name in present)
    return next((Damage(f"the checkpoint is damaged: {why}", name) for name, why in reasons if why), None)


def refuse_damage(known: Identity | None, location: str, files: SparkFiles) -> None:
    """Checks that the files of a checkpoint are complete.

    Raises:
        GroupReplayError: it was not made by groupreplay, or is damaged.
    """
    if known is None and has_run(files):
        raise unusable("the checkpoint was not made by groupreplay", location, NEW_CHECKPOINT)
    found = damage(files)
    if found is not None:
        raise damaged(f"{location}/{found.name}", found.what)


def source_line(line: str) -> str:
    """A line of a log of Spark without the number or name of its source, which version 2 puts before the JSON.

    The lines of version 2 (Spark 4.2, ``spark.sql.streaming.offsetLog.formatVersion=2``) have no order.
    """
    named = _NAMED_SOURCE.match(line)
    return line[named.end() :] if named else line


def _unreadable(files: SparkFiles, name: str) -> str | None:
    """Why a file is damaged; None for one that has a line with its version and then lines of JSON."""
    try:
        lines = [line for line in files.text(name).splitlines() if not _VERSION.fullmatch(line)]
        for line in map(source_line, lines):
            # A hyphen stands for a source that was not read yet.
            if line != "-":
                msgspec.json.decode(line)
    except (ValueError, RecursionError) as error:
        return str(error)
    return None if lines else "it holds nothing"


@contextmanager
def writing(location: str) -> Iterator[None]:
    """Turns an error of the file system into one that names the folder; the job may wait for its end."""
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        raise unwritable(_reason(str(error.java_exception.getMessage())), location) from None


def unwritable(reason: str, location: str) -> UnwritableError:
    """The error for a folder that cannot be written; ``reason`` in the system's words."""
    return UnwritableError(
        f"the checkpoint cannot be written: {reason}",
        where=location,
        fix="check that its disk is there, has space, is not read-only, and that this user may write there",
        exit_code=ExitCode.USAGE,
    )


@contextmanager
def opening(location: str) -> Iterator[None]:
    """Turns an error of a file system that cannot be set up into one with its words.

    They are asked for at once: py4j asks the JVM for them, which has ended when the job prints an error.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        words = error.java_exception.toString() if isinstance(error, Py4JJavaError) else str(error)
        raise unusable(
            f"the file system of the checkpoint cannot be used: {words.splitlines()[0]}",
            location,
            "for a class that is not found add the jars of this file system to Spark, all of one release (for S3: "
            "org.apache.hadoop:hadoop-aws of the Hadoop in this Spark, by spark.jars.packages); else correct the "
            "address and its settings",
        ) from None


@contextmanager
def reading(location: str, *, is_local: bool) -> Iterator[None]:
    """The same for reads, if the file system is on other machines: it may answer again.

    Errors of a local disk stay what they are, and so does a wrong checksum: both are damage.
    """
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        if is_local or "ChecksumException" in error.java_exception.toString():
            raise
        raise UnreachableError(
            f"the checkpoint cannot be read: {_reason(str(error.java_exception.getMessage()))}",
            where=location,
            fix="check that its file system answers, and that this login may read there",
            exit_code=ExitCode.CONNECTION,
        ) from None


def _reason(message: str) -> str:
    """The system's words, which Java puts behind names of its classes and of a file that may be a temporary one."""
    found = re.search(r"\(([^()]+)\)$", message)
    return found[1] if found else message.rsplit(": ", 1)[-1]


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
    return unusable(
        "another job is using this checkpoint",
        location,
        f"stop it (its owner: {owner}), or use another --checkpoint",
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
    """Not if the file cannot be opened: why not, such as a read-only disk, is what the use of the folder will show."""
    try:
        file = path.open("r+")
    except OSError:
        return False
    with file:
        try:
            lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False
