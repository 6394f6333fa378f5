"""Files that appear whole or not at all, who else may read them, and the cache folder of groupreplay."""

from __future__ import annotations

import errno
import logging
import os
import shlex
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, unusable

log = logging.getLogger(__name__)


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


#: Of a container: whatever the mode, only processes of the container see them.
_MOUNTED: Final = ("/run/secrets/", "/var/run/secrets/")
_warned: Final[set[str]] = set()


def readers(path: Path) -> str | None:
    """Who else can read a file, in words; None: nobody, or it does not exist.

    A file of another user that this process reads as one of its group is meant for the group.
    """
    return _others(path, stat.S_IRGRP, stat.S_IROTH)


def writers(path: Path) -> str | None:
    """Who else can write into a folder, or into a file."""
    return _others(path, stat.S_IWGRP, stat.S_IWOTH)


def mode_of(path: Path) -> str:
    """``0644``."""
    return f"{stat.S_IMODE(path.stat().st_mode):04o}"


def warn_readable(path: Path, what: str) -> None:
    """Warns once of a file with a secret that others can read. What a container was given, and pipes, are left out."""
    if (
        not path.is_file()
        or _is_given_to_container(path)
        or str(path) in _warned
        or (who := readers(path)) is None
    ):
        return
    _warned.add(str(path))
    log.warning(
        "%s can read the %s in %s (mode %s): chmod 600 %s",
        who,
        what,
        path,
        mode_of(path),
        shlex.quote(str(path)),
    )


def _others(path: Path, group_bit: int, other_bit: int) -> str | None:
    real = Path(os.path.realpath(path))
    try:
        status = real.stat()
        above = [folder.stat() for folder in real.parents]
    except OSError:
        return None
    if status.st_mode & other_bit and all(folder.st_mode & stat.S_IXOTH for folder in above):
        return "every user of this machine"
    is_ours = status.st_uid == os.geteuid()
    if status.st_mode & group_bit and is_ours and all(_lets_in(folder, status.st_gid) for folder in above):
        return "every user of its group"
    return None


def _lets_in(folder: os.stat_result, group: int) -> bool:
    bit = stat.S_IXGRP if folder.st_gid == group else stat.S_IXOTH
    return bool(folder.st_mode & bit)


def _is_given_to_container(path: Path) -> bool:
    """Whether Kubernetes has mounted it as a Secret, behind a link ``..data``, or Docker as one of its secrets."""
    return str(path.absolute()).startswith(_MOUNTED) or any("..data" in link.parts for link in _links(path))


def _links(path: Path) -> Iterator[Path]:
    """Where the links lead that are followed from this name."""
    for _ in range(40):
        if not path.is_symlink():
            return
        target = path.readlink()
        yield target
        path = path.parent / target


def cache_folder() -> Path:
    """GROUPREPLAY_CACHE, else XDG_CACHE_HOME/groupreplay, else ~/.cache/groupreplay; created if missing."""
    if named := os.environ.get("GROUPREPLAY_CACHE"):
        folder = Path(named).expanduser()
    else:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "groupreplay"
    folder.mkdir(0o755, parents=True, exist_ok=True)
    return folder.absolute()


def write_once(path: Path, content: bytes, mode: int = 0o644) -> Path:
    """Write a file atomically, unless it already has this content.

    Two processes may do this at once: each writes a temporary file and renames it.
    """
    if path.is_file() and path.read_bytes() == content:
        return path
    path.parent.mkdir(0o755, parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return path
