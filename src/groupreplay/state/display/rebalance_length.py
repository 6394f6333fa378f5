"""How long a rebalance took, from its ``rebalance.completed``: the one source for texts, lanes and verdicts.

A rebalance of a classic group is its join phase and its sync phase. The join phase ends when the members have joined or
were removed. The sync phase ends with the record: the coordinator writes it when the leader's SyncGroup has brought the
assignment (``ClassicGroup``, ``GroupCoordinator.doSyncGroup``), so a long one is a leader that took long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from groupreplay.state.display import phrases
from groupreplay.state.display.phrases import Data, interval, milliseconds

#: From here on the leader is named: a member notices a rebalance within ``heartbeat.interval.ms`` (3 s), and what is
#: longer than that is the leader's own time.
SLOW_SYNC_MS: Final = 3_000
#: Shorter least lengths, and silences, say nothing.
_LEAST_MS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceLength:
    """Bounds of the whole rebalance (``most_ms`` None: no upper one), and its sync phase; None: it is not known.

    ``slow_leader`` is the member whose assignment the group waited for, where that took ``SLOW_SYNC_MS`` or more.
    """

    least_ms: int
    most_ms: int | None
    sync_ms: int | None
    slow_leader: Mapping[str, Any] | None

    def text(self) -> str:
        """``took 8.0 s``, ``took 2.0 s .. 12.0 s``, ``took at most 6.0 s``, ``took at least 8.0 s``; else empty."""
        if self.most_ms is None:
            return f"took at least {milliseconds(self.least_ms)}" if self.least_ms >= _LEAST_MS else ""
        least_ms = self.least_ms if self.least_ms == self.most_ms or self.least_ms >= _LEAST_MS else 0
        if milliseconds(least_ms) == milliseconds(self.most_ms):
            return f"took {milliseconds(self.most_ms)}"
        return f"took {interval(least_ms, self.most_ms)}"

    def leader_text(self) -> str:
        """``waited 8.0 s for the assignment of the leader, app-a on 10.0.0.1``; empty for a leader that was fast."""
        if self.slow_leader is None:
            return ""
        name = phrases.member(self.slow_leader)
        return f"waited {milliseconds(self.sync_ms)} for the assignment of the leader, {name}"


def rebalance_length(data: Data) -> RebalanceLength:
    """The length by the ``data`` of a ``rebalance.completed`` of any release."""
    exact_ms, sync_ms = _whole(data, "duration_ms"), _whole(data, "sync_ms")
    leader = _leader(data) if sync_ms is not None and sync_ms >= SLOW_SYNC_MS else None
    if exact_ms is not None:
        return RebalanceLength(least_ms=exact_ms, most_ms=exact_ms, sync_ms=sync_ms, slow_leader=leader)
    bounds = [_whole(data, name) for name in ("join_ms_max", "duration_upper_bound_ms")]
    join_ms = min((bound for bound in bounds if bound is not None), default=None)
    least_ms = min(_whole(data, "join_ms_min") or 0, join_ms or 0) + (sync_ms or 0)
    return RebalanceLength(
        least_ms=least_ms,
        most_ms=None if join_ms is None else join_ms + (sync_ms or 0),
        sync_ms=sync_ms,
        slow_leader=leader,
    )


def silence_text(data: Data) -> str:
    """`` (no commits for 5.0 s of them)``: how much of a bound was without a commit; empty where that says nothing."""
    silent_ms = _whole(data, "silent_ms")
    # Less than a second says nothing: few groups commit more often.
    if silent_ms is None or silent_ms < _LEAST_MS or _whole(data, "join_ms_max") is not None:
        return ""
    return f" (no commits for {milliseconds(silent_ms)} of them)"


def _leader(data: Data) -> Mapping[str, Any] | None:
    """The leader as a member of the event; None where the event does not have it."""
    members = data.get("members")
    found = members if isinstance(members, list | tuple) else ()
    return next(
        (
            member
            for member in found
            if isinstance(member, Mapping) and member.get("member_id") == data.get("leader")
        ),
        None,
    )


def _whole(data: Data, field: str) -> int | None:
    value = data.get(field)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
