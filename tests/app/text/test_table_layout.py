"""``app/text/table_layout.py``."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.app.inspection.describe import COLUMNS
from groupreplay.app.text.table_layout import Cut, Shape, TextColumn, fitted, shape_of, shortened
from groupreplay.app.text.tables import Cell, Moment, Table, TableStyle, table_lines

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


HEADINGS = sorted({column.heading for columns in COLUMNS.values() for column in columns})
#: Letters of one and of two cells, digits, signs, combining marks, and characters that are escaped.
TEXTS = st.text(
    st.one_of(
        st.characters(categories=("L", "N", "P", "S", "Mn", "Cc")),
        st.sampled_from("日本語グループ한국어ｗ\u0301"),
    ),
    max_size=249,
)
CELLS: st.SearchStrategy[Cell] = st.one_of(
    st.none(), TEXTS, st.integers(0, 1 << 63), st.builds(Moment, st.integers(0, 1 << 42))
)


def cells_of(line: str) -> int:
    """The cells that a terminal needs by Unicode's table of widths; not what the code under test asks."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in line)
    return len(line) + wide - sum(unicodedata.category(char) in ("Mn", "Me") for char in line)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """A table with columns of ``describe`` and any cells."""
    columns = draw(st.lists(st.sampled_from(HEADINGS), min_size=1, max_size=20, unique=True))
    rows = draw(st.lists(st.tuples(*(CELLS for _ in columns)), max_size=5))
    return Table(columns, rows)


@given(tables(), st.integers(5, 220), st.booleans(), st.booleans())
def test_no_line_is_wider_than_the_terminal(table: Table, width: int, by_group: bool, stacks: bool) -> None:
    """Whatever the records hold: a line is never wider, so that nothing wraps, and never two lines."""
    style = TableStyle(width=width, by_group=by_group, stacks=stacks, year=2026)
    lines = [text for text, _ in table_lines(table, style)]
    assert [text for text in lines if cells_of(text) > width or "\n" in text] == []


def column(name: str, *cells: str) -> TextColumn:
    """A column of these cells."""
    return TextColumn(name, name, cells)


OFFSETS = [
    column("TOPIC", "orders", "orders"),
    column("PARTITION", "0", "1"),
    column("CURRENT-OFFSET", "1000", "2000"),
    column("LOG-END-OFFSET", "1010", "2020"),
    column("LAG", "10", "20"),
    column("CONSUMER-ID", "consumer-1-b6e0c7a4-98a1-4f5c-9d5c-0f0b7a1c2d3e", "-"),
    column("HOST", "/10.0.0.1", "-"),
    column("METADATA", "-", "-"),
]


def test_what_a_table_loses_first() -> None:
    """Headings become short, then empty columns go, then ids are shortened, then columns go from the right."""
    headings = {width: fitted(OFFSETS, width).headings() for width in (200, 80, 50)}
    whole = [
        "TOPIC",
        "PARTITION",
        "CURRENT-OFFSET",
        "LOG-END-OFFSET",
        "LAG",
        "CONSUMER-ID",
        "HOST",
        "METADATA",
    ]
    assert headings[200] == whole
    short = ["TOPIC", "PART", "OFFSET", "LOG-END", "LAG", "CONSUMER-ID", "HOST"]
    assert headings[80] == short
    assert headings[50] == short[:-1]
    assert fitted(OFFSETS, 80).left_out == ["METADATA"]
    assert fitted(OFFSETS, 50).left_out == ["HOST", "METADATA"]
    assert fitted(OFFSETS, 80).lines() == [
        "TOPIC   PART  OFFSET  LOG-END  LAG  CONSUMER-ID                        HOST",
        "orders  0     1000    1010     10   consumer-1-b6e0c…d5c-0f0b7a1c2d3e  /10.0.0.1",
        "orders  1     2000    2020     20   -                                  -",
    ]


def test_risk_is_never_left_out() -> None:
    """That nothing is wrong is an answer."""
    groups = [
        column("GROUP", "g" * 60),
        column("PROTOCOL", "-"),
        column("STATE", "Stable"),
        column("RISK", "-"),
    ]
    assert fitted(groups, 40).headings() == ["GROUP", "STATE", "RISK"]


def test_300_groups() -> None:
    """One long id does not widen the table, and every group keeps its line."""
    ids = [f"group-{number}" for number in range(299)] + ["x" * 249]
    table = fitted([column("GROUP", *ids), column("STATE", *["Stable"] * 300)], 80)
    assert len(table.lines()) == 301
    assert (max(map(len, table.lines())), table.left_out) == (80, [])
