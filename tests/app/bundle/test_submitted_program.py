"""``app/bundle/submitted_program.py``, which ``groupreplay bundle`` writes as job.py."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from groupreplay.app.bundle import submitted_program

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
#: Prints what the driver and the processes that it starts would import.
PROGRAM = "import os, sys\ndef main():\n    print(sys.argv[1:], sys.path[0], os.environ['PYTHONPATH'])\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with job.py and an unpacked archive for this interpreter."""
    shutil.copy(submitted_program.__file__, tmp_path / "job.py")
    package = tmp_path / "environment" / "groupreplay" / "app" / "cli"
    package.mkdir(parents=True)
    (package / "program.py").write_text(PROGRAM)
    write_about(tmp_path)
    return tmp_path


def write_about(folder: Path, **other: str) -> None:
    """What the archive was made for."""
    about = {"python": HERE, "platform": platform.machine(), **other}
    (folder / "environment" / submitted_program.ABOUT).write_text(json.dumps(about))


def run(folder: Path, *, program: str = "job.py", **variables: str) -> subprocess.CompletedProcess[str]:
    """job.py, as spark-submit starts it."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables
    command = [sys.executable, "-S", program, "run", "--once"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, check=False)


def test_the_unpacked_archive_comes_first(folder: Path) -> None:
    """The driver and its child processes import from the archive before anything else; arguments are passed on."""
    done = run(folder, PYTHONPATH="/platform/libraries")
    there = folder / "environment"
    assert (done.stdout, done.stderr, done.returncode) == (
        f"['run', '--once'] {there} {there}:/platform/libraries\n",
        "",
        0,
    )
    assert run(folder).stdout == f"['run', '--once'] {there} {there}\n"


def test_another_python_is_refused(folder: Path) -> None:
    """Libraries of another Python would fail somewhere in an import; here a sentence names both versions."""
    write_about(folder, python="3.7")
    done = run(folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: the archive was made for Python 3.7, but the driver runs on Python {HERE} ({sys.executable}): "
        f"set spark.pyspark.python, or make the archive with groupreplay bundle --python {HERE}\n"
    )


def test_another_machine_is_refused(folder: Path) -> None:
    """An archive for aarch64 on x86_64, and the other way round."""
    write_about(folder, platform="riscv64")
    done = run(folder)
    assert (done.returncode, done.stderr) == (
        2,
        f"error: the archive was made for riscv64, but this machine is {platform.machine()}: "
        f"make the archive with groupreplay bundle --platform {platform.machine()}\n",
    )


def test_without_the_archive(folder: Path) -> None:
    """Started elsewhere without groupreplay in its Python, the program says where the archive has to be."""
    (folder / "elsewhere").mkdir()
    done = run(folder / "elsewhere", program="../job.py")
    assert (done.returncode, done.stderr) == (
        2,
        f"error: No module named 'groupreplay', and the archive is not unpacked in {folder}/elsewhere/environment: "
        "unpack it there before spark-submit (--deploy-mode client), or send it with --archives NAME#environment "
        "(--deploy-mode cluster)\n",
    )


def test_an_installed_groupreplay_needs_no_archive(folder: Path) -> None:
    """In an image that has groupreplay the same job.py starts it."""
    (folder / "elsewhere").mkdir()
    done = run(folder / "elsewhere", program="../job.py", PYTHONPATH=str(folder / "environment"))
    assert done.stdout.startswith("['run', '--once'] ")


def test_old_interpreters_can_read_it() -> None:
    """The sentence about the version has to appear on the platform's own Python, down to 3.6."""
    source = Path(submitted_program.__file__).read_text()
    compile(source, "job.py", "exec", dont_inherit=True)
    for word in (":=", "match ", "from __future__", " | None", "list[", "dict["):
        assert word not in source
