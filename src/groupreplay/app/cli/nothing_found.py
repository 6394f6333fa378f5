"""The two sentences for an empty answer, with what is there instead.

Flags that select nothing of what is there end with 5: an answer about a group, a type or a time that does not exist
must not read like "all is quiet". Without such flags an empty answer is the whole truth, and ends with 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from groupreplay.app.text.times import date_time, event_time
from groupreplay.state.display.phrases import counted
from groupreplay.streaming.base.time_zones import TimeZone
from groupreplay.streaming.engine.event_tally import EventTally
from groupreplay.streaming.engine.group_choice import GroupChoice, is_glob, nearest
from groupreplay.streaming.kafka.topic_reader import LogExtent

#: So many names fit into a line.
_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class LogRead:
    """What was read: where, how many records from when to when, and the time zone of the line."""

    where: str
    extent: LogExtent
    zone: TimeZone

    def text(self) -> str:
        """``3 records from 2026-01-01 00:00:00.000 to 2026-01-01 00:00:03.000 (UTC)``."""
        extent = self.extent
        records = "1 record" if extent.records == 1 else f"{extent.records:,} records"
        if extent.first_ms is None or extent.last_ms is None:
            return records
        times = [date_time(at_ms, self.zone) for at_ms in (extent.first_ms, extent.last_ms)]
        return f"{records} from {times[0]} to {times[1]} ({self.zone.name})"


@dataclass(frozen=True, slots=True)
class Nothing:
    """Why an answer is empty, and whether flags are the reason."""

    text: str
    is_selection: bool

    def line(self) -> str:
        """The line on stderr."""
        return f"nothing found: {self.text}" if self.is_selection else self.text


def _nothing(what: str, asked: Sequence[str], where: str, there: str) -> Nothing:
    """``no event for --group g in night.parquet: there are 3 events``; ``there`` is what there is instead."""
    words = f" for {' '.join(asked)}" if asked else ""
    return Nothing(f"no {what}{words} in {where}: {there}", bool(asked))


def no_group(patterns: Sequence[str], choice: GroupChoice, log: LogRead) -> Nothing:
    """Of patterns that match no group: the nearest ids, or those that there are."""
    known = choice.seen
    missing = GroupChoice(patterns)
    deleted = [one for one in choice.matched if one in missing]
    if not log.extent.records and not known:
        return _no_records(patterns, log)
    if deleted:
        has = "has" if len(deleted) == 1 else "have"
        return Nothing(
            f"the group {_quoted(deleted)} does not exist at the end of the data in {log.where}, but {has} records: "
            f"describe --history shows what happened; {log.text()}",
            is_selection=True,
        )
    text = f"{_unmatched(patterns)} in {log.where}: {_instead(patterns, known)}; {log.text()}"
    return Nothing(text, is_selection=True)


def no_group_in_events(
    patterns: Sequence[str], choice: GroupChoice, tally: EventTally, where: str
) -> Nothing:
    """The same of a topic of events."""
    text = (
        f"{_unmatched(patterns)} in the events of {where}: {_instead(patterns, choice.seen)}; {tally.text()}"
    )
    return Nothing(text, is_selection=True)


def no_event(asked: Sequence[str], tally: EventTally, log: LogRead) -> Nothing:
    """Of a log from which no event follows, or no event that flags select."""
    if not log.extent.records:
        return _no_records(asked, log)
    if not tally.seen:
        # The groups are there: that no event follows from their records is a whole answer about them.
        others = [flag for flag in asked if not flag.startswith("--group ")]
        nothing = _nothing("event", asked, log.where, f"none follows from {log.text()}")
        return replace(nothing, is_selection=bool(others))
    return _nothing("event", asked, log.where, _events(tally, log.zone))


def no_event_in_topic(
    asked: Sequence[str], tally: EventTally, topic: str, zone: TimeZone, latest: str | None = None
) -> Nothing:
    """Of a topic without events, or with no event that flags select.

    ``latest`` is the time of its latest event, where no event was read.
    """
    if tally.seen:
        return _nothing("event", asked, topic, _events(tally, zone))
    if latest is not None:
        there = f"the latest is of {event_time(latest, zone)} ({zone.name})"
        return _nothing("event", asked, topic, there)
    return _nothing("event", asked, topic, "the job has written none")


def no_such(what: str, asked: Sequence[str], groups: Sequence[Mapping[str, Any]], log: LogRead) -> Nothing:
    """Of filters that leave nothing of these groups (with ``type`` and ``state``, as far as they are known)."""
    if not log.extent.records:
        return _no_records(asked, log)
    if not groups:
        when = "none existed then" if asked else "none exists at the end"
        return _nothing("group", asked, log.where, f"{when}; {log.text()}")
    kinds = Counter(
        " ".join(str(group[name]) for name in ("type", "state") if name in group) for group in groups
    )
    of_kinds = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common(_NAMED) if kind)
    found = counted(len(groups), "group") + (f" ({of_kinds})" if of_kinds else "")
    return _nothing(what, asked, log.where, f"{_there(len(groups))} {found}; {log.text()}")


def no_record(asked: Sequence[str], log: LogRead) -> Nothing:
    """Of flags that select no record."""
    if not log.extent.records:
        return _no_records(asked, log)
    return _nothing("record", asked, log.where, f"{_there(log.extent.records)} {log.text()}")


def _no_records(asked: Sequence[str], log: LogRead) -> Nothing:
    return Nothing(f"there are no records in {log.where}, and so no group", bool(asked))


def several_groups(pattern: str, matched: Collection[str]) -> str:
    """Of a glob that must match one group and matches several."""
    return f"{len(matched)} groups match {pattern!r}: {_names(sorted(matched))}"


def _there(count: int) -> str:
    return "there is" if count == 1 else "there are"


def _events(tally: EventTally, zone: TimeZone) -> str:
    there = _there(tally.seen.total())
    times = [event_time(one, zone) for one in (tally.first, tally.last)]
    return f"{there} {tally.text()}; from {times[0]} to {times[1]} ({zone.name})"


def _unmatched(patterns: Sequence[str]) -> str:
    only_globs = all(map(is_glob, patterns))
    return f"no group matches {_quoted(patterns)}" if only_globs else f"there is no group {_quoted(patterns)}"


def _instead(patterns: Sequence[str], known: Sequence[str]) -> str:
    if not known:
        return "there are no groups"
    close = list(dict.fromkeys(one for pattern in patterns for one in nearest(pattern, known)))
    if close:
        return f"did you mean {_names(close)}? {counted(len(known), 'group')}"
    return f"{counted(len(known), 'group')}: {_names(known)}"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _quoted(names: Sequence[str]) -> str:
    return _names([repr(one) for one in names])
