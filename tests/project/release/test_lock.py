"""The locks of the Python packages: complete, with hashes, and used by the image."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from groupreplay.streaming.local.platforms import find_line
from lock import BUILD, EXTRAS, OF_A_LINE, RUN, TEST_EXTRAS, TESTS, WATCH, WATCH_EXTRAS, build_requirements
from support.paths import ROOT
from support.requirements import project_requirements

PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")


def locked(file: Path) -> Iterator[tuple[Requirement, list[str]]]:
    """Each package of a lock: requirement and hashes."""
    text = "\n".join(line for line in file.read_text("utf-8").splitlines() if not line.startswith("#"))
    for line in text.replace("\\\n", " ").splitlines():
        words, hashes = re.split(r"\s+--hash=", line)[0], re.findall(r"--hash=(\S+)", line)
        yield Requirement(words.strip()), hashes


def versions(file: Path, python: str) -> dict[str, str]:
    """What pip takes from a lock on one Python: name -> version; of each package exactly one."""
    environment = {**default_environment(), "python_version": python, "python_full_version": f"{python}.1"}
    found: dict[str, str] = {}
    for one, _ in locked(file):
        if one.marker is None or one.marker.evaluate(environment):
            assert one.name not in found, one.name
            (pin,) = one.specifier
            assert pin.operator == "=="
            found[str(canonicalize_name(one.name))] = pin.version
    return found


def unlocked(file: Path, extras: tuple[str, ...], python: str) -> list[str]:
    """The packages of these extras that the file does not have within the bounds of pyproject.toml."""
    environment = {
        **default_environment(),
        "python_version": python,
        "python_full_version": f"{python}.1",
        "extra": "",
    }
    found = versions(file, python)
    needed = [
        one for one in project_requirements(*extras) if one.marker is None or one.marker.evaluate(environment)
    ]
    assert len(needed) >= 8
    return [
        one.name
        for one in needed
        if one.name != "groupreplay"
        and not one.specifier.contains(found.get(str(canonicalize_name(one.name)), ""))
    ]


@pytest.mark.parametrize("file", [RUN, WATCH, BUILD], ids=lambda file: file.name)
def test_every_package_has_hashes(file: Path) -> None:
    """And nothing names where it is from: that is the setting of whoever installs."""
    for one, hashes in locked(file):
        assert hashes, one
        assert [text for text in hashes if not re.fullmatch(r"sha256:[0-9a-f]{64}", text)] == []
        assert one.url is None
    assert re.findall(r"https?:|--(?:extra-)?index|--find-links", file.read_text("utf-8")) == []


@pytest.mark.parametrize(("file", "extras"), [(RUN, EXTRAS), (WATCH, WATCH_EXTRAS)])
@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_has_what_the_project_needs(python: str, file: Path, extras: tuple[str, ...]) -> None:
    """Every requirement of pyproject.toml and of the extras of the lock, within its bounds, on every Python."""
    assert unlocked(file, extras, python) == []


@pytest.mark.parametrize("python", PYTHONS)
def test_a_checkout_is_tested_with_named_versions(python: str) -> None:
    """All but what belongs to a line of Spark: a new release of a library turns no checkout red."""
    assert unlocked(TESTS, TEST_EXTRAS, python) == ["pyspark"]
    assert versions(TESTS, python).keys() & set(OF_A_LINE) == set()


def test_the_small_image_has_versions_that_the_other_one_has() -> None:
    """So that one run of the tests holds for both."""
    assert versions(WATCH, "3.12").items() <= versions(RUN, "3.12").items()


def test_the_lock_of_builds() -> None:
    """What pyproject.toml names to build with."""
    found = versions(BUILD, "3.12")
    for text in build_requirements():
        one = Requirement(text)
        assert one.specifier.contains(found[one.name])


def test_the_locked_pyspark_was_run_with_its_connector() -> None:
    """The index and the list of jars bring two parts of Spark: the pair has to be one that was run."""
    release = versions(RUN, "3.12")["pyspark"]
    line = find_line(release)
    assert line is not None
    assert line.was_run(release)


@pytest.mark.parametrize(("image", "count"), [("Dockerfile", 5), ("watch.Dockerfile", 4)])
def test_the_image_takes_nothing_else(image: str, count: int) -> None:
    """Every pip of the image demands hashes, or installs one wheel and nothing that it needs; no build is isolated."""
    text = (ROOT / "deploy" / image).read_text("utf-8").replace("\\\n", " ")
    commands = [shlex.split(found) for found in re.findall(r"pip (?:install|wheel)[^&\n]*", text)]
    assert len(commands) == count
    for words in commands:
        assert ("--require-hashes" in words) != ("--no-deps" in words), words
        assert (
            re.search(r"requirements-(build|watch)\.txt", words[-1])
            or "--no-build-isolation" in words
            or words[-1].endswith(".whl")
        )
    # Packages in a folder of their own cannot be checked by pip; a test starts the program with them.
    assert ("pip check" in text) == ("--target" not in text)
