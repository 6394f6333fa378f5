"""A new condition is as many files as CONTRIBUTING.md says: everything else follows from them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.paths import ROOT

MODULE = '''
"""``members.few``."""

from dataclasses import dataclass

from groupreplay.state.conditions.condition import Alert, Condition, Example
from groupreplay.state.conditions.detection import QUIET, Dependency, Evaluation, GroupDetector, GroupView
from groupreplay.state.phrases import Data, counted
from groupreplay.state.events.event import Evidence
from groupreplay.state.snapshot.group_snapshot import GroupSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class MembersFew(Condition):
    """A group has too few members."""

    NAME = "members.few"
    DOC = "Fewer members than the rules ask for."
    SHORT = "too few members"
    MEANING = "the group had too few members"
    ALERTS = (
        Alert(
            fires="a group has too few members",
            summary="{group} has too few members",
            description="Group {group} of cluster {cluster} has fewer members than it needs.",
        ),
    )
    EXAMPLES = (Example(Evidence.LOG, {"member_count": 1, "most": 2}),)
    member_count: int
    most: int

    @staticmethod
    def firing_text(data: Data) -> str:
        return f"only {counted(data.get('member_count', 0), 'member')}, before {data.get('most')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MembersFewDetector(GroupDetector):
    """A group with members has fewer than ``least``."""

    CONDITION = MembersFew
    DEPENDS_ON = frozenset({Dependency.MEMBERS})
    least: int = 1

    def learn(self, snapshot: GroupSnapshot, at_ms: int) -> None:
        if snapshot.slot_history is not None:
            history, count = snapshot.slot_history, len(snapshot.group.classic.members)
            history.most_members = max(history.most_members, count)

    def evaluate(self, view: GroupView) -> Evaluation:
        count = len(view.group.classic.members)
        if not 0 < count < self.least:
            return QUIET
        most = view.snapshot.slot_history.most_members
        return Evaluation([self.detection(view.now_ms, None, member_count=count, most=most)])
'''

#: Only its place counts here.
TEST = '"""``members.few``."""\n'
SECTION = """## Members few

**`members.few` means:** a group has too few members.

**First:** start more.

**Confirm:** count them.

## Member idle
"""


def put(text: str, before: str, more: str) -> str:
    """A text with more before its first occurrence of these words."""
    assert before in text
    return text.replace(before, f"{more}{before}", 1)


def registered(text: str) -> str:
    """The registry with the detector."""
    imported = "from groupreplay.state.conditions.members_few import MembersFewDetector\n"
    return put(
        put(text, "from groupreplay.state.conditions.offsets", imported),
        "    MemberIdleD",
        "    MembersFewDetector(),\n",
    )


#: What is written by hand: a path, and the text of the file from the text that it had.
BY_HAND: dict[str, Callable[[str], str]] = {
    "src/groupreplay/state/conditions/members_few.py": lambda _: MODULE,
    "src/groupreplay/state/conditions/registry.py": registered,
    "tests/state/conditions/test_members_few.py": lambda _: TEST,
    "docs/runbook.md": lambda text: text.replace("## Member idle\n", SECTION, 1),
    "CHANGELOG.md": lambda text: put(text, "### Added\n", "### Added\n\n- **sink** `members.few`.\n"),
}
MEMORY: dict[str, Callable[[str], str]] = {
    "src/groupreplay/state/snapshot/members.py": lambda text: text.replace(
        "    stopped_ms: int = -1\n", "    stopped_ms: int = -1\n    most_members: int = 0\n", 1
    )
}
#: What ``make docs`` writes from these files.
GENERATED = {
    "deploy/helm/groupreplay/files/groupreplay.rules.yml",
    "deploy/prometheus/groupreplay.rules.test.yml",
    "deploy/prometheus/groupreplay.rules.yml",
    "deploy/rules.toml",
    "docs/events.md",
    "docs/monitoring.md",
}

REPLAY = """
import json
from dataclasses import replace
from groupreplay.app.text.event_text import line_of
from groupreplay.state.output.envelope import cloud_event
from groupreplay.streaming.config.rules_file import parse_rules
from support.histories.builders import CONTEXT, asked_for, generation, member, placed, read_in_batches
policy = parse_rules("[members.few]\\nleast = 2", "rules.toml")
history = [asked_for(at=1_000), generation(1, member("a", [0]), at=2_000)]
history.append(generation(2, member("a", [0]), member("b", [1]), at=9_000))
history.append(generation(3, member("a", [0]), at=10_000))
batches = [[record] for record in placed(history)]
_, events = read_in_batches(batches, replace(CONTEXT, policy=policy), 20_000)
written = [json.loads(cloud_event(one, CONTEXT, one.time_ms).value) for one in events]
print(json.dumps([line_of(one).plain() for one in written if "members.few" in one["type"]]))
"""

VERDICT = """
from groupreplay.state.conditions.registry import kind_named
print(kind_named("members.few").MEANING)
"""


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code and the docs with a condition that is not in this repository, after ``make docs``."""
    root = tmp_path_factory.mktemp("copy")
    for folder in ("src", "docs", "deploy"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__", "images"))
    for path, edited in {**BY_HAND, **MEMORY}.items():
        before = (ROOT / path).read_text() if (ROOT / path).exists() else ""
        after = edited(before)
        assert after != before
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(after)
    output(root, "docs/refresh.py")
    return root


def output(root: Path, *words: str) -> str:
    """What a program of the copy prints."""
    path = f"{root / 'src'}:{root / 'docs'}:{ROOT / 'tests'}"
    ran = subprocess.run(
        [sys.executable, *words],
        cwd=root,
        env={"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


def test_the_recipe_has_the_number_of_files() -> None:
    """CONTRIBUTING.md says how many files are written by hand, with and without a memory."""
    recipe = (ROOT / "CONTRIBUTING.md").read_text().partition("- **A condition**")[2].partition("\n- **")[0]
    assert re.findall(r"\((\d) files\)", recipe) == [str(len(BY_HAND)), str(len(BY_HAND) + len(MEMORY))]
    assert [path for path in (*BY_HAND, *MEMORY) if not (ROOT / path).exists()] == [
        "src/groupreplay/state/conditions/members_few.py",
        "tests/state/conditions/test_members_few.py",
    ]


def test_everything_else_is_generated(copied: Path) -> None:
    """No other file differs; in the pages and rules that do, it has its place."""
    changed = {
        path
        for file in copied.rglob("*")
        if file.is_file()
        for path in [file.relative_to(copied).as_posix()]
        if not (ROOT / path).exists() or file.read_bytes() != (ROOT / path).read_bytes()
    }
    assert changed == {*BY_HAND, *MEMORY, *GENERATED}
    for path in GENERATED:
        assert re.search(r"members(\[?[.]\]?)few", (copied / path).read_text()), path


def test_its_alert_is_made(copied: Path) -> None:
    """The rule with its texts, the test of promtool, the row of the page; the rule for all others leaves it out."""
    rules, tests, page = (
        (copied / path).read_text()
        for path in (
            "deploy/prometheus/groupreplay.rules.yml",
            "deploy/prometheus/groupreplay.rules.test.yml",
            "docs/monitoring.md",
        )
    )
    rule = rules.partition("- alert: ConsumerGroupMembersFew\n")[2].partition("- alert: ")[0]
    assert 'kafka_consumergroup_condition_since_timestamp_seconds{condition="members.few"} > 0' in rule
    assert 'summary: "{{ $labels.consumergroup }} has too few members"' in rule
    assert "#members-few{{ end }}" in rule
    assert "|members[.]few|" in rules
    assert "- alertname: ConsumerGroupMembersFew\n" in tests
    row = "| `ConsumerGroupMembersFew` | a group has too few members (`members.few`) | the condition's |\n"
    assert row in page


def test_a_verdict_has_its_words(copied: Path) -> None:
    """What it was, from its module."""
    assert output(copied, "-c", VERDICT) == "the group had too few members\n"


def test_its_schema_is_printed(copied: Path) -> None:
    """``groupreplay schema`` prints the JSON Schema of its event."""
    schemas = json.loads(output(copied, "-m", "groupreplay", "schema"))
    found = schemas["members.few"]
    assert found["description"] == "Fewer members than the rules ask for."
    assert found["properties"]["data"]["properties"]["member_count"] == {"type": "integer"}


def test_the_docs_have_it(copied: Path) -> None:
    """Its section on the page of events, with the rule, the thresholds and an example; its line in the table."""
    page = (copied / "docs" / "events.md").read_text()
    section = page.partition("### `members.few`")[2].partition("### ")[0]
    assert "Severity WARN.\n\nFires when: a group with members has fewer than `least`." in section
    assert "| `least` | 1 |" in section
    assert "| `member_count` | integer |  |" in section
    assert "```text\nonly 1 member, before 2\n```" in section
    assert "| `members.few` | a group has too few members |\n" in page


def test_the_rules_have_it(copied: Path) -> None:
    """The generated file of rules has its thresholds."""
    rules = (copied / "deploy" / "rules.toml").read_text()
    assert "# A group with members has fewer than `least`.\n[members.few]\nleast = 1\n" in rules


def test_it_fires_and_resolves_on_the_terminal(copied: Path) -> None:
    """With a threshold from a file of rules, from the log to a line of text; what it remembers survives restarts."""
    assert json.loads(output(copied, "-c", REPLAY)) == [
        "00:00:02.000  WARN   g               members few: only 1 member, before 1",
        "00:00:09.000  OK     g               members few: resolved",
        "00:00:10.000  WARN   g               members few: only 1 member, before 2",
    ]
