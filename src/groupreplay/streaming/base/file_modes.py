"""Who else on this machine can read a secret, or write into a folder, by the modes of files and of the folders above.

Access lists (ACLs) and the users of a group are not looked at: a mode that lets a group in counts as letting others in.
"""

from __future__ import annotations

import logging
import os
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

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
        found = real.stat()
        above = [folder.stat() for folder in real.parents]
    except OSError:
        return None
    if found.st_mode & other_bit and all(folder.st_mode & stat.S_IXOTH for folder in above):
        return "every user of this machine"
    is_ours = found.st_uid == os.geteuid()
    if found.st_mode & group_bit and is_ours and all(_lets_in(folder, found.st_gid) for folder in above):
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
