"""The live pages of the demo: ``groupreplay serve`` beside the job, as users start it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.error import URLError
from urllib.request import urlopen

from groupreplay.streaming.local.broker import HOST, free_ports

if TYPE_CHECKING:
    from groupreplay.streaming.local.process_guard import GuardedProcess

_START_SECONDS: Final = 20.0


@contextmanager
def live_pages(bootstrap_servers: str, folder: Path) -> Iterator[str]:
    """Says where the pages are, which are up inside the block; or that they could not be started.

    The demo goes on without them: its events are printed, too. All files are below ``folder``.
    """
    from groupreplay.streaming.local.process_guard import GuardedProcess

    (port,) = free_ports(1)
    command = [sys.executable, "-m", "groupreplay", "serve"]
    command += ["--bootstrap-server", bootstrap_servers, "--listen", f"{HOST}:{port}"]
    environment = {**os.environ, "TMPDIR": str(folder)}
    with GuardedProcess(command, folder / "pages.log", environment=environment) as server:
        address = f"http://{HOST}:{port}/"
        if _answers(server, address):
            yield f"Live pages of the groups, as long as the demo runs: {address}"
        else:
            yield "The live pages could not be started."


def _answers(server: GuardedProcess, address: str) -> bool:
    """Whether the server has answered in time."""
    deadline = time.monotonic() + _START_SECONDS
    while server.exit_code is None and time.monotonic() < deadline:
        try:
            with urlopen(f"{address}healthz", timeout=2):  # noqa: S310 - an address of this module
                return True
        except (URLError, OSError):
            time.sleep(0.1)
    return False
