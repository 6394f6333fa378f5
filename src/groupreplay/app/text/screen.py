"""The live view: coloured lines with a status line below them on a terminal, plain lines in a pipe.

The two events of a condition are lines that belong together: its begin, and its end with what it ends. Texts must have
no control characters, as ``event_text`` makes them.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any, Final

import click

from groupreplay.app.text.event_text import FIRING, RESOLVED, Line, event_data, event_name
from groupreplay.state.phrases import counted, safe_text
from groupreplay.streaming.base.status_line import StatusLine, can_redraw

#: Conditions of which the begin is remembered; the oldest is forgotten first.
_REMEMBERED: Final = 10_000
_NAMED: Final = 3


class ConditionLines:
    """The conditions that fire, by ``condition_id``, with the lines of their begins."""

    def __init__(self) -> None:
        self._firing: dict[str, tuple[str, Line]] = {}
        self._last = ""

    def related(self, event: Mapping[str, Any], line: Line) -> list[Line]:
        """The lines to print for an event.

        The end of a condition names its begin. If lines of other events stand between both, the line of the begin is
        printed once more, as an ``echo``.
        """
        condition_id = str(event_data(event).get("condition_id") or "")
        before, self._last = self._last, condition_id
        if not condition_id or line.status not in (FIRING, RESOLVED):
            return [line]
        if line.status == FIRING:
            self._firing.pop(condition_id, None)
            self._firing[condition_id] = (safe_text(event_name(event)), line)
            if len(self._firing) > _REMEMBERED:
                del self._firing[next(iter(self._firing))]
            return [line]
        _, begin = self._firing.pop(condition_id, ("", None))
        if begin is None:
            return [line]
        end = replace(line, text=f"└ {line.text}, fired {begin.time} ({begin.severity})")
        return [end] if before == condition_id else [replace(begin, is_echo=True), end]

    def firing(self) -> str:
        """What fires now on one line, the newest first; empty if nothing does."""
        newest = list(self._firing.values())[::-1]
        if not newest:
            return ""
        named = [f"{line.group} {name} since {line.time}" for name, line in newest[:_NAMED]]
        more = [f"{len(newest) - _NAMED} more"] if len(newest) > _NAMED else []
        return f"{counted(len(newest), 'condition')} firing: {', '.join(named + more)}"


_STYLES: Final[Mapping[str, Mapping[str, Any]]] = {
    "WARN": {"fg": "yellow"},
    "ERROR": {"fg": "red", "bold": True},
    "OK": {"fg": "green"},
}
_GROUP_COLOURS: Final = ("cyan", "green", "magenta", "blue")


class Screen:
    """Prints lines on stdout, and below them on a terminal what goes on: an activity, or with ``follows`` what fires.

    In a pipe an activity is a line on stderr.
    """

    def __init__(self, *, colour: bool, follows: bool = False) -> None:
        self.colour = colour
        self._groups: dict[str, str] = {}
        self._conditions = ConditionLines()
        self._follows = follows
        self._below = StatusLine(sys.stderr) if colour and can_redraw(sys.stderr) else None

    @contextlib.contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """Show an activity while the block runs."""
        if self._below is None:
            click.echo(f"{what} ...", err=True)
        self.status(what)
        try:
            yield
        finally:
            self.close()

    def status(self, what: str) -> None:
        """Change the text of ``busy``; does nothing in a pipe, because it may change often."""
        if self._below is not None:
            self._below.show(f"{what} ...")

    def heading(self, text: str) -> None:
        """Print an emphasised line."""
        self._print(text, bold=True)

    def note(self, text: str) -> None:
        """Print a dimmed line."""
        self._print(text, dim=True)

    def action(self, text: str) -> None:
        """Print an action of the demo, between the events that it causes."""
        now = datetime.now(timezone.utc).strftime("%H:%M:%S.%f")[:12]
        self._print(f"{now}  >>>    {text}", dim=True)

    def event(self, event: Mapping[str, Any], line: Line) -> None:
        """Print the line of an event; the end of a condition beside its begin, and with ``follows`` what fires now."""
        for related in self._conditions.related(event, line):
            self.line(related)
        if self._follows and self._below is not None:
            self._below.show(self._conditions.firing())

    def close(self) -> None:
        """Remove the line that stands below all others."""
        if self._below is not None:
            self._below.show("")

    def line(self, line: Line) -> None:
        """Print one event; an echo on a terminal only."""
        if not line.is_echo or self.colour:
            self._print(self._coloured(line) if self.colour else line.plain())

    def _coloured(self, line: Line) -> str:
        colour = self._groups.setdefault(line.group, _GROUP_COLOURS[len(self._groups) % len(_GROUP_COLOURS)])
        style: Mapping[str, Any] = {"dim": True} if line.is_echo else _STYLES.get(line.label, {})
        return (
            click.style(f"{line.time}  ", dim=True)
            + click.style(f"{line.label:<5}  ", **style)
            + click.style(f"{line.group:<{line.GROUP_WIDTH}}  ", fg=colour)
            + click.style(line.text, **style)
        )

    def _print(self, text: str, **style: Any) -> None:
        if self._below is not None:
            self._below.clear()
        click.echo(click.style(text, **style) if self.colour and style else text)
        sys.stdout.flush()
        if self._below is not None:
            self._below.redraw()
