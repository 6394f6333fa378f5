"""README.md, CONTRIBUTING.md and CHANGELOG.md say what is true."""

from __future__ import annotations

import re
import shlex

import click
import pytest

import groupreplay
from groupreplay.state.output.catalogue import EVENTS
from groupreplay.streaming.cli.program import cli
from groupreplay.streaming.text.event_text import Line
from support.paths import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def commands() -> list[str]:
    """Every groupreplay command line in the README's shell blocks."""
    blocks = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line.partition("#")[0].strip() for line in lines if line.startswith("groupreplay ")]


def test_the_event_table_is_complete() -> None:
    """The table names every event once, in the order of docs/events.md, and nothing else."""
    section = README.partition("\n## Events\n")[2].partition("\n## ")[0]
    assert [fact.NAME for fact in EVENTS] == re.findall(r"^\| `([a-z_.]+)` \|", section, re.MULTILINE)


def test_the_topic_table_is_complete() -> None:
    """The table of topics names those that the job writes by default."""
    from dataclasses import astuple

    from groupreplay.streaming.config.settings import TopicNames

    section = README.partition("\n## Run it")[2].partition("\n## ")[0]
    assert set(astuple(TopicNames())) == set(re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE))


@pytest.mark.parametrize("line", commands())
def test_commands_are_taken(line: str) -> None:
    """Each command line of the README has a known command and known flags with values of the right kind."""
    _, name, *flags = shlex.split(line)
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    command.make_context(name, flags)


def test_flags_in_the_text_exist() -> None:
    """Every flag that a sentence names is a flag of some command, or of the tool the sentence is about."""
    named = set(re.findall(r"`(--[a-z-]+)`", README))
    known = {
        flag
        for name in cli.list_commands(click.Context(cli))
        for parameter in (cli.get_command(click.Context(cli), name) or cli).params
        for flag in (*parameter.opts, *parameter.secondary_opts)
    }
    spark_submits_own = {"--packages"}
    assert named - known == spark_submits_own


def test_links_lead_somewhere() -> None:
    """Every link to a file of the repository has its file."""
    links = re.findall(r"\]\(([^)]+)\)", README + CONTRIBUTING + CHANGELOG)
    files = [link for link in links if "://" not in link]
    assert files
    assert [link for link in files if not (ROOT / link).exists()] == []


def test_make_targets_exist() -> None:
    """Every `make` target that is named is one."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named = set(re.findall(r"(?:`|^)make ([a-z-]+)", README + CONTRIBUTING, re.MULTILINE))
    assert {"demo", "test"} <= named
    assert named - targets == set()


def test_the_sample_is_of_this_release() -> None:
    """The lines of the sample have the form, and the names of events, that the timeline prints."""
    sample = README.partition("```text\n")[2].partition("```")[0]
    told = re.findall(r"^(\S+)  (INFO|WARN|ERROR) +(\S+) +([a-z]+ [a-z_]+): (.*)$", sample, re.MULTILINE)
    assert len(told) > 5
    for time, severity, group, name, words in told:
        assert name.replace(" ", ".") in {fact.NAME for fact in EVENTS}
        line = Line(time=time, severity=severity, group=group, words=f"{name}: {words}")
        assert line.plain() in sample


def test_pages_are_short() -> None:
    """CONTRIBUTING is one page."""
    assert len(CONTRIBUTING.splitlines()) <= 66


def test_the_changelog_knows_this_version() -> None:
    """There is a section for what comes next, or one for the version that this is."""
    assert re.search(rf"^## \[(Unreleased|{re.escape(groupreplay.__version__)})\]", CHANGELOG, re.MULTILINE)


def test_jar_versions_in_the_text() -> None:
    """The Kafka version that the README names is the embedded broker's."""
    from groupreplay.streaming.local.broker import DEFAULT_VERSION

    assert re.findall(r"Kafka (\d+\.\d+\.\d+)", README) == [DEFAULT_VERSION]
