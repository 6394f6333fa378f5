"""The report of all groups of a capture: seconds, CPU time, memory, and the size of the file.

    python benchmarks/all_groups.py [--groups 1500] [--seconds 3440] [--capture FILE] [--page]
    small: --groups 4 --seconds 600

The groups are simulated; ``--capture`` names a file that is made if it is missing, so that it can be made before. The
report is a process of its own. The limits are 40 s by the clock of two cores, and 6 MB: beyond them the exit code is 1.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import pyarrow.parquet as pq
from page import flag_parser, put, show_progress

_PROGRAM: Final = (sys.executable, "-m", "groupreplay")
_MOST_SECONDS: Final = 40
_MOST_BYTES: Final = 6_000_000


class Made(NamedTuple):
    """A report, and what it took."""

    records: int
    file_bytes: int
    seconds: float
    cpu_seconds: float
    memory_bytes: int

    def fits(self) -> bool:
        """Whether it is within the limits."""
        return self.seconds <= _MOST_SECONDS and self.file_bytes <= _MOST_BYTES


def simulated(capture: Path, groups: int, seconds: int) -> None:
    """Makes the capture, unless it is there."""
    if not capture.exists():
        show_progress(f"simulating {groups} groups")
        words = ("simulate", "--groups", groups, "--seconds", seconds, "-o", capture)
        subprocess.run([*_PROGRAM, *map(str, words)], check=True)


def reported(capture: Path, page: Path) -> Made:
    """Makes the report of a capture."""
    begun = time.monotonic()
    words = ("report", "--from-file", str(capture), "--all-groups", "-o", str(page))
    made = subprocess.Popen([*_PROGRAM, *words])
    _, status, used = os.wait4(made.pid, 0)
    seconds = time.monotonic() - begun
    made.returncode = os.waitstatus_to_exitcode(status)
    if made.returncode:
        raise SystemExit(f"the report ended with {made.returncode}")
    return Made(
        records=pq.read_metadata(capture).num_rows,
        file_bytes=page.stat().st_size,
        seconds=seconds,
        cpu_seconds=used.ru_utime + used.ru_stime,
        memory_bytes=used.ru_maxrss * 1024,
    )


def table(groups: int, made: Made) -> str:
    """The figures as a table."""
    rows = [
        ("groups, records", f"{groups:,}, {made.records:,}"),
        ("by the clock", f"{made.seconds:.0f} s"),
        ("CPU time", f"{made.cpu_seconds:.0f} s"),
        ("memory, at most", f"{made.memory_bytes / 1e6:.0f} MB"),
        ("size of the file", f"{made.file_bytes / 1e6:.1f} MB"),
    ]
    return "\n".join(
        ["| what | figure |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows)]
    )


def main() -> None:
    """Measures one report."""
    parser = flag_parser(__doc__)
    parser.add_argument("--groups", type=int, default=1500)
    parser.add_argument("--seconds", type=int, default=3440)
    parser.add_argument("--capture", type=Path, help="the simulated capture; made if it is missing")
    parser.add_argument("--page", action="store_true", help="write the figures into docs/performance.md")
    asked = parser.parse_args()
    with TemporaryDirectory() as scratch:
        capture = asked.capture or Path(scratch) / "all.parquet"
        simulated(capture, asked.groups, asked.seconds)
        made = reported(capture, Path(scratch) / "all.html")
    figures = table(asked.groups, made)
    print(figures)
    if asked.page:
        put("all_groups", figures)
    if not made.fits():
        raise SystemExit(1)


if __name__ == "__main__":
    main()
