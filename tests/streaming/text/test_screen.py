"""The live view, in a pipe and on a terminal."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from groupreplay.streaming.text.event_text import Line
from groupreplay.streaming.text.screen import Screen

LINE = Line(
    time="02:03:04.567", severity="WARN", group="shipping", text="[bold]not markup[/bold] :smile: 12 ms"
)


def test_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    """Events and actions go to stdout in plain lines; what is being waited for goes to stderr, once."""
    screen = Screen(colour=False)
    with screen.busy("starting"):
        screen.status("still starting")
        screen.line(LINE)
        screen.action("a starts")
    screen.heading("the end")
    captured = capsys.readouterr()
    first, second, third = captured.out.splitlines()
    assert captured.err == "starting ...\n"
    assert (first, third) == (LINE.plain(), "the end")
    assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3}  >>>    a starts", second)


def test_on_a_terminal() -> None:
    """In colour the words are the same: nothing in them is taken for markup, and long lines are not cut."""
    screen = Screen(colour=True)
    output = io.StringIO()
    screen._console = Console(
        file=output, force_terminal=True, highlight=False, markup=False, emoji=False, width=40
    )
    with screen.busy("starting [red]"):
        screen.status("still")
        screen.line(LINE)
    screen.note("aside")
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", output.getvalue())
    assert LINE.plain() in text
    assert text.endswith("aside\n")
    assert "\x1b[33m" in output.getvalue()
