"""The thread in which one thing is done again and again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from groupreplay.streaming.base.background import Background
from support.kafka.waiting import wait_until


class Work:
    """Counts its ticks; ``failing``: texts of the errors of the next ones."""

    def __init__(self, *failing: str) -> None:
        self.failing = list(failing)
        self.ticks = 0
        self.ends: list[bool] = []

    def tick(self) -> None:
        """Fails as long as a text is left."""
        self.ticks += 1
        if self.failing:
            raise OSError(self.failing.pop(0))

    def thread(self, pause_seconds: float = 0.001, **settings: Any) -> Background:
        """The thread that does it."""
        return Background(
            name="work",
            tick=self.tick,
            pause_seconds=pause_seconds,
            failing="no work",
            at_end=self.ends.append,
            **settings,
        )


def test_ticks_until_it_is_closed() -> None:
    """The thread has its name, goes on until it is closed, and says that its last tick was good."""
    work = Work()
    thread = work.thread()
    thread.start()
    wait_until(lambda: work.ticks > 2)
    assert "groupreplay-work" in [one.name for one in threading.enumerate()]
    assert (thread.is_alive, thread.is_closed) == (True, False)
    thread.close()
    assert (thread.is_alive, thread.is_closed) == (False, True)
    assert work.ends == [False]


def test_one_warning_for_each_outage(caplog: pytest.LogCaptureFixture) -> None:
    """Failures are retried for ever; the first of each outage is a warning, the others are details."""
    work = Work("first", "again")
    thread = work.thread(retry_seconds=0.001)
    with caplog.at_level(logging.DEBUG, logger=Background.__module__):
        thread.start()
        wait_until(lambda: work.ticks > 3)
        work.failing.append("second")
        wait_until(lambda: not work.failing and work.ticks > 5)
        thread.close()
    assert [
        (record.levelname, record.getMessage())
        for record in caplog.records
        if record.name.endswith("background")
    ] == [("WARNING", "no work: first"), ("DEBUG", "no work: again"), ("WARNING", "no work: second")]


def pauses(thread: Background, monkeypatch: pytest.MonkeyPatch, count: int) -> list[float]:
    """The first pauses of a thread, none of which is really made."""
    made: list[float] = []

    def rest(self: Background, seconds: float) -> bool:
        made.append(seconds)
        return len(made) == count

    monkeypatch.setattr(Background, "_rest", rest)
    thread._run()
    return made


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"retry_seconds": 0.5, "longest_seconds": 2.0}, [0.25, 0.5, 1.0, 2.0, 2.0, 0.25]),
        ({"retry_seconds": 3.0}, [0.25, 3.0, 3.0, 3.0, 3.0, 0.25]),
    ],
)
def test_pauses_of_an_outage(
    settings: dict[str, float], expected: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They double up to the longest, or stay the same, and are the usual ones when it is over."""
    work = Work(*"abcd")
    assert pauses(work.thread(0.25, **settings), monkeypatch, 6) == expected
    assert work.ends == [False]


def test_the_end_knows_of_a_failure(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """So that brokers that are away are not asked again; an end that fails is nobody's trouble."""
    work = Work("away")
    pauses(work.thread(), monkeypatch, 2)
    assert work.ends == [True]

    def broken(_: bool) -> None:
        raise OSError("at the end")

    pauses(Background(name="w", tick=work.tick, pause_seconds=0.0, at_end=broken), monkeypatch, 2)
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "no work: away"
    ]


@pytest.mark.parametrize(
    "begin", [lambda thread: thread.start(at_once=True), lambda thread: (thread.start(), thread.wake())]
)
def test_a_thread_is_woken(begin: Callable[[Background], object]) -> None:
    """Its next tick is now, however long the pause is; and so is the end of its wait when it is closed."""
    work = Work()
    thread = work.thread(3_600.0)
    begin(thread)
    wait_until(lambda: work.ticks == 1)
    thread.wake()
    wait_until(lambda: work.ticks == 2)
    thread.close()
    assert (thread.is_alive, thread.wait(3_600.0)) == (False, True)


def test_a_thread_that_was_never_started() -> None:
    """Closing it is harmless."""
    work = Work()
    work.thread().close()
    assert (work.ticks, work.ends) == (0, [])
