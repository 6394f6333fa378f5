"""What reaches a terminal or a pipe: aligned, escaped, and on the right stream."""

from __future__ import annotations

import io
import json
import unicodedata

import pytest

from groupreplay.app.text.cells import Moment
from groupreplay.app.text.terminal import (
    OutputFormat,
    Progress,
    Table,
    TableStyle,
    escape_json,
    is_colour_terminal,
    json_line,
    print_error,
    print_json_array,
    show,
    table_lines,
    terminal_width,
)
from groupreplay.streaming.base.clock import time_zone
from groupreplay.streaming.base.errors import GroupReplayError

HOSTILE = "a\x1b[31mb\x00\x9b\u202ec\u2066\u200bd\r\ne\x7f\u2028f\ud800g"


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Always."""
        return True


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


@pytest.mark.parametrize(
    ("columns", "stream", "width"),
    [("", Terminal(), 80), ("132", Terminal(), 132), ("0", Terminal(), 80), ("", io.StringIO(), None)],
)
def test_width(monkeypatch: pytest.MonkeyPatch, columns: str, stream: io.StringIO, width: int | None) -> None:
    """That of the terminal, unless COLUMNS says another; a pipe has none."""
    monkeypatch.setenv("COLUMNS", columns)
    assert terminal_width(stream) == width
    monkeypatch.setenv("COLUMNS", "100")
    assert terminal_width(io.StringIO()) == 100


def test_json_of_plain_text_is_left_alone() -> None:
    """Harmless text, also beyond ASCII, is printed as it is; line ends between values stay."""
    assert json_line({"a": "grüße 日本 🚀"}) == '{"a":"grüße 日本 🚀"}'
    assert escape_json('{\n "a": "ü"\n}') == '{\n "a": "ü"\n}'


def test_json_array(capsys: pytest.CaptureFixture[str]) -> None:
    """An array that is printed element by element is one JSON value, also when it is empty."""
    calls: list[str] = []
    print_json_array([], lambda: calls.append("never"))
    print_json_array([{"a": 1}, {"b": 2}], lambda: calls.append("before"))
    assert capsys.readouterr().out == '[]\n[\n{"a":1},\n{"b":2}\n]\n'
    assert calls == ["before", "before"]


def test_errors_are_harmless_and_complete(capsys: pytest.CaptureFixture[str]) -> None:
    """An error says what, where and what to do on stderr; neither escapes nor secrets get through."""
    print_error(
        GroupReplayError("cannot read\nthe log says", where="x\x1b[0m", fix="try a\nor sasl.password=p4ss")
    )
    print_error(ValueError("bad\nmore"))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        "error: cannot read\n  the log says (x\\u{1b}[0m)\n  try a\n  or sasl.password=********\n"
        "error: ValueError: bad\n  run it again with --debug for the traceback\n"
    )


@pytest.mark.parametrize(
    ("stream", "no_color", "env", "expected"),
    [
        (Terminal(), False, {}, True),
        (Terminal(), True, {}, False),
        (Terminal(), False, {"NO_COLOR": "1"}, False),
        (Terminal(), False, {"NO_COLOR": ""}, True),
        (Terminal(), False, {"TERM": "dumb"}, False),
        (io.StringIO(), False, {}, False),
    ],
)
def test_colour(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, no_color: bool, env: dict[str, str], expected: bool
) -> None:
    """Colours only on a terminal that can, unless a flag, NO_COLOR or TERM=dumb forbids them."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert is_colour_terminal(stream, no_color=no_color) is expected


def shown_progress(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, times: list[float]) -> str:
    """What a read that reports at these moments shows."""
    clock = iter([0.0, *times])
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("groupreplay.app.text.terminal.time.monotonic", lambda: next(clock))
    with Progress("records read", stream) as progress:
        for done, _ in enumerate(times, start=1):
            progress(done * 1000, 4000 if done < 4 else None)
    return stream.getvalue()


def test_progress_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line is redrawn a few times a second and removed at the end."""
    shown = shown_progress(monkeypatch, Terminal(), [0.1, 0.3, 0.4, 0.6])
    assert shown == "\r\x1b[Krecords read: 2,000 of 4,000 (50 %)\r\r\x1b[Krecords read: 4,000\r\r\x1b[K"


def test_progress_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anywhere else it is a line each minute, without escapes."""
    shown = shown_progress(monkeypatch, io.StringIO(), [1, 59, 61, 125])
    assert shown == "records read: 3,000 of 4,000 (75 %)\nrecords read: 4,000\n"
