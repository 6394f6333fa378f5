"""``app/bundle/target.py``."""

from __future__ import annotations

import platform
import re
import sys

import pytest
from packaging.markers import default_environment

from groupreplay.app.bundle.lines import LINES, spark_release
from groupreplay.app.bundle.target import MACHINES, BundleTarget, bundle_target
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError


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
    for machine in str(refused.value.fix).removeprefix("use --platform ").split(" or "):
        for python in pythons:
            assert bundle_target(python, machine, release) == BundleTarget(python, machine)
