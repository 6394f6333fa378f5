"""Events that a group can repeat without end: each of them once a minute, with the number of those left out."""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from typing import Final

from groupreplay.state.events.event import Fact
from groupreplay.state.snapshot.group_snapshot import Repetitions

_INTERVAL_MS: Final = 60_000
#: Different ones in a minute, of one group: a rolling restart of static members has one for each.
_MOST: Final = 256


def without_repeat(repeats: Repetitions, fact: Fact, at_ms: int) -> Fact | None:
    """The fact, with the number of its type that were left out before it; None if it is left out itself."""
    same = fact.sameness()
    if same is None:
        return fact
    name = fact.NAME
    key = blake2b(repr((name, same)).encode("utf-8", "backslashreplace"), digest_size=8).digest()
    former_ms = repeats.emitted.get(key)
    if former_ms is None or not _is_recent(former_ms, at_ms):
        repeats.emitted = {repeat: ms for repeat, ms in repeats.emitted.items() if _is_recent(ms, at_ms)}
        former_ms = None
    if former_ms is not None or len(repeats.emitted) >= _MOST:
        repeats.suppressed[name] = repeats.suppressed.get(name, 0) + 1
        return None
    repeats.emitted[key] = at_ms
    return replace(fact, suppressed=repeats.suppressed.pop(name, 0))  # type: ignore[call-arg]


def _is_recent(former_ms: int, at_ms: int) -> bool:
    # The distance, not the difference: one record with a wrong time must not suppress the others.
    return abs(at_ms - former_ms) < _INTERVAL_MS
