"""Events that clients can repeat without end: the same one at most once a minute.

Two processes that commit in turn wind an offset back with every second commit. One event says that; a thousand events
a second would fill the sink.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from hashlib import blake2b
from typing import Final

from groupreplay.state.events.event import Event
from groupreplay.state.snapshot.group_snapshot import Repetitions

_INTERVAL_MS: Final = 60_000
#: Different ones in a minute, of one group: a rolling restart of static members has one for each.
_MOST: Final = 256


def without_repeats(repeats: Repetitions, events: Iterable[Event]) -> list[Event]:
    """The events that are emitted; the next one of a type has the number of those that were not."""
    return [kept for event in events if (kept := _passed(repeats, event)) is not None]


def _passed(repeats: Repetitions, event: Event) -> Event | None:
    same = event.fact.sameness()
    if same is None:
        return event
    name, at_ms = event.fact.NAME, event.time_ms
    key = blake2b(repr((name, same)).encode("utf-8", "backslashreplace"), digest_size=8).digest()
    former_ms = repeats.emitted.get(key)
    if former_ms is None or not _is_recent(former_ms, at_ms):
        repeats.emitted = {one: ms for one, ms in repeats.emitted.items() if _is_recent(ms, at_ms)}
        former_ms = None
    if former_ms is not None or len(repeats.emitted) >= _MOST:
        repeats.suppressed[name] = repeats.suppressed.get(name, 0) + 1
        return None
    repeats.emitted[key] = at_ms
    return replace(event, fact=replace(event.fact, suppressed=repeats.suppressed.pop(name, 0)))  # type: ignore[call-arg]


def _is_recent(former_ms: int, at_ms: int) -> bool:
    # The distance, not the difference: one record with a wrong time must not suppress the others.
    return abs(at_ms - former_ms) < _INTERVAL_MS
