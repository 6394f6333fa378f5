"""Counts the events that a filter sees: what there is where it has selected none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from groupreplay.state.display.phrases import counted
from groupreplay.state.events.event import Severity, name_of
from groupreplay.streaming.engine.replay import EventHead

_SHOWN = 6


class EventTally:
    """A filter of events that counts: ``seen`` all of them by name, ``shown`` those that it has selected."""

    def __init__(self, wanted: Callable[[EventHead], bool]) -> None:
        self.shown = 0
        self.seen: Counter[str] = Counter()
        self.severities: Counter[int] = Counter()
        self.first = ""
        self.last = ""
        self._wanted = wanted

    def __call__(self, event: EventHead) -> bool:
        """Whether the event is selected."""
        self.seen[name_of(event.type)] += 1
        self.severities[event.severitynumber] += 1
        self.first = min(self.first or event.time, event.time)
        self.last = max(self.last, event.time)
        selected = self._wanted(event)
        self.shown += selected
        return selected

    def text(self) -> str:
        """``12 events: rebalance.completed 10, group.created 2; INFO 12``."""
        names = [f"{name} {count}" for name, count in self.seen.most_common(_SHOWN)]
        others = len(self.seen) - _SHOWN
        more = f" and {counted(others, 'other kind')}" if others > 0 else ""
        known = {int(one): one.name for one in Severity}
        severities = [f"{known.get(one, one)} {count}" for one, count in sorted(self.severities.items())]
        total = self.seen.total()
        events = "1 event" if total == 1 else f"{total:,} events"
        return f"{events}: {', '.join(names)}{more}; {', '.join(severities)}"
