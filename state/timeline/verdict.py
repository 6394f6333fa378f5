"""The verdict of a timeline: sentences by rules, the worst first. Nothing in them is not in the document."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from groupreplay.state.display.phrases import counted, milliseconds
from groupreplay.state.display.safe_text import safe_text
from groupreplay.state.timeline.commit_rates import CommitLog
from groupreplay.state.timeline.document import (
    ConditionBar,
    GenerationFlag,
    OffsetChange,
    SlotLane,
    Statement,
    Tone,
    Unread,
)
from groupreplay.state.timeline.event_reading import clock, day

_TONES: Final[dict[str, Tone]] = {"INFO": "info", "WARN": "warn", "ERROR": "error"}
#: What a condition means, for one that lasted and for one that holds.
_MEANING: Final = {
    "rebalance.stuck": "stuck in a rebalance",
    "rebalance.slow": "a rebalance was slow",
    "rebalance.suspected": "the group stopped committing, and no prober asked for the reason",
    "commits.paused": "commits stopped",
    "rebalance.storm": "rebalance storm: more generations than joins and leaves explain",
    "rebalance.timeouts": "a member was removed again and again for not rejoining in time",
    "member.flapping": "a member came back under a new id again and again",
    "member.idle": "a member had no partition for several rebalances",
    "static.conflict": "two processes used one instance id",
    "static.crash_loop": "a static member started again and again",
    "owner.silent": "a member committed nothing while the others did",
    "partition.poison": "the offset of one partition did not move while others did",
    "offsets.expiring": "committed offsets are about to be removed",
}
#: A stuck rebalance is slow before: the second one says nothing more.
_IMPLIED: Final = {"rebalance.slow": "rebalance.stuck", "rebalance.suspected": "rebalance.stuck"}
_CHANGES: Final = {
    "offsets.expired": ("error", "Committed offsets of {} expired"),
    "offsets.deleted": ("warn", "Committed offsets of {} were deleted"),
    "offsets.reset": ("warn", "After a loss of offsets, commits of {} began again"),
    "offset.rewound": ("warn", "Offsets of {} went back"),
    "offsets.set": ("info", "Offsets of {} were set"),
}
#: Commits that were on their way when a rebalance began.
_ON_THE_WAY_MS: Final = 10_000
_NAMES_SHOWN: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictFacts:
    """What a verdict is made from."""

    since_ms: int
    until_ms: int
    conditions: Sequence[ConditionBar]
    generations: Sequence[GenerationFlag]
    slots: Sequence[SlotLane]
    changes: Sequence[OffsetChange]
    commits: CommitLog
    state: str | None
    members: int
    #: Names of events that all have the severity INFO, such as those of a group that was deleted on purpose.
    mild: Collection[str] = ()
    #: Members that nobody had stopped: when each was gone, its name, and why.
    lost: Sequence[tuple[int, str, str]] = ()

    @property
    def window(self) -> tuple[int, int]:
        """The time of the document."""
        return self.since_ms, self.until_ms


def verdict(found: VerdictFacts, unread: Sequence[Unread] = ()) -> list[Statement]:
    """The sentences, at least one; ``unread`` is what could not be read, so that nothing is said of it."""
    told = [*_conditions(found), *_changes(found), *_lost(found), *_unread(found, unread)]
    order: Sequence[Tone] = ("error", "warn", "info", "ok")
    told.sort(key=lambda one: order.index(one.tone))
    if not any(one.tone in ("error", "warn") for one in told):
        told.append(_statement("ok", [f"No event of severity WARN or ERROR{_now(found)}."]))
    return [*told, _rebalances(found)]


def _unread(found: VerdictFacts, unread: Sequence[Unread]) -> Iterator[Statement]:
    for one in unread:
        if one.what != "log":
            continue
        # Whoever may not read the log knows that; an outage is news.
        tone: Tone = "warn" if one.reason == "unreachable" else "info"
        parts: list[str | int] = ["The log could not be read: only what the events say is known."]
        if one.since_ms is not None:
            parts = ["The log could not be read after ", one.since_ms, ": what happened then is not known."]
        yield _statement(tone, parts, None, found.window)


def _now(found: VerdictFacts) -> str:
    if found.state is None:
        return ""
    members = f" with {counted(found.members, 'member')}" if found.members else ""
    return f"; at the end the group is {found.state}{members}"


def _moment(at_ms: int, window: tuple[int, int]) -> str:
    """With the day where it is not that of the whole document."""
    days = {day(one) for one in (at_ms, window[0], window[1] - 1)}
    return clock(at_ms) if len(days) == 1 else f"{day(at_ms)} {clock(at_ms)}"


def _statement(
    tone: Tone,
    parts: Sequence[str | int],
    span: tuple[int, int] | None = None,
    window: tuple[int, int] = (0, 1),
) -> Statement:
    """A sentence; ``window`` is the time of the document, and matters where a part is a point in time."""
    text = "".join(part if isinstance(part, str) else _moment(part, window) for part in parts)
    since_ms, until_ms = span or (None, None)
    return Statement(tone=tone, text=text, parts=tuple(parts), since_ms=since_ms, until_ms=until_ms)


def _conditions(found: VerdictFacts) -> Iterator[Statement]:
    names = {bar.name for bar in found.conditions}
    kept = [bar for bar in found.conditions if _IMPLIED.get(bar.name) not in names]
    for name, same in groupby(sorted(kept, key=lambda bar: bar.name), key=lambda bar: bar.name):
        bars = sorted(same, key=lambda bar: bar.since_ms)
        yield _condition(name, bars, found)


def _condition(name: str, bars: Sequence[ConditionBar], found: VerdictFacts) -> Statement:
    """The one that holds, or else the longest, with its members; then how many others there were."""

    def until(bar: ConditionBar) -> int:
        return found.until_ms if bar.until_ms is None else bar.until_ms

    def lasted_ms(bar: ConditionBar) -> int:
        return until(bar) - bar.since_ms

    def span(bar: ConditionBar) -> list[str | int]:
        return ["since ", bar.since_ms] if bar.until_ms is None else [bar.since_ms, " to ", bar.until_ms]

    holding = [bar for bar in bars if bar.until_ms is None]
    main = max(holding or bars, key=lasted_ms)
    meaning = _MEANING.get(name, safe_text(name.replace(".", " ")))
    lasted = milliseconds(lasted_ms(main))
    parts: list[str | int] = [f"{meaning[:1].upper()}{meaning[1:]} ", *span(main)]
    parts += [f", still at the end after {lasted}" if holding else f" ({lasted})"]
    parts += [_who(main, found), _quiet(name, main, until(main), found)]
    if others := [bar for bar in bars if bar is not main]:
        longest = max(others, key=lasted_ms)
        more = "was one more:" if len(others) == 1 else f"were {len(others)} more, the longest one"
        parts += [f" There {more} ", *span(longest), f" ({milliseconds(lasted_ms(longest))})."]
    severity = max((bar.severity for bar in bars), key=lambda one: list(_TONES).index(one))
    return _statement(_TONES[severity], parts, (main.since_ms, until(main)), found.window)


def _who(bar: ConditionBar, found: VerdictFacts) -> str:
    """The members that the condition names, and whether that is proven."""
    number = found.conditions.index(bar)
    named = [
        (lane.name, blame.proven)
        for lane in found.slots
        for blame in lane.blames
        if blame.condition == number
    ]
    if not named:
        return f": {bar.subject}." if bar.subject else "."
    shown = ", ".join(safe_text(name) for name, _ in named[:_NAMES_SHOWN])
    more = f" and {len(named) - _NAMES_SHOWN} more" if len(named) > _NAMES_SHOWN else ""
    if bar.name != "rebalance.stuck":
        return f": {shown}{more}."
    if all(proven for _, proven in named):
        return (
            f": {shown}{more} did not give up its partitions."
            if len(named) == 1
            else f": blocked by {shown}{more}."
        )
    return f": {shown}{more} did not rejoin (inferred from its commits)."


def _quiet(name: str, bar: ConditionBar, until_ms: int, found: VerdictFacts) -> str:
    """On how many partitions nothing was committed while a rebalance was stuck."""
    since_ms = bar.since_ms + _ON_THE_WAY_MS
    if name != "rebalance.stuck" or since_ms >= until_ms or not found.commits.places:
        return ""
    all_places = found.commits.partitions_committed(found.since_ms, bar.since_ms)
    quiet = len(all_places - found.commits.partitions_committed(since_ms, until_ms))
    if not all_places or not quiet:
        return ""
    return f" No commit on {quiet} of {counted(len(all_places), 'partition')} meanwhile."


def _changes(found: VerdictFacts) -> Iterator[Statement]:
    for name, (tone, words) in _CHANGES.items():
        places = [one for one in found.changes if one.name == name]
        if places:
            number = len({(one.topic, one.partition) for one in places})
            first, last = places[0].at_ms, places[-1].at_ms
            text = words.format(counted(number, "partition"))
            parts: list[str | int] = (
                [text, " at ", first] if first == last else [text, " between ", first, " and ", last]
            )
            parts.append(f"{_how_far(places)}.")
            yield _statement(
                "info" if name in found.mild else _tone(tone), parts, (first, last), found.window
            )


def _lost(found: VerdictFacts) -> Iterator[Statement]:
    if not found.lost:
        return
    text = "A member was" if len(found.lost) == 1 else f"{len(found.lost)} members were"
    parts: list[str | int] = [f"{text} lost that nobody had stopped: "]
    for number, (at_ms, name, reason) in enumerate(found.lost[:_NAMES_SHOWN]):
        parts += [f"{', ' if number else ''}{name} at ", at_ms, f" ({safe_text(reason).replace('_', ' ')})"]
    left_out = len(found.lost) - _NAMES_SHOWN
    parts.append(f" and {left_out} more." if left_out > 0 else ".")
    yield _statement("warn", parts, (found.lost[0][0], found.lost[-1][0]), found.window)


def _tone(name: str) -> Tone:
    return "error" if name == "error" else "warn" if name == "warn" else "info"


def _how_far(places: Sequence[OffsetChange]) -> str:
    """The largest jump, where both offsets are known."""
    jumps = [one for one in places if one.old is not None and one.new is not None]
    if not jumps:
        return ""
    worst = max(jumps, key=lambda one: abs((one.new or 0) - (one.old or 0)))
    return f", {safe_text(worst.topic)}-{worst.partition} from {worst.old} to {worst.new}"


def _rebalances(found: VerdictFacts) -> Statement:
    flags = found.generations
    if not flags:
        return _statement("info", ["No rebalance was completed in this time."])
    moved = sum(flag.moved or 0 for flag in flags)
    parts = [counted(len(flags), "rebalance")]
    parts.append(f"{counted(moved, 'partition')} moved" if moved else "no partition moved")
    unknown = sum(flag.moved is None for flag in flags)
    if unknown:
        parts.append(f"moves of {unknown} unknown")
    skipped = sum(flag.skipped for flag in flags)
    if skipped:
        parts.append(f"{counted(skipped, 'generation')} never completed")
    longest = _longest(flags, lambda flag: flag.duration_ms)
    if longest is not None:
        parts.append(f"the longest took {milliseconds(longest.duration_ms)}")
    return _statement("info", [", ".join(parts) + "."])


def _longest(
    flags: Sequence[GenerationFlag], length: Callable[[GenerationFlag], int | None]
) -> GenerationFlag | None:
    timed = [flag for flag in flags if length(flag) is not None]
    return max(timed, key=lambda flag: length(flag) or 0, default=None)
