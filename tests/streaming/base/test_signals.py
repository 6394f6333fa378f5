"""A first signal is a wish, a second one an order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from groupreplay.streaming.base.ending import PATIENCE_SECONDS
from groupreplay.streaming.base.signals import StopRequest, in_worker, stop_requests
from support.kafka.waiting import wait_until


def test_a_signal_becomes_a_request() -> None:
    """SIGTERM is noted and nothing else happens; afterwards the old handlers are back."""
    before = signal.getsignal(signal.SIGTERM)
    with stop_requests() as stop:
        assert not stop.made
        assert not stop.wait(0)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(60)
        assert (stop.made, stop.exit_code) == (True, 143)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_second_signal_ends_the_process_at_once() -> None:
    """Whoever asks twice does not want to wait for a batch."""
    program = (
        "import os, signal, time\n"
        "from groupreplay.streaming.base.signals import stop_requests\n"
        "with stop_requests() as stop:\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    assert stop.wait(60)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(600)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=120).returncode == 130


def test_a_signal_after_a_request_of_the_process_itself() -> None:
    """A single run that is about to end in order is not cut off by the first signal, which is told all the same."""
    with stop_requests() as stop:
        stop.make()
        assert (stop.made, stop.exit_code) == (True, 0)
        os.kill(os.getpid(), signal.SIGTERM)
        wait_until(lambda: stop.exit_code == 143)
        stop.make()
        assert stop.exit_code == 143


def test_another_thread_leaves_the_handlers_alone() -> None:
    """Python allows handlers in the main thread only; elsewhere the caller stops the job itself."""
    before = signal.getsignal(signal.SIGTERM)
    seen: list[object] = []

    def run() -> None:
        with stop_requests() as stop:
            seen.append(signal.getsignal(signal.SIGTERM))
            stop.make()
            seen.append(stop.exit_code)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [before, 0]


def test_patience() -> None:
    """Nothing has to be finished, but for a while something has."""
    stop = StopRequest(patience_seconds=0)
    with stop.patient():
        assert stop.patience_seconds == PATIENCE_SECONDS
    assert stop.patience_seconds == 0


def test_work_in_another_thread() -> None:
    """Its result and its error come back to the caller."""
    assert in_worker(threading.current_thread) is not threading.current_thread()

    def failing() -> None:
        raise ValueError("as it was")

    with pytest.raises(ValueError, match="as it was"):
        in_worker(failing)
