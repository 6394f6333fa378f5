"""All kinds of one group: bounded, in order, quiet where nothing is wrong, and said where the history is too short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from groupreplay.coordinator.simulation.scenarios import SCENARIOS
from groupreplay.timeline.advice.finding import NEEDED_MS, Kind
from groupreplay.timeline.advice.group_advice import FINDERS, group_advice
from support.histories.builders import generation, member
from support.paths import ROOT
from support.pictures.timelines import BEGIN, MINUTE
from support.simulated.advised import simulated, small


def test_every_kind_has_a_finder_a_need_and_a_section() -> None:
    """The page has a section for each kind, with its source and when not to follow it."""
    page = (ROOT / "docs/advice.md").read_text()
    assert set(Kind) == set(FINDERS) == set(NEEDED_MS)
    for kind in Kind:
        title = kind.value.replace("-", " ").capitalize()
        section = re.split(r"\n## ", page.partition(f"\n## {title}\n")[2])[0]
        assert ("\nSource: " in section, "\nNot if " in section) == (True, True), kind


@pytest.mark.parametrize("name", ["steady", "simple", "irregular"])
def test_nothing_is_advised_to_healthy_groups(tmp_path: Path, name: str) -> None:
    """Scenarios without a problem have no finding."""
    for history in simulated(SCENARIOS[name], tmp_path / "a.parquet", groups=2, hours=1):
        assert [
            (each.kind, each.text) for each in group_advice(history).findings if name != "transactions"
        ] == []


def test_the_largest_effect_comes_first(tmp_path: Path) -> None:
    """At most five, by the stop that would have been saved; each names its events and its section."""
    (history,) = simulated(SCENARIOS["flapping"], tmp_path / "a.parquet", groups=1, hours=2)
    advised = group_advice(history)
    order = [each.order_ms for each in advised.findings]
    assert order == sorted(order, reverse=True)
    assert 1 <= len(advised.findings) <= 5
    ids = {event.id for event in history.events}
    for each in advised.findings:
        assert set(each.evidence) <= ids
        assert (each.id, each.unless) == (
            f"{each.kind.value}:{history.group_id}",
            f"docs/advice.md#{each.kind.value}",
        )


def test_a_short_history_is_said_for_each_kind() -> None:
    """Ten seconds are too short for all of them."""
    advised = group_advice(
        small(
            [generation(1, member("a", (0,)), at=BEGIN), generation(2, member("a", (0,)), at=BEGIN + 10_000)]
        )
    )
    assert (advised.findings, [each.kind for each in advised.unsaid]) == ((), list(FINDERS))
    assert advised.unsaid[0].text == "it needs 7 d 0 h, and 10.0 s are known"


def test_what_compaction_has_removed_is_not_known() -> None:
    """A gap of generations: the history begins behind it."""
    members = member("a", (0,)), member("b", (1,))
    history = small(
        [
            generation(number, *members, at=BEGIN + minute * MINUTE)
            for number, minute in ((5, 0), (19, 50), (20, 60))
        ]
    )
    advised = group_advice(history)
    assert advised.since_ms == BEGIN + 50 * MINUTE
    assert all("compaction has removed" in each.text for each in advised.unsaid)
