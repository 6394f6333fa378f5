"""The commands on the pages about performance and scaling are valid."""

from __future__ import annotations

import re

import pytest

from groupreplay.app.cli.commands.report import report_command as report
from groupreplay.app.cli.commands.run import run_command as run
from groupreplay.app.cli.commands.serve import command as serve
from groupreplay.app.cli.commands.simulate import command as simulate
from groupreplay.streaming.spark.session import WITHOUT_DAEMON
from support.paths import ROOT

PAGES = {name: (ROOT / "docs" / name).read_text() for name in ("performance.md", "scaling.md")}
_COMMAND = re.compile(r"^(?:/tmp/)?(?:\.venv/bin/)?python benchmarks/([\w/]+\.py)(.*)$", re.MULTILINE)


def test_each_benchmark_is_on_the_page() -> None:
    """The page has the command of each benchmark that is a program."""
    named = {script for script, _ in _COMMAND.findall(PAGES["performance.md"])}
    folder = ROOT / "benchmarks"
    programs = [path for path in folder.rglob("*.py") if "__main__" in path.read_text()]
    scripts = {path.relative_to(folder).as_posix() for path in programs}
    assert named == scripts


@pytest.mark.parametrize("page", PAGES)
def test_the_flags_of_benchmarks_exist(page: str) -> None:
    """Each flag is declared in the script that gets it."""
    for script, rest in _COMMAND.findall(PAGES[page]):
        source = (ROOT / "benchmarks" / script).read_text()
        own, _, of_run = rest.partition(" -- ")
        assert [flag for flag in re.findall(r"--[\w-]+", own) if f'"{flag}"' not in source] == []
        known = {name for parameter in run.params for name in parameter.opts}
        assert set(re.findall(r"--[\w-]+", of_run)) <= known


@pytest.mark.parametrize("page", PAGES)
def test_every_flag_exists(page: str) -> None:
    """Flags in the text belong to a benchmark or a command of groupreplay, except those of spark-submit."""
    text = re.sub(r"spark-submit --.*?job\.py", "", PAGES[page], flags=re.DOTALL)
    scripts = "".join(path.read_text() for path in (ROOT / "benchmarks").rglob("*.py"))
    commands = (run, serve, report, simulate)
    known = {name for command in commands for parameter in command.params for name in parameter.opts}
    flags = set(re.findall(r"(?<![\w|-])--[a-z][\w-]+", text)) - known
    assert [flag for flag in sorted(flags) if f'"{flag}"' not in scripts] == []


def test_make_bench_runs_the_command_of_the_page() -> None:
    """``make bench`` passes its flags to the benchmark, and the page names existing shapes."""
    makefile = (ROOT / "Makefile").read_text()
    assert "$(BIN)/python benchmarks/bench.py $(ARGS)" in makefile.split("\nbench:")[1].split("\n\n")[0]
    shapes = (ROOT / "benchmarks" / "shapes.py").read_text()
    named = re.findall(r"--shape (\w+)", PAGES["performance.md"])
    assert named
    assert [name for name in named if f'Shape("{name}"' not in shapes] == []


def test_the_price_of_spark_s_own_workers() -> None:
    """What the job and ``check`` say is what the page on scaling calculates with; no other page has a figure."""
    stock, daemon = re.findall(r"[\d.]+ ms", WITHOUT_DAEMON.replace(" of a core", ""))
    assert re.search(rf"{daemon} +\(on a cluster without the daemon {stock}\)", PAGES["scaling.md"])
    for page in ("operations.md", "platforms.md"):
        assert not re.search(r"costs? (some )?[\d.]+ (%|ms)", (ROOT / "docs" / page).read_text())
