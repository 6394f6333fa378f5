"""``groupreplay serve`` as a process on a free port of this machine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from groupreplay.streaming.local.process_guard import GuardedProcess
from support.job.captures import GROUPREPLAY
from support.kafka.waiting import wait_until


@contextmanager
def serving(servers: str, log: Path, *flags: str) -> Iterator[tuple[GuardedProcess, str]]:
    """The site with these flags, and its host and port, from the moment when it listens."""
    words = ("serve", "--bootstrap-server", servers, "--listen", "127.0.0.1:0", *flags)
    with GuardedProcess([*GROUPREPLAY, *words], log) as process:

        def printed() -> re.Match[str] | None:
            assert process.exit_code is None, process.tail()
            return re.search(r"metrics on http://([\d.:]+)/", log.read_text())

        yield process, wait_until(printed)[1]
