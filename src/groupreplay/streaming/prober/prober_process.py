"""Runs the prober of ``run`` in a separate process, which librdkafka may abort without ending the job.

librdkafka's assertion fails when a broker dies during a request about groups (librdkafka issue 4605).
``python -m groupreplay.streaming.prober.prober_process`` reads its settings as JSON from standard input, because they
may contain passwords, which must not be in a command line or environment. It writes the answers to the probes topic,
and the summary of each round to standard output, one JSON object per line.
"""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from groupreplay.streaming.base.ending import watch_signals
from groupreplay.streaming.base.signals import StopRequest, stop_requests
from groupreplay.streaming.config.logs import LogFormat, configure_logs
from groupreplay.streaming.contract.probe_messages import RoundSummary
from groupreplay.streaming.local.process_guard import GuardedProcess
from groupreplay.streaming.prober.prober import ProbeRound
from groupreplay.streaming.prober.service import ProbeTarget, keep_probing

log = logging.getLogger(__name__)

_COMMAND: Final = (sys.executable, "-m", "groupreplay.streaming.prober.prober_process")
_LONGEST_PAUSE_SECONDS: Final = 60.0
_MOMENT_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class ProberTask(ProbeTarget):
    """The settings of a prober process."""

    log_level: str
    log_format: LogFormat


class ProberProcess:
    """Runs a prober process in the background until closed, and starts it again whenever it ends.

    ``on_round`` receives the summary of every round that was written. ``on_exit`` is called when the process ended by
    itself, but not after a ``stop`` request. The pause before a restart grows while the process ends without a round.
    """

    def __init__(
        self,
        task: ProberTask,
        *,
        on_round: Callable[[RoundSummary], None],
        on_exit: Callable[[], None],
        stop: StopRequest,
        command: Sequence[str] = _COMMAND,
        shortest_pause_seconds: float = 1.0,
    ) -> None:
        self._task = msgspec.json.encode(task)
        self._on_round = on_round
        self._on_exit = on_exit
        self._stop = stop
        self._command = command
        self._shortest_pause = shortest_pause_seconds
        self._closed = threading.Event()
        self._process: GuardedProcess | None = None
        self._thread = threading.Thread(target=self._keep, name="groupreplay-prober", daemon=True)

    def start(self) -> None:
        """Start the process; its first round begins at once."""
        self._thread.start()

    def close(self, seconds: float = 2.0) -> None:
        """Start no further round; a round in progress may take ``seconds`` more."""
        self._closed.set()
        process = self._process
        if process is not None:
            process.ask_to_end()
        if self._thread.is_alive():
            self._thread.join(seconds)
        if process is not None:
            process.end(0)

    def _keep(self) -> None:
        pause = 0.0
        while not self._closed.wait(pause):
            try:
                rounds, end = self._live()
            except OSError as error:  # no process can be started at the moment
                rounds, end = 0, str(error)
            # A service manager may terminate all processes of a job at once.
            if self._closed.wait(_MOMENT_SECONDS) or self._stop.made:
                return
            pause = min(max(2 * pause, self._shortest_pause), _LONGEST_PAUSE_SECONDS)
            if rounds:
                pause = self._shortest_pause
            self._on_exit()
            log.warning(
                "the prober has ended (%s) after %d rounds: started again in %g s", end, rounds, pause
            )

    def _live(self) -> tuple[int, str]:
        """Run the process until it ends; returns its number of rounds, and how it ended."""
        rounds = 0
        with GuardedProcess(self._command, subprocess.PIPE, given=self._task) as process:
            self._process = process
            assert process.answers is not None
            for line in process.answers if not self._closed.is_set() else ():
                try:
                    self._on_round(msgspec.json.decode(line, type=RoundSummary))
                except msgspec.DecodeError:  # a line that was cut off when the process ended
                    continue
                rounds += 1
            # Its output may end shortly before the process: without the wait, leaving the block would kill it.
            process.wait()
        code = process.exit_code
        return rounds, signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"


def main() -> None:
    """The process: probes until SIGTERM, or until the reader of its standard output is gone."""
    # The process that has started it says what has happened.
    watch_signals(lambda _: None)
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=ProberTask)
    configure_logs(task.log_level, task.log_format)
    with stop_requests() as stop:

        def on_round(taken: ProbeRound) -> None:
            try:
                sys.stdout.buffer.write(msgspec.json.encode(taken.summary) + b"\n")
                sys.stdout.buffer.flush()
            except BrokenPipeError:
                stop.make()

        keep_probing(task, on_round, stop)


if __name__ == "__main__":
    main()
