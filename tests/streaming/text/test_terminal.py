"""What reaches a terminal or a pipe: aligned, escaped, and on the right stream."""

from __future__ import annotations

import io
import json
import unicodedata

import pytest

from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.text.terminal import (
    OutputFormat,
    Progress,
    Table,
    escape_json,
    is_colour_terminal,
    json_line,
    print_error,
    print_json_array,
    show,
)

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


@pytest.mark.parametrize("colour", [False, True])
def test_hostile_text_in_a_table(capsys: pytest.CaptureFixture[str], colour: bool) -> None:
    """A table never carries a control character from a record to the terminal, and stays one line a row."""
    show(Table(("GROUP",), [(HOSTILE,), ("[bold]x[/]",)]), [], "table", colour=colour)
    printed = capsys.readouterr().out
    assert is_harmless(printed)
    assert printed.splitlines()[-1].strip() == "[bold]x[/]"
    if not colour:
        assert printed.splitlines()[1] == (
            "a\\u{1b}[31mb\\u{0}\\u{9b}\\u{202e}c\\u{2066}\\u{200b}d\\u{d}\\u{a}e\\u{7f}\\u{2028}f\\u{d800}g"
        )


def test_hostile_text_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON is harmless to a terminal and gives back exactly what went in."""
    formats: tuple[OutputFormat, ...] = ("json", "jsonl")
    for output in formats:
        show(Table((), []), [{"group_id": HOSTILE}], output, colour=False)
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
    show(Table(("GROUP", "N"), rows), [], "csv", colour=False)
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


def test_plain_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Columns are as wide as their widest cell, missing values are dashes, long ones are cut."""
    show(
        Table(("GROUP", "N", "LAST"), [("a", 1, None), ("longer", 22, ""), ("x" * 300, 3, "y")]),
        [],
        "table",
        colour=False,
    )
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["GROUP", "N", "LAST"],
        ["a", "1", "-"],
        ["longer", "22", "-"],
    ]
    assert lines[1].index("1") == lines[2].index("22") == lines[0].index("N")
    assert lines[3].split()[0] == "x" * 255 + "…"


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
    monkeypatch.setattr("groupreplay.streaming.text.terminal.time.monotonic", lambda: next(clock))
    with Progress("records read", stream) as progress:
        for done, _ in enumerate(times, start=1):
            progress(done * 1000, 4000 if done < 4 else None)
    return stream.getvalue()


def test_progress_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line is redrawn a few times a second and removed at the end."""
    shown = shown_progress(monkeypatch, Terminal(), [0.1, 0.3, 0.4, 0.6])
    assert shown == "\r\x1b[Krecords read: 2,000 of 4,000 (50 %)\r\x1b[Krecords read: 4,000\r\x1b[K"


def test_progress_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anywhere else it is a line each ten seconds, without escapes."""
    shown = shown_progress(monkeypatch, io.StringIO(), [1, 9, 11, 25])
    assert shown == "records read: 3,000 of 4,000 (75 %)\nrecords read: 4,000\n"
