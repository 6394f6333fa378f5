"""Conditions that were reported and have not been resolved."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from groupreplay.state.events.event import Evidence


class ConditionKey(NamedTuple):
    """The name of a condition and its subject: a slot, a topic partition; empty for the whole group."""

    kind: str
    subject: str


class ActiveCondition(msgspec.Struct, array_like=True):
    """A condition that was reported and not resolved. ``condition`` is the last one reported, as JSON.

    It is reported again when ``dedup_key`` changes, or for a value that is not yet in ``reported``. ``late``: it was
    reported too late for an alert.
    """

    severity: int
    dedup_key: tuple[str, ...]
    evidence: Evidence
    condition: bytes
    late: bool = False
    reported: tuple[str, ...] = ()


class Conditions(msgspec.Struct, array_like=True):
    """The active conditions, and when the detectors are to evaluate the group next (None: at its next change)."""

    active: dict[ConditionKey, ActiveCondition] = {}
    next_evaluation_ms: int | None = None
