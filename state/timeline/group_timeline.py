"""The timeline of one group: everything that is known of it between two points in time, as one document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from groupreplay.state.policy.redaction import Redaction
from groupreplay.state.snapshot.observations import GroupRecord
from groupreplay.state.snapshot.partitions import to_ranges
from groupreplay.state.timeline import findings
from groupreplay.state.timeline.commit_rates import CommitLog, bucket_width_ms, commit_counts
from groupreplay.state.timeline.document import (
    TIMELINE_FORM,
    Basis,
    EventRow,
    ExpiryDeadline,
    Hole,
    StateBar,
    TimelineDocument,
    TimelineSource,
)
from groupreplay.state.timeline.event_reading import ReadEvent, read_events, whole, words
from groupreplay.state.timeline.findings import TextOf
from groupreplay.state.timeline.lanes import Lanes, lanes_of
from groupreplay.state.timeline.limits import TimelineLimits, bodies, kept_events
from groupreplay.state.timeline.membership import memberships
from groupreplay.state.timeline.remarks import remarks
from groupreplay.state.timeline.rows import Window, event_lanes, slot_lanes, topic_rows
from groupreplay.state.timeline.states import ProbedState, state_spans
from groupreplay.state.timeline.trace_marks import trace_marks
from groupreplay.state.timeline.verdict import Findings, verdict

_OPEN: Final = 1 << 60


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineInput:
    """What a timeline is made from.

    ``events`` are the group's CloudEvents, parsed. Where a log or capture was read (``has_log``), ``records`` are the
    group's records in log order without its commits, except the first commit after each of them; ``commits`` are all of
    them, and ``answers`` those of a prober. ``offsets`` are those of ``Group.describe()`` at the end; ``trace`` are
    lines of ``simulate --trace``. ``end_ms`` is the end of the log; ``undated`` counts records without a usable time.
    ``redaction`` is the one that the events were made with.
    """

    group_id: str
    source: TimelineSource
    events: Sequence[Mapping[str, Any]]
    end_ms: int
    since_ms: int | None = None
    until_ms: int | None = None
    has_log: bool = False
    probed: bool = False
    records: Sequence[GroupRecord] = ()
    commits: CommitLog = field(default_factory=CommitLog)
    answers: Sequence[ProbedState] = ()
    offsets: Sequence[Mapping[str, Any]] = ()
    topic_names: Mapping[str, str] = field(default_factory=dict)
    trace: Sequence[Mapping[str, Any]] = ()
    undated: int = 0
    redaction: Redaction | None = None


def timeline_document(
    given: TimelineInput, text_of: TextOf, limits: TimelineLimits | None = None
) -> TimelineDocument:
    """The timeline; ``text_of`` makes the text of an event.

    Times before ``since_ms`` count for what holds then. What exceeds the limits is summed up, and a remark says so.
    """
    limits = limits or TimelineLimits()
    window = _window(given)
    told = [event for event in read_events(given.events) if event.time_ms < window.until_ms]
    shown = [event for event in told if window.holds(event.time_ms) or _reaches(event, told, window)]
    kept = kept_events(shown, limits.events)
    place = {event.index: row for row, event in enumerate(kept)}

    def row_of(event: ReadEvent) -> int | None:
        return place.get(event.index)

    lanes = lanes_of(memberships(given.records, given.topic_names, given.redaction))
    if not given.records:
        lanes = event_lanes(told)
    known = findings.condition_bars(shown, row_of, text_of)
    known = [one for one in known if one[0].until_ms is None or one[0].until_ms >= window.since_ms]
    conditions = [bar for bar, _ in known]
    blamed = findings.blames(known, told, lanes)
    marks = findings.lane_marks([event for event in shown if window.holds(event.time_ms)], lanes, row_of)
    slots, slot_sums = slot_lanes(lanes, window, blamed, marks, findings.leave_reasons(told), limits)
    bucket_ms = bucket_width_ms(window.until_ms - window.since_ms, limits.buckets)
    counts = commit_counts(given.commits, window.since_ms, window.until_ms, bucket_ms)
    topics, row_sums = topic_rows(lanes, given.commits, counts, slot_sums.renumbered, window, limits)
    states = _states(given, window)
    here = [event for event in shown if window.holds(event.time_ms)]
    flags = findings.generation_flags(here, row_of)
    changes = findings.offset_changes(here, row_of)
    trace, trace_left_out = trace_marks(
        given.trace, given.group_id, window, lanes, slot_sums.renumbered, limits.trace
    )
    rows = _rows(kept, lanes, slot_sums.renumbered, text_of, limits)
    holding = [lane for lane in slots if lane.tenures and lane.tenures[-1].until_ms is None]
    last_state = states[-1].state if states else None
    found = Findings(
        since_ms=window.since_ms,
        until_ms=window.until_ms,
        conditions=conditions,
        generations=flags,
        slots=slots,
        changes=changes,
        commits=given.commits,
        state=last_state,
        members=len(holding),
    )
    return TimelineDocument(
        form=TIMELINE_FORM,
        group_id=given.group_id,
        group_type=_type(told, states),
        since_ms=window.since_ms,
        until_ms=window.until_ms,
        source=given.source,
        verdict=tuple(verdict(found)),
        basis=_basis(given, here),
        remarks=tuple(
            remarks(
                given,
                here,
                dropped_events=len(shown) - len(kept),
                cut_bodies=sum(row.cut for row in rows),
                slots_left_out=slot_sums.left_out,
                rows=row_sums,
                trace_left_out=trace_left_out,
                changes_left_out=max(len(changes) - limits.offset_changes, 0),
                unread=lanes.unread,
            )
        ),
        states=tuple(states),
        holes=tuple(_clipped(findings.holes(told, window.since_ms), window)),
        generations=tuple(flags),
        slots=tuple(slots),
        topics=tuple(topics),
        bucket_ms=bucket_ms,
        offset_changes=tuple(changes[: limits.offset_changes]),
        deadlines=tuple(_deadlines(given.offsets)),
        conditions=tuple(conditions),
        events=tuple(rows),
        trace=tuple(trace),
    )


def _window(given: TimelineInput) -> Window:
    """The time of the document: what was asked for, else from the first to the last that is known."""
    times = [one.timestamp_ms for one in given.records if one.timestamp_ms >= 0]
    times += [event.time_ms for event in read_events(given.events)]
    if len(given.commits.at_ms):
        times += [int(given.commits.at_ms.min()), int(given.commits.at_ms.max())]
    until_ms = max([given.end_ms, *times]) + 1 if given.until_ms is None else given.until_ms
    since_ms = min(times, default=until_ms) if given.since_ms is None else given.since_ms
    return Window(since_ms, max(until_ms, since_ms + 1))


def _reaches(event: ReadEvent, told: Sequence[ReadEvent], window: Window) -> bool:
    """Whether an event before the window is about a condition, which may hold in it."""
    return event.time_ms < window.since_ms and bool(event.text("condition_id"))


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


def _type(events: Sequence[ReadEvent], states: Sequence[StateBar]) -> str:
    if states:
        return states[-1].group_type
    return events[-1].text("group_type") if events else "classic"


def _basis(given: TimelineInput, events: Sequence[ReadEvent]) -> Basis:
    told = {event.text("history") for event in events}
    return Basis(
        evidence=tuple(sorted({event.text("evidence") for event in events} - {""})),
        history="partial" if "partial" in told else "full",
        catch_up=sum(event.data.get("catch_up") is True for event in events),
        probed=given.probed,
    )


def _rows(
    kept: Sequence[ReadEvent],
    lanes: Lanes,
    renumbered: Mapping[int, int],
    text_of: TextOf,
    limits: TimelineLimits,
) -> list[EventRow]:
    whole_bodies = bodies(kept, limits.event_bytes)
    rows = []
    for event in kept:
        cause, slot = event.cause, findings.slot_of_event(event, lanes)
        rows.append(
            EventRow(
                id=event.id,
                time_ms=event.time_ms,
                name=event.name,
                severity=event.severity,
                text=text_of(event.body),
                topic=words(cause.get("topic")) or None,
                partition=whole(cause.get("partition")),
                offset=whole(cause.get("offset")),
                slot=None if slot is None else renumbered.get(slot),
                cut=event.index not in whole_bodies,
                body=whole_bodies.get(event.index),
            )
        )
    return rows


def _clipped(holes: Sequence[Hole], window: Window) -> list[Hole]:
    return [
        Hole(since_ms=span[0], until_ms=span[1] or window.until_ms, text=hole.text)
        for hole in holes
        if (span := window.clip(hole.since_ms, hole.until_ms)) is not None
    ]


def _deadlines(offsets: Sequence[Mapping[str, Any]]) -> list[ExpiryDeadline]:
    """The partitions that may be removed at the same minute, together."""
    due: dict[tuple[int, str], list[tuple[int, int]]] = {}
    for one in offsets:
        at_ms = one["expires_at_ms"]
        if at_ms is not None and at_ms < _OPEN:
            due.setdefault((at_ms // 60_000, one["topic"]), []).append((one["partition"], at_ms))
    return [
        ExpiryDeadline(
            at_ms=min(at_ms for _, at_ms in places),
            topic=topic,
            partitions=to_ranges(partition for partition, _ in places),
        )
        for (_, topic), places in sorted(due.items())
    ]
