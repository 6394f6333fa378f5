"""The process: signals as requests to stop, and how it ends.

After SIGINT, SIGTERM or SIGHUP it ends in order if that is quick, within three seconds in any case.
A Python handler runs when the main thread is back in the interpreter: a call to librdkafka or to the JVM can delay
that for minutes. The thread of ``Ending`` is woken by Python's handler in C (``signal.set_wakeup_fd``), whatever
the main thread does. A first signal asks for the end: by a ``StopRequest`` if the code has one (``stop_requests``),
else by ``StoppedBySignal`` in the main thread. When the end takes too long, or at a second SIGINT or SIGTERM, the
thread ends the children and the process itself. From the first signal on, nothing is logged below the level that
was asked for.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import FrameType
from typing import Final, NoReturn, Protocol, TypeVar

from groupreplay.streaming.base.status_line import ERASE, can_redraw

#: How long an end in order may take; what remains of the three seconds is for ending the children.
PATIENCE_SECONDS: Final = 2.3
#: A terminal that takes no more text must not delay the end.
_WORD_SECONDS: Final = 0.2
#: Nor must an act at the end; processes of ours that are left end by themselves (``local/process_guard.py``).
_ACT_SECONDS: Final = 1.0

#: What is said of each signal.
WORDS: Final = {
    signal.SIGINT: "interrupted (Ctrl-C)",
    signal.SIGTERM: "terminated (SIGTERM)",
    signal.SIGHUP: "ended, because the terminal was closed (SIGHUP)",
}


class StoppedBySignal(BaseException):
    """A signal asked this process to end; raised in the main thread, and not caught by ``except Exception``."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Stoppable(Protocol):
    """Long-running code that ends by itself when it is asked to."""

    #: How long it needs; 0: there is nothing that has to be finished.
    patience_seconds: float

    def make(self, signal_number: int | None = None) -> None:
        """Ask it to end."""


class Ending:
    """The end of this process; ``leave`` ends it at once, ``say`` prints a sentence."""

    def __init__(self, say: Callable[[str], None], leave: Callable[[int], object] = os._exit) -> None:
        self.number: int | None = None
        #: Whether nothing is to be said any more.
        self.quiet = False
        self._say, self._leave = say, leave
        self._stoppable: Stoppable | None = None
        self._lock = threading.Lock()
        self._has_said = False

    def watch(self) -> None:
        """Takes over the signals; call it in the main thread. A signal that is ignored (nohup) stays ignored."""
        inner, outer = socket.socketpair()
        outer.setblocking(False)
        signal.set_wakeup_fd(outer.fileno(), warn_on_full_buffer=False)
        threading.Thread(
            target=self._wait, args=(inner, outer), name="groupreplay-ending", daemon=True
        ).start()
        sys.unraisablehook = _all_but_ours(sys.unraisablehook)
        # Last: from here on a signal raises.
        for number in WORDS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._handle)

    @contextlib.contextmanager
    def asking(self, stoppable: Stoppable) -> Iterator[None]:
        """In this block a signal asks ``stoppable``; it raises nothing."""
        before, self._stoppable = self._stoppable, stoppable
        if self.number is not None:
            stoppable.make(self.number)
        try:
            yield
        finally:
            self._stoppable = before

    def say(self) -> None:
        """Prints the one sentence about the signal, unless it was printed."""
        with self._lock:
            if self._has_said or self.number is None:
                return
            self._has_said = True
        with contextlib.suppress(OSError, ValueError):
            if self.number == signal.SIGINT and sys.stderr.isatty():
                sys.stderr.write(ERASE if can_redraw(sys.stderr) else "\n")  # the terminal shows ^C
            self._say(WORDS[signal.Signals(self.number)])

    def leave(self, code: int) -> NoReturn:
        """Exits, without the end of the interpreter, which may wait for threads and in which a signal kills."""
        for word in WORDS:
            signal.signal(word, _do_nothing)
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        atexit._run_exitfuncs()
        os._exit(code)

    def _handle(self, number: int, _: FrameType | None) -> None:
        # Do nothing else here: the interpreter may be inside a call to the JVM.
        if self._stoppable is None and self.number in (None, number):
            self.number = number
            for word in WORDS:
                signal.signal(word, _do_nothing)
            raise StoppedBySignal(number)

    def _wait(self, inner: socket.socket, _outer: socket.socket) -> None:
        number = self._next(inner)
        assert number is not None
        self.number = number
        self._be_quiet()
        stoppable = self._stoppable
        if stoppable is not None:
            stoppable.make(number)
        inner.settimeout(PATIENCE_SECONDS if stoppable is None else stoppable.patience_seconds)
        with contextlib.suppress(OSError):
            # A terminal that is closed may send SIGHUP twice, and after SIGTERM.
            while self._next(inner) == signal.SIGHUP:
                pass
        self._abandon(number)

    def _be_quiet(self) -> None:
        """What fails from now on fails because of the end. Who has asked for more than warnings gets them."""
        if logging.getLogger("groupreplay").getEffectiveLevel() >= logging.WARNING:
            self.quiet = True
            logging.disable(logging.CRITICAL)
            threading.excepthook = lambda _: None
            sys.unraisablehook = lambda _: None
            # PySpark has such a server, which prints a traceback when the JVM ends before it.
            if "socketserver" in sys.modules:
                sys.modules["socketserver"].BaseServer.handle_error = lambda *_: None

    def _next(self, inner: socket.socket) -> int | None:
        """The next of our signals; other signals with a Python handler wake this thread, too."""
        while True:
            number = inner.recv(1)[0]
            if number in WORDS:
                return number

    def _abandon(self, number: int) -> None:
        _within(_WORD_SECONDS, self.say)
        for act in list(_LAST_ACTS):
            # The main thread may hold what it needs, and wait.
            _within(_ACT_SECONDS, act)
        self._leave(128 + number)


def _all_but_ours(
    hook: Callable[[sys.UnraisableHookArgs], object],
) -> Callable[[sys.UnraisableHookArgs], None]:
    """In a destructor or in the callback of a weak reference ``StoppedBySignal`` is lost: then the thread ends us."""

    def show(lost: sys.UnraisableHookArgs) -> None:
        if not isinstance(lost.exc_value, StoppedBySignal):
            hook(lost)

    return show


def present() -> Ending | None:
    """The end of this process, if it is a program of groupreplay and not a library in another one."""
    return _PRESENT[-1] if _PRESENT else None


def has_begun() -> bool:
    """Whether a signal has asked this process to end: what fails now, fails because of that."""
    ending = present()
    return ending is not None and ending.number is not None


def is_quiet() -> bool:
    """Whether the process ends after a signal and must say nothing more."""
    return bool(_PRESENT) and _PRESENT[-1].quiet


def watch_signals(say: Callable[[str], None]) -> Ending:
    """Takes over the signals of this process, until its end; ``say`` prints the sentence about one."""
    ending = Ending(say)
    _PRESENT.append(ending)
    ending.watch()
    return ending


def always_at_the_end(act: Callable[[], None]) -> None:
    """Has ``act`` called if the process ends at once."""
    _LAST_ACTS.insert(0, act)


@contextlib.contextmanager
def at_the_end(act: Callable[[], None]) -> Iterator[None]:
    """Has ``act`` called if the process ends at once while the block runs, which then does not end itself."""
    always_at_the_end(act)
    try:
        yield
    finally:
        _LAST_ACTS.remove(act)


_PRESENT: Final[list[Ending]] = []
#: The latest first.
_LAST_ACTS: Final[list[Callable[[], None]]] = []


def _within(seconds: float, act: Callable[[], None]) -> None:
    """Runs ``act``, and goes on after that time if it takes longer."""

    def run() -> None:
        with contextlib.suppress(Exception):
            act()

    acting = threading.Thread(target=run, name="groupreplay-last-act", daemon=True)
    acting.start()
    acting.join(seconds)


def _do_nothing(_number: int, _frame: FrameType | None) -> None:
    """A handler in Python, without which the thread would not be woken."""


_Result = TypeVar("_Result")


class StopRequest:
    """Whether the process was asked to stop, and by which signal.

    Attributes:
        patience_seconds: how long the end in order may take from the signal on; 0: there is nothing to be finished.
    """

    def __init__(self, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self.signal_number: int | None = None
        self.patience_seconds = patience_seconds
        self._event = threading.Event()

    @property
    def made(self) -> bool:
        """Whether the process was asked to stop."""
        return self._event.is_set()

    @property
    def exit_code(self) -> int:
        """128 + the signal's number, as a shell reports it; 0 without a signal."""
        return 0 if self.signal_number is None else 128 + self.signal_number

    def make(self, signal_number: int | None = None) -> None:
        """Request the stop; a signal that has come before stays known."""
        if signal_number is not None:
            self.signal_number = signal_number
        self._event.set()

    def wait(self, seconds: float) -> bool:
        """Wait until a stop is requested, at most ``seconds``; whether it was requested."""
        return self._event.wait(seconds)

    @contextmanager
    def patient(self, seconds: float = PATIENCE_SECONDS) -> Iterator[None]:
        """In this block there is something that has to be finished."""
        before, self.patience_seconds = self.patience_seconds, seconds
        try:
            yield
        finally:
            self.patience_seconds = before


@contextmanager
def stop_requests(patience_seconds: float = PATIENCE_SECONDS) -> Iterator[StopRequest]:
    """Turn the first signal into a request; a second SIGINT or SIGTERM ends the process at once.

    In a program of groupreplay its ``Ending`` does both, and ends the process when that takes too long.
    """
    request, ending = StopRequest(patience_seconds), present()
    if ending is not None:
        with ending.asking(request):
            yield request
        return
    if threading.current_thread() is not threading.main_thread():
        yield request
        return

    def handle(number: int, _: FrameType | None) -> None:
        # Do nothing else here: the interpreter may be inside a call to the JVM.
        # A request without a signal was made by the process itself, which is about to end in order.
        if request.signal_number is not None:
            os._exit(128 + number)
        request.make(number)

    before = {number: signal.signal(number, handle) for number in WORDS}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def in_worker(work: Callable[[], _Result]) -> _Result:
    """What ``work`` returns or raises, which runs in another thread than the main one.

    There a library cannot take over the signals, as PySpark does with SIGINT for every context that the main thread
    makes.
    """
    future: Future[_Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="groupreplay-work", daemon=True).start()
    return future.result()


class _WithoutPandas:
    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        """Of ``importlib.abc.MetaPathFinder``."""
        if name == "pandas":
            raise ModuleNotFoundError("only the commands of the job load pandas", name=name)


def hide_pandas() -> None:
    """Where pandas is installed, Arrow imports it for the first array of a process: a third of a second and 35 MB."""
    sys.meta_path.insert(0, _WithoutPandas)
