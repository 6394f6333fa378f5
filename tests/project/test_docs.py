"""Facts in the docs: the runbook's sections, links and anchors, and what no text may contain."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import get_args

import pytest

from groupreplay.state.conditions.condition import Condition
from groupreplay.state.conditions.job_blind import BlindReason, JobBlind
from groupreplay.state.conditions.rebalance_stuck import RebalanceStuck, StuckReason
from groupreplay.state.conditions.registry import CONDITIONS
from groupreplay.state.conditions.tracker import runbook_section
from support.paths import ROOT

in_a_clone = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a clone")
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text()


def anchors(page: str, level: str = "#+") -> list[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(rf"^{level} (.*)$", page, re.MULTILINE)
    return [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]


def test_the_runbook_has_a_section_for_each_condition() -> None:
    """The sections have the anchors that events link to, in the order of the docs; there are no others."""
    assert anchors(RUNBOOK, "##") == [runbook_section(kind.NAME) for kind in CONDITIONS]


@pytest.mark.parametrize("kind", CONDITIONS, ids=lambda kind: kind.NAME)
def test_each_runbook_section_is_complete(kind: type[Condition]) -> None:
    """It has the meaning, the first action and the confirmation, and names every reason that the event may give."""
    section = RUNBOOK.partition(f"**`{kind.NAME}` means:**")[2].partition("\n## ")[0]
    assert [part for part in ("**First", "**Confirm:**") if part not in section] == []
    reasons = {RebalanceStuck: get_args(StuckReason), JobBlind: get_args(BlindReason)}.get(kind, ())
    assert [one for one in reasons if f"`{one}`" not in section] == []


def tracked() -> list[Path]:
    """The text files of the project that git tracks."""
    suffixes = {".py", ".md", ".toml", ".yml", ".yaml", ".json", ".sh", ""}
    names = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return [ROOT / name for name in names if (ROOT / name).suffix in suffixes and (ROOT / name).is_file()]


@in_a_clone
def test_linked_files_and_anchors_exist() -> None:
    """Every relative link of every page names an existing file, and its anchor is a heading there."""
    links = [
        (page, target, anchor)
        for page in tracked()
        if page.suffix == ".md"
        for target, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)", page.read_text())
        if "://" not in target
    ]
    linked = [(page, page.parent / target if target else page, anchor) for page, target, anchor in links]
    assert [(page.name, str(target)) for page, target, _ in linked if not target.exists()] == []
    broken = [one for one in linked if one[2] and one[2] not in anchors(one[1].read_text())]
    assert broken == []


@in_a_clone
def test_no_registry_and_no_machine_is_named() -> None:
    """No text contains the address of a package registry or a path of one developer's machine."""
    # No address stands here as a whole, so that this file itself passes.
    forbidden = re.compile(r"repo1?[.]maven|files[.]pythonhosted|pypi[.]org|/work[/]")
    assert [page.name for page in tracked() if forbidden.search(page.read_text(errors="replace"))] == []
