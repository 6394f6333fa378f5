"""The page about events and the code agree."""

from __future__ import annotations

import re

from generators.events_page import page
from groupreplay.state.conditions.registry import DETECTORS
from groupreplay.state.output.envelope import EVENTS


def test_every_event_has_its_section() -> None:
    """With its own fields in it."""
    text = page()
    sections = {line.removeprefix("### ").strip("`") for line in text.splitlines() if line.startswith("### ")}
    assert sections == {fact.NAME for fact in EVENTS}
    assert "| `skipped_generations` | integer or null |" in text


def test_the_table_has_every_event() -> None:
    """With the facts before the conditions, in the order of the sections."""
    table = page().partition("\n## All events\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([a-z_.]+)` \|", table, re.MULTILINE) == [fact.NAME for fact in EVENTS]


def test_the_numbers_are_those_of_the_detectors() -> None:
    """Each condition that a detector finds has its rule and every number with its default."""
    section = page().partition("### `rebalance.slow`")[2].partition("### ")[0]
    assert "Severity WARN." in section
    assert "Fires when: in progress for longer than max(`least_ms`," in section
    assert "| `threshold_ms` | as the rule says |\n| `least_ms` | 60000 |" in section
    for detector in DETECTORS:
        section = page().partition(f"### `{detector.name}`")[2].partition("### ")[0]
        listed = re.findall(r"^\| `(\w+)` \| [^|]+ \|$", section, re.MULTILINE)
        assert listed == list(detector.thresholds())
