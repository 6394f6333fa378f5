"""Costs of processes: CPU seconds and peak memory of the driver, its JVM and its Python workers.

Memory is resident memory. Workers are counted together; pages that they share (all are forks of one process) count
once (PSS, Linux only; elsewhere once for each).
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

#: For a broker at full speed: the embedded broker runs without the second compiler by default.
FULL_SPEED: Final = "-XX:TieredStopAtLevel=4"
KINDS: Final = ("driver", "jvm", "workers")
_MIB: Final = 1 << 20
_PAUSE_SECONDS: Final = 0.2


@dataclass(frozen=True)
class Cost:
    """Seconds of CPU and peak MiB by kind of process."""

    cpu_seconds: Mapping[str, float] = field(default_factory=dict)
    peak_mib: Mapping[str, float] = field(default_factory=dict)


class CpuTimes:
    """CPU seconds of processes by kind; of those that have ended, as far as they were noted.

    Spark ends workers after a minute without work, and their daemon does not wait for them: no process has their time.
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._seen: dict[psutil.Process, float] = {}

    def note(self, kind: str, processes: Iterable[psutil.Process]) -> None:
        """Adds what these have used since they were noted last."""
        for process in processes:
            with suppress(psutil.Error):
                times = process.cpu_times()
                used = times.user + times.system
                self.seconds[kind] += used - self._seen.get(process, 0.0)
                self._seen[process] = used


class Meter:
    """Measures this process, the JVM that it started and the workers below that; a context manager.

    ``cost`` is set at the end of the context.
    """

    def __init__(self, jvm: int) -> None:
        self._jvm, self._times = psutil.Process(jvm), CpuTimes()
        self._peaks = dict.fromkeys(KINDS, 0.0)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.cost = Cost()

    def __enter__(self) -> Meter:
        self._before = self._cpu()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()
        after = self._cpu()
        self.cost = Cost({one: after[one] - self._before[one] for one in KINDS}, self._peaks)

    def _processes(self) -> Mapping[str, Sequence[psutil.Process]]:
        return {
            "driver": [psutil.Process()],
            "jvm": [self._jvm],
            "workers": self._jvm.children(recursive=True),
        }

    def _cpu(self) -> dict[str, float]:
        for kind, processes in self._processes().items():
            self._times.note(kind, processes)
        return {kind: self._times.seconds[kind] for kind in KINDS}

    def _watch(self) -> None:
        while True:
            for kind, processes in self._processes().items():
                self._times.note(kind, processes)
                held = sum(map(_resident if kind != "workers" else _share, processes)) / _MIB
                self._peaks[kind] = max(self._peaks[kind], held)
            if self._stop.wait(_PAUSE_SECONDS):
                return


def _resident(process: psutil.Process) -> int:
    with suppress(psutil.Error):
        return int(process.memory_info().rss)
    return 0


def _share(process: psutil.Process) -> int:
    with suppress(psutil.Error):
        memory = process.memory_full_info()
        return int(getattr(memory, "pss", memory.rss))
    return 0


@dataclass(frozen=True)
class Finished:
    """A command that has succeeded."""

    seconds: float
    cost: Cost


def run(command: Sequence[str], log: Path) -> Finished:
    """Runs a command and discards its output; an AssertionError with the end of its stderr when it fails."""
    begin = time.perf_counter()
    with log.open("wb") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - begin
    errors_text = log.read_text("utf-8", "replace")[-2_000:]
    assert process.returncode == 0, f"{command[0]} ended with {process.returncode}: {errors_text}"
    cost = Cost({"driver": used.ru_utime + used.ru_stime}, {"driver": used.ru_maxrss / 1024})
    return Finished(seconds, cost)
