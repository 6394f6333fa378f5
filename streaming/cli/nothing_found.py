"""One line for each way in which nothing is found, with what is there instead.

The exit code is that of a problem in the data: an empty answer must not read like "all is quiet".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from groupreplay.state.display.phrases import counted
from groupreplay.streaming.engine.event_tally import EventTally
from groupreplay.streaming.engine.group_choice import GroupChoice, is_glob, nearest
from groupreplay.streaming.kafka.topic_reader import LogExtent
from groupreplay.streaming.text.time_zone import TimeZone, date_time, event_time

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


def no_group(patterns: Sequence[str], choice: GroupChoice, log: LogRead) -> str:
    """Of patterns that match no group: the nearest ids, or those that there are."""
    known = choice.seen
    missing = GroupChoice(patterns)
    deleted = [one for one in choice.matched if one in missing]
    if not log.extent.records and not known:
        return no_records(log)
    if deleted:
        has = "has" if len(deleted) == 1 else "have"
        return (
            f"the group {_quoted(deleted)} does not exist at the end of the data in {log.where}, but {has} records: "
            f"describe --history shows what happened; {log.text()}"
        )
    return f"{_unmatched(patterns)} in {log.where}: {_instead(patterns, known)}; {log.text()}"


def no_group_in_events(patterns: Sequence[str], choice: GroupChoice, tally: EventTally, where: str) -> str:
    """The same of a topic of events."""
    return (
        f"{_unmatched(patterns)} in the events of {where}: {_instead(patterns, choice.seen)}; {tally.text()}"
    )


def no_event(asked: Sequence[str], tally: EventTally, log: LogRead) -> str:
    """Of flags that select no event."""
    if not log.extent.records:
        return no_records(log)
    if not tally.seen:
        words = f" for {' '.join(asked)}" if asked else ""
        return f"no event{words} in {log.where}: none follows from {log.text()}"
    return f"no event for {' '.join(asked)} in {log.where}: {_there(tally.seen.total())} {_events(tally, log.zone)}"


def no_event_in_topic(
    asked: Sequence[str], tally: EventTally, topic: str, zone: TimeZone, latest: str | None = None
) -> str:
    """Of flags that select no event of a topic, or of a topic without events.

    ``latest`` is the time of its latest event, where no event was read.
    """
    if not tally.seen and latest is not None:
        shown = event_time(latest, zone)
        return f"no event for {' '.join(asked)} in {topic}: the latest is of {shown} ({zone.name})"
    if not tally.seen:
        return f"there are no events in {topic}"
    return f"no event for {' '.join(asked)} in {topic}: {_there(tally.seen.total())} {_events(tally, zone)}"


def no_such(
    what: str, asked: Sequence[str], groups: Sequence[Mapping[str, Any]], log: LogRead, *, noun: str = "group"
) -> str:
    """Of filters that leave nothing of these groups (with ``type`` and ``state``, as far as they are known)."""
    if not log.extent.records:
        return no_records(log)
    if not groups:
        return f"there is no {noun} in {log.where}; {log.text()}"
    kinds = Counter(
        " ".join(str(group[name]) for name in ("type", "state") if name in group) for group in groups
    )
    of_kinds = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common(_NAMED) if kind)
    found = counted(len(groups), noun) + (f" ({of_kinds})" if of_kinds else "")
    words = f" for {' '.join(asked)}" if asked else ""
    return f"no {what}{words} in {log.where}: {_there(len(groups))} {found}; {log.text()}"


def no_record(asked: Sequence[str], log: LogRead) -> str:
    """Of flags that select no record."""
    if not log.extent.records:
        return no_records(log)
    return f"no record for {' '.join(asked)} in {log.where}: {_there(log.extent.records)} {log.text()}"


def no_records(log: LogRead) -> str:
    """Of a log without records."""
    return f"there are no records in {log.where}"


def several_groups(pattern: str, matched: Collection[str]) -> str:
    """Of a glob that must match one group and matches several."""
    return f"{len(matched)} groups match {pattern!r}: {_names(sorted(matched))}"


def _there(count: int) -> str:
    return "there is" if count == 1 else "there are"


def _events(tally: EventTally, zone: TimeZone) -> str:
    times = [event_time(one, zone) for one in (tally.first, tally.last)]
    return f"{tally.text()}; from {times[0]} to {times[1]} ({zone.name})"


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
