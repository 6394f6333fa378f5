"""``app/bundle/target.py``."""

from __future__ import annotations

import platform
import re
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from groupreplay.app.bundle.target import (
    LIBRARIES,
    LINES,
    MACHINES,
    BundleTarget,
    SparkRelease,
    bundle_target,
    spark_release,
)
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from support.paths import ROOT
from support.remedies import read_remedy


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
        line: [one for one in spark_release(line).requirements if one.startswith("numpy")] for line in LINES
    }
    assert numpy == {
        "3.5": ["numpy>=1.26,<2"],
        "4.0": ["numpy>=1.26"],
        "4.1": ["numpy>=1.26"],
        "4.2": ["numpy>=1.26"],
    }


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
    read_remedy("app.bundle.target: use --platform", str(refused.value))
    for machine in str(refused.value.fix).removeprefix("use --platform ").split(" or "):
        for python in pythons:
            assert bundle_target(python, machine, release) == BundleTarget(python, machine)
