"""The two events of a condition as lines that belong together: its begin, and its end with what it ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from groupreplay.app.text.event_text import FIRING, RESOLVED, Line, event_name
from groupreplay.state.display.phrases import counted
from groupreplay.state.display.safe_text import safe_text

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
        data = event.get("data")
        condition_id = str(data.get("condition_id") or "") if isinstance(data, Mapping) else ""
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
