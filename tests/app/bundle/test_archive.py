"""What an archive is made for, and its wheels and files."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import re
import subprocess
import sys
import tarfile
import zipfile
from contextlib import ExitStack
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import msgspec
import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import groupreplay
from groupreplay.app.bundle.archive import (
    LIBRARIES,
    LINES,
    MACHINES,
    ArchiveFile,
    BundleTarget,
    SparkRelease,
    Wheel,
    bundle_target,
    download_wheels,
    package_files,
    spark_release,
    text_file,
    wheel_files,
    write_archive,
)
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from support.paths import ROOT
from support.remedies import read_remedy
from support.tools.small_wheels import no_index, small_wheel


def project() -> dict[str, Any]:
    """The table of the project in pyproject.toml."""
    table: dict[str, Any] = msgspec.toml.decode(Path(ROOT, "pyproject.toml").read_bytes())["project"]
    return table


def test_the_libraries_are_those_of_the_project() -> None:
    """An archive has each dependency of the wheel and of what the job needs, in the same range; Spark has its own."""
    extras = project()["optional-dependencies"]
    texts = [*project()["dependencies"], *extras["kafka"], *extras["spark"], *extras["serve"]]
    declared = {Requirement(text).name: Requirement(text) for text in texts}
    del declared["pyspark"], declared["setuptools"]
    assert {name: Requirement(f"{name}{LIBRARIES[name]}") for name in LIBRARIES} == declared


@pytest.mark.parametrize("line", LINES)
def test_ranges_of_a_line_are_within_those_of_the_project(line: str) -> None:
    """A line narrows the range of a library that the project has, and raises no lower bound that is excluded there."""
    for name, text in LINES[line].libraries.items():
        tried = {str(one) for one in SpecifierSet(text)}
        assert {str(one) for one in SpecifierSet(LIBRARIES[name].partition(";")[0])} < tried


def test_a_line_is_the_release_that_was_tried() -> None:
    """Without a release the line's is used, and the result says that it is a guess."""
    assert spark_release("3.5") == SparkRelease(line="3.5", release="3.5.7", scala="2.12", exact=False)
    assert spark_release("4.2") == SparkRelease(line="4.2", release="4.2.0", scala="2.13", exact=False)


@pytest.mark.parametrize(
    ("text", "scala", "coordinate"),
    [
        ("3.5.4", None, "org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.4"),
        ("3.5.4", "2.13", "org.apache.spark:spark-sql-kafka-0-10_2.13:3.5.4"),
        ("3.5.6-amzn-1", None, "org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.6"),
        ("4.0.2", None, "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.2"),
    ],
)
def test_the_connector_is_of_the_users_own_release(text: str, scala: str | None, coordinate: str) -> None:
    """Release and Scala of the coordinate are those of the platform; a vendor's suffix is left out."""
    release = spark_release(text, scala)
    assert (release.connector, release.exact) == (coordinate, True)


def test_numpy_2_is_left_out_of_archives_for_spark_3_5() -> None:
    """PySpark 3.5 declares numpy<2; other lines have the project's range."""
    numpy = {
        line: [text for text in spark_release(line).requirements if text.startswith("numpy")]
        for line in LINES
    }
    assert numpy == {"3.5": ["numpy>=1.26,<2"], **{line: ["numpy>=1.26"] for line in ("4.0", "4.1", "4.2")}}


@pytest.mark.parametrize("text", ["3.4", "5.0.0", "4", "four", "3.5.", ""])
def test_an_unknown_line_is_refused(text: str) -> None:
    """The error names what was given and the lines that there are."""
    with pytest.raises(GroupReplayError) as failed:
        spark_release(text)
    assert (str(failed.value), failed.value.exit_code) == (
        f"{text!r} is not a Spark line that groupreplay supports: "
        "use --spark 3.5, 4.0, 4.1, 4.2, or a release of these such as 3.5.4",
        ExitCode.USAGE,
    )


def test_a_scala_of_another_line_is_refused() -> None:
    """Spark 4 has no build for Scala 2.12."""
    with pytest.raises(GroupReplayError) as failed:
        spark_release("4.1.2", "2.12")
    assert str(failed.value) == "Spark 4.1 is not built for Scala 2.12: use --scala 2.13"


def test_the_default_is_this_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python and machine are those of this process, under the names that wheels have."""
    spark = spark_release("4.2")
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    for name, machine in {"x86_64": "x86_64", "arm64": "aarch64", "AMD64": "x86_64"}.items():
        monkeypatch.setattr(platform, "machine", lambda name=name: name)
        assert bundle_target(None, None, spark) == BundleTarget(here, machine)


def test_pip_takes_no_source_and_no_newer_system() -> None:
    """Pip is told the interpreter, and every system name from the oldest to the newest that is supported."""
    flags = BundleTarget("3.11", "aarch64").pip_flags
    assert flags[:5] == ["--only-binary=:all:", "--implementation", "cp", "--python-version", "3.11"]
    names = [flags[at + 1] for at, word in enumerate(flags) if word == "--platform"]
    minors = [f"manylinux_2_{minor}_aarch64" for minor in range(28, 16, -1)]
    assert names == [*minors, "manylinux2014_aarch64", "manylinux2010_aarch64", "manylinux1_aarch64"]
    assert len(flags) == 5 + 2 * len(names)


def test_markers_have_all_variables() -> None:
    """Each variable of an environment marker has a value for the target, none is taken from this interpreter."""
    markers = BundleTarget("3.10", "aarch64").markers
    assert markers.keys() == default_environment().keys()
    assert (markers["python_version"], markers["platform_machine"]) == ("3.10", "aarch64")


@pytest.mark.parametrize("line", LINES)
def test_pythons_of_a_line(line: str) -> None:
    """Each Python of the table is accepted; EMR's 3.9 is refused for each line with those that are."""
    spark = spark_release(line)
    for python in LINES[line].pythons:
        assert bundle_target(python, MACHINES[0], spark).python == python
    with pytest.raises(GroupReplayError) as failed:
        bundle_target("3.9", MACHINES[0], spark)
    assert (str(failed.value), failed.value.exit_code) == (
        f"groupreplay with Spark {line} does not run on Python 3.9: use --python {', '.join(LINES[line].pythons)}",
        ExitCode.USAGE,
    )


def test_another_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without wheels is named."""
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(GroupReplayError) as failed:
        bundle_target("3.11", None, spark_release("4.2"))
    assert str(failed.value) == "there are no wheels for riscv64: use --platform x86_64 or aarch64"


@pytest.mark.parametrize("line", sorted(LINES))
def test_the_remedies_of_refused_targets(line: str) -> None:
    """Each value that a message names is taken."""
    with pytest.raises(GroupReplayError) as refused:
        spark_release("9.9")
    *lines, last = re.findall(r"\d+\.\d+(?:\.\d+)?", str(refused.value.fix))
    assert {spark_release(text).line for text in lines} == set(LINES)
    assert spark_release(last).exact
    with pytest.raises(GroupReplayError) as refused:
        spark_release(line, "1.0")
    for scala in str(refused.value.fix).removeprefix("use --scala ").split(" or "):
        assert spark_release(line, scala).scala == scala
    release = spark_release(line)
    with pytest.raises(GroupReplayError) as refused:
        bundle_target("2.7", None, release)
    pythons = str(refused.value.fix).removeprefix("use --python ").split(", ")
    with pytest.raises(GroupReplayError) as refused:
        bundle_target(pythons[0], "abacus", release)
    read_remedy("app.bundle.archive: use --platform", str(refused.value))
    for machine in str(refused.value.fix).removeprefix("use --platform ").split(" or "):
        for python in pythons:
            assert bundle_target(python, machine, release) == BundleTarget(python, machine)


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
                (file.name, file.mode, file.uid, file.gid, file.uname, file.mtime)
                for file in archive.getmembers()
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
    texts = [(tmp_path / name).read_text() for name in (deep, "top.py")]
    assert (done.stderr, texts) == ("", ["text\n", ""])


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
    code = ["__init__.py", "py.typed", "codecs/registry.py", "state/group.py"]
    for place in [*code, "streaming/local/jars.json", "streaming/spark/log4j2.xml"]:
        assert found[f"groupreplay/{place}"] == Path(root, place).read_bytes()
    assert [place for place in found if "__pycache__" in place or place.endswith(".pyc")] == []
