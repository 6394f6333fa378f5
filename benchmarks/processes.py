"""Costs of processes: CPU seconds and peak memory of the driver, its JVM and its Python workers.

Memory is resident memory. Workers are counted together; pages that they share (all are forks of one process) count
once (PSS, Linux only; elsewhere once for each).
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
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


class Meter:
    """Measures this process, the JVM that it started and the workers below that; a context manager.

    ``cost`` is set at the end of the context.
    """

    def __init__(self, jvm: int) -> None:
        self._jvm = psutil.Process(jvm)
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
        """CPU seconds by kind; workers that have ended count with the process that they were forked from."""
        seconds = dict.fromkeys(KINDS, 0.0)
        for kind, processes in self._processes().items():
            for process in processes:
                with suppress(psutil.Error):
                    times = process.cpu_times()
                    seconds[kind] += times.user + times.system
                    if kind == "workers":
                        seconds[kind] += times.children_user + times.children_system
        return seconds

    def _watch(self) -> None:
        while True:
            for kind, processes in self._processes().items():
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
