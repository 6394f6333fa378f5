"""The targets of the Makefile and the install in .venv: no tests run on code that is not the checkout's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from groupreplay.streaming.local.platforms import NEWEST
from support.installed_code import differing_modules
from support.paths import PACKAGE, ROOT
from support.rest_tests import REST
from support.tools.project_copy import copy_project

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = next(re.finditer(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE))[1].split()
#: These run on the built wheel.
ON_THE_WHEEL = {"test", "test-rest", "test-long", "wheel"}
#: Keeps what pip installs, and the order of what the targets run; builds an empty wheel.
PROGRAM = """#!/bin/sh
echo "$(basename "$0") $*" >> "$PROJECT/calls"
site="$(cd "$(dirname "$0")" && pwd)/../lib/python3.12/site-packages"
case "$(basename "$0") $*" in
    "pip "*--editable*) touch "$site/__editable__.groupreplay-0.1.0.pth" ;;
    "pip "*--force-reinstall*) rm -f "$site"/__editable__.groupreplay-* ;;
    "python -m build "*) mkdir -p "$PROJECT/dist" && touch "$PROJECT/dist/groupreplay.whl" ;;
esac
"""
PROGRAMS = ("groupreplay", "lint-imports", "mkdocs", "mypy", "pip", "pytest", "python", "ruff")


class Project:
    """A copy of the project whose ``.venv`` has programs that only note how they were called."""

    def __init__(self, folder: Path) -> None:
        self.folder = copy_project(folder)
        shutil.copy(ROOT / "Makefile", folder)
        (folder / "tests").mkdir()
        shutil.copy(ROOT / "tests" / "constraints.txt", folder / "tests")
        self.site = folder / ".venv" / "lib" / "python3.12" / "site-packages"
        self.site.mkdir(parents=True)
        for place in (".venv", *(f".lines/{line}" for line in ("3.5", "4.0", "4.1"))):
            programs = folder / place / "bin"
            programs.mkdir(parents=True)
            for name in PROGRAMS:
                (programs / name).write_text(PROGRAM)
                (programs / name).chmod(0o755)
        (folder / ".venv" / ".created").touch()

    def make(self, *targets: str) -> str:
        """What make printed."""
        # Nothing of a make that runs these tests.
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
        done = subprocess.run(
            ["make", *targets, "NO_BROWSER=1"],
            cwd=self.folder,
            # A terminal has LINES, too.
            env=inherited | {"PROJECT": str(self.folder), "LINES": "24"},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @property
    def is_editable(self) -> bool:
        """Whether the last install was editable."""
        return any(self.site.glob("__editable__*"))

    def installed_before(self, program: str) -> str:
        """What the last call of pip before the last one of this program installed: ``wheel``, ``checkout``."""
        calls = (self.folder / "calls").read_text().splitlines()
        last = max(number for number, call in enumerate(calls) if call.startswith(program))
        kinds = {"--editable": "checkout", "--force-reinstall": "wheel"}
        return [
            kind
            for call in calls[:last]
            for flag, kind in kinds.items()
            if call.startswith("pip ") and flag in call
        ][-1]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """The copy."""
    return Project(tmp_path / "project")


@pytest.mark.parametrize("target", sorted({*TARGETS} - ON_THE_WHEEL - {"clean", "browser"}))
def test_a_target_leaves_the_editable_install_alone(project: Project, target: str) -> None:
    """After `make dev`, each target but those on the wheel: `make docs`, `make lint`, and those to come."""
    project.make("dev")
    printed = project.make(target)
    assert project.is_editable
    assert "the wheel replaces" not in printed


@pytest.mark.parametrize("target", sorted(ON_THE_WHEEL))
def test_a_target_on_the_wheel_says_that_it_replaces_the_editable_install(
    project: Project, target: str
) -> None:
    """Also when the wheel is newer than every source: its mark says nothing of an editable install by hand."""
    project.make("wheel")
    (project.site / "__editable__.groupreplay-0.1.0.pth").touch()
    printed = project.make(target)
    assert "the wheel replaces the editable install; make dev brings that back" in printed
    assert not project.is_editable
    assert "the wheel replaces" not in project.make(target)


def test_a_checkout_has_the_newest_line_that_is_known() -> None:
    """Pip alone would take a later line, on which the job runs by Spark's public interface only."""
    installs = [
        line for line in MAKEFILE.splitlines() if "$(BIN)/pip install" in line and "[spark,dev]" in line
    ]
    assert [line.count("[spark,dev]") for line in installs if "'$(SPARK)'" in line] == [1, 1]
    assert len(installs) == 2
    assert re.findall(r"(?m)^SPARK := (.*)$", MAKEFILE) == [f"pyspark=={NEWEST.name}.*"]


def test_all_tests_with_the_mark_run_on_the_lines() -> None:
    """`make test-lines` collects the files with the mark, and the one folder whose conftest.py gives it to all."""
    marked = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("*.py")
        if re.search(r"\bmark[.]line\b", path.read_text(encoding="utf-8"))
    }
    others = {path for path in marked if not Path(path).name.startswith("test_")}
    assert others == {"tests/streaming/spark/conftest.py"}
    command = ["make", "--no-print-directory", "-f", "-", "print"]
    rule = f"include {ROOT / 'Makefile'}\nprint:\n\t@echo $(LINE_TESTS)\n"
    done = subprocess.run(command, cwd=ROOT, input=rule, capture_output=True, text=True, check=True)
    assert {*done.stdout.split()} == marked - others | {"tests/streaming/spark"}


def test_all_tests_run_on_the_wheel(project: Project) -> None:
    """Whatever was installed, and whatever other targets the same make runs before."""
    project.make("dev")
    project.make("lint", "test")
    assert project.installed_before("pytest") == "wheel"
    project.make("dev", "lint")
    assert project.installed_before("mypy") == "checkout"
    assert project.is_editable


def test_the_wheel_is_built_from_each_change(project: Project) -> None:
    """`make lint` on the wheel installs it again when a module has changed, and only then."""
    project.make("lint")
    before = (project.folder / "calls").read_text().count("--force-reinstall")
    project.make("lint")
    assert (project.folder / "calls").read_text().count("--force-reinstall") == before
    module = project.folder / "src" / "groupreplay" / "state" / "group.py"
    module.write_text(module.read_text() + "\n")
    project.make("lint")
    assert (project.folder / "calls").read_text().count("--force-reinstall") == before + 1


def test_tests_of_other_code_do_not_begin(tmp_path: Path) -> None:
    """Called by hand on an installed package that is not the checkout, pytest names a module and runs no test."""
    installed = tmp_path / "site" / "groupreplay"
    shutil.copytree(PACKAGE, installed, ignore=shutil.ignore_patterns("__pycache__"))
    assert differing_modules(installed, ROOT) == []
    (installed / "state" / "group.py").write_text("# old\n")
    (installed / "codecs" / "gone.py").write_text("# removed since\n")
    (installed / "streaming" / "base" / "clock.py").unlink()
    assert differing_modules(installed, ROOT) == [
        "codecs/gone.py",
        "state/group.py",
        "streaming/base/clock.py",
    ]
    shutil.copy(PACKAGE / "streaming" / "base" / "clock.py", installed / "streaming" / "base")
    done = subprocess.run(
        [Path(sys.executable).with_name("pytest"), "-p", "no:cacheprovider", "tests/codecs/test_errors.py"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(installed.parent)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (
        "the installed groupreplay is not this checkout: 2 modules differ, such as codecs/gone.py"
        in done.stderr
    )
    assert done.returncode == pytest.ExitCode.USAGE_ERROR


@pytest.mark.parametrize("line", sorted(REST))
def test_what_is_left_to_the_rest_exists(line: str) -> None:
    """A test that is renamed does not stay in the list; of the cases of a test pytest alone knows the names."""
    file, _, name = line.partition("::")
    definition = f"\ndef {name.partition('[')[0]}(" if name else ""
    assert definition in (ROOT / file).read_text("utf-8")
