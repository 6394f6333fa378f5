"""Memory of the job while nothing happens: PSS of all its processes, with glibc's arenas limited and not.

    python benchmarks/memory/job.py [--groups 20000] [--arenas 0 1 2 4] [--idle-seconds 180]
    small: --groups 20 --arenas 2 --idle-seconds 1

Writes groups of five partitions through a coordinator. For each number of arenas (``MALLOC_ARENA_MAX``; 0: glibc's own,
eight for each core) a job with the default settings and a checkpoint of its own reads the log, and is measured when it
has had nothing to do for this time. PSS counts a page that several processes share once. The JVM's is given in parts,
because its heap depends on when garbage was last collected: the heap, malloc's arenas, and the rest.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from page import flag_parser, show_progress
from processes import FULL_SPEED
from shapes import Shape
from traffic import write

from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.local.process_guard import GuardedProcess
from support.job.jobs import has_caught_up, topic_flags, topic_names
from support.kafka.waiting import wait_until

ARENAS: Final = "MALLOC_ARENA_MAX"
KINDS: Final = ("driver", "jvm", "workers", "prober")
_ARENA: Final = 64 << 20
_MAPPING: Final = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ \d+ *(.*)$")
_MIB: Final = 1 << 20
_PATIENCE_SECONDS: Final = 900.0


def pss_mib(job: GuardedProcess) -> dict[str, float]:
    """MiB by kind of process, and the number of Python workers with the process that they are forked from."""
    sizes = dict.fromkeys(KINDS, 0.0)
    count, parts = 0, dict[str, float]()
    for process in [psutil.Process(job.pid), *psutil.Process(job.pid).children(recursive=True)]:
        with suppress(psutil.Error):
            kind = kind_of(process, job.pid)
            sizes[kind] += process.memory_full_info().pss / _MIB
            count += kind == "workers"
        if kind == "jvm":
            parts = jvm_parts_mib(process.pid)
    return {**sizes, **parts, "together": sum(sizes.values()), "python processes": count}


def jvm_parts_mib(pid: int) -> dict[str, float]:
    """PSS of the Java heap, and of glibc's arenas beside the main one.

    A heap of 2 GiB lies below 4 GiB of the addresses. An arena's memory begins at a multiple of 64 MiB, and what it has
    not used yet of these follows without rights.
    """
    parts = {"java heap": 0.0, "arenas": 0.0}
    begin, place = 0, ""
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if mapping := _MAPPING.match(line):
            begin, end = (int(one, 16) for one in mapping.group(1, 2))
            is_arena = (
                begin % _ARENA == 0 and end - begin <= _ARENA and mapping[3] == "rw-p" and not mapping[4]
            )
            place = "java heap" if end <= 1 << 32 and begin >= 1 << 31 else "arenas" if is_arena else ""
        elif line.startswith("Pss:") and place:
            parts[place] += int(line.split()[1]) / 1024
    return parts


def kind_of(process: psutil.Process, driver: int) -> str:
    """Which of ``KINDS`` a process of the job is."""
    if process.pid == driver:
        return "driver"
    if process.name().startswith("java"):
        return "jvm"
    return "prober" if "groupreplay.streaming.prober.service" in process.cmdline() else "workers"


def measure(server: str, folder: Path, arenas: int, idle_seconds: float) -> Mapping[str, float]:
    """Runs a job until it has read the log and been idle for this time."""
    topics: TopicNames = topic_names(f"memory-{arenas}-{time.time_ns()}")
    checkpoint = folder / topics.events
    command = [sys.executable, "-m", "groupreplay", "run", "--bootstrap-server", server]
    command += ["--checkpoint", str(checkpoint), *topic_flags(topics)]
    environment = {name: value for name, value in os.environ.items() if name != ARENAS}
    # The job sets the number that it wants where there is none; zero is glibc's own.
    environment[ARENAS] = str(arenas)
    job = GuardedProcess(command, checkpoint.with_suffix(".log"), environment=environment)
    try:
        begun_ms = now_ms()
        wait_until(
            lambda: job.exit_code is None and has_caught_up(server, topics, begun_ms),
            _PATIENCE_SECONDS,
            pause=1.0,
        )
        time.sleep(idle_seconds)
        return pss_mib(job)
    finally:
        job.end(30)


def main() -> None:
    """Prints a line for each number of arenas."""
    parser: argparse.ArgumentParser = flag_parser(__doc__)
    parser.add_argument("--groups", type=int, default=20_000)
    parser.add_argument("--arenas", type=int, nargs="+", default=[0, 1, 2, 4])
    parser.add_argument("--idle-seconds", type=float, default=180.0)
    asked = parser.parse_args()
    with (
        TemporaryDirectory(prefix="groupreplay-bench-") as name,
        EmbeddedBroker(offsets_partitions=50, jvm_options=["-Xmx1g", FULL_SPEED]) as broker,
    ):
        write(broker.bootstrap_servers, Shape("memory", asked.groups, partitions=5, commits=1))
        for arenas in asked.arenas:
            show_progress(f"{arenas} arenas")
            sizes = measure(broker.bootstrap_servers, Path(name), arenas, asked.idle_seconds)
            line = ", ".join(f"{kind} {size:.0f}" for kind, size in sizes.items())
            print(f"{arenas or 'unlimited'} arenas, MiB: {line}", flush=True)


if __name__ == "__main__":
    main()
