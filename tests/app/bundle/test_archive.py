"""``app/bundle/archive.py``: wheels come from pip itself, with a folder in place of an index."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import tarfile
import zipfile
from contextlib import ExitStack
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

import groupreplay
from groupreplay.app.bundle.archive import (
    ArchiveFile,
    Wheel,
    download_wheels,
    package_files,
    text_file,
    wheel_files,
    write_archive,
)
from groupreplay.app.bundle.target import BundleTarget
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from support.remedies import read_remedy
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
    read_remedy("app.bundle.archive: use another --python; or build the wheel", str(error))
    # The wheel is built, and its folder is where pip looks.
    small_wheel(tmp_path / "index", "fast", tag="cp311-cp311-manylinux_2_28_x86_64")
    assert len(download_wheels(["top"], TARGET, tmp_path / "b")) == 2


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
    read_remedy("app.bundle.archive: install it: python -m ensurepip", str(failed.value))
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True, timeout=120
    )
    python = tmp_path / "bare" / "bin" / "python"
    assert subprocess.run([python, "-m", "pip", "--version"], check=False, timeout=120).returncode != 0
    subprocess.run([python, "-m", "ensurepip"], check=True, timeout=120, stdout=subprocess.DEVNULL)
    assert subprocess.run([python, "-m", "pip", "--version"], check=False, timeout=120).returncode == 0


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    """Order, names, owners and times of this machine are not in the archive."""
    digests = set()
    for number in range(2):
        files = {
            "b/x.py": text_file("b = 1\n"),
            "a.py": text_file("a = 1\n"),
            "c.so": ArchiveFile(bytes, True),
        }
        path = tmp_path / f"{number}.tar.gz"
        write_archive(path, dict(sorted(files.items(), reverse=bool(number))))
        digests.add(hashlib.sha256(path.read_bytes()).hexdigest())
        with tarfile.open(path) as archive:
            entries = [
                (one.name, one.mode, one.uid, one.gid, one.uname, one.mtime) for one in archive.getmembers()
            ]
        assert entries == [
            ("a.py", 0o644, 0, 0, "", 315_532_800),
            ("b/x.py", 0o644, 0, 0, "", 315_532_800),
            ("c.so", 0o755, 0, 0, "", 315_532_800),
        ]
    assert len(digests) == 1
    assert sorted(os.listdir(tmp_path)) == ["0.tar.gz", "1.tar.gz"]


def test_tar_unpacks_it(tmp_path: Path) -> None:
    """The machine's tar, which Spark calls, restores long names and contents without a warning."""
    deep = "/".join(["d" * 60] * 4) + "/module.py"
    write_archive(tmp_path / "a.tar.gz", {deep: text_file("text\n"), "top.py": text_file("")})
    done = subprocess.run(
        ["tar", "-xzf", "a.tar.gz"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert (done.stderr, (tmp_path / deep).read_text(), (tmp_path / "top.py").read_text()) == (
        "",
        "text\n",
        "",
    )


def test_an_archive_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """Half an archive never has the archive's name, and the half is removed; an older one stays."""
    (tmp_path / "a.tar.gz").write_bytes(b"older")

    def fails() -> bytes:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        write_archive(tmp_path / "a.tar.gz", {"a": text_file("a"), "b": ArchiveFile(fails)})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a.tar.gz": b"older"}


def test_a_wheel_is_unpacked_as_pip_does(tmp_path: Path) -> None:
    """Libraries beside the package (purelib, platlib) come to the top; scripts and headers are left out."""
    files = {
        "part/__init__.py": "",
        "part-1.0.data/purelib/pure.py": "pure",
        "part-1.0.data/platlib/part/native.so": "native",
        "part-1.0.data/scripts/part": "#!python",
        "part-1.0.data/headers/part.h": "",
    }
    path = small_wheel(tmp_path, "part", files=files)
    with zipfile.ZipFile(path, "a") as archive:
        program = zipfile.ZipInfo("part/tool")
        program.external_attr = 0o100755 << 16
        archive.writestr(program, "#!/bin/sh\n")
        archive.mkdir("part/empty") if hasattr(archive, "mkdir") else None
    with ExitStack() as opened:
        found = dict(wheel_files(Wheel(path, "part", "1.0", ()), opened))
        contents = {
            place: (file.read(), file.executable) for place, file in found.items() if "info" not in place
        }
    assert contents == {
        "part/__init__.py": (b"", False),
        "pure.py": (b"pure", False),
        "part/native.so": (b"native", False),
        "part/tool": (b"#!/bin/sh\n", True),
    }
    assert [place for place in found if "info" in place] == [
        f"part-1.0.dist-info/{name}" for name in ("METADATA", "WHEEL", "RECORD")
    ]


def test_the_package_is_the_one_that_runs() -> None:
    """All files of groupreplay, through the links of a checkout, without compiled ones."""
    found = {place: file.read() for place, file in package_files()}
    (root,) = groupreplay.__path__
    for place in (
        "__init__.py",
        "py.typed",
        "codecs/registry.py",
        "state/group.py",
        "streaming/local/jars.json",
        "streaming/spark/log4j2.xml",
    ):
        assert found[f"groupreplay/{place}"] == Path(root, place).read_bytes()
    assert [place for place in found if "__pycache__" in place or place.endswith(".pyc")] == []
