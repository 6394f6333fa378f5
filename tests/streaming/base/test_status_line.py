"""The renewed line of a terminal."""

from __future__ import annotations

import io

import pytest

from groupreplay.streaming.base.status_line import StatusLine, beginning, can_redraw, cells


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Always."""
        return True


def rows(text: str) -> list[str]:
    """What a terminal shows after this text."""
    shown = [""]
    for part in text.replace("\r\x1b[K", "\0").split("\n"):
        shown[-1] = (shown[-1] + part).rpartition("\0")[2].rstrip("\r")
        shown.append("")
    return shown[:-1]


def test_other_lines_stand_above(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line is renewed in place, and a line between leaves no rest of it behind."""
    monkeypatch.setenv("COLUMNS", "20")
    stream = Terminal()
    line = StatusLine(stream)
    line.clear()
    line.show("one")
    line.show("two")
    line.clear()
    stream.write("an error\n")
    line.redraw()
    assert rows(stream.getvalue()) == ["an error", "two"]
    line.show("a line that is too wide 日本")
    assert rows(stream.getvalue()) == ["an error", "a line that is too…"]
    line.show("")
    line.redraw()
    assert rows(stream.getvalue()) == ["an error", ""]


def test_where_a_line_can_be_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal that knows control sequences."""
    monkeypatch.setenv("TERM", "xterm")
    assert (can_redraw(Terminal()), can_redraw(io.StringIO())) == (True, False)
    monkeypatch.setenv("TERM", "dumb")
    assert not can_redraw(Terminal())


def test_a_terminal_that_is_gone() -> None:
    """A closed terminal ends nothing."""
    stream = Terminal()
    line = StatusLine(stream)
    stream.close()
    line.show("x")
    line.clear()


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("", 0),
        ("payments", 8),
        ("日本", 4),
        ("グループ", 8),
        ("한국어", 6),
        ("\uff57", 2),
        ("e\u0301", 1),
        ("🚀", 2),
        ("🇩🇪", 2),
        ("❤\ufe0f", 2),
    ],
)
def test_cells(text: str, width: int) -> None:
    """The width of a text on a terminal; one cell less never has room for all of it."""
    assert (cells(text), beginning(text, width)) == (width, text)
    if width:
        assert cells(beginning(text, width - 1)) < width
