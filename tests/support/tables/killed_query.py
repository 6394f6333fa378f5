"""A program of docs/tables.md as a process that is killed again and again while its input is written."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from groupreplay.streaming.local.process_guard import GuardedProcess
from support.job.jobs import last_batch
from support.kafka.waiting import wait_until
from support.tables.table_formats import TableFormat

#: So long after the beginning of a batch it is killed at the latest; a batch takes about a second.
_LATEST_KILL_SECONDS: Final = 1.5
#: In the stack of a query of Spark 4.1 that has finished a batch of an earlier one.
_UNREPORTED: Final = "KafkaMicroBatchStream$.metrics"
_LAST_LINES: Final = 80
#: A query that begins no batch for so long has taken all its input.
_IDLE_SECONDS: Final = 10.0


class KilledQuery:
    """The query, its folder (``/tables`` on the page), and how often a kill left a batch unfinished."""

    def __init__(self, folder: Path, table_format: TableFormat, events: str) -> None:
        self._folder, self._format, self.unfinished = folder, table_format, 0
        self._program, self._log = folder / "program.py", folder / "program.log"
        text = table_format.program(events)
        self._program.write_text(
            text.replace('"1 minute"', '"0 seconds"').replace("/tables", str(folder)), "utf-8"
        )
        arguments = table_format.submit_arguments().replace("/tables", str(folder))
        self._environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": arguments, "PYSPARK_PYTHON": sys.executable}
        self._process = self._start()

    def _start(self) -> GuardedProcess:
        command = [sys.executable, str(self._program)]
        return GuardedProcess(command, self._log, environment=self._environment, cwd=self._folder)

    @property
    def _checkpoint(self) -> Path:
        return self._folder / "checkpoint"

    def _last_begun(self) -> int:
        """The number of the last batch that was begun; -1 before the first."""
        files = self._checkpoint.glob("offsets/*")
        return max((int(file.name) for file in files if file.name.isdigit()), default=-1)

    def wait_until(self, condition: Callable[[], object]) -> None:
        """Waits as long as the query runs; one that ends by SPARK-55271 is started again, as the page says."""

        def checked() -> object:
            if self._process.exit_code is not None and _UNREPORTED in self._process.tail(_LAST_LINES):
                self._process = self._start()
            assert self._process.exit_code is None, self._process.tail(_LAST_LINES)
            return condition()

        wait_until(checked, pause=0.2)

    def kill(self) -> None:
        """SIGKILL to Python, the JVM and its workers, in a batch or soon after one; then it starts again."""
        begun = self._last_begun()
        self.wait_until(lambda: self._last_begun() > begun)
        time.sleep(random.uniform(0, _LATEST_KILL_SECONDS))
        self._process.end(0)
        self.unfinished += self._last_begun() > last_batch(self._checkpoint)
        self._process = self._start()

    def wait_idle(self) -> None:
        """Until the query has taken what was written: a repeat that it let through is in the table."""
        begun = self._last_begun()
        with suppress(AssertionError):
            wait_until(lambda: self._last_begun() > begun, _IDLE_SECONDS)
            return self.wait_idle()
        self.wait_until(lambda: last_batch(self._checkpoint) >= self._last_begun())
        return None

    def rows(self) -> list[dict[str, Any]]:
        """The rows of the table, read without Spark; none before it is made."""
        return self._format.rows(self._folder) if last_batch(self._checkpoint) >= 0 else []

    def __enter__(self) -> KilledQuery:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.end(0)
