"""What a live view looks like: lines in colour with a moving status below them, or plain lines in a pipe.

Knows the terminal; must not know what the lines are about. Its texts were made safe by ``timeline``.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Final

import click
from rich.console import Console
from rich.status import Status
from rich.text import Text

from groupreplay.streaming.text.event_text import Line

_STYLES: Final = {"INFO": "", "WARN": "yellow", "ERROR": "bold red"}
_GROUP_COLOURS: Final = ("cyan", "green", "magenta", "blue")


class Screen:
    """Lines on stdout; what is going on right now as a status line, or as one line on stderr in a pipe."""

    def __init__(self, *, colour: bool) -> None:
        self.colour = colour
        self._status: Status | None = None
        self._groups: dict[str, str] = {}
        self._console = Console(highlight=False, markup=False, emoji=False) if colour else None

    @contextlib.contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """Says what is being waited for."""
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
        """Changes what ``busy`` says; in a pipe nothing, as it may change often."""
        if self._status is not None:
            self._status.update(Text(what))

    def heading(self, text: str) -> None:
        """A line that stands out."""
        self._print(text, "bold")

    def note(self, text: str) -> None:
        """A line that stands back."""
        self._print(text, "dim")

    def action(self, text: str) -> None:
        """What is being done to a group, between the events that follow from it."""
        now = datetime.now(timezone.utc).strftime("%H:%M:%S.%f")[:12]
        self._print(f"{now}  >>>    {text}", "dim")

    def line(self, line: Line) -> None:
        """One event."""
        if self._console is None:
            click.echo(line.plain())
            return
        colour = self._groups.setdefault(line.group, _GROUP_COLOURS[len(self._groups) % len(_GROUP_COLOURS)])
        style = _STYLES.get(line.severity, "")
        text = Text().append(f"{line.time}  ", "dim")
        text.append(f"{line.severity:<5}  ", style).append(f"{line.group:<{line.GROUP_WIDTH}}  ", colour)
        self._console.print(text.append(line.text, style), soft_wrap=True)

    def _print(self, text: str, style: str) -> None:
        if self._console is None:
            click.echo(text)
        else:
            self._console.print(text, style=style, soft_wrap=True)
        sys.stdout.flush()
