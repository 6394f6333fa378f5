"""``app/text/tables.py``: cells, tables for a terminal and for a pipe, CSV and JSON; everything is safe to print."""

from __future__ import annotations

import json
import unicodedata

import pytest

from groupreplay.app.text.tables import (
    Cell,
    Moment,
    OutputFormat,
    Table,
    TableStyle,
    cell_text,
    has_time,
    moment,
    short_clock,
    show,
    table_lines,
    whole_clock,
)
from groupreplay.streaming.base.clock import UTC, time_zone

HOSTILE = "a\x1b[31mb\x00\x9b\u202ec\u2066\u200bd\r\ne\x7f\u2028f\ud800g"
AT_MS = 1_769_824_984_567  # 2026-01-31T02:03:04.567Z
BERLIN = time_zone("Europe/Berlin")


@pytest.mark.parametrize(
    ("cell", "short", "whole"),
    [
        (Moment(AT_MS), "01-31 03:03:04", "2026-01-31T03:03:04.567+01:00"),
        (Moment(0), "1970-01-01 01:00", "1970-01-01T01:00:00.000+01:00"),
        (("before ", Moment(0)), "before 1970-01-01 01:00", "before 1970-01-01T01:00:00.000+01:00"),
        (7, "7", "7"),
        ("a\tb\x1b", "a\\u{9}b\\u{1b}", "a\\u{9}b\\u{1b}"),
        *((missing, "-", "-") for missing in (None, "", ())),
    ],
    ids=repr,
)
def test_texts(cell: Cell, short: str, whole: str) -> None:
    """Times of this year are short without it; control characters are escaped; a missing value is a dash."""
    assert cell_text(cell, short_clock(BERLIN, 2026)) == short
    assert cell_text(cell, whole_clock(BERLIN)) == whole


def test_the_hour_that_comes_twice() -> None:
    """When the clocks are set back, a time of that hour has its offset."""
    twice = [Moment(1_792_886_400_000 + hour * 3_600_000) for hour in range(-1, 3)]
    assert [cell_text(one, short_clock(BERLIN, 2026)) for one in twice] == [
        "10-25 01:00:00",
        "10-25 02:00:00+02:00",
        "10-25 02:00:00+01:00",
        "10-25 03:00:00",
    ]


def test_times_that_cannot_be() -> None:
    """A time of no calendar is printed all the same; a negative one is unknown."""
    assert cell_text(Moment(1 << 62), short_clock(UTC, 2026)).startswith("1970-01-01T00:00:00")
    assert (moment(-1), moment(None), moment(5)) == (None, None, Moment(5))


def test_limit() -> None:
    """A text of a record has so many characters at most."""
    assert cell_text("x" * 300, whole_clock(), limit=256) == "x" * 255 + "…"


def test_has_time() -> None:
    """Of a column with a time, also one inside a text."""
    assert has_time([None, ("since ", Moment(1))])
    assert not has_time([None, 5, "x"])


def is_harmless(text: str) -> bool:
    """Whether a text has nothing but line ends, blanks and characters that can be seen."""
    return all(
        char == "\n" or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in text
    )


ESCAPED = "a\\u{1b}[31mb\\u{0}\\u{9b}\\u{202e}c\\u{2066}\\u{200b}d\\u{d}\\u{a}e\\u{7f}\\u{2028}f\\u{d800}g"


@pytest.mark.parametrize("style", [TableStyle(), TableStyle(wide=True), TableStyle(width=120)], ids=repr)
def test_hostile_text_in_a_table(capsys: pytest.CaptureFixture[str], style: TableStyle) -> None:
    """A table never carries a control character from a record to the terminal, and stays one line a row."""
    show(Table(("GROUP",), [(HOSTILE,), ("[bold]x[/]",)]), [], "table", style)
    printed = capsys.readouterr().out
    assert is_harmless(printed)
    assert printed.splitlines() == ["GROUP", ESCAPED, "[bold]x[/]"]


def test_hostile_text_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON is harmless to a terminal and gives back exactly what went in."""
    formats: tuple[OutputFormat, ...] = ("json", "jsonl")
    for output in formats:
        show(Table((), []), [{"group_id": HOSTILE}], output)
        printed = capsys.readouterr().out
        assert is_harmless(printed)
        parsed = json.loads(printed)
        assert (parsed[0] if output == "json" else parsed) == {"group_id": HOSTILE}


def test_hostile_text_in_csv(capsys: pytest.CaptureFixture[str]) -> None:
    """A cell that a spreadsheet would run gets a quote in front; numbers and missing values stay."""
    rows = [
        ("=1+1", -1),
        ("+x", 0),
        ("-x", None),
        ("@x", 1),
        ("\tx", 2),
        ("\rx", 3),
        ('say "a,b"', 4),
        (HOSTILE, 5),
    ]
    show(Table(("GROUP", "N"), rows), [], "csv")
    printed = capsys.readouterr().out
    assert is_harmless(printed)
    assert printed.splitlines()[:8] == [
        "GROUP,N",
        "'=1+1,-1",
        "'+x,0",
        "'-x,",
        "'@x,1",
        "'\\u{9}x,2",
        "'\\u{d}x,3",
        '"say ""a,b""",4',
    ]


LONG_ID = "payments-" + 231 * "x" + "-consumer"
DAY_MS = 1_767_225_600_000
ROWS = Table(
    ("GROUP", "N", "SINCE"),
    [("a", 1, None), (LONG_ID, 22, Moment(DAY_MS)), ("b", "", ("before ", Moment(1)))],
)


def test_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    """Tabs between the columns, as cut and awk expect them: a long id widens no other row; times are RFC 3339."""
    show(ROWS, [], "table")
    assert capsys.readouterr().out == (
        "GROUP\tN\tSINCE\na\t1\t-\n"
        f"{LONG_ID}\t22\t2026-01-01T00:00:00.000Z\nb\t-\tbefore 1970-01-01T00:00:00.001Z\n"
    )


def test_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """The id is shortened in its middle; times are short, have the zone above, and a year that is not this one."""
    show(ROWS, [], "table", TableStyle(width=44, year=2026, zone=time_zone("+02:00")))
    assert capsys.readouterr().out.splitlines() == [
        "GROUP            N   SINCE (+02:00)",
        "a                1   -",
        "payment…onsumer  22  01-01 02:00:00",
        "b                -   before 1970-01-01 02:00",
    ]


def test_whole_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """With --wide nothing is shortened, on a terminal or in a pipe, and the columns are aligned."""
    for width in (None, 40):
        show(ROWS, [], "table", TableStyle(width=width, wide=True))
        lines = capsys.readouterr().out.splitlines()
        assert lines[2] == f"{LONG_ID}  22  2026-01-01T00:00:00.000Z"
        assert lines[1] == "a".ljust(len(LONG_ID)) + "  1   -"


def test_one_group_is_a_heading(capsys: pytest.CaptureFixture[str]) -> None:
    """The group stands above its rows; two groups are a column."""
    style = TableStyle(width=40, by_group=True)
    show(Table(("GROUP", "LAG"), [("a", 1), ("a", 2)]), [], "table", style)
    show(Table(("GROUP", "LAG"), [("a", 1), ("b", 2)]), [], "table", style)
    assert capsys.readouterr().out == "GROUP a\nLAG\n1\n2\nGROUP  LAG\na      1\nb      2\n"


def test_what_is_not_shown_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """Columns without room are named below, and the zone if no heading has room for it; --columns chooses others."""
    table = Table(
        ("GROUP", "CLIENT-ID", "COMMITTED", "LAG"), [("orders", "c" * 20, ("at ", Moment(DAY_MS)), 5)]
    )
    zone = time_zone("Europe/Berlin")
    show(table, [], "table", TableStyle(width=40, year=2026, zone=zone))
    show(table, [], "table", TableStyle(width=30, year=2026, zone=zone, columns=["GROUP", "COMMITTED"]))
    show(table, [], "table", TableStyle(width=40, columns=["LAG", "GROUP"]))
    show(table, [], "csv", TableStyle(width=40, columns=["LAG", "GROUP"], zone=zone))
    assert capsys.readouterr().out.splitlines() == [
        "GROUP   CLIENT-ID             LAG",
        "orders  cccccccccccccccccccc  5",
        "not shown (--wide, --columns): COMMITTED",
        "GROUP   COMMITTED",
        "orders  at 01-01 01:00:00",
        "times: Europe/Berlin",
        *("LAG  GROUP", "5    orders", "LAG,GROUP", "5,orders"),
    ]


def test_values_below_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    """Where --verbose has more columns than fit, each value has a line; what is missing has none."""
    table = Table(
        ("GROUP", "CONSUMER-ID", "CLIENT-ID", "SUBSCRIPTION"),
        [("g", LONG_ID, "c", "t," * 30), ("g", "b", "", "t")],
    )
    show(table, [], "table", TableStyle(width=36, by_group=True, stacks=True))
    assert capsys.readouterr().out.splitlines() == [
        "GROUP g",
        "CONSUMER-ID   payments-x…xx-consumer",
        "CLIENT-ID     c",
        "SUBSCRIPTION  t,t,t,t,t,t,t,t,t,t,t…",
        "",
        "CONSUMER-ID   b",
        "SUBSCRIPTION  t",
    ]


def test_emphasis(capsys: pytest.CaptureFixture[str]) -> None:
    """In colour the words are the same."""
    show(ROWS, [], "table", TableStyle(width=80))
    plain = capsys.readouterr().out
    lines = [text for text, _ in table_lines(ROWS, TableStyle(width=80, colour=True))]
    assert "\n".join(lines) + "\n" == plain
