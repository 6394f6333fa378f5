"""The live view: coloured lines with a status line below them on a terminal, plain lines in a pipe.

It expects texts without control characters, as ``event_text`` makes them.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any, Final

import click
from rich.console import Console
from rich.status import Status
from rich.text import Text

from groupreplay.app.text.condition_lines import ConditionLines
from groupreplay.app.text.event_text import Line
from groupreplay.streaming.base.process import StatusLine, can_redraw

_STYLES: Final = {"INFO": "", "WARN": "yellow", "ERROR": "bold red", "OK": "green"}
_GROUP_COLOURS: Final = ("cyan", "green", "magenta", "blue")


class Screen:
    """Prints lines on stdout, and the current activity as a status line, or in a pipe as a line on stderr."""

    def __init__(self, *, colour: bool, follows: bool = False) -> None:
        self.colour = colour
        self._status: Status | None = None
        self._groups: dict[str, str] = {}
        self._conditions = ConditionLines()
        self._footer = StatusLine(sys.stderr) if follows and colour and can_redraw(sys.stderr) else None
        self._console = Console(highlight=False, markup=False, emoji=False) if colour else None

    @contextlib.contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """Show an activity while the block runs."""
        if self._console is None:
            click.echo(f"{what} ...", err=True)
            yield
            return
        self._status = self._console.status(Text(what))
        try:
            with self._status:
                yield
        finally:
            self._status = None

    def status(self, what: str) -> None:
        """Change the text of ``busy``; does nothing in a pipe, because it may change often."""
        if self._status is not None:
            self._status.update(Text(what))

    def heading(self, text: str) -> None:
        """Print an emphasised line."""
        self._print(text, "bold")

    def note(self, text: str) -> None:
        """Print a dimmed line."""
        self._print(text, "dim")

    def action(self, text: str) -> None:
        """Print an action of the demo, between the events that it causes."""
        now = datetime.now(timezone.utc).strftime("%H:%M:%S.%f")[:12]
        self._print(f"{now}  >>>    {text}", "dim")

    def event(self, event: Mapping[str, Any], line: Line) -> None:
        """Print the line of an event; the end of a condition beside its begin, and with ``follows`` what fires now."""
        for one in self._conditions.related(event, line):
            self.line(one)
        if self._footer is not None:
            self._footer.show(self._conditions.firing())

    def close(self) -> None:
        """Remove the line that ``follows`` keeps below all others."""
        if self._footer is not None:
            self._footer.show("")

    def line(self, line: Line) -> None:
        """Print one event; an echo on a terminal only."""
        if line.is_echo and self._console is None:
            return
        if self._footer is None:
            self._event(line)
            return
        self._footer.clear()
        self._event(line)
        sys.stdout.flush()
        self._footer.redraw()

    def _event(self, line: Line) -> None:
        if self._console is None:
            click.echo(line.plain())
            return
        colour = self._groups.setdefault(line.group, _GROUP_COLOURS[len(self._groups) % len(_GROUP_COLOURS)])
        style = "dim" if line.is_echo else _STYLES.get(line.label, "")
        text = Text().append(f"{line.time}  ", "dim")
        text.append(f"{line.label:<5}  ", style).append(f"{line.group:<{line.GROUP_WIDTH}}  ", colour)
        self._console.print(text.append(line.text, style), soft_wrap=True)

    def _print(self, text: str, style: str) -> None:
        if self._console is None:
            click.echo(text)
        else:
            self._console.print(text, style=style, soft_wrap=True)
        sys.stdout.flush()
