"""What Linux tells of a process in /proc."""

from __future__ import annotations

from pathlib import Path
from typing import Final

#: Places in /proc/PID/stat after the program's name, as in proc(5).
STATE: Final = 0
PARENT: Final = 1
_STARTED: Final = 19


def stat_fields(pid: int) -> list[str]:
    """State, parent and what follows; the name before them may have any characters.

    Raises:
        OSError: there is no such process, or no /proc.
    """
    return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()


def started_at(pid: int) -> str | None:
    """When a process was started, in ticks since the machine was; None without the process, or without a /proc.

    Ids are used again: two processes with one id differ in it.
    """
    try:
        return stat_fields(pid)[_STARTED]
    except OSError:
        return None
