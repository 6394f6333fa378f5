"""Text files that get their name only when they are complete."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError


@contextmanager
def atomic_file(path: Path, what: str = "file") -> Iterator[TextIO]:
    """Opens a file for text; nothing of it is left if the block fails. ``what`` is its name in the error.

    Raises:
        GroupReplayError: the file cannot be written.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        part.replace(path)
    except OSError as error:
        raise GroupReplayError(
            f"cannot write the {what}, {error.strerror}",
            where=str(path),
            fix="check that the folder exists, is writable and has free space",
            exit_code=ExitCode.USAGE,
        ) from None
    finally:
        part.unlink(missing_ok=True)
