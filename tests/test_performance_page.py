"""The commands of the pages on performance and scaling can be typed as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from groupreplay.streaming.commands import run

ROOT = Path(__file__).parents[1]
PAGES = {name: (ROOT / "docs" / name).read_text() for name in ("performance.md", "scaling.md")}
_COMMAND = re.compile(r"^(?:/tmp/)?(?:\.venv/bin/)?python benchmarks/(\w+\.py)(.*)$", re.MULTILINE)


def test_each_benchmark_is_on_the_page() -> None:
    """With the command that runs it; what only others import has none."""
    named = {script for script, _ in _COMMAND.findall(PAGES["performance.md"])}
    scripts = {path.name for path in (ROOT / "benchmarks").glob("*.py") if "__main__" in path.read_text()}
    assert named == scripts


@pytest.mark.parametrize("page", PAGES)
def test_the_flags_of_benchmarks_exist(page: str) -> None:
    """Each one is declared in the script that it is given to."""
    for script, rest in _COMMAND.findall(PAGES[page]):
        source = (ROOT / "benchmarks" / script).read_text()
        own, _, of_run = rest.partition(" -- ")
        assert [flag for flag in re.findall(r"--[\w-]+", own) if f'"{flag}"' not in source] == []
        known = {name for parameter in run.params for name in parameter.opts}
        assert set(re.findall(r"--[\w-]+", of_run)) <= known


@pytest.mark.parametrize("page", PAGES)
def test_the_flags_of_the_job_exist(page: str) -> None:
    """Each flag in code that is no benchmark's is one of ``groupreplay run``."""
    text = _COMMAND.sub("", re.sub(r"make bench.*", "", PAGES[page]))
    known = {name for parameter in run.params for name in parameter.opts}
    assert set(re.findall(r"(?<![\w-])--[a-z][\w-]+", text)) <= known
