"""The timeline of one group: everything that is known of it between two points in time, as one document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

from groupreplay.state.phrases import timestamp_ms
from groupreplay.state.snapshot.partitions import to_ranges
from groupreplay.timeline import findings
from groupreplay.timeline.commit_rates import CommitLog, bucket_width_ms, commit_counts, usual_gap_ms
from groupreplay.timeline.document import (
    TIMELINE_FORM,
    Basis,
    ConditionBar,
    ExpiryDeadline,
    GenerationFlag,
    Hole,
    OffsetChange,
    SlotLane,
    StateBar,
    TimelineDocument,
)
from groupreplay.timeline.episodes import VerdictFacts
from groupreplay.timeline.event_folds import event_folds
from groupreplay.timeline.event_reading import ReadEvent, read_events
from groupreplay.timeline.facts import EVERYTHING_BEFORE, MemberEnds
from groupreplay.timeline.findings import TextOf
from groupreplay.timeline.lanes import Lanes, lanes_of, memberships
from groupreplay.timeline.limits import (
    TimelineLimits,
    bodies,
    coarser_states,
    kept_conditions,
    kept_events,
    kept_generations,
)
from groupreplay.timeline.present import Present, present
from groupreplay.timeline.remarks import DocumentSums, remarks
from groupreplay.timeline.rows import RowSums, SlotSums, Window, event_lanes, slot_lanes, topic_rows
from groupreplay.timeline.states import TimelineInput, state_spans
from groupreplay.timeline.stop_cost import Backlog
from groupreplay.timeline.trace_marks import trace_marks
from groupreplay.timeline.verdict import verdict

_OPEN: Final = 1 << 60


def timeline_document(
    given: TimelineInput, text_of: TextOf, limits: TimelineLimits | None = None
) -> TimelineDocument:
    """The timeline; ``text_of`` makes the text of an event.

    Times before ``since_ms`` count for what holds then. What exceeds the limits is summed up, and a remark says so.
    """
    limits = limits or TimelineLimits()
    events = read_events(given.events)
    window = _window(given, events)
    known = _known(window, given.known_until_ms)
    told = _read(events, window, limits)
    members = _members(given, told, known, text_of, limits)
    document, sums = _document(given, told, members, known, limits)
    document = _dated(document, given, window)
    whole_bodies = bodies(told.kept, limits.event_bytes)
    renumbered = members.sums.renumbered
    rows = findings.event_rows(told.kept, whole_bodies, members.lanes, members.slots, renumbered, text_of)
    changes = findings.offset_changes(told.here, told.row_of)
    backlog = None if given.ends_of is None else Backlog(given.commits, given.ends_of) or None
    flags = findings.generation_flags(told.here, told.row_of, members.slot_of, backlog)
    facts = _verdict_facts(document, given, members, flags, changes, told.here, backlog)
    shown_flags = kept_generations(flags, limits.generations)
    sums = replace(
        sums,
        bodies=sum(row.cut for row in rows),
        changes=max(len(changes) - limits.offset_changes, 0),
        generations=len(flags) - len(shown_flags),
    )
    return replace(
        document,
        verdict=tuple(verdict(facts, document.unread)),
        remarks=tuple(remarks(given, told.here, document, sums, unread=members.lanes.unread)),
        generations=tuple(shown_flags),
        quiet_times=tuple(backlog.quiet_times(*known)[: limits.generations]) if backlog else (),
        present=_present(document, given, members, told, limits),
        offset_changes=tuple(changes[: limits.offset_changes]),
        events=tuple(rows),
        folds=tuple(event_folds(told.kept, lambda number: rows[number].text)),
    )


def _document(
    given: TimelineInput, told: _WindowEvents, members: _Members, window: Window, limits: TimelineLimits
) -> tuple[TimelineDocument, DocumentSums]:
    """The document of the time that is known, without verdict, remarks and events; and what it leaves out."""
    slots, bucket_ms = members.sums.renumbered, _bucket_ms(given.commits, window, limits)
    counts = commit_counts(given.commits, window.since_ms, window.until_ms, bucket_ms)
    topics, row_sums = topic_rows(members.lanes, given.commits, counts, slots, window, limits)
    trace, trace_left_out = trace_marks(
        given.trace, given.group_id, window, members.lanes, slots, limits.trace
    )
    states, states_ms = coarser_states(_states(given, window), limits.states)
    deadlines = _deadlines(given.offsets)
    document = TimelineDocument(
        form=TIMELINE_FORM,
        group_id=given.group_id,
        group_type=findings.group_type(told.before_end, states),
        since_ms=window.since_ms,
        until_ms=window.until_ms,
        source=given.source,
        verdict=(),
        basis=_basis(given, told.here),
        remarks=(),
        states=tuple(states),
        holes=tuple(_clipped(findings.holes(told.before_end, window.since_ms), window)),
        generations=(),
        slots=tuple(members.slots),
        topics=tuple(topics),
        bucket_ms=bucket_ms,
        offset_changes=(),
        deadlines=tuple(deadlines[: limits.deadlines]),
        conditions=tuple(members.conditions),
        events=(),
        folds=(),
        trace=tuple(trace),
        known_until_ms=window.until_ms,
        events_until_ms=window.until_ms,
    )
    sums = _sums(told, members, states_ms, trace_left_out, row_sums)
    return document, replace(sums, deadlines=max(len(deadlines) - limits.deadlines, 0))


def _dated(document: TimelineDocument, given: TimelineInput, window: Window) -> TimelineDocument:
    """The document with the whole time that was asked for, and up to when what is known."""
    known = _known(window, given.known_until_ms)
    return replace(
        document,
        until_ms=window.until_ms,
        known_until_ms=_until_ms(window, given.known_until_ms),
        events_until_ms=_until_ms(window, given.events_until_ms),
        known_since_ms=_known_since_ms(document, given, window),
        last_commit_ms=_last_commit_ms(given.commits, known),
        unread=tuple(given.unread),
        commit_gaps=tuple(given.commits.gaps_in(*known, within_ms=document.bucket_ms)),
    )


def _sums(
    told: _WindowEvents, members: _Members, states_ms: int, trace_left_out: int, rows: RowSums
) -> DocumentSums:
    slots = members.sums
    return DocumentSums(
        events=len(told.here) - len(told.kept),
        slots=slots.left_out,
        states_ms=max(states_ms, slots.shortest_ms),
        tenures_ms=slots.tenures_ms,
        marks=slots.marks_left_out,
        conditions=members.conditions_left_out,
        trace=trace_left_out,
        rows=rows,
    )


@dataclass(frozen=True, slots=True)
class _WindowEvents:
    """The events before the end of the window, those that the document is about, those in it, and those with a row."""

    before_end: Sequence[ReadEvent]
    shown: Sequence[ReadEvent]
    here: Sequence[ReadEvent]
    kept: Sequence[ReadEvent]
    rows: Mapping[int, int]

    def row_of(self, event: ReadEvent) -> int | None:
        """The index of the event's row; None if it has none."""
        return self.rows.get(event.index)


def _read(events: Sequence[ReadEvent], window: Window, limits: TimelineLimits) -> _WindowEvents:
    told = [event for event in events if event.time_ms < window.until_ms]
    here = [event for event in told if window.holds(event.time_ms)]
    # A condition that began before the window may hold in it.
    shown = [event for event in told if window.holds(event.time_ms) or event.text("condition_id")]
    kept = kept_events(here, limits.events)
    return _WindowEvents(told, shown, here, kept, {event.index: row for row, event in enumerate(kept)})


@dataclass(frozen=True, slots=True)
class _Members:
    lanes: Lanes
    slots: Sequence[SlotLane]
    sums: SlotSums
    conditions: Sequence[ConditionBar]
    condition_events: Sequence[ReadEvent]
    conditions_left_out: int

    def slot_of(self, member_id: str) -> int | None:
        """The slot of a member in the document; None: it has none."""
        slot = self.lanes.slot_of.get(member_id)
        return None if slot is None else self.sums.renumbered.get(slot)


def _members(
    given: TimelineInput, told: _WindowEvents, window: Window, text_of: TextOf, limits: TimelineLimits
) -> _Members:
    """The lanes of members, and the conditions that name them."""
    lanes = lanes_of(memberships(given.records, given.topic_names, given.redaction))
    if not given.records:
        lanes = event_lanes(told.before_end)
    all_known = [
        (bar, event)
        for bar, event in findings.condition_bars(told.shown, told.row_of, text_of)
        if bar.until_ms is None or bar.until_ms >= window.since_ms
    ]
    known = kept_conditions(all_known, limits.conditions)
    blamed = findings.blames(known, told.before_end, lanes)
    marks = findings.lane_marks(told.here, lanes, told.row_of)
    ends = MemberEnds.of(told.before_end, told.row_of)
    slots, sums = slot_lanes(lanes, window, blamed, marks, ends, limits)
    bars, best = [bar for bar, _ in known], [event for _, event in known]
    return _Members(lanes, slots, sums, bars, best, len(all_known) - len(known))


def _bucket_ms(commits: CommitLog, window: Window, limits: TimelineLimits) -> int:
    """Buckets as wide as the usual gap would show the rhythm of the clients instead of their rate."""
    span_ms = window.until_ms - window.since_ms
    return bucket_width_ms(span_ms, limits.buckets, min(2 * usual_gap_ms(commits), span_ms // 60))


def _verdict_facts(
    document: TimelineDocument,
    given: TimelineInput,
    members: _Members,
    flags: Sequence[GenerationFlag],
    changes: Sequence[OffsetChange],
    events: Sequence[ReadEvent],
    backlog: Backlog | None,
) -> VerdictFacts:
    holding = [lane for lane in document.slots if lane.tenures and lane.tenures[-1].until_ms is None]
    return VerdictFacts(
        since_ms=document.since_ms,
        until_ms=max(document.events_until_ms, document.since_ms + 1),
        conditions=document.conditions,
        generations=flags,
        slots=document.slots,
        changes=changes,
        commits=given.commits,
        backlog=backlog,
        state=document.states[-1].state if document.states else None,
        members=len(holding),
        events=events,
        condition_events=members.condition_events,
        group_id=document.group_id,
        group_type=document.group_type,
        answers=given.answers,
        coordinators=given.coordinators,
        probed=given.probed,
        runbook=findings.runbook_page(events) or given.runbook,
        begins_inside=any(hole.text == EVERYTHING_BEFORE for hole in document.holes),
    )


def _window(given: TimelineInput, events: Sequence[ReadEvent]) -> Window:
    """The time of the document: what was asked for, else from the first to the last that is known."""
    times = [record.timestamp_ms for record in given.records if record.timestamp_ms >= 0]
    times += [event.time_ms for event in events]
    if len(given.commits.at_ms):
        times += [int(given.commits.at_ms.min()), int(given.commits.at_ms.max())]
    until_ms = max([given.end_ms, *times]) + 1 if given.until_ms is None else given.until_ms
    since_ms = min(times, default=until_ms) if given.since_ms is None else given.since_ms
    return Window(since_ms, max(until_ms, since_ms + 1))


def _known(window: Window, until_ms: int | None) -> Window:
    """The part of the time that is known up to a moment."""
    return Window(window.since_ms, max(_until_ms(window, until_ms), window.since_ms + 1))


def _until_ms(window: Window, until_ms: int | None) -> int:
    return window.until_ms if until_ms is None else min(window.until_ms, until_ms)


def _last_commit_ms(commits: CommitLog, known: Window) -> int | None:
    at_ms = commits.at_ms[commits.at_ms < known.until_ms]
    return int(at_ms.max()) if len(at_ms) else None


def _known_since_ms(document: TimelineDocument, given: TimelineInput, window: Window) -> int | None:
    """The first moment in the window of which anything is known."""
    times = [bar.since_ms for bar in document.states]
    times += [stay.since_ms for lane in document.slots for stay in lane.tenures]
    times += [bar.since_ms for bar in document.conditions]
    times += [at_ms for event in given.events if (at_ms := timestamp_ms(event.get("time"))) is not None]
    if len(given.commits.at_ms):
        times.append(int(given.commits.at_ms.min()))
    first_ms = min(times, default=window.until_ms)
    return max(first_ms, window.since_ms) if first_ms < window.until_ms else None


def _present(
    document: TimelineDocument,
    given: TimelineInput,
    members: _Members,
    told: _WindowEvents,
    limits: TimelineLimits,
) -> Present | None:
    if not given.has_log:
        return None
    return present(
        members.lanes,
        {old: members.slots[new].name for old, new in members.sums.renumbered.items()},
        given.offsets,
        document.known_until_ms,
        (limits.slots, limits.partitions),
        begins_inside=any(hole.text == EVERYTHING_BEFORE for hole in findings.holes(told.before_end, 0)),
    )


def _states(given: TimelineInput, window: Window) -> list[StateBar]:
    spans = state_spans(given.records, given.answers) if given.records else []
    ends = [(span, None) for span in spans[-1:]]
    pairs = [*((span, after.since_ms) for span, after in pairwise(spans)), *ends]
    return [
        StateBar(
            state=span.state,
            group_type=span.group_type,
            since_ms=span.since_ms,
            earliest_ms=span.earliest_ms,
            until_ms=until_ms,
            evidence=span.evidence,
            generation=span.generation,
            offset=span.offset,
        )
        for span, until_ms in pairs
        if span.since_ms < window.until_ms and (until_ms is None or until_ms >= window.since_ms)
    ]


def _basis(given: TimelineInput, events: Sequence[ReadEvent]) -> Basis:
    told = {event.text("history") for event in events}
    return Basis(
        evidence=tuple(sorted({event.text("evidence") for event in events} - {""})),
        history="partial" if "partial" in told else "full",
        catch_up=sum(event.data.get("catch_up") is True for event in events),
        probed=given.probed,
        asked=given.asked,
        assumed={**(given.assumed if given.offsets else {}), **findings.assumed_numbers(events)},
    )


def _clipped(holes: Sequence[Hole], window: Window) -> list[Hole]:
    """The parts of the holes in the window; one that ends where it begins has no length, and is a hole all the same."""
    return [
        Hole(
            since_ms=max(hole.since_ms, window.since_ms),
            until_ms=min(hole.until_ms, window.until_ms),
            text=hole.text,
        )
        for hole in holes
        if hole.since_ms < window.until_ms and hole.until_ms >= window.since_ms
    ]


def _deadlines(offsets: Sequence[Mapping[str, Any]]) -> list[ExpiryDeadline]:
    """The partitions that may be removed at the same minute, together."""
    due: dict[tuple[int, str], list[tuple[int, int]]] = {}
    for offset in offsets:
        at_ms = offset["expires_at_ms"]
        if at_ms is not None and at_ms < _OPEN:
            due.setdefault((at_ms // 60_000, offset["topic"]), []).append((offset["partition"], at_ms))
    return [
        ExpiryDeadline(
            at_ms=min(at_ms for _, at_ms in places),
            topic=topic,
            partitions=to_ranges(partition for partition, _ in places),
        )
        for (_, topic), places in sorted(due.items())
    ]
