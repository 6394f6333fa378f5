"""What reaches a terminal or a pipe: aligned, escaped, and on the right stream."""

from __future__ import annotations

import io

import pytest

from groupreplay.app.text.terminal import (
    Progress,
    escape_json,
    is_colour_terminal,
    json_line,
    print_error,
    print_json_array,
    terminal_width,
)
from groupreplay.streaming.base.errors import GroupReplayError
from streaming.base.test_status_line import Terminal


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


def test_an_error_whose_words_are_lost_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """An error of Java has its words in the JVM; when that has ended, asking for them is an error of the network."""

    class JavaError(Exception):
        def __str__(self) -> str:
            raise ConnectionRefusedError(111, "Connection refused")

    print_error(JavaError())
    assert capsys.readouterr().err == (
        "error: JavaError: its words are lost, because the JVM has ended\n"
        "  run it again with --debug for the traceback\n"
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
