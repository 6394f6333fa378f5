"""What the JVM throws when the checkpoint cannot be read or written, as errors that name the folder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from groupreplay.streaming.base.errors import ExitCode, UnreachableError, UnwritableError


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
