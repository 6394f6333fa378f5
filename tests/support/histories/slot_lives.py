"""Histories of slots: members that come back, processes that take over; and the conditions they lead to."""

from __future__ import annotations

from typing import Any

from groupreplay.codecs import MemberMetadata
from groupreplay.state import Context, Event
from groupreplay.state.conditions.condition import Condition
from support.histories.builders import CONTEXT, Raw, asked_for, emptied, generation, member
from support.histories.probed import MINUTE, conditions, told

START = 1_000 * MINUTE


HOUR = 60 * MINUTE


def said(
    history: list[Raw], *names: str, context: Context = CONTEXT
) -> tuple[list[tuple[str, str, int]], list[Event]]:
    """The events of these conditions: short, and as events."""
    _, events = told(history, [], START + 5 * HOUR, context)
    chosen = [event for event in events if isinstance(event.fact, Condition) and event.fact.NAME in names]
    return conditions(chosen), chosen


def life(*rounds_: tuple[int, list[MemberMetadata]]) -> list[Raw]:
    """A new group's generations at these times after START."""
    return [
        asked_for(at=START - 1),
        *(
            generation(number, *members, at=START + at) if members else emptied(number, at=START + at)
            for number, (at, members) in enumerate(rounds_, 1)
        ),
    ]


def pod(number: int, **fields: Any) -> MemberMetadata:
    """The member that a slot has at its n-th start."""
    return member(f"c-{number}", [0], client_id="c", host="/h", **fields)


OTHER = member("other", [1])


def returns(*times: int) -> list[Raw]:
    """A slot whose process starts again at these times, seen in one round each."""
    starts = [(0, [pod(0), OTHER]), *((at, [pod(n), OTHER]) for n, at in enumerate(times, 1))]
    return life(*starts)


def static(number: int, host: str, client_id: str = "c") -> MemberMetadata:
    """The n-th process of one instance id."""
    return member(f"i-{number}", [0], instance_id="i", host=host, client_id=client_id)


def takeovers(*places: tuple[int, str]) -> list[Raw]:
    """Generation 1, then the same generation with another member id at each of these (time, host)."""
    begin = [asked_for(at=START - 1), generation(1, static(0, "/a"), OTHER, at=START)]
    return begin + [
        generation(1, static(number, host), OTHER, at=START + at)
        for number, (at, host) in enumerate(places, 1)
    ]
