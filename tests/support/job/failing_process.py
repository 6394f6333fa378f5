"""A process of a share that fails; here, because it is imported by name in that process."""

from __future__ import annotations

import os
import signal
from multiprocessing.connection import Connection


def fails(connection: Connection, error: Exception | None) -> None:
    """Answers with an error, or is killed."""
    connection.recv()
    if error is None:
        os.kill(os.getpid(), signal.SIGKILL)
    connection.send(error)
