"""``python -m groupreplay`` and the console script ``groupreplay``: the program, and what comes before it.

Loading the program takes a moment, in which a signal would end in a traceback of an import. Nothing is to be cleaned
up yet, so that a sentence and the exit code are enough.
"""

import gc
import os
import signal
import sys

#: As in ``base.process``, which would have to be loaded.
_WORDS = {
    signal.SIGINT: "interrupted (Ctrl-C)",
    signal.SIGTERM: "terminated (SIGTERM)",
    signal.SIGHUP: "ended, because the terminal was closed (SIGHUP)",
}

#: New objects after which garbage is collected.
_OBJECTS = 50_000


def _leave(number: int, _frame: object) -> None:
    line_begin = ""
    if number == signal.SIGINT and os.isatty(2):
        line_begin = "\n" if os.environ.get("TERM") == "dumb" else "\r\x1b[K"  # the terminal shows ^C
    try:
        os.write(2, f"{line_begin}groupreplay: {_WORDS[signal.Signals(number)]}\n".encode())
    finally:
        os._exit(128 + number)


def _open_missing_streams() -> None:
    """Opens stdin, stdout and stderr if the caller has closed them: the next file would get their number.

    Stdout as a file that refuses what is written: a result that nobody gets is an error.
    """
    for number, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def main() -> None:
    """The console script."""
    for number in _WORDS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _leave)
    _open_missing_streams()
    # A replay makes millions of objects that no cycle keeps: by default the collector looks at them after each 700.
    gc.set_threshold(_OBJECTS)
    from groupreplay.app.cli.program import main as program

    program()


if __name__ == "__main__":
    main()
