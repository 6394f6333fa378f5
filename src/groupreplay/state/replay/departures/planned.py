"""Whether somebody may have planned that a member left, or a person must look."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from groupreplay.state.events.event import LeaveReason
from groupreplay.state.replay.departures.reasons import Finding
from groupreplay.state.snapshot.slot_history import MemberCount, SlotHistory

#: What happens to a process that hangs; a deployment does not do that.
TOO_SLOW: Final[frozenset[LeaveReason]] = frozenset({"poll_timeout", "rebalance_timeout"})
#: What the broker or the client does by itself, also to a process that was killed.
_BY_ITSELF: Final[frozenset[LeaveReason]] = TOO_SLOW | {"session_timeout"}
#: Members of a deployment stop and start within this time of each other.
_DEPLOYMENT_MS: Final = 120_000
#: Numbers of members that are remembered.
_MOST_COUNTS: Final = 32


def unplanned(
    findings: Sequence[tuple[Finding, int | None]],
    history: SlotHistory | None,
    at_ms: int,
    members: tuple[int, int],
) -> Iterator[bool]:
    """For each departure of one operation, with the time since its last sign of life: whether nobody planned it.

    ``members``: how many there were before and are now. A deployment may kill members, too. It is one if others stopped
    on purpose about when this one fell silent, or if the group has as many members as before that.
    """
    before, now = members
    stopping = any(finding.reason == "left" for finding, _ in findings)
    for finding, elapsed_ms in findings:
        if finding.reason in TOO_SLOW:
            yield True
            continue
        if stopping or not _is_by_itself(finding):
            yield False
            continue
        since_ms = at_ms - (elapsed_ms or 0) - _DEPLOYMENT_MS
        if history is None:
            yield now < before
        else:
            yield history.stopped_ms < since_ms and now < _count_at(history, since_ms, before)


def remember(history: SlotHistory, at_ms: int, members: int, *, stopped: bool) -> None:
    """Note how many members there are, and whether one stopped on purpose or was started again."""
    if not history.counts or history.counts[-1].members != members:
        history.counts = (*history.counts, MemberCount(at_ms, members))[-_MOST_COUNTS:]
    if stopped:
        history.stopped_ms = at_ms


def _is_by_itself(finding: Finding) -> bool:
    if finding.reason != "unknown":
        return finding.reason in _BY_ITSELF
    likely = {one.reason for one in finding.candidates if one.likely}
    return bool(likely) and likely <= _BY_ITSELF


def _count_at(history: SlotHistory, at_ms: int, otherwise: int) -> int:
    """The number of members at that time, if it is known."""
    known = [one.members for one in history.counts if one.at_ms <= at_ms]
    return known[-1] if known else otherwise
