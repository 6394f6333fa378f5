"""What the events of a group say, each fact decided once: gaps of the log, trouble, how members ended.

The severity of an event is decided where the event is made, and nowhere else. A reader sees it as a tone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from groupreplay.state.events.event import Severity
from groupreplay.state.phrases import rebalance_length
from groupreplay.state.replay.departures import TOO_SLOW
from groupreplay.timeline.diagnosis import Tone
from groupreplay.timeline.event_reading import ReadEvent, whole

#: Before the first event of a group that had a life before it.
EVERYTHING_BEFORE: Final = "everything before"
_NEW_BEGINNING: Final = "the new beginning of the group"
_END: Final = "the end of the group, and its new beginning"


class GapFinder:
    """Finds the gaps of one group, event by event, in order."""

    def __init__(self) -> None:
        self._begun = False
        self._deleted = False
        self._generation: int | None = None

    def before(self, name: str, data: Mapping[str, Any]) -> str | None:
        """The gap that lies right before this event, in words; None: there is none.

        A condition and a record that cannot be read belong to no operation of the coordinator: they show that there is
        a life before them, and no generation. What follows the end of a group (the end of a condition, a deletion that
        waited for its reason) begins no new life.
        """
        history = data.get("history")
        if history not in ("full", "partial") or name.startswith("record."):
            return None
        generation = None if "condition_id" in data else whole(data.get("generation"))
        if not self._begun:
            begins = generation is not None or name == "group.created"
            if self._deleted and not begins:
                return None
        gap = self._gap(name, generation, is_partial=history == "partial")
        self._begun, self._deleted = name != "group.deleted", name == "group.deleted"
        self._generation = self._generation if generation is None else generation
        return gap

    def _gap(self, name: str, generation: int | None, *, is_partial: bool) -> str | None:
        known = self._generation
        if not self._begun:
            is_gap = is_partial and name != "group.created"
            return (_NEW_BEGINNING if self._deleted else EVERYTHING_BEFORE) if is_gap else None
        if known is None or generation is None or name == "group.converted":
            return None
        if generation < known:
            return _END
        if not is_partial or generation <= known + 1:
            return None
        one = generation == known + 2
        return f"generation {known + 1}" if one else f"generations {known + 1} to {generation - 1}"


_TONES: Final[dict[str, Tone]] = {"INFO": "info", "WARN": "warn", "ERROR": "error"}
#: Tones, the mildest first; ``ok`` is that of a group without any trouble.
TONES: Final[tuple[Tone, ...]] = ("ok", "info", "warn", "error")
#: Committed offsets are gone.
LOSSES: Final = frozenset({"offsets.expired", "offsets.deleted"})
#: Records were skipped or are read again because of that.
_CONSEQUENCES: Final = frozenset({"offsets.reset"})


def tone_of(severity: str) -> Tone:
    """The tone of an event of this severity."""
    return _TONES[severity]


def worst(severities: list[str]) -> str:
    """The highest severity; INFO of none."""
    return max(severities, key=Severity.__getitem__, default="INFO")


def is_trouble(event: ReadEvent) -> bool:
    """Whether an event tells of something wrong, whatever its severity: such a group is never shown as healthy."""
    return (
        event.severity != "INFO"
        or bool(event.text("condition_id"))
        or event.name in LOSSES
        or event.name in _CONSEQUENCES
        or is_slow_leader(event)
        or is_failed_sync(event)
    )


def is_slow_leader(event: ReadEvent) -> bool:
    """Whether a rebalance waited long for the assignment of its leader."""
    return event.name == "rebalance.completed" and rebalance_length(event.data).slow_leader is not None


#: What ends in one moment has times that differ by so much: a leave event has that of its record, or of the end of the
#: join phase before it.
SAME_MOMENT_MS: Final = 5_000
#: So many generations in a row that were begun and never completed are no accident: no join or leave explains them.
FAILED_GENERATIONS: Final = 3


def is_failed_sync(event: ReadEvent) -> bool:
    """Whether generations of a classic group were begun again and again before a rebalance, and never completed.

    The newer kinds give an epoch up whenever another change comes.
    """
    is_classic = event.name == "rebalance.completed" and event.is_classic
    return is_classic and (event.number("skipped_generations") or 0) >= FAILED_GENERATIONS


def is_too_slow(left: ReadEvent) -> bool:
    """Whether a member left because it did not poll in time, or likely did, where its times leave several reasons."""
    likely = {one.get("reason") for one in left.mappings("candidates") if one.get("likely")}
    reason = left.text("reason")
    return reason in TOO_SLOW or (reason == "unknown" and not likely.isdisjoint(TOO_SLOW))


def may_have_been_closed(left: ReadEvent) -> bool:
    """Whether a departure is what the close of a static member of a classic group looks like: its session ends."""
    is_static = left.is_classic and left.data.get("instance_id") is not None
    return is_static and left.text("reason") not in TOO_SLOW


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


#: A rebalance of this length is worth a word, whatever is not known of the others.
_LONG_MS: Final = 1_000


def longest_text(lengths: Sequence[tuple[int, int | None, str]]) -> str:
    """The rebalance that lasted longest; where another one may have lasted longer, it is only one that was long.

    Each length has its bounds (None: no upper one) and its words. Empty: nothing is known, or all were short.
    """
    longest = max(lengths, key=lambda one: one[0], default=(0, None, ""))
    least_ms, _, took = longest
    others = [one for one in lengths if one is not longest]
    if took and all(most_ms is not None and most_ms <= least_ms for _, most_ms, _ in others):
        return f"{'the longest' if others else 'it'} {took}"
    return f"one {took}" if least_ms >= _LONG_MS else ""
