"""The overview of all groups: a strip for each, made from events alone, and which groups are worst."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from msgspec import Meta

from groupreplay.codecs.kafka_terms import shown_type
from groupreplay.state.conditions.registry import kind_named
from groupreplay.timeline.commit_rates import bucket_width_ms
from groupreplay.timeline.diagnosis import Tone
from groupreplay.timeline.document import Remark, TimelineDocument, TimelineSource
from groupreplay.timeline.event_reading import ReadEvent, read_events
from groupreplay.timeline.facts import LOSSES, TONES, is_trouble, tone_of, worst
from groupreplay.timeline.incident_forms import SevereIncident

#: The version of the overview's form.
OVERVIEW_FORM: Final = "groupreplay.overview.v1"
#: Buckets of a strip.
_BUCKETS: Final = 120
#: Spans and marks of one strip; a group with more shows the most severe and longest ones.
_MOST_SPANS: Final = 100
_COMPLETED: Final = "rebalance.completed"
#: How much a minute of each severity counts among groups of one tone.
_WEIGHT: Final = {"INFO": 1, "WARN": 10, "ERROR": 100}


@dataclass(frozen=True, slots=True)
class GroupNow:
    """A group at the end: its state, its number of members, the names that it is found by, and its type.

    ``group_type`` empty: that of its events. A simple group may have none.
    """

    state: str
    members: int
    names: tuple[str, ...] = ()
    group_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCount:
    """So many groups have this as the worst of them; ``leading`` empty: nothing is wrong in them."""

    leading: str
    text: Annotated[str, Meta(description="In words, with the number.")]
    tone: Tone
    groups: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StripSpan:
    """A time in a strip: a condition, or the moment of an event that tells of trouble (both times are equal)."""

    name: str
    severity: str
    since_ms: int
    until_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStrip:
    """One group in the overview. ``rebalances`` are counts in buckets from the overview's begin on."""

    group_id: str
    group_type: Annotated[str, Meta(description="`simple`: a classic group that never had members.")]
    tone: Tone
    score: int
    leading: Annotated[
        str, Meta(description="The name of the worst condition or event; empty: none tells of a problem.")
    ]
    still: Annotated[
        str, Meta(description="The name of the worst condition that holds at the end; empty: none does.")
    ]
    text: Annotated[str, Meta(description="What is wrong, and because of whom; empty where nothing is.")]
    parts: Annotated[
        tuple[str | int, ...], Meta(description="The same text; a number stands for a point in time.")
    ]
    state: Annotated[str | None, Meta(description="At the end; null: the group is gone, or not known.")]
    members: Annotated[int | None, Meta(description="Their number at the end.")]
    names: Annotated[
        tuple[str, ...],
        Meta(description="What the group is found by: topics, and names and hosts of members."),
    ]
    rebalance_count: int
    moved: int
    conditions: Mapping[str, int]
    losses: Annotated[int, Meta(description="How often committed offsets expired or were deleted.")]
    slow_leaders: Annotated[int, Meta(description="Rebalances that waited 3 s or more for the leader.")]
    warnings: Annotated[
        Mapping[str, int], Meta(description="Other events of severity WARN or ERROR, by their name.")
    ]
    last_ms: int
    rebalances: tuple[int, ...]
    spans: tuple[StripSpan, ...]
    in_full: bool
    advice: Annotated[
        int | None,
        Meta(description="How many findings say which setting would have helped; null: not known."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsOverview:
    """All groups, the worst ones first; ``timelines`` are those that are shown in full."""

    form: str
    since_ms: int
    until_ms: int
    bucket_ms: int
    source: TimelineSource
    remarks: tuple[Remark, ...]
    counts: Annotated[
        tuple[GroupCount, ...], Meta(description="The groups by the worst of them, the gravest first.")
    ]
    incidents: Annotated[
        tuple[SevereIncident, ...], Meta(description="What began in many groups at once, the worst first.")
    ]
    strips: tuple[GroupStrip, ...]
    timelines: tuple[TimelineDocument, ...]
    deployments: Annotated[
        tuple[str, ...],
        Meta(
            description="What rolling restarts cost: of all groups, then by team, in words; empty: there were none."
        ),
    ] = ()


@dataclass(slots=True)
class _OpenCondition:
    name: str
    since_ms: int
    severity: str
    until_ms: int | None = None


@dataclass(slots=True)
class _GroupTally:
    """One group so far."""

    group_type: str = "classic"
    rebalances: list[tuple[int, int]] = field(default_factory=list)
    conditions: dict[str, _OpenCondition] = field(default_factory=dict)
    marks: list[tuple[str, int, str]] = field(default_factory=list)
    last_ms: int = 0
    #: The last event of each name that tells of trouble, and its severity.
    troubles: dict[str, ReadEvent] = field(default_factory=dict)
    #: The end of the condition of each of these, if it is over.
    ends: dict[str, ReadEvent] = field(default_factory=dict)
    now: GroupNow | None = None


class OverviewTally:
    """Counts events as they come; memory grows with groups, rebalances and conditions.

    ``text_of`` is the sentence of an event.
    """

    def __init__(self, text_of: Callable[[Mapping[str, Any]], str]) -> None:
        self._text_of = text_of
        self._groups: dict[str, _GroupTally] = {}
        self.first_ms: int | None = None

    def add(self, body: Mapping[str, Any]) -> None:
        """One CloudEvent; those of the job itself are ignored."""
        for event in read_events([body]):
            group_id = event.data.get("group_id")
            if isinstance(group_id, str):
                self._note(self._groups.setdefault(group_id, _GroupTally()), event)

    def see(self, group_id: str, now: GroupNow | None) -> None:
        """What a group is now, which takes the place of what it was; None: it is gone."""
        self._groups.setdefault(group_id, _GroupTally()).now = now

    def _note(self, tally: _GroupTally, event: ReadEvent) -> None:
        self.first_ms = event.time_ms if self.first_ms is None else min(self.first_ms, event.time_ms)
        group_type = event.text("group_type") or tally.group_type
        tally.group_type = shown_type(group_type, simple=event.data.get("simple") is True)
        tally.last_ms = max(tally.last_ms, event.time_ms)
        if event.name == _COMPLETED:
            tally.rebalances.append((event.time_ms, event.number("partitions_moved") or 0))
        self._note_trouble(tally, event)
        if event.text("condition_id"):
            self._note_condition(tally, event)
        elif is_trouble(event):
            tally.marks.append((event.name, event.time_ms, event.severity))

    @staticmethod
    def _note_trouble(tally: _GroupTally, event: ReadEvent) -> None:
        trouble = tally.troubles.get(event.name)
        if event.text("status") != "resolved":
            if is_trouble(event):
                tally.troubles[event.name] = event
                tally.ends.pop(event.name, None)
        elif trouble is not None and trouble.text("condition_id") == event.text("condition_id"):
            tally.ends[event.name] = event

    @staticmethod
    def _note_condition(tally: _GroupTally, event: ReadEvent) -> None:
        since_ms = event.number("since_ms")
        known = tally.conditions.setdefault(
            event.text("condition_id"),
            _OpenCondition(event.name, event.time_ms if since_ms is None else since_ms, event.severity),
        )
        known.severity = worst([known.severity, event.severity])
        known.until_ms = event.time_ms if event.text("status") == "resolved" else None

    def strips(self, since_ms: int, until_ms: int) -> list[GroupStrip]:
        """The strips in this time, the worst first."""
        strips = [
            self._strip(group_id, tally, since_ms, until_ms) for group_id, tally in self._groups.items()
        ]
        return sorted(strips, key=_rank)

    def _strip(self, group_id: str, tally: _GroupTally, since_ms: int, until_ms: int) -> GroupStrip:
        width = strip_bucket_ms(since_ms, until_ms)
        times = [each for each in tally.rebalances if since_ms <= each[0] < until_ms]
        buckets = [0] * max(-(-(until_ms - since_ms) // width), 1)
        for at_ms, _ in times:
            buckets[(at_ms - since_ms) // width] += 1
        conditions, marks = list(_conditions(tally, since_ms, until_ms)), _marks(tally, since_ms, until_ms)
        spans = sorted((*conditions, *marks), key=lambda span: span.since_ms - span.until_ms)
        names = Counter(span.name for span in marks)
        leading = _leading(spans)
        text = self._text(tally, leading)
        return GroupStrip(
            group_id=group_id,
            group_type=(tally.now.group_type if tally.now else "") or tally.group_type,
            tone=tone_of(worst([span.severity for span in spans])) if spans else "ok",
            score=sum(_WEIGHT[span.severity] * (span.until_ms - span.since_ms + 60_000) for span in spans),
            leading=leading,
            still=_leading([span for span in conditions if span.since_ms < span.until_ms == until_ms]),
            text=text,
            parts=(text,) if text else (),
            state=None if tally.now is None else tally.now.state,
            members=None if tally.now is None else tally.now.members,
            names=() if tally.now is None else tally.now.names,
            rebalance_count=len(times),
            moved=sum(moved for _, moved in times),
            conditions=Counter(span.name for span in conditions),
            losses=sum(names[name] for name in LOSSES),
            slow_leaders=names[_COMPLETED],
            warnings={name: count for name, count in names.items() if name not in (*LOSSES, _COMPLETED)},
            last_ms=tally.last_ms,
            rebalances=tuple(buckets) if times else (),
            spans=tuple(_most_severe(spans)),
            in_full=False,
        )

    def _text(self, tally: _GroupTally, leading: str) -> str:
        """What the last event of this name says, and how the condition ended: its text is that of its moment."""
        trouble = tally.troubles.get(leading)
        if trouble is None:
            return ""
        told = filter(None, (trouble, tally.ends.get(leading)))
        return "; ".join(self._text_of(event.body) for event in told)


def count_text(leading: str, groups: int) -> str:
    """So many groups in words: ``4 stuck``."""
    if not leading:
        words = "healthy"
    elif leading in LOSSES:
        words = "lost offsets"
    elif leading == _COMPLETED:
        words = "with a slow leader"
    elif leading == "member.left":
        words = "lost a member"
    else:
        words = kind_named(leading).SHORT or leading
    return f"{groups:,} {words}".replace(",", "\u202f")


def group_counts(groups: Mapping[tuple[Tone, str], int]) -> tuple[GroupCount, ...]:
    """The numbers of groups by tone and the worst of them, in words: the gravest first, then the most."""
    merged = Counter[tuple[Tone, str]]()
    for (tone, leading), number in groups.items():
        merged[tone, min(LOSSES) if leading in LOSSES else leading] += number
    ranked = sorted(merged.items(), key=lambda item: (-TONES.index(item[0][0]), -item[1], item[0][1]))
    return tuple(
        GroupCount(leading=leading, text=count_text(leading, number), tone=tone, groups=number)
        for (tone, leading), number in ranked
    )


def _rank(strip: GroupStrip) -> tuple[int, int, int, int, str]:
    """The worst first: by tone, then what was lost, then how long what was wrong."""
    return -TONES.index(strip.tone), -strip.losses, -strip.score, -strip.rebalance_count, strip.group_id


def strip_bucket_ms(since_ms: int, until_ms: int) -> int:
    """The width of a bucket of a strip."""
    return bucket_width_ms(until_ms - since_ms, _BUCKETS)


def _marks(tally: _GroupTally, since_ms: int, until_ms: int) -> list[StripSpan]:
    return [
        StripSpan(name=name, severity=severity, since_ms=at_ms, until_ms=at_ms)
        for name, at_ms, severity in tally.marks
        if since_ms <= at_ms < until_ms
    ]


def _leading(spans: Sequence[StripSpan]) -> str:
    """The name of the worst: the most severe, of these a loss, of these the longest."""

    def rank(span: StripSpan) -> tuple[int, bool, int]:
        return _WEIGHT[span.severity], span.name in LOSSES, span.until_ms - span.since_ms

    return max(spans, key=rank).name if spans else ""


def _conditions(tally: _GroupTally, since_ms: int, until_ms: int) -> Iterator[StripSpan]:
    for one in tally.conditions.values():
        begin, end = max(one.since_ms, since_ms), min(one.until_ms or until_ms, until_ms)
        if begin <= end:
            yield StripSpan(name=one.name, severity=one.severity, since_ms=begin, until_ms=end)


def _most_severe(spans: Sequence[StripSpan]) -> list[StripSpan]:
    """The most severe ones, of these the longest; the most severe one last, so that it is drawn over the others."""
    ranked = sorted(spans, key=lambda span: -_WEIGHT[span.severity])[:_MOST_SPANS]
    return ranked[::-1]
