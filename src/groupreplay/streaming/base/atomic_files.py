"""Files that get their name only when they are complete, and replace no file without permission.

What is no file is never replaced, but written into: a device, a FIFO, ``/dev/stdout``, the ``>(…)`` of a shell.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, unusable


def is_written_into(path: Path) -> bool:
    """Whether a device, a FIFO, a socket or an open file of a process (``/dev/fd/3``) has this name."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    if stat.S_ISDIR(mode):
        return False
    # An open file has a link to what it is, also if that is a file on a disk.
    folder = os.path.realpath(path.parent)
    return not stat.S_ISREG(mode) or (path.is_symlink() and f"{folder}/".startswith(("/dev/", "/proc/")))


def require_new(paths: Iterable[Path | None], *, force: bool) -> None:
    """Check that none of these files exists, unless ``force``: to be called before the work whose result they get.

    Raises:
        GroupReplayError: a file exists.
    """
    for path in paths:
        # A link that leads nowhere would be replaced, too.
        if path is not None and os.path.lexists(path) and not force and not is_written_into(path):
            raise unusable(
                "the file exists", path, "choose another name or folder, or replace it with --force"
            )


@contextmanager
def place_of(path: Path) -> Iterator[Path]:
    """A place beside ``path`` to write to, which replaces ``path`` at the end of the block; a failure leaves nothing.

    If ``path`` is written into (``is_written_into``), the place is ``path`` itself.

    Raises:
        OSError: the file cannot be written.
    """
    if is_written_into(path):
        yield path
        return
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def new_file(path: Path, what: str = "file", *, force: bool, private: bool = False) -> Iterator[Path]:
    """``place_of`` a file that is new, whose content is on the disk when it gets its name.

    Args:
        path: the file to write; without ``force`` it must not exist, neither now nor at the end of the block.
        what: name of the file in errors.
        force: replace a file that exists.
        private: nobody but its owner may read it (mode 0600, whatever the umask is).

    Raises:
        GroupReplayError: the file exists or cannot be written.
    """
    require_new([path], force=force)
    into = is_written_into(path)
    try:
        with place_of(path) as part:
            if private and not into:
                os.close(os.open(part, os.O_WRONLY | os.O_CREAT, 0o600))
            yield part
            if not into:
                with part.open("rb") as written:
                    os.fsync(written.fileno())
                require_new([path], force=force)
    except OSError as error:
        raise GroupReplayError(
            # Arrow replaces the system's message by its own text, which repeats the path.
            f"cannot write the {what}, {os.strerror(error.errno) if error.errno else error}",
            where=str(path),
            fix=_remedy(error.errno, is_written_into=into),
            exit_code=ExitCode.USAGE,
        ) from None


def _remedy(number: int | None, *, is_written_into: bool) -> str:
    if number in (errno.ENOSPC, errno.EDQUOT):
        left = "it holds only a part" if is_written_into else "nothing of it was kept"
        return f"free some space, or write to another place; {left}"
    if is_written_into:
        return "check what reads it" if number == errno.EPIPE else "check that it may be written to"
    return "check that the folder exists and is writable"


@contextmanager
def atomic_file(path: Path, what: str = "file", *, force: bool = False) -> Iterator[TextIO]:
    """Opens a new file for text; see ``new_file``."""
    with new_file(path, what, force=force) as part, part.open("w", encoding="utf-8", newline="\n") as file:
        yield file
        file.flush()
