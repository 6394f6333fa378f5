"""Docs and code agree: the event table of the README, links, and what may not be in a text."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import get_args

import pytest

from groupreplay.state.conditions.conditions import (
    CONDITIONS,
    BlindReason,
    Condition,
    JobBlind,
    RebalanceStuck,
    StuckReason,
)
from groupreplay.state.conditions.tracker import runbook_section
from groupreplay.state.output.catalogue import EVENTS
from support.paths import ROOT


def test_the_readme_lists_every_event() -> None:
    """And none that does not exist."""
    text = (ROOT / "README.md").read_text()
    section = text.split("\n## Events\n")[1].split("\n## ")[0]
    named = re.findall(r"^\| `([a-z_.]+)` \|", section, re.MULTILINE)
    assert sorted(named) == sorted(fact.NAME for fact in EVENTS)


RUNBOOK = (ROOT / "docs" / "runbook.md").read_text()


def test_the_runbook_has_a_section_for_each_condition() -> None:
    """At the place that its events point to, in the order of the docs, and for nothing else."""
    headings = re.findall(r"^## (.*)$", RUNBOOK, re.MULTILINE)
    # What GitHub and others make of a heading.
    anchors = [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
    assert anchors == [runbook_section(kind.NAME) for kind in CONDITIONS]


@pytest.mark.parametrize("kind", CONDITIONS, ids=lambda kind: kind.NAME)
def test_each_section_helps(kind: type[Condition]) -> None:
    """What it means, what to do first, how to confirm; every reason that the event may give is told."""
    section = RUNBOOK.partition(f"**`{kind.NAME}` means:**")[2].partition("\n## ")[0]
    assert [part for part in ("**First", "**Confirm:**") if part not in section] == []
    reasons = {RebalanceStuck: get_args(StuckReason), JobBlind: get_args(BlindReason)}.get(kind, ())
    assert [one for one in reasons if f"`{one}`" not in section] == []


def tracked() -> list[Path]:
    """The texts of the project."""
    suffixes = {".py", ".md", ".toml", ".yml", ".yaml", ".json", ".sh", ""}
    names = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return [ROOT / name for name in names if (ROOT / name).suffix in suffixes and (ROOT / name).is_file()]


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a clone")
def test_links_lead_somewhere() -> None:
    """Every relative link of every page names a file that is there."""
    broken = [
        (page.name, target)
        for page in tracked()
        if page.suffix == ".md"
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert broken == []


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a clone")
def test_no_registry_and_no_machine_is_named() -> None:
    """Clients know their registries by themselves; a path of somebody's machine helps nobody."""
    forbidden = re.compile(
        "|".join(
            [
                "repo1" + r"\.maven",
                "repo" + r"\.maven",
                "files" + r"\.pythonhosted",
                "pypi" + r"\.org",
                "/work" + "/",
            ]
        )
    )
    assert [page.name for page in tracked() if forbidden.search(page.read_text(errors="replace"))] == []
