"""The page about the trace and the code agree."""

from __future__ import annotations

from typing import get_args

from generators.trace_page import page
from groupreplay.coordinator.trace_entries import AnyEntry


def test_every_kind_is_on_the_page() -> None:
    """With what it means and its own fields."""
    rows = [
        line.split(" | ") for line in page().splitlines() if line.startswith("| `") and "`kind`" not in line
    ]
    assert len(rows) == len(get_args(AnyEntry))
    by_kind = {row[0].strip("| `"): row[2] for row in rows}
    assert by_kind["vote"] == "`generation`, `tally`, `candidates`, `votes`, `winner` |"


def test_the_example_is_a_trace() -> None:
    """From the request to the timer that ends the first delay of a rebalance."""
    lines = page().partition("```json\n")[2].splitlines()
    assert lines[0].startswith('{"kind":"request","request":1,"api":"JoinGroup"')
    assert '{"kind":"timer","change":"set","timer":"join","due_ms":3000}' in lines
