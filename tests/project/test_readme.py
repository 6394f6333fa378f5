"""Facts in README.md and the pages around it agree with the code."""

from __future__ import annotations

import re
import shlex
from dataclasses import astuple

import click
import pytest

import groupreplay
from groupreplay.app.cli.program import cli
from groupreplay.app.text.event_text import Line
from groupreplay.state.output.envelope import EVENTS
from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.local.broker import DEFAULT_VERSION
from support.job.captures import parsed
from support.paths import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
OPERATIONS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def commands() -> list[str]:
    """Every groupreplay command line in the README's shell blocks."""
    blocks = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line.partition("#")[0].strip() for line in lines if line.startswith("groupreplay ")]


def test_the_topic_table_is_complete() -> None:
    """The table of docs/operations.md has exactly the topics that the job writes by default."""
    section = OPERATIONS.partition("\n## The topics of the job\n")[2].partition("\n## ")[0]
    assert set(astuple(TopicNames())) == set(re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE))


def test_it_is_short() -> None:
    """150 lines with one picture, and the two commands that run without anything else come first."""
    assert len(README.splitlines()) <= 150
    assert len(re.findall(r"!\[", README)) == 1
    block = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)[0]
    assert [line.partition("#")[0].strip() for line in block.splitlines()] == ["make demo", "make test"]


def test_it_leads_to_every_page() -> None:
    """Each page of docs/ is linked."""
    linked = set(re.findall(r"\]\(docs/([a-z-]+[.]md)", README))
    assert {path.name for path in (ROOT / "docs").glob("*.md")} - linked == set()


@pytest.mark.parametrize("line", commands())
def test_commands_are_valid(line: str) -> None:
    """Each command line of the README has a known command, known flags and valid values."""
    parsed(shlex.split(line)[1:])


def test_flags_in_the_text_exist() -> None:
    """Every flag in the text belongs to a command."""
    named = set(re.findall(r"`(--[a-z-]+)`", README))
    known = {
        flag
        for name in cli.list_commands(click.Context(cli))
        for parameter in (cli.get_command(click.Context(cli), name) or cli).params
        for flag in (*parameter.opts, *parameter.secondary_opts)
    }
    assert named - known == set()


def test_make_targets_exist() -> None:
    """Every ``make`` target in the text is in the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named = set(re.findall(r"(?:`|^)make ([a-z-]+)", README + CONTRIBUTING, re.MULTILINE))
    assert {"demo", "test"} <= named
    assert named - targets == set()


def test_the_sample_output_is_current() -> None:
    """The lines of the sample have the form of printed events, with existing event names."""
    sample = README.partition("```text\n")[2].partition("```")[0]
    lines = re.findall(r"^(\S+)  (INFO|WARN|ERROR) +(\S+) +([a-z]+ [a-z_]+): (.*)$", sample, re.MULTILINE)
    assert len(lines) > 5
    for time, severity, group, name, words in lines:
        assert name.replace(" ", ".") in {fact.NAME for fact in EVENTS}
        line = Line(time=time, severity=severity, group=group, text=f"{name}: {words}")
        assert line.plain() in sample


def test_contributing_is_short() -> None:
    """CONTRIBUTING has at most one page."""
    assert len(CONTRIBUTING.splitlines()) <= 66


def test_the_changelog_has_this_version() -> None:
    """There is a section for unreleased changes or for the current version."""
    assert re.search(rf"^## \[(Unreleased|{re.escape(groupreplay.__version__)})\]", CHANGELOG, re.MULTILINE)


def test_jar_versions_in_the_text() -> None:
    """The Kafka version that the README names is the embedded broker's."""
    assert re.findall(r"Kafka (\d+\.\d+\.\d+)", README) == [DEFAULT_VERSION]
