"""How members ended, by the events: each end of a bar has the event that tells of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from groupreplay.timeline.event_reading import ReadEvent

#: A leave event has the time of its record or of the end of the join phase before it.
_LEAVE_TOLERANCE_MS: Final = 600_000
#: The same replacement is emitted at most once in this time (``groupreplay.state.output.envelope``).
_REPEATED_WITHIN_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberEnd:
    """What the events tell of the end of a member; ``event`` is the row of the one that does, None without a row.

    ``repeats``: the end has no event of its own, because it repeats the one that has.
    """

    reason: str | None = None
    severity: str = "INFO"
    event: int | None = None
    repeats: bool = False


@dataclass(slots=True)
class MemberEnds:
    """The ends that the events of a group tell of."""

    row_of: Callable[[ReadEvent], int | None]
    _left: dict[str, list[ReadEvent]] = field(default_factory=dict)
    _replaced: dict[str, list[ReadEvent]] = field(default_factory=dict)
    _completed: dict[int, ReadEvent] = field(default_factory=dict)

    @classmethod
    def of(cls, events: Sequence[ReadEvent], row_of: Callable[[ReadEvent], int | None]) -> MemberEnds:
        """From the events of a group in order."""
        ends = cls(row_of)
        for event in events:
            match event.name:
                case "member.left":
                    ends._left.setdefault(event.text("member_id"), []).append(event)
                case "static.replaced":
                    ends._replaced.setdefault(event.text("instance_id"), []).append(event)
                case "rebalance.completed":
                    ends._completed[event.time_ms] = event
        return ends

    def of_member(self, member_id: str, at_ms: int) -> MemberEnd:
        """The end of a member that left or was removed at this time."""
        near = [
            (abs(event.time_ms - at_ms), event.index, event)
            for event in self._left.get(member_id, ())
            if abs(event.time_ms - at_ms) <= _LEAVE_TOLERANCE_MS
        ]
        if not near:
            return MemberEnd()
        _, _, event = min(near, key=lambda one: one[:2])
        return MemberEnd(reason=event.text("reason"), severity=event.severity, event=self.row_of(event))

    def of_process(self, instance_id: str | None, member_id: str, at_ms: int) -> MemberEnd:
        """The end of a process whose place another one took at this time."""
        replaced = self._replaced.get(instance_id or "", ())
        for event in replaced:
            if event.text("old_member_id") == member_id and event.time_ms == at_ms:
                return MemberEnd(severity=event.severity, event=self.row_of(event))
        if (completed := self._completed.get(at_ms)) is not None:
            # It came back in a rebalance, which tells of it.
            return MemberEnd(event=self.row_of(completed))
        before = [event for event in replaced if 0 <= at_ms - event.time_ms < _REPEATED_WITHIN_MS]
        if not before:
            return MemberEnd()
        return MemberEnd(severity=before[-1].severity, event=self.row_of(before[-1]), repeats=True)
