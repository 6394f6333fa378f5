"""What `make release` refuses, and the whole of it in a copy of the project."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import groupreplay
import make_release
from contract import STORED, contract
from distributions import CHART
from make_release import PROJECT
from release_rules import change_log_problems, contract_problems, problems, version
from support.paths import ROOT
from support.tools.project_copy import commit_all, copy_project

PAGE = (ROOT / "docs" / "releasing.md").read_text(encoding="utf-8")


def test_the_version_is_that_of_the_package() -> None:
    """It is read from the source, so that a release needs no installed package of that version."""
    assert version(PROJECT) == groupreplay.__version__


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("# C\n\n## [1.2.3] - 2026-01-31\n\n- a change\n\n## [1.2.2] - 2025-01-01\n", []),
        ("# C\n\n## [Unreleased]\n\n- a change\n", ["the first heading is [Unreleased], not [1.2.3] - DATE"]),
        ("# C\n\n## [1.2.2] - 2026-01-31\n\n- a\n", ["the first heading is [1.2.2], not [1.2.3] - DATE"]),
        ("# C\n", ["the first heading is missing, not [1.2.3] - DATE"]),
        ("## [1.2.3]\n\n- a change\n", ["the heading [1.2.3] has no date, YYYY-MM-DD"]),
        ("## [1.2.3] - 2026-01-31\n\n## [1.2.2] - 2025-01-01\n\n- a\n", ["there is no change below [1.2.3]"]),
    ],
)
def test_the_change_log_fits_the_version(text: str, found: list[str]) -> None:
    """The first heading is the version with its date, and has changes below it."""
    assert change_log_problems(text, "1.2.3") == [f"CHANGELOG.md: {line}" for line in found]


def test_the_stored_contract_is_that_of_the_version() -> None:
    """None, one of another version, one that lacks something and one that is broken are each refused."""
    now = contract()
    fix = "run `python release/contract.py store`, and read the difference"
    name = f"release/{STORED.name}"
    assert contract_problems(now, now, now["version"]) == []
    assert contract_problems(None, now, now["version"]) == [f"{name} is missing: {fix}"]
    assert contract_problems(now, now, "9.9.9") == [f"{name} is that of {now['version']}: {fix}"]
    more: dict[str, Any] = now | {"exit_codes": now["exit_codes"] | {"NEW": 9}}
    assert contract_problems(now, more, now["version"]) == [f"{name} lacks what is new: {fix}"]
    assert contract_problems(more, now, now["version"]) == [f"{name}: NEW: 9 is None"]


def releasable(folder: Path) -> Path:
    """A copy of the project with everything that a release needs, committed."""
    project = copy_project(folder)
    shutil.copytree(ROOT / "release", project / "release", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / CHART, project / CHART)
    shutil.copy(ROOT / ".gitignore", project)
    (project / "release" / STORED.name).write_text(json.dumps(contract()))
    log = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = f"## [{groupreplay.__version__}] - 2026-01-31"
    (project / "CHANGELOG.md").write_text(log.replace("## [Unreleased]", heading))
    commit_all(project)
    return project


def released(project: Path, output: Path) -> dict[str, bytes]:
    """The files that `make release` writes into the folder; it prints their names."""
    command = [sys.executable, "release/make_release.py", "--output", str(output)]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.split()) == sorted(str(path) for path in output.iterdir())
    return {path.name: path.read_bytes() for path in output.iterdir()}


def is_complete(files: dict[str, bytes]) -> bool:
    """The files of docs/releasing.md are there, and the checksums are those of the others."""
    named = re.findall(r"^\| `([^`]+)` \|", PAGE, re.MULTILINE)
    others = {name: content for name, content in files.items() if name != "SHA256SUMS"}
    sums = {f"{hashlib.sha256(content).hexdigest()}  {name}" for name, content in others.items()}
    is_summed = {*files["SHA256SUMS"].decode().splitlines()} == sums
    return is_summed and {name.replace("VERSION", groupreplay.__version__) for name in named} == set(files)


def test_a_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All files are built and named; the content of the bill of materials has a test of its own."""
    monkeypatch.setattr(make_release, "PROJECT", releasable(tmp_path / "project"))
    monkeypatch.setattr(make_release, "bill_of_materials", lambda *_: b"{}")
    files = make_release.release(tmp_path / "release")
    assert sorted(files) == sorted((tmp_path / "release").iterdir())
    assert is_complete({path.name: path.read_bytes() for path in files})


@pytest.mark.long
def test_two_releases_are_equal(tmp_path: Path) -> None:
    """In two folders of one commit, by the command, the bill of materials included."""
    first, second = (
        released(releasable(tmp_path / name), tmp_path / f"{name}-release") for name in ("a", "bc")
    )
    assert first == second
    assert is_complete(first)


def test_what_is_not_ready_is_refused(tmp_path: Path) -> None:
    """A file that is not committed and a missing heading are named, and nothing is built."""
    project = releasable(tmp_path / "project")
    assert problems(project) == []
    log = project / "CHANGELOG.md"
    log.write_text(log.read_text().replace(f"[{groupreplay.__version__}]", "[Unreleased]"))
    (project / "src" / "groupreplay" / "state" / "new.py").touch()
    command = [sys.executable, "release/make_release.py"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "error: not committed: CHANGELOG.md, src/groupreplay/state/new.py",
        f"error: CHANGELOG.md: the first heading is [Unreleased], not [{groupreplay.__version__}] - DATE",
    ]
    assert not (project / "dist").exists()
