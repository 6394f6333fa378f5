"""Conditions that were reported and have not been resolved."""

from __future__ import annotations

import msgspec

from groupreplay.state.events.event import Evidence


class ActiveCondition(msgspec.Struct, array_like=True):
    """A condition that was reported and not resolved. ``condition`` is the last one reported, as JSON.

    ``late``: it was reported too late for an alert.
    """

    severity: int
    dedup_key: str
    evidence: Evidence
    condition: bytes
    late: bool = False


class Conditions(msgspec.Struct, array_like=True):
    """The active conditions, and when the detectors are to evaluate the group next (None: at its next change)."""

    active: dict[str, ActiveCondition] = {}
    next_evaluation_ms: int | None = None
