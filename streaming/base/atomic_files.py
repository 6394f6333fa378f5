"""Files that get their name only when they are complete, and replace no file without permission."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, unusable


def require_new(paths: Iterable[Path | None], *, force: bool) -> None:
    """Check that none of these files exists, unless ``force``: to be called before the work whose result they get.

    Raises:
        GroupReplayError: a file exists.
    """
    for path in paths:
        # A link that leads nowhere would be replaced, too.
        if path is not None and os.path.lexists(path) and not force:
            raise unusable(
                "the file exists", path, "choose another name or folder, or replace it with --force"
            )


@contextmanager
def new_file(path: Path, what: str = "file", *, force: bool) -> Iterator[Path]:
    """A place beside ``path`` to write to, which becomes ``path`` at the end of the block; a failure leaves nothing.

    Args:
        path: the file to write; without ``force`` it must not exist, neither now nor at the end of the block.
        what: name of the file in errors.
        force: replace a file that exists.

    Raises:
        GroupReplayError: the file exists or cannot be written.
    """
    require_new([path], force=force)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        with part.open("rb") as written:
            os.fsync(written.fileno())
        require_new([path], force=force)
        part.replace(path)
    except OSError as error:
        raise GroupReplayError(
            # Arrow replaces the system's message by its own text, which repeats the path.
            f"cannot write the {what}, {os.strerror(error.errno) if error.errno else error}",
            where=str(path),
            fix="check that the folder exists, is writable and has free space",
            exit_code=ExitCode.USAGE,
        ) from None
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def atomic_file(path: Path, what: str = "file", *, force: bool = False) -> Iterator[TextIO]:
    """Opens a new file for text; see ``new_file``."""
    with new_file(path, what, force=force) as part, part.open("w", encoding="utf-8", newline="\n") as file:
        yield file
        file.flush()
