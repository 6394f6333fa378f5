"""The command ``bundle``."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupreplay.app.bundle.builder import Submission
from groupreplay.app.bundle.target import BundleTarget, spark_release
from groupreplay.streaming.base.errors import ExitCode
from support.job.captures import invoke
from support.tools.small_wheels import no_index, small_wheel


def test_the_files_and_the_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both files are written; stdout is what a shell can run, and the summary is on stderr."""
    no_index(monkeypatch, tmp_path / "index")
    for requirement in spark_release("4.0").requirements:
        name = requirement.split(">")[0].replace("-", "_")
        least = {"numpy": "1.26.0", "pandas": "2.2.0", "pyarrow": "18.0.0", "tzdata": "2024.1"}
        version = least.get(name, "30.0")
        small_wheel(tmp_path / "index", name, version)
    flags = ["--scala", "2.13", "--python", "3.11", "--platform", "aarch64"]
    archive = tmp_path / "env.tar.gz"
    result = invoke("bundle", "-o", archive, "--spark", "4.0.2", *flags)
    assert (result.exit_code, result.stdout) == (
        ExitCode.OK,
        Submission(
            spark=spark_release("4.0.2"), target=BundleTarget("3.11", "aarch64"), archive="env.tar.gz"
        ).script,
    )
    summary = f"{archive}: groupreplay and 12 libraries, 1 MB; {tmp_path / 'job.py'}\n"
    assert result.stderr == summary
    again = invoke("bundle", "-o", archive, "--spark", "4.0.2", *flags)
    assert (again.exit_code, "replace it with --force" in again.stderr) == (ExitCode.USAGE, True)


def test_wrong_flags(tmp_path: Path) -> None:
    """An unknown line and a missing flag are usage errors, and nothing is written."""
    unknown = invoke("bundle", "-o", tmp_path / "env.tar.gz", "--spark", "2.4")
    assert (unknown.exit_code, "use --spark 3.5, 4.0, 4.1, 4.2" in unknown.stderr) == (ExitCode.USAGE, True)
    missing = invoke("bundle", "-o", tmp_path / "env.tar.gz")
    assert (missing.exit_code, "Missing option '--spark'" in missing.stderr) == (ExitCode.USAGE, True)
    assert list(tmp_path.iterdir()) == []
