"""The log cleaner in a few lines, and what may be said of a log that it has been at.

A *window* [p, c) is what the cleaner took into its map of keys. A reader that comes afterwards finds, below c,
only records whose key is not written again in the window; with tombstones, or without those of the window. A
reader that was at p when the cleaner passed finds everything below p, and the cleaned records from there on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from groupreplay.state import Event, History
from support.histories.builders import Raw


def windows(log: Sequence[Raw]) -> Iterator[tuple[int, int]]:
    """Every window of at least one record."""
    return ((p, c) for c in range(1, len(log) + 1) for p in range(c))


def cleaned(log: Sequence[Raw], p: int, c: int, *, tombstones: bool) -> list[Raw]:
    """The log after the cleaner took [p, c), which was the first time for it to see that part."""
    last = {raw.key: raw.offset for raw in log[p:c]}
    return [
        raw
        for raw in log[:c]
        if last.get(raw.key, raw.offset) == raw.offset
        and (tombstones or raw.value is not None or raw.offset < log[p].offset)
    ] + list(log[c:])


def settled(log: Sequence[Raw], p: int, c: int) -> list[Raw]:
    """The log below c has been cleaned as often as it takes; tombstones below p have been dropped."""
    return [
        raw
        for raw in cleaned(log, 0, c, tombstones=True)
        if raw.value is not None or raw.offset >= log[p].offset
    ]


def overtaken(log: Sequence[Raw], p: int, c: int, *, tombstones: bool) -> list[Raw]:
    """What a reader saw that had read p records when the cleaner took everything below c."""
    return [
        *log[:p],
        *(raw for raw in cleaned(log, 0, c, tombstones=tombstones) if raw.offset >= log[p].offset),
    ]


def known(event: Event) -> dict[str, Any]:
    """What a fact claims. A rebalance is named by its first record that is still there."""
    fields = asdict(event.fact).items()
    return {
        name: value for name, value in fields if value not in (None, "unknown") and name != "rebalance_id"
    }


def untrue(said: Sequence[Event], whole: Sequence[Event]) -> list[Event]:
    """Facts with a full history that the uncompacted log does not say, at that time and in these words."""
    truth: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for event in whole:
        truth.setdefault((event.fact.NAME, event.time_ms), []).append(known(event))
    converted = {event.time_ms for event in whole if event.fact.NAME == "group.converted"}
    return [
        event
        for event in said
        if event.history is History.FULL
        and not any(
            known(event).items() <= fact.items() for fact in truth.get((event.fact.NAME, event.time_ms), ())
        )
        # An empty group whose every trace was taken by the cleaner was never there.
        and not (event.fact.NAME == "group.created" and event.time_ms in converted)
    ]
