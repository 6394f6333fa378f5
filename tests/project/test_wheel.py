"""The built wheel: it holds the modules of the package and nothing else, and each of them can be imported."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from support.paths import PACKAGE, ROOT
from support.tools.project_copy import copy_project

WEB = {
    f"groupreplay/app/{package}/web/{path.name}"
    for package in ("report", "serve")
    for path in (PACKAGE / "app" / package / "web").iterdir()
}
DATA = {
    "groupreplay/py.typed",
    "groupreplay/streaming/local/jars.json",
    *WEB,
    "groupreplay/streaming/spark/log4j2.xml",
}
#: Generators of pages, tests and benchmarks.
FOREIGN = re.compile(r"_page\.py$|/(test_|conftest)|/(tests|support|benchmarks|docs|generators)/")
#: Imports each module that is named on stdin; prints those that cannot be imported or that start something.
IMPORT_ALL = """
import importlib, sys, threading
sys.path.insert(0, sys.argv[1])
started = []
sys.addaudithook(lambda event, _: started.append(event) if event in
    ("subprocess.Popen", "os.fork", "os.posix_spawn", "os.system", "socket.bind", "socket.connect") else None)
for name in sys.stdin.read().split():
    try:
        module = importlib.import_module(name)
        assert module.__file__.startswith(sys.argv[1]), module.__file__
    except Exception as error:
        print("cannot import", name, repr(error))
    if started or threading.active_count() > 1:
        print("starts something:", name, *started)
        started.clear()
"""


def built(project: Path) -> Path:
    """The unpacked wheel of this project."""
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "dist", "."]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (project / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(project / "wheel")
    return project / "wheel"


def offences(project: Path) -> list[str]:
    """What is wrong with the wheel of this project."""
    wheel = built(project)
    files = {path.relative_to(wheel).as_posix() for path in wheel.rglob("*") if path.is_file()}
    files = {path for path in files if ".dist-info/" not in path}
    sources = project / "src"
    wanted = DATA | {path.relative_to(sources).as_posix() for path in sources.rglob("*.py")}
    modules = sorted(path for path in files if path.endswith(".py"))
    names = [path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in modules]
    command = [sys.executable, "-I", "-c", IMPORT_ALL, str(wheel)]
    done = subprocess.run(
        command, cwd=wheel, input="\n".join(names), capture_output=True, text=True, check=False
    )
    return [
        *(f"missing: {path}" for path in sorted(wanted - files)),
        *(f"too much: {path}" for path in sorted(files - wanted)),
        *(f"foreign: {path}" for path in modules if FOREIGN.search(path)),
        *done.stdout.splitlines(),
        *done.stderr.splitlines(),
    ]


def test_the_wheel_is_whole(tmp_path: Path) -> None:
    """Every module and all files of data are in it; each module imports and starts nothing."""
    assert offences(copy_project(tmp_path / "project")) == []


def test_planted_offences_are_found(tmp_path: Path) -> None:
    """Missing files of data, a page generator, a module that fails, one that starts a process."""
    project = copy_project(tmp_path / "project")
    package = project / "src" / "groupreplay"
    (package / "spark.py").unlink()
    for room in ("state", "coordinator", "timeline", "streaming", "app", "api"):
        shutil.rmtree(package / room)
        (package / room).mkdir()
        (package / room / "__init__.py").touch()
    (package / "streaming" / "states_page.py").touch()
    (package / "streaming" / "fails.py").write_text("import groupreplay.gone")
    (package / "streaming" / "starts.py").write_text("import os; os.system('true')")
    assert offences(project) == [
        *(f"missing: {path}" for path in sorted(DATA - {"groupreplay/py.typed"})),
        "foreign: groupreplay/streaming/states_page.py",
        "cannot import groupreplay.streaming.fails ModuleNotFoundError(\"No module named 'groupreplay.gone'\")",
        "starts something: groupreplay.streaming.starts os.system",
    ]


def test_the_links_at_the_top_are_for_readers() -> None:
    """``codecs``, ``state`` and ``streaming`` at the top lead into the package, which has no link itself."""
    links = {path.name: path.readlink().as_posix() for path in ROOT.iterdir() if path.is_symlink()}
    assert links == {room: f"src/groupreplay/{room}" for room in ("codecs", "state", "streaming")}
    assert [path for path in PACKAGE.rglob("*") if path.is_symlink()] == []


def test_an_editable_install_is_a_path(tmp_path: Path) -> None:
    """What ``make dev`` installs is a line with the path of ``src``, which editors and type checkers follow."""
    project = copy_project(tmp_path / "project")
    (tmp_path / "editable").mkdir()
    script = "import sys; from setuptools import build_meta; build_meta.build_editable(sys.argv[1])"
    command = [sys.executable, "-c", script, str(tmp_path / "editable")]
    subprocess.run(command, cwd=project, capture_output=True, check=True)
    (wheel,) = (tmp_path / "editable").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        contents = {
            name: archive.read(name).decode() for name in archive.namelist() if "dist-info" not in name
        }
    assert list(contents.values()) == [f"{project / 'src'}\n"]
    assert [name.partition(".groupreplay")[0] for name in contents] == ["__editable__"]
