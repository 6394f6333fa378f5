"""The cache folder of groupreplay: downloaded jars, trust stores, Java wrappers.

Everything in it can be deleted at any time and is created again when needed. Some of it is executed, so the folders are
writable for their owner only, whatever the umask is; others may read them, such as the user of a container.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


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
