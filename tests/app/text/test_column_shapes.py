"""Texts shortened for a terminal."""

from __future__ import annotations

import pytest

from groupreplay.app.inspection.describe_columns import COLUMNS
from groupreplay.app.text.column_shapes import Cut, Shape, shape_of, shortened

UUID = "consumer-1-b6e0c7a4-98a1-4f5c-9d5c-0f0b7a1c2d3e"


@pytest.mark.parametrize(
    ("text", "width", "cut", "expected"),
    [
        (UUID, 47, Cut.MIDDLE, UUID),
        (UUID, 12, Cut.MIDDLE, "consu…1c2d3e"),
        (UUID, 12, Cut.END, "consumer-1-…"),
        (UUID, 1, Cut.MIDDLE, "…"),
        (UUID, 0, Cut.END, ""),
        ("日本語のグループ", 9, Cut.MIDDLE, "日本…ープ"),
        ("日本語のグループ", 8, Cut.MIDDLE, "日…ープ"),
        ("日本語のグループ", 8, Cut.END, "日本語…"),
    ],
)
def test_shortened(text: str, width: int, cut: Cut, expected: str) -> None:
    """An id keeps both ends; a character of two cells is never halved."""
    assert shortened(text, width, cut) == expected


def test_short_headings() -> None:
    """A short heading is shorter, and no two columns of one view have the same."""
    for columns in COLUMNS.values():
        for verbose in (False, True):
            names = [one.heading for one in columns if one.verbose in (None, verbose)]
            short = [shape_of(name).short or name for name in names]
            assert len(set(short)) == len(names)
            assert all(len(one) <= len(name) for one, name in zip(short, names, strict=True))


def test_a_column_that_is_not_listed() -> None:
    """It is a text that may be left out."""
    assert shape_of("NEW-COLUMN") == Shape(Cut.END)
