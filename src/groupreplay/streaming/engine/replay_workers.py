"""Processes that apply packed rows to groups: those of one group go to the same process, which keeps its state.

The rows are the same as without them, in the same order: a call for a group needs nothing but its state.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from logging.handlers import QueueHandler
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, Final, NamedTuple

from groupreplay.state import Context
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.base.spawned import spawned
from groupreplay.streaming.contract.messages import OutputRow
from groupreplay.streaming.engine.live import Call, KeyState, Live

#: So many packed bytes are given out at once: a process works while this one packs the next.
_ROUND_BYTES: Final = 4 << 20


class _Task(NamedTuple):
    """The calls of a round for one process, and the states of the keys that it has not had yet."""

    states: list[KeyState]
    calls: list[Call]


class _Answer(NamedTuple):
    """The rows of each call, and what was logged meanwhile."""

    rows: list[list[OutputRow]]
    logged: list[logging.LogRecord]


class _Kept(NamedTuple):
    """What a process returns at its end."""

    states: list[KeyState]
    dead_letters: int
    quarantined: int


class ReplayWorkers:
    """``connections`` lead to the processes; ``live`` is the driver that they work for, which gets the states back."""

    def __init__(self, live: Live, connections: list[Connection]) -> None:
        self._live = live
        self._connections = connections
        self._workers = dict[bytes, int]()
        self._bytes = [0] * len(connections)

    def apply(self, calls: Iterable[Call]) -> Iterator[OutputRow]:
        """The rows of these calls; must be read to its end."""
        asked = list[int]()
        for calls_of_round in _rounds(calls):
            rows = self._received(asked)
            asked = self._ask(calls_of_round)
            yield from rows
        yield from self._received(asked)
        self._take_back()

    def _ask(self, calls: Iterable[Call]) -> list[int]:
        """Gives each process its calls; the numbers of the processes in the order of the calls."""
        tasks = [_Task([], []) for _ in self._connections]
        asked = list[int]()
        for call in calls:
            number = self._workers.get(call.key)
            if number is None:
                number = self._workers[call.key] = self._bytes.index(min(self._bytes))
                tasks[number].states.append(self._live.hand_over(call.key))
            self._bytes[number] += call.size
            asked.append(number)
            tasks[number].calls.append(call)
        for connection, task in zip(self._connections, tasks, strict=True):
            connection.send(task)
        return asked

    def _received(self, asked: list[int]) -> Iterable[OutputRow]:
        if not asked:
            return ()
        answers: list[_Answer] = [_receive(connection) for connection in self._connections]
        for record in chain.from_iterable(answer.logged for answer in answers):
            logger = logging.getLogger(record.name)
            if logger.isEnabledFor(record.levelno):
                logger.handle(record)
        rows = [iter(answer.rows) for answer in answers]
        return chain.from_iterable(next(rows[number]) for number in asked)

    def _take_back(self) -> None:
        for connection in self._connections:
            connection.send(None)
        for connection in self._connections:
            kept: _Kept = _receive(connection)
            self._live.take_back(kept.states)
            self._live.dead_letters += kept.dead_letters
            self._live.quarantined += kept.quarantined


@contextmanager
def replay_workers(live: Live, processes: int) -> Iterator[ReplayWorkers]:
    """So many processes that apply rows with the context of ``live``."""
    level = logging.getLogger("groupreplay").getEffectiveLevel()
    with spawned(_work, [(live.context, level)] * processes) as connections:
        yield ReplayWorkers(live, connections)


def _rounds(calls: Iterable[Call]) -> Iterator[list[Call]]:
    held, size = list[Call](), 0
    for call in calls:
        held.append(call)
        size += call.size
        if size >= _ROUND_BYTES:
            yield held
            held, size = [], 0
    if held:
        yield held


def _receive(connection: Connection) -> Any:
    """What the process has sent; raises what it has raised."""
    try:
        answer = connection.recv()
    except (EOFError, OSError):
        raise GroupReplayError(
            "a process that replays a share of the groups has ended, possibly for want of memory; "
            "with --processes 1 there is none"
        ) from None
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _work(connection: Connection, context: Context, level: int) -> None:
    """The work of a process."""
    queue: SimpleQueue[logging.LogRecord] = SimpleQueue()
    logging.basicConfig(level=level, handlers=[QueueHandler(queue)])
    live = Live(context)
    try:
        while (task := connection.recv()) is not None:
            live.restore(task.states)
            rows = [list(live.apply([call])) for call in task.calls]
            connection.send(_Answer(rows, [queue.get() for _ in range(queue.qsize())]))
        connection.send(_Kept(list(live.changes()), live.dead_letters, live.quarantined))
    except EOFError:
        return  # nobody waits for an answer any more
    except Exception as error:
        connection.send(error)
