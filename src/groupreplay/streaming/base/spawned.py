"""Processes beside this one that share its work."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, Final

_MOST_PROCESSES: Final = 16


def usable_processes() -> int:
    """One for each CPU that this process may use."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(usable, _MOST_PROCESSES)


@contextmanager
def spawned(work: Callable[..., None], arguments: Sequence[tuple[Any, ...]]) -> Iterator[list[Connection]]:
    """One process for each tuple, which calls ``work(connection, *arguments)``; this side's connections.

    The processes are ended on leaving. ``work`` and the arguments must be picklable.
    """
    # Not forked: threads of libraries may hold locks.
    context = multiprocessing.get_context("spawn")
    started, connections = list[multiprocessing.process.BaseProcess](), list[Connection]()
    try:
        for number, words in enumerate(arguments, 1):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_work,
                args=(work, gc.get_threshold()[0], theirs, *words),
                daemon=True,
                name=f"share-{number}",
            )
            # Ctrl-C is for all processes of a terminal: this one ends them.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            process.start()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            theirs.close()
            started.append(process)
            connections.append(ours)
        yield connections
    finally:
        for each in started:
            each.terminate()
            each.join()


def _work(work: Callable[..., None], objects: int, connection: Connection, *arguments: object) -> None:
    """Collects garbage after so many new objects, as the process that has started this one."""
    gc.set_threshold(objects)
    work(connection, *arguments)
