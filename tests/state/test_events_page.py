"""The page about events and the code agree."""

from __future__ import annotations

from pathlib import Path

from groupreplay.state.events import FACTS
from groupreplay.state.events_page import page

PAGE = Path(__file__).parents[2] / "docs" / "events.md"


def test_the_page_is_up_to_date() -> None:
    """``python -m groupreplay.state.events_page > docs/events.md`` has been run after the last change."""
    assert PAGE.read_text() == page()


def test_every_event_has_its_section() -> None:
    """With its own fields in it."""
    text = page()
    sections = {line.removeprefix("### ").strip("`") for line in text.splitlines() if line.startswith("### ")}
    assert sections == {fact.NAME for fact in FACTS}
    assert "| `skipped_generations` | integer or null |" in text
