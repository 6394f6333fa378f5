"""The two sentences for an empty answer, with what is there instead.

Flags that select nothing of what is there end with 5: an answer about a group, a type or a time that does not exist
must not read like "all is quiet". Without such flags an empty answer is the whole truth, and ends with 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from groupreplay.app.text.times import date_time, event_time
from groupreplay.state.phrases import counted, first_of
from groupreplay.streaming.base.clock import TimeZone
from groupreplay.streaming.contract.log import LogExtent
from groupreplay.streaming.engine.group_choice import GroupChoice, is_glob, nearest
from groupreplay.streaming.engine.replay import EventTally

#: So many names fit into a line.
_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class LogRead:
    """What was read: where, how many records from when to when, and the time zone of the line."""

    where: str
    extent: LogExtent
    zone: TimeZone

    def text(self) -> str:
        """``3 records from 2026-01-01 00:00:00.000 to 2026-01-01 00:00:03.000 (UTC)``, or ``no records``."""
        extent = self.extent
        if not extent.records:
            return "no records"
        records = "1 record" if extent.records == 1 else f"{extent.records:,} records"
        if extent.first_ms is None or extent.last_ms is None:
            return records
        times = [date_time(at_ms, self.zone) for at_ms in (extent.first_ms, extent.last_ms)]
        return f"{records} from {times[0]} to {times[1]} ({self.zone.name})"

    def nothing(
        self,
        what: str,
        asked: Sequence[str],
        choice: GroupChoice,
        *,
        shown: object,
        missing: Sequence[str] | None = None,
        contents: str | None = None,
    ) -> Nothing | None:
        """Which groups of the choice are missing; else, if nothing is ``shown``, what was asked for.

        ``missing`` None: those that it did not match. ``contents``: what is there instead; None: the records.
        """
        if missing := choice.unmatched if missing is None else missing:
            return no_group(missing, choice, self.where, self.text())
        return None if shown else no_such(what, asked, self.where, contents or self.text())


@dataclass(frozen=True, slots=True)
class Nothing:
    """Why an answer is empty, and whether flags are the reason."""

    text: str
    is_selection: bool

    def line(self) -> str:
        """The line on stderr."""
        return f"nothing found: {self.text}" if self.is_selection else self.text


def no_group(patterns: Sequence[str], choice: GroupChoice, where: str, contents: str) -> Nothing:
    """``there is no group 'g' in night.parquet: did you mean G? 1 group; 3 records``; ``contents`` is what was read."""
    what = "no group matches" if all(map(is_glob, patterns)) else "there is no group"
    missing = names_of([repr(pattern) for pattern in patterns])
    return Nothing(f"{what} {missing} in {where}: {_instead(patterns, choice)}{contents}", is_selection=True)


def no_such(what: str, asked: Sequence[str], where: str, contents: str) -> Nothing:
    """``no event for --type a.b in night.parquet: there are 3 events``; ``contents`` is what is there instead."""
    words = f" for {' '.join(asked)}" if asked else ""
    there = "there is" if contents.startswith("1 ") else "there are"
    return Nothing(f"no {what}{words} in {where}: {there} {contents}", bool(asked))


def groups_read(kinds: Iterable[str], log: LogRead) -> str:
    """The groups of a log for ``no_such``, by kinds such as ``classic Stable``, one for each group."""
    count = Counter(kinds)
    of_kinds = ", ".join(f"{kind} {number}" for kind, number in count.most_common(_NAMED) if kind)
    groups = counted(count.total(), "group") + (f" ({of_kinds})" if of_kinds else "")
    return f"{groups}; {log.text()}" if count else log.text()


def events_read(tally: EventTally, zone: TimeZone) -> str:
    """The events that a filter has seen, for ``no_such``."""
    times = [event_time(text, zone) for text in (tally.first, tally.last)]
    return f"{tally.text()}; from {times[0]} to {times[1]} ({zone.name})"


def names_of(names: Sequence[str]) -> str:
    """The first of the names, and how many more there are."""
    return first_of(names, str, _NAMED)


def _instead(patterns: Sequence[str], choice: GroupChoice) -> str:
    """The nearest ids, or those that there are; that the group was deleted, if it has records."""
    missing = GroupChoice(patterns)
    if any(group_id in missing for group_id in choice.matched):
        return "it was deleted, and describe --history shows what happened; "
    if not choice.seen:
        return ""
    groups = counted(len(choice.seen), "group")
    close = list(dict.fromkeys(name for pattern in patterns for name in nearest(pattern, choice.seen)))
    return f"did you mean {names_of(close)}? {groups}; " if close else f"{groups}: {names_of(choice.seen)}; "
