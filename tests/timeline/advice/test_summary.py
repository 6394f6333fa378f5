"""What a page shows of advice: findings in words with links to their sections; nothing where nothing is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupreplay.coordinator.simulation.scenarios import SCENARIOS
from groupreplay.timeline.advice.finding import FindingSummary
from groupreplay.timeline.advice.group_advice import group_advice
from groupreplay.timeline.advice.summary import advice_page, advice_summary
from support.simulated.advised import simulated


@pytest.mark.parametrize(
    ("runbook", "page"),
    [
        ("docs/runbook.md", "docs/advice.md"),
        ("https://docs.example.com/runbook.md", "https://docs.example.com/advice.md"),
        ("https://docs.example.com/runbook/", "https://docs.example.com/advice/"),
        ("https://docs.example.com/runbook.html", "https://docs.example.com/advice.html"),
        ("https://wiki.example.com/on-call", "docs/advice.md"),
        ("", "docs/advice.md"),
    ],
)
def test_the_page_is_beside_the_runbook(runbook: str, page: str) -> None:
    """Where the rules name a copy of our docs; with a runbook of their own the path in our docs is left."""
    assert advice_page(runbook) == page


def test_a_finding_has_its_effects_in_words(tmp_path: Path) -> None:
    """Each finding has the link of its section, and the first events of its evidence."""
    (history,) = simulated(
        SCENARIOS["rolling-restart-3-dynamic-eager"], tmp_path / "a.parquet", groups=1, hours=1
    )
    advised = group_advice(history)
    summary = advice_summary(advised, "https://docs.example.com/runbook.md")
    assert summary is not None
    assert summary.page == "https://docs.example.com/advice.md"
    first, shown = advised.findings[0], summary.findings[0]
    assert shown == FindingSummary(
        id=first.id,
        kind=first.kind,
        text=first.text,
        setting="group.instance.id",
        value=first.value,
        saves=shown.saves,
        assumed=("heartbeat interval 3.0 s",),
        evidence=first.evidence[:3],
        events=first.events,
        page="https://docs.example.com/advice.md#static-membership",
    )
    assert shown.saves[0].endswith(" rebalances")
    assert shown.saves[1].startswith("about ")
    assert " of standstill (by the records " in shown.saves[1]
    assert summary.deployments.startswith(f"{len(advised.deployments)} deployments made ")


def test_nothing_to_say(tmp_path: Path) -> None:
    """A healthy group without deployments has no summary."""
    (history,) = simulated(SCENARIOS["steady"], tmp_path / "a.parquet", groups=1, hours=1)
    assert advice_summary(group_advice(history), "docs/runbook.md") is None
