"""A new condition is one module and one line in the registry: everything else follows from them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.paths import ROOT

MODULE = '''
"""``members.few``."""

from dataclasses import dataclass

from groupreplay.state.conditions.condition import Condition, Example
from groupreplay.state.conditions.detection import QUIET, Dependency, Evaluation, GroupDetector, GroupView
from groupreplay.state.display.phrases import Data, counted
from groupreplay.state.events.event import Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class MembersFew(Condition):
    """A group has too few members."""

    NAME = "members.few"
    DOC = "Fewer members than the rules ask for."
    EXAMPLES = (Example(Evidence.LOG, {"member_count": 1}),)
    member_count: int

    @staticmethod
    def firing_text(data: Data) -> str:
        return f"only {counted(data.get('member_count', 0), 'member')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MembersFewDetector(GroupDetector):
    """A group with members has fewer than ``least``."""

    CONDITION = MembersFew
    DEPENDS_ON = frozenset({Dependency.MEMBERS})
    least: int = 1

    def evaluate(self, view: GroupView) -> Evaluation:
        count = len(view.group.classic.members)
        if not 0 < count < self.least:
            return QUIET
        return Evaluation([self.detection(view.now_ms, None, member_count=count)])
'''

REPLAY = """
import json
from groupreplay.state.output.envelope import cloud_event
from groupreplay.streaming.config.rules_file import parse_rules
from groupreplay.app.text.event_text import line_of
from support.histories.builders import CONTEXT, asked_for, generation, member, replay
from dataclasses import replace
policy = parse_rules("[members.few]\\nleast = 2", "rules.toml")
history = [asked_for(at=1_000), generation(1, member("a", [0]), at=2_000)]
history.append(generation(2, member("a", [0]), member("b", [1]), at=9_000))
_, events = replay(history, context=replace(CONTEXT, policy=policy))
written = [json.loads(cloud_event(one, CONTEXT, one.time_ms).value) for one in events]
print(json.dumps([line_of(one).plain() for one in written if "members.few" in one["type"]]))
"""


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code with a condition that is not in this repository."""
    root = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "docs" / "generators", root / "docs" / "generators")
    conditions = root / "src" / "groupreplay" / "state" / "conditions"
    (conditions / "members_few.py").write_text(MODULE)
    registry = conditions / "registry.py"
    text = registry.read_text()
    line = "from groupreplay.state.conditions.members_few import MembersFewDetector\n\n#: Every detector"
    text = text.replace("\n#: Every detector", line, 1)
    text = text.replace(
        "    JobBlindDetector(),\n", "    MembersFewDetector(),\n    JobBlindDetector(),\n", 1
    )
    registry.write_text(text)
    return root


def output(root: Path, *words: str) -> str:
    """What a program of the copy prints."""
    path = f"{root / 'src'}:{root / 'docs'}:{ROOT / 'tests'}"
    ran = subprocess.run(
        [sys.executable, *words], env={"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


def test_its_schema_is_printed(copied: Path) -> None:
    """``groupreplay schema`` prints the JSON Schema of its event."""
    schemas = json.loads(output(copied, "-m", "groupreplay", "schema"))
    found = schemas["members.few"]
    assert found["description"] == "Fewer members than the rules ask for."
    assert found["properties"]["data"]["properties"]["member_count"] == {"type": "integer"}


def test_the_docs_have_it(copied: Path) -> None:
    """Its section on the page of events, with the rule, the thresholds and an example; its line in the table."""
    page = output(copied, "-c", "from generators.events_page import page; print(page())")
    section = page.partition("### `members.few`")[2].partition("### ")[0]
    assert "Severity WARN.\n\nFires when: a group with members has fewer than `least`." in section
    assert "| `least` | 1 |" in section
    assert "| `member_count` | integer |  |" in section
    assert "```text\nonly 1 member\n```" in section
    table = output(copied, "-c", "from generators.events_page import events_table; print(events_table())")
    assert "| `members.few` | a group has too few members |\n" in table


def test_the_rules_have_it(copied: Path) -> None:
    """The generated file of rules has its thresholds."""
    rules = output(copied, "-c", "from generators.rules_page import page; print(page())")
    assert "# A group with members has fewer than `least`.\n[members.few]\nleast = 1\n" in rules


def test_it_fires_and_resolves_on_the_terminal(copied: Path) -> None:
    """With a threshold from a file of rules, from the log to a line of text."""
    assert json.loads(output(copied, "-c", REPLAY)) == [
        "00:00:02.000  WARN   g               members few: only 1 member",
        "00:00:09.000  OK     g               members few: resolved",
    ]
