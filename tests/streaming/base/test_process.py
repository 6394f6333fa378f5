"""The renewed line of a terminal.

A signal ends the process in order, or at once when that takes too long; each test has a process of its own. A first
signal is a wish, a second one an order.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from groupreplay.streaming.base import process
from groupreplay.streaming.base.process import PATIENCE_SECONDS, Ending, StopRequest, in_worker, stop_requests
from support.kafka.waiting import wait_until

BEGIN = """
import contextlib, ctypes, logging, os, signal, sys, threading, time
from groupreplay.streaming.base.process import *
from groupreplay.streaming.base import process
from groupreplay.streaming.base.process import StopRequest, stop_requests
def say(text): print(text, flush=True)
def blocked():
    # In C, and deaf: another thread gets the signal, as with a library that blocks signals.
    signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP})
    while True: ctypes.CDLL(None).sleep(600)
def later(*numbers, pause=0.0):
    def send():
        for number in numbers:
            time.sleep(0.1); os.kill(os.getpid(), number)
    threading.Thread(target=send, daemon=True).start()
"""


def ends(program: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a program."""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + program], capture_output=True, text=True, check=False, timeout=120
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("name", "code", "sentence"),
    [
        ("SIGINT", 130, "interrupted (Ctrl-C)"),
        ("SIGTERM", 143, "terminated (SIGTERM)"),
        ("SIGHUP", 129, "ended, because the terminal was closed (SIGHUP)"),
    ],
)
def test_a_main_thread_that_does_not_come_back(name: str, code: int, sentence: str) -> None:
    """The process ends all the same: with one sentence, after what was to be done, the latest first."""
    program = f"""
watch_signals(say)
always_at_the_end(lambda: say("first"))
def failing(): say("second"); raise ValueError
with at_the_end(failing):
    with at_the_end(lambda: say("never")): pass
    later(signal.{name})
    blocked()
"""
    assert ends(program) == (code, f"{sentence}\nsecond\nfirst\n", "")


def test_an_act_that_waits_for_the_main_thread() -> None:
    """It delays neither the next act nor the end."""
    program = """
watch_signals(say)
lock = threading.Lock()
always_at_the_end(lambda: say("next"))
always_at_the_end(lambda: lock.acquire())
lock.acquire()
later(signal.SIGINT)
blocked()
"""
    assert ends(program) == (130, "interrupted (Ctrl-C)\nnext\n", "")


def test_a_command_is_left_by_an_exception() -> None:
    """Once: what follows does not disturb the clearing up."""
    program = """
watch = watch_signals(say)
try:
    try:
        later(signal.SIGTERM, signal.SIGHUP)
        time.sleep(600)
    finally:
        time.sleep(0.5)
        say("cleared")
except StoppedBySignal as stopped:
    assert stopped.number == watch.number == signal.SIGTERM and has_begun()
    watch.say()
    watch.say()
    watch.leave(128 + stopped.number)
"""
    assert ends(program) == (143, "cleared\nterminated (SIGTERM)\n", "")


def test_a_signal_in_a_destructor() -> None:
    """There Python swallows what is raised: nothing is printed of that, and the process ends all the same."""
    program = """
watch_signals(say)
class Busy:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(1000): pass
Busy()
threading.Event().wait(60)
"""
    assert ends(program) == (143, "terminated (SIGTERM)\n", "")


def test_what_else_is_lost_is_shown() -> None:
    """Another exception in a destructor is printed as ever."""
    program = """
watch_signals(say)
class Failing:
    def __del__(self): raise ValueError("shown")
Failing()
"""
    code, said, error = ends(program)
    assert (code, said, error.splitlines()[-1]) == (0, "", "ValueError: shown")


def test_a_request_is_made_by_the_other_thread() -> None:
    """Also while the main thread is in C; code that asks afterwards is asked at once."""
    program = """
watch_signals(say)
def work():
    with stop_requests(patience_seconds=600) as stop:
        stop.wait(600)
        with stop_requests() as again:
            say(f"{stop.exit_code} {again.made}")
    os._exit(7)
threading.Thread(target=work, daemon=True).start()
time.sleep(0.5)
later(signal.SIGINT)
blocked()
"""
    assert ends(program) == (7, "130 True\n", "")


@pytest.mark.parametrize(
    ("patience", "signals"), [("0", "signal.SIGTERM"), ("600", "signal.SIGTERM, signal.SIGTERM")]
)
def test_at_once(patience: str, signals: str) -> None:
    """With nothing to be finished, and at a second signal."""
    program = f"""
watch_signals(say)
with stop_requests(patience_seconds={patience}):
    later({signals})
    blocked()
"""
    assert ends(program) == (143, "terminated (SIGTERM)\n", "")


def test_a_terminal_that_closes_is_no_second_wish() -> None:
    """SIGHUP comes after SIGTERM when a session ends, and twice."""
    program = """
watch_signals(say)
with stop_requests(patience_seconds=600) as stop:
    later(signal.SIGTERM, signal.SIGHUP, signal.SIGHUP)
    stop.wait(600)
    time.sleep(1)
    os._exit(7)
"""
    assert ends(program) == (7, "", "")


def test_nohup() -> None:
    """What was ignored before stays ignored."""
    program = """
signal.signal(signal.SIGHUP, signal.SIG_IGN)
watch_signals(say)
os.kill(os.getpid(), signal.SIGHUP)
time.sleep(0.2)
say(str(has_begun()))
"""
    assert ends(program) == (0, "False\n", "")


@pytest.mark.parametrize(("level", "lines"), [("WARNING", 0), ("INFO", 1)])
def test_nothing_more_is_logged(level: str, lines: int) -> None:
    """Neither log lines nor tracebacks of threads and finalizers, unless more than warnings was asked for."""
    program = f"""
logging.basicConfig(format="%(message)s")
log = logging.getLogger("groupreplay")
log.setLevel("{level}")
watch_signals(say)
with stop_requests(patience_seconds=600) as stop:
    later(signal.SIGTERM)
    stop.wait(600)
    log.warning("because of the end")
    if is_quiet():
        failing = threading.Thread(target=lambda: 1 / 0)
        failing.start()
        failing.join()
    os._exit(7)
"""
    code, _, errors = ends(program)
    assert (code, errors.splitlines()) == (7, ["because of the end"] * lines)


def test_a_terminal_that_takes_no_text() -> None:
    """Does not delay the end."""
    program = """
watch_signals(lambda _: time.sleep(600))
later(signal.SIGTERM)
blocked()
"""
    assert ends(program) == (143, "", "")


def test_a_library_has_no_end() -> None:
    """In another program the signals are not taken over."""
    assert (process.present(), process.has_begun(), process.is_quiet()) == (None, False, False)
    said: list[str] = []
    alone = Ending(said.append)
    alone.say()
    alone.number = signal.SIGTERM
    alone.say()
    alone.say()
    assert said == ["terminated (SIGTERM)"]


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
        "from groupreplay.streaming.base.process import stop_requests\n"
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
