"""A condition that was reported and has not been resolved, as the snapshot keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from groupreplay.state.events.event import Evidence

if TYPE_CHECKING:
    pass


class ActiveCondition(msgspec.Struct, array_like=True):
    """A condition that was said and not resolved. ``condition`` is its last form, as JSON.

    ``late``: when it was said, it was too late for anybody to be alerted.
    """

    severity: int
    dedup_key: str
    evidence: Evidence
    condition: bytes
    late: bool = False
