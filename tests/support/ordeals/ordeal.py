"""A job, its processes and brokers killed at random moments."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import psutil

from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.jobs import RunningJob, last_batch
from support.kafka.waiting import wait_until
from support.remedies import read_remedy


class Ordeal:
    """A job, brokers, and what may be done to them at a random moment."""

    def __init__(self, job: RunningJob, brokers: Sequence[EmbeddedBroker], seed: int) -> None:
        self._job, self._brokers, self._random = job, brokers, random.Random(seed)
        self._kinds: dict[str, Callable[[], None]] = {
            "driver": self._kill_driver,
            "worker": self._kill_worker,
            "prober": self._kill_prober,
            "broker": self._kill_broker,
        }

    def undergo(self, kills: Sequence[str]) -> None:
        """One kill after the other, each at a random moment after the batch that shows the job alive again."""
        start = time.monotonic()
        for number, kind in enumerate(kills, 1):
            self._wait_for_a_batch()
            time.sleep(self._random.uniform(0, 2))  # the moment is what is random here; nothing waits for it
            print(f"{time.monotonic() - start:.0f} s, kill {number}: {kind}")  # noqa: T201
            self._kinds[kind]()
        self._wait_for_a_batch()

    def _wait_for_a_batch(self) -> None:
        before = last_batch(self._job.checkpoint)

        def finished() -> bool:
            assert self._job.process.exit_code is None, f"the job has ended:\n{self._job.process.tail(40)}"
            return last_batch(self._job.checkpoint) > before

        wait_until(finished)

    def _kill_driver(self) -> None:
        """Python and JVM at once, or one of them: the other has to end by itself."""
        jvm, prober = in_session(self._job, "java"), self._job.prober()
        victims = self._random.choice([[self._job.process.pid], jvm, [self._job.process.pid, *jvm]])
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: self._job.process.exit_code is not None)
        assert self._job.process.exit_code == (1 if victims == jvm else -signal.SIGKILL)
        if victims == jvm:
            assert "the JVM of Spark has ended" in self._job.process.tail()
            read_remedy("streaming.spark.job: start again:", self._job.process.tail())
        wait_until(lambda: not psutil.pid_exists(prober))
        self._job.restart()

    def _kill_prober(self) -> None:
        """As the kernel does, or as librdkafka does (its issue 4605)."""
        with suppress(ProcessLookupError):
            os.kill(self._job.prober(), self._random.choice([signal.SIGKILL, signal.SIGABRT]))

    def _kill_worker(self) -> None:
        """One of Spark's Python processes: a worker, or the one that they are forked from."""
        workers = wait_until(lambda: in_session(self._job, "python"))
        with suppress(ProcessLookupError):  # it may have ended by itself meanwhile
            os.kill(self._random.choice(workers), signal.SIGKILL)

    def _kill_broker(self) -> None:
        """As in a power cut; the next start waits until the dead one's session has run out."""
        broker = self._random.choice(self._brokers)
        broker.kill()
        broker.start()


def in_session(job: RunningJob, name: str) -> list[int]:
    """The processes that the job has started whose program is called so.

    Workers outlive the process that they were forked from, and go on working: they are nobody's children then.
    """
    found = []
    for process in psutil.process_iter(["name"]):
        with suppress(ProcessLookupError):
            if name in process.info["name"] and os.getsid(process.pid) == job.process.pid:
                found.append(process.pid)
    return sorted(set(found) - {job.process.pid})
