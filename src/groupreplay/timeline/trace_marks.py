"""Marks from the trace of a simulated coordinator: requests, answers and timers of members (docs/trace.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from groupreplay.state.phrases import safe_text
from groupreplay.timeline.document import TraceMark
from groupreplay.timeline.event_reading import whole, words
from groupreplay.timeline.lanes import Lanes
from groupreplay.timeline.rows import Window

#: Kinds of steps that are drawn; the others repeat what records and states show.
_DRAWN: Final = ("request", "answer", "timer", "rebalance", "member", "leader")
#: Requests that come all the time: the first to be left out, unless they fail.
_FREQUENT: Final = ("Heartbeat", "ConsumerGroupHeartbeat", "OffsetCommit", "TxnOffsetCommit")


def trace_marks(
    trace: Sequence[Mapping[str, Any]],
    group_id: str,
    window: Window,
    lanes: Lanes,
    renumbered: Mapping[int, int],
    most: int,
) -> tuple[list[TraceMark], int]:
    """The marks of a group in a time, and how many were left out: heartbeats, commits and settings of timers first."""
    ranked = list[tuple[int, TraceMark]]()
    for entry in trace:
        at_ms = whole(entry.get("time_ms"))
        if entry.get("group_id") != group_id or entry.get("kind") not in _DRAWN or at_ms is None:
            continue
        if window.holds(at_ms):
            slot = lanes.slot_of.get(words(entry.get("member_id")))
            mark = _mark(entry, at_ms, None if slot is None else renumbered.get(slot))
            ranked.append((_rank(entry, mark), mark))
    kept = sorted(ranked, key=lambda one: one[0])[:most]
    return sorted((mark for _, mark in kept), key=lambda mark: mark.at_ms), len(ranked) - len(kept)


def _mark(entry: Mapping[str, Any], at_ms: int, slot: int | None) -> TraceMark:
    kind, api = words(entry.get("kind")), words(entry.get("api"))
    error = words(entry.get("error"))
    match kind:
        case "request":
            text = api
        case "answer":
            text = f"{api} answered {error} after {whole(entry.get('waited_ms')) or 0} ms"
        case "timer":
            text = f"{words(entry.get('timer'))} timer {words(entry.get('change'))}"
        case _:
            text = f"{words(entry.get('change')) or kind}: {words(entry.get('reason'))}"
    failed = kind == "answer" and error not in ("", "NONE")
    return TraceMark(at_ms=at_ms, slot=slot, kind=kind, text=safe_text(text), failed=failed)


def _rank(entry: Mapping[str, Any], mark: TraceMark) -> int:
    """What is left out first has the highest number."""
    if mark.failed or mark.kind in ("rebalance", "member", "leader"):
        return 0
    if mark.kind == "timer":
        return 1 if words(entry.get("change")) == "fired" else 4
    return 3 if words(entry.get("api")) in _FREQUENT else 2
