"""What a JVM leaves behind when it is killed: its descendants and its files, and they go with it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from groupreplay.streaming.local.own_jvm import jvm_folder, temporary_files_in

CHILDREN = """
import os, subprocess, sys
# As Spark's start script, the JVM, and a daemon in a process group of its own.
inner = "import os, time; os.setpgid(0, 0); print(os.getpid(), flush=True); time.sleep(600)"
outer = "import os, subprocess, sys; print(os.getpid(), flush=True); "
outer += f"subprocess.run([sys.executable, '-c', {inner!r}])"
tree = subprocess.Popen([sys.executable, "-c", outer], stdout=subprocess.PIPE, text=True)
guarded = subprocess.Popen(["sleep", "600"], start_new_session=True)
pids = [int(tree.stdout.readline()), int(tree.stdout.readline())]
from groupreplay.streaming.local.own_jvm import end_jvm, jvm_folder
with jvm_folder() as folder:
    (folder / "x").mkdir()
    (folder / "x" / "file").write_text("content")
    end_jvm(folder)
    import psutil
    alive = [pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"]
    print(alive, folder.exists(), guarded.poll())
guarded.kill()
"""


def test_all_descendants_are_killed() -> None:
    """Those of its session, whatever their group; a guarded process has a session and a watchdog of its own."""
    done = subprocess.run([sys.executable, "-c", CHILDREN], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[] False None\n", "")


def test_the_folder_of_a_jvm() -> None:
    """It is removed with its content at the end of the block, and Python's temporary files can be in it."""
    before = tempfile.gettempdir()
    with jvm_folder() as folder:
        assert folder.parent == Path(before)
        with temporary_files_in(folder):
            assert Path(tempfile.mkdtemp()).parent == folder
        assert tempfile.gettempdir() == before
    assert not folder.exists()
