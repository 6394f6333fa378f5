"""The one folder where groupreplay keeps what it fetched or made: jars, trust stores, Java wrappers.

Everything in it can be deleted at any time and is made again. Knows nothing of what is stored.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def cache_folder() -> Path:
    """GROUPREPLAY_CACHE, else XDG_CACHE_HOME/groupreplay, else ~/.cache/groupreplay; made when missing."""
    if named := os.environ.get("GROUPREPLAY_CACHE"):
        folder = Path(named).expanduser()
    else:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "groupreplay"
    folder.mkdir(parents=True, exist_ok=True)
    return folder.absolute()


def write_once(path: Path, content: bytes, mode: int = 0o644) -> Path:
    """Writes a file whole or not at all, unless it is there with this content already.

    Two processes may do this at once: each writes beside the place and renames, so nobody reads half a file.
    """
    if path.is_file() and path.read_bytes() == content:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.chmod(beside, mode)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise
    return path
