"""``app/bundle/wheels.py``: pip itself, with wheels of a folder in place of an index."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from groupreplay.app.bundle.target import BundleTarget
from groupreplay.app.bundle.wheels import download_wheels
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from support.tools.small_wheels import no_index, small_wheel

TARGET = BundleTarget("3.11", "x86_64")


def names(requirements: list[str], target: BundleTarget, folder: Path) -> list[str]:
    """The file names of the wheels that are downloaded."""
    return [wheel.path.name for wheel in download_wheels(requirements, target, folder)]


def test_markers_are_those_of_the_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another interpreter than pip's gets what only it needs, and nothing that only pip's needs; with extras."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    there = "3.10" if here != "3.10" else "3.12"
    index = tmp_path / "index"
    no_index(monkeypatch, index)
    small_wheel(
        index,
        "top",
        requires=[
            f"here_only; python_version == '{here}'",
            f"there_only>=2; python_version == '{there}'",
            "Middle.Part[fast]",
            "windows_only; sys_platform == 'win32'",
        ],
    )
    small_wheel(index, "middle_part", requires=["speed; extra == 'fast'", "other; extra == 'slow'"])
    for name in ("here_only", "speed", "other", "windows_only"):
        small_wheel(index, name)
    small_wheel(index, "there_only", "2.0", requires=["below"])
    small_wheel(index, "below")
    common = ["middle_part-1.0-py3-none-any.whl", "speed-1.0-py3-none-any.whl", "top-1.0-py3-none-any.whl"]
    wheels = names(["top"], BundleTarget(there, "x86_64"), tmp_path / "a")
    assert wheels == sorted([*common, "below-1.0-py3-none-any.whl", "there_only-2.0-py3-none-any.whl"])
    wheels = names(["top"], BundleTarget(here, "x86_64"), tmp_path / "b")
    assert wheels == sorted([*common, "here_only-1.0-py3-none-any.whl"])


def test_wheels_of_the_target_are_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several wheels of a release, that of Python, machine and an old enough C library is taken."""
    index = tmp_path / "index"
    no_index(monkeypatch, index)
    for python in ("cp310", "cp311"):
        for system in ("manylinux_2_28_x86_64", "manylinux_2_28_aarch64", "manylinux_2_34_aarch64"):
            small_wheel(index, "fast", tag=f"{python}-{python}-{system}")
    small_wheel(index, "fast", "2.0", tag="cp311-cp311-manylinux_2_34_x86_64")
    assert names(["fast"], TARGET, tmp_path / "a") == ["fast-1.0-cp311-cp311-manylinux_2_28_x86_64.whl"]
    assert names(["fast"], BundleTarget("3.10", "aarch64"), tmp_path / "b") == [
        "fast-1.0-cp310-cp310-manylinux_2_28_aarch64.whl"
    ]


def test_a_package_without_a_wheel_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the package, the target and what to do."""
    no_index(monkeypatch, tmp_path / "index")
    small_wheel(tmp_path / "index", "top", requires=["fast>=1.0"])
    small_wheel(tmp_path / "index", "fast", tag="cp311-cp311-manylinux_2_28_aarch64")
    with pytest.raises(GroupReplayError) as failed:
        download_wheels(["top"], TARGET, tmp_path / "a")
    error = failed.value
    assert (error.what, error.where, error.exit_code) == (
        "pip found no wheel of fast>=1.0 for this target",
        "Python 3.11 on x86_64",
        ExitCode.USAGE,
    )
    assert error.fix is not None
    assert "PIP_INDEX_URL" in error.fix


def test_pips_own_failure_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requirements that exclude each other: pip's error lines are in ours."""
    no_index(monkeypatch, tmp_path / "index")
    small_wheel(tmp_path / "index", "top", requires=["part<2"])
    small_wheel(tmp_path / "index", "part", "1.0")
    small_wheel(tmp_path / "index", "part", "2.0")
    with pytest.raises(GroupReplayError) as failed:
        download_wheels(["top", "part>=2"], TARGET, tmp_path / "a")
    assert failed.value.what.startswith("pip could not download the libraries: ERROR: Cannot install ")
    assert failed.value.where == "Python 3.11 on x86_64"


def test_requirements_of_the_target_that_exclude_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What pip's own interpreter does not show is found, too: nothing is downloaded without end."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    there = "3.10" if here != "3.10" else "3.12"
    no_index(monkeypatch, tmp_path / "index")
    small_wheel(tmp_path / "index", "top", requires=[f"part<2; python_version == '{there}'"])
    small_wheel(tmp_path / "index", "part", "2.0")
    with pytest.raises(GroupReplayError) as failed:
        download_wheels(["top", "part>=2"], BundleTarget(there, "x86_64"), tmp_path / "a")
    assert failed.value.what.startswith(
        "pip could not download the libraries: ERROR: Cannot install part<2 and part>=2 "
    )


def test_without_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without pip is told so, with the command that installs it."""
    found = importlib.util.find_spec

    def hidden(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "pip" else found(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", hidden)
    with pytest.raises(GroupReplayError) as failed:
        download_wheels(["top"], TARGET, tmp_path)
    assert str(failed.value) == (
        f"this Python has no pip, which finds the libraries ({sys.executable}): "
        "install it: python -m ensurepip, or uv pip install pip"
    )
