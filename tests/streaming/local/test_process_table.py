"""What /proc tells of processes."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import psutil
import pytest

from groupreplay.streaming.local.process_table import PARENT, STATE, started_at, stat_fields

pytestmark = pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")


def test_the_fields_of_a_hostile_name(tmp_path: Path) -> None:
    """A program may be called so that its name looks like the fields that follow it."""
    program = tmp_path / ") Z 1 ("
    shutil.copy(shutil.which("sleep") or "", program)
    with subprocess.Popen([program, "600"]) as child:
        found = stat_fields(child.pid)
        child.kill()
    assert (found[STATE] in "RSD", int(found[PARENT])) == (True, os.getpid())


def test_the_start_of_a_process() -> None:
    """As psutil has it; a process that is gone has none."""
    with subprocess.Popen(["sleep", "600"]) as child:
        ticks = started_at(child.pid)
        assert ticks is not None
        seconds = int(ticks) / os.sysconf("SC_CLK_TCK")
        assert psutil.boot_time() + seconds == pytest.approx(psutil.Process(child.pid).create_time(), abs=1.5)
        child.kill()
    assert started_at(child.pid) is None
