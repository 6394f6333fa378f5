"""The verdict of a timeline: sentences by rules, the worst first. Nothing in them is not in the document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from groupreplay.state import phrases
from groupreplay.state.conditions.registry import kind_named
from groupreplay.state.phrases import NAMES_SHOWN, counted, first_of, milliseconds, safe_text
from groupreplay.timeline.chain import quiet_partitions
from groupreplay.timeline.diagnoses import Diagnoses, rolling_restarts
from groupreplay.timeline.diagnosis import Statement, Tone, plain
from groupreplay.timeline.document import (
    ConditionBar,
    GenerationFlag,
    OffsetChange,
    SlotLane,
    Unread,
)
from groupreplay.timeline.episodes import (
    FAILED_SYNCS,
    MEMBER_LEFT,
    SLOW_LEADER,
    VerdictFacts,
    of_condition,
    shown_conditions,
)
from groupreplay.timeline.event_reading import ReadEvent
from groupreplay.timeline.facts import (
    LOSSES,
    TONES,
    is_failed_sync,
    is_slow_leader,
    is_trouble,
    longest_text,
    may_have_been_closed,
    tone_of,
    worst,
)

#: Offsets that changed by other than progress, in the order of their sentences.
_CHANGES: Final = {
    "offsets.expired": "Committed offsets of {} expired",
    "offsets.deleted": "Committed offsets of {} were deleted",
    "offsets.reset": "After a loss of offsets, commits of {} began again",
    "offset.rewound": "Offsets of {} went back",
    "offsets.set": "Offsets of {} were set",
}


def verdict(facts: VerdictFacts, unread: Sequence[Unread] = ()) -> list[Statement]:
    """The sentences, at least one: the gravest first, of these what still holds, then what was lost.

    Each has its diagnosis, where the facts show one. ``unread`` is what could not be read: nothing is said of it.
    """
    diagnosed = Diagnoses.of(facts)
    sentences = [
        *_conditions(facts, diagnosed),
        *_changes(facts, diagnosed),
        *_lost(facts, diagnosed),
        *_other_warnings(facts),
        *_slow_leaders(facts, diagnosed),
        *_failed_syncs(facts, diagnosed),
        *_unread(facts, unread),
    ]
    sentences.sort(key=lambda one: (-TONES.index(one.statement.tone), not one.holds, not one.is_loss))
    statements = [one.statement for one in sentences]
    if not any(one.is_trouble for one in sentences):
        statements.append(_statement("ok", [f"No event tells of a problem{_now(facts)}."]))
    return [*statements, *rolling_restarts(facts), _rebalances(facts)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sentence:
    """A sentence, and what decides about its place."""

    statement: Statement
    is_trouble: bool = True
    holds: bool = False
    is_loss: bool = False


def _unread(facts: VerdictFacts, unread: Sequence[Unread]) -> Iterator[_Sentence]:
    for one in unread:
        if one.what != "log":
            continue
        # Whoever may not read the log knows that; an outage is news.
        is_outage = one.reason == "unreachable"
        parts: list[str | int] = ["The log could not be read: only what the events say is known."]
        if one.since_ms is not None:
            parts = ["The log could not be read after ", one.since_ms, ": what happened then is not known."]
        statement = _statement("warn" if is_outage else "info", parts, None, facts.window)
        yield _Sentence(statement=statement, is_trouble=is_outage)


def _now(facts: VerdictFacts) -> str:
    if facts.state is None:
        return ""
    members = f" with {counted(facts.members, 'member')}" if facts.members else ""
    return f"; at the end the group is {facts.state}{members}"


def _statement(
    tone: Tone,
    parts: Sequence[str | int],
    span: tuple[int, int] | None = None,
    window: tuple[int, int] = (0, 1),
) -> Statement:
    """A sentence; ``window`` is the time of the document, and matters where a part is a point in time."""
    text = plain(parts, window)
    since_ms, until_ms = span or (None, None)
    return Statement(tone=tone, text=text, parts=tuple(parts), since_ms=since_ms, until_ms=until_ms)


def _conditions(facts: VerdictFacts, diagnosed: Diagnoses) -> Iterator[_Sentence]:
    """One sentence for each condition and cause."""
    groups: dict[tuple[str, str], list[ConditionBar]] = {}
    shown = [bar for _, bar in shown_conditions(facts)]
    for bar in sorted(shown, key=lambda bar: (bar.name, bar.since_ms)):
        if not diagnosed.is_explained(of_condition(bar)):
            groups.setdefault((bar.name, diagnosed.cause_name(of_condition(bar))), []).append(bar)
    for (name, _), bars in groups.items():
        main, statement = _condition(name, bars, facts, diagnosed)
        holds = any(bar.until_ms is None for bar in bars)
        yield _Sentence(statement=diagnosed.explain(statement, [of_condition(main)]), holds=holds)


def _condition(
    name: str, bars: Sequence[ConditionBar], facts: VerdictFacts, diagnosed: Diagnoses
) -> tuple[ConditionBar, Statement]:
    """The one that holds, or else the longest, with its members; then how many others there were."""

    def until(bar: ConditionBar) -> int:
        return facts.until_ms if bar.until_ms is None else bar.until_ms

    def lasted_ms(bar: ConditionBar) -> int:
        return until(bar) - bar.since_ms

    def span(bar: ConditionBar) -> list[str | int]:
        return ["since ", bar.since_ms] if bar.until_ms is None else [bar.since_ms, " to ", bar.until_ms]

    holding = [bar for bar in bars if bar.until_ms is None]
    main = max(holding or bars, key=lasted_ms)
    meaning = kind_named(name).MEANING or safe_text(name.replace(".", " "))
    lasted = milliseconds(lasted_ms(main))
    parts: list[str | int] = [f"{meaning[:1].upper()}{meaning[1:]} ", *span(main)]
    parts += [f", still at the end after {lasted}" if holding else f" ({lasted})"]
    if assumed := _assumed(name, facts):
        parts.append(f" ({assumed.removeprefix(', ')})")
    names_nobody = diagnosed.cause_name(of_condition(main)) and not diagnosed.blamed(of_condition(main))
    parts += [
        "." if names_nobody and kind_named(name).STOPS_COMMITS else _who(main, facts),
        *_quiet(main, until(main), facts),
    ]
    if others := [bar for bar in bars if bar is not main]:
        longest = max(others, key=lasted_ms)
        more = "was one more:" if len(others) == 1 else f"were {len(others)} more, the longest one"
        parts += [f" There {more} ", *span(longest), f" ({milliseconds(lasted_ms(longest))})."]
    tone = tone_of(worst([bar.severity for bar in bars]))
    return main, _statement(tone, parts, (main.since_ms, until(main)), facts.window)


def _who(bar: ConditionBar, facts: VerdictFacts) -> str:
    """The members that the condition names, and whether that is proven."""
    number = facts.conditions.index(bar)
    blamed = [(lane, one) for lane in facts.slots for one in lane.blames if one.condition == number]
    if not blamed:
        return f": {bar.subject}." if bar.subject else "."
    names = list(dict.fromkeys(_name(lane) for lane, _ in blamed))
    proven = all(one.proven for _, one in blamed)
    return f": {kind_named(bar.name).named_text(first_of(names, safe_text), len(names), proven=proven)}."


def _name(lane: SlotLane) -> str:
    """As a person calls the member: its host where its id repeats, for a number of a lane is known on a page only."""
    name = lane.instance_id or lane.client_id
    return (
        lane.name
        if lane.name == name or not name
        else f"{name} on {lane.client_host.removeprefix('/') or '?'}"
    )


def _quiet(bar: ConditionBar, until_ms: int, facts: VerdictFacts) -> list[str | int]:
    """On how many partitions nothing was committed meanwhile."""
    quiet = quiet_partitions(bar.since_ms, until_ms, facts) if kind_named(bar.name).STOPS_COMMITS else None
    if quiet is None or not quiet.partitions:
        return []
    return [" No ", *quiet.parts(bar.since_ms, " meanwhile"), "."]


def _changes(facts: VerdictFacts, diagnosed: Diagnoses) -> Iterator[_Sentence]:
    for name, words in _CHANGES.items():
        places = [one for one in facts.changes if one.name == name]
        if places and not diagnosed.is_explained((name, "")):
            number = len({(one.topic, one.partition) for one in places})
            first, last = places[0].at_ms, places[-1].at_ms
            text = words.format(counted(number, "partition"))
            assumed = _assumed(name, facts)
            parts: list[str | int] = [text, *_between(first, last), f"{_how_far(places)}{assumed}."]
            tone = tone_of(worst([one.severity for one in places]))
            events = [event for event in facts.events if event.name == name]
            yield _Sentence(
                statement=diagnosed.explain(
                    _statement(tone, parts, (first, last), facts.window), [(name, "")]
                ),
                is_trouble=tone != "info" or any(map(is_trouble, events)),
                is_loss=name in LOSSES,
            )


def _lost(facts: VerdictFacts, diagnosed: Diagnoses) -> Iterator[_Sentence]:
    """Members that are gone although nobody is known to have stopped them, by cause."""
    by_cause: dict[str, list[ReadEvent]] = {}
    for event in facts.events:
        if (
            event.name == MEMBER_LEFT
            and event.severity != "INFO"
            and not diagnosed.is_explained((MEMBER_LEFT, event.index))
        ):
            by_cause.setdefault(diagnosed.cause_name((MEMBER_LEFT, event.index)), []).append(event)
    for lost in by_cause.values():
        different = len({phrases.member(event.data) for event in lost})
        text = "A member was lost" if different == 1 else f"{different} members were lost"
        text += f" {counted(len(lost), 'time')}" if len(lost) > different else ""
        text += "" if any(map(may_have_been_closed, lost)) else " that nobody had stopped"
        parts: list[str | int] = [f"{text}: "]
        for number, event in enumerate(lost[:NAMES_SHOWN]):
            reason = phrases.spaced(event.data, "reason") + phrases.assumed(event.data)
            parts += [
                f"{', ' if number else ''}{phrases.member(event.data)} at ",
                event.time_ms,
                f" ({reason})",
            ]
        left_out = len(lost) - NAMES_SHOWN
        parts.append(f" and {left_out} more." if left_out > 0 else ".")
        tone = tone_of(worst([event.severity for event in lost]))
        statement = _statement(tone, parts, (lost[0].time_ms, lost[-1].time_ms), facts.window)
        yield _Sentence(
            statement=diagnosed.explain(statement, [(MEMBER_LEFT, event.index) for event in lost])
        )


def _assumed(name: str, facts: VerdictFacts) -> str:
    """The numbers that the events of a type assume: what rests on them is no fact."""
    numbers: dict[Any, Any] = {}
    for event in facts.events:
        if event.name == name:
            numbers |= event.mapping("assumed")
    return phrases.assumed({"assumed": numbers})


def _between(first_ms: int, last_ms: int) -> list[str | int]:
    if first_ms == last_ms:
        return [" at ", first_ms]
    return [" between ", first_ms, " and ", last_ms]


def _other_warnings(facts: VerdictFacts) -> Iterator[_Sentence]:
    """Warnings and errors that no other sentence is about."""
    by_name: dict[str, list[ReadEvent]] = {}
    for event in facts.events:
        has_sentence = event.name in _CHANGES or event.name == MEMBER_LEFT or event.text("condition_id")
        if event.severity != "INFO" and not has_sentence:
            by_name.setdefault(event.name, []).append(event)
    for name, events in by_name.items():
        severity, times = worst([event.severity for event in events]), [event.time_ms for event in events]
        first, last = min(times), max(times)
        parts: list[str | int] = [f"{counted(len(events), 'event')} of type {safe_text(name)} ({severity})"]
        parts += [*_between(first, last), f"{_assumed(name, facts)}."]
        yield _Sentence(statement=_statement(tone_of(severity), parts, (first, last), facts.window))


def _slow_leaders(facts: VerdictFacts, diagnosed: Diagnoses) -> Iterator[_Sentence]:
    """How long the group waited for the assignment of each leader that took long."""
    by_leader: dict[str, list[GenerationFlag]] = {}
    for flag in facts.generations:
        if flag.slow_leader is not None:
            by_leader.setdefault(flag.slow_leader, []).append(flag)
    slow = {event.time_ms: event for event in facts.events if is_slow_leader(event)}
    for leader, flags in by_leader.items():
        longest = max(flags, key=lambda flag: flag.sync_ms or 0)
        sync_ms = longest.sync_ms or 0
        begin_ms, end_ms = longest.at_ms - sync_ms, longest.at_ms
        times = f"{len(flags)} times" if len(flags) > 1 else "once"
        parts: list[str | int] = [f"The group waited {times} for the assignment of its leader, {leader}"]
        parts += [": the longest time " if len(flags) > 1 else ": ", begin_ms, " to ", end_ms]
        parts.append(f" ({milliseconds(sync_ms)}).")
        tone = tone_of(worst([event.severity for event in slow.values()]))
        statement = _statement(tone, parts, (begin_ms, end_ms), facts.window)
        yield _Sentence(
            statement=diagnosed.explain(
                statement, [(SLOW_LEADER, slow[end_ms].index)] if end_ms in slow else []
            )
        )


def _failed_syncs(facts: VerdictFacts, diagnosed: Diagnoses) -> Iterator[_Sentence]:
    """Generations that were begun again and again, without an assignment."""
    failed = [event for event in facts.events if is_failed_sync(event)]
    told = [event for event in failed if not diagnosed.is_explained((FAILED_SYNCS, event.index))]
    if not told:
        return
    number = sum(event.number("skipped_generations") or 0 for event in told)
    first, last = told[0].time_ms, told[-1].time_ms
    parts: list[str | int] = [f"{counted(number, 'generation')} were begun and never completed before those "]
    parts = [*parts, "that ended", *_between(first, last), "."]
    statement = _statement(
        tone_of(worst([event.severity for event in told])), parts, (first, last), facts.window
    )
    yield _Sentence(statement=diagnosed.explain(statement, [(FAILED_SYNCS, told[0].index)]))


def _how_far(places: Sequence[OffsetChange]) -> str:
    """The largest jump, where both offsets are known."""
    jumps = [one for one in places if one.old is not None and one.new is not None]
    if not jumps:
        return ""
    worst = max(jumps, key=lambda one: abs((one.new or 0) - (one.old or 0)))
    return f", {safe_text(worst.topic)}-{worst.partition} from {worst.old} to {worst.new}"


def _rebalances(facts: VerdictFacts) -> Statement:
    flags = facts.generations
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
        parts.append(phrases.never_completed(skipped))
    parts.append(longest_text([(flag.least_ms, flag.most_ms, flag.took) for flag in flags]))
    return _statement("info", [", ".join(filter(None, parts)) + "."])
