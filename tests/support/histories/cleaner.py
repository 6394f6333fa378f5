"""A small log cleaner, and a check that the events of a cleaned log are true.

A *window* [p, c) is the range of records in the cleaner's map of keys. Below c, a later reader finds only records whose
key is not written again in the window; with tombstones, or without those of the window. A reader that had read up to p
when the cleaner ran has everything below p and the cleaned records from p on.
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
    """The log after the first cleaning of [p, c)."""
    last = {raw.key: raw.offset for raw in log[p:c]}
    return [
        raw
        for raw in log[:c]
        if last.get(raw.key, raw.offset) == raw.offset
        and (tombstones or raw.value is not None or raw.offset < log[p].offset)
    ] + list(log[c:])


def settled(log: Sequence[Raw], p: int, c: int) -> list[Raw]:
    """The log after complete cleaning below c; tombstones below p are removed."""
    return [
        raw
        for raw in cleaned(log, 0, c, tombstones=True)
        if raw.value is not None or raw.offset >= log[p].offset
    ]


def overtaken(log: Sequence[Raw], p: int, c: int, *, tombstones: bool) -> list[Raw]:
    """The records that a reader gets that had read p records when the cleaner cleaned everything below c."""
    return [
        *log[:p],
        *(raw for raw in cleaned(log, 0, c, tombstones=tombstones) if raw.offset >= log[p].offset),
    ]


def known(event: Event) -> dict[str, Any]:
    """The known fields of a fact. The id of a rebalance is left out: it depends on the first record that is left.

    So are the candidates for a reason that is not known: with fewer records there are more of them.
    """
    fields = asdict(event.fact)
    left_out = {"rebalance_id", *(["candidates"] if fields.get("reason") == "unknown" else [])}
    return {
        name: value
        for name, value in fields.items()
        if value not in (None, "unknown") and name not in left_out
    }


def is_possible(event: Event, truth: dict[str, Any]) -> bool:
    """Whether the true reason is among the candidates of an event that does not know it."""
    candidates = {one["reason"] for one in asdict(event.fact).get("candidates") or ()}
    return not candidates or truth.get("reason", "unknown") in {"unknown", *candidates}


def untrue(events: Sequence[Event], whole: Sequence[Event]) -> list[Event]:
    """Events with a full history that the uncleaned log does not have at the same time with the same known fields."""
    truth: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for event in whole:
        truth.setdefault((event.fact.NAME, event.time_ms), []).append(known(event))
    converted = {event.time_ms for event in whole if event.fact.NAME == "group.converted"}
    return [
        event
        for event in events
        if event.history is History.FULL
        and not any(
            known(event).items() <= fact.items() and is_possible(event, fact)
            for fact in truth.get((event.fact.NAME, event.time_ms), ())
        )
        # The cleaner may remove all records of an empty group before a conversion.
        and not (event.fact.NAME == "group.created" and event.time_ms in converted)
    ]
