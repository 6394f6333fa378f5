"""Markdown that several pages have."""

from __future__ import annotations


def row(*cells: str) -> str:
    """A row of a table."""
    return "| " + " | ".join(cells) + " |"
