"""The overview of all groups: a strip for each, made from events alone, and which groups are worst."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from groupreplay.state.timeline.commit_rates import bucket_width_ms
from groupreplay.state.timeline.document import Remark, TimelineDocument, TimelineSource, Tone
from groupreplay.state.timeline.event_reading import ReadEvent, read_events

#: The version of the overview's form.
OVERVIEW_FORM: Final = "groupreplay.overview.v1"
#: Buckets of a strip.
_BUCKETS: Final = 120
#: Spans and marks of one strip; a group with more shows the longest ones.
_MOST_SPANS: Final = 100
_WEIGHT: Final = {"INFO": 0, "WARN": 1, "ERROR": 2}
_TONES: Final[tuple[Tone, ...]] = ("ok", "warn", "error")
_KINDS: Final = {
    "rebalance.stuck": "stuck",
    "rebalance.slow": "slow",
    "rebalance.suspected": "pause",
    "commits.paused": "pause",
    "owner.silent": "pause",
    "partition.poison": "pause",
    "offsets.expiring": "expiry",
}
_MARKS: Final = {"offsets.expired": "expiry", "offsets.deleted": "expiry", "offsets.reset": "expiry"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StripSpan:
    """A time in a strip: stuck, slow, pause, expiry or condition; a moment has both times equal."""

    kind: str
    name: str
    since_ms: int
    until_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStrip:
    """One group in the overview. ``rebalances`` are counts in buckets from the overview's begin on."""

    group_id: str
    group_type: str
    tone: Tone
    score: int
    rebalance_count: int
    moved: int
    conditions: Mapping[str, int]
    expiries: int
    last_ms: int
    rebalances: tuple[int, ...]
    spans: tuple[StripSpan, ...]
    in_full: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsOverview:
    """All groups, the worst ones first; ``timelines`` are those that are shown in full."""

    form: str
    since_ms: int
    until_ms: int
    bucket_ms: int
    source: TimelineSource
    remarks: tuple[Remark, ...]
    strips: tuple[GroupStrip, ...]
    timelines: tuple[TimelineDocument, ...]


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
    rebalances: list[int] = field(default_factory=list)
    moved: int = 0
    conditions: dict[str, _OpenCondition] = field(default_factory=dict)
    marks: list[tuple[str, int, str]] = field(default_factory=list)
    last_ms: int = 0


class OverviewTally:
    """Counts events as they come; memory grows with groups, rebalances and conditions."""

    def __init__(self) -> None:
        self._groups: dict[str, _GroupTally] = {}
        self.first_ms: int | None = None

    def add(self, body: Mapping[str, Any]) -> None:
        """One CloudEvent; those of the job itself are ignored."""
        for event in read_events([body]):
            group_id = event.data.get("group_id")
            if isinstance(group_id, str):
                self._note(self._groups.setdefault(group_id, _GroupTally()), event)

    def _note(self, tally: _GroupTally, event: ReadEvent) -> None:
        self.first_ms = event.time_ms if self.first_ms is None else min(self.first_ms, event.time_ms)
        tally.group_type = event.text("group_type") or tally.group_type
        tally.last_ms = max(tally.last_ms, event.time_ms)
        if event.name == "rebalance.completed":
            tally.rebalances.append(event.time_ms)
            tally.moved += event.number("partitions_moved") or 0
        elif event.text("condition_id"):
            self._note_condition(tally, event)
        elif event.name in _MARKS or event.severity != "INFO":
            tally.marks.append((event.name, event.time_ms, event.severity))

    @staticmethod
    def _note_condition(tally: _GroupTally, event: ReadEvent) -> None:
        since_ms = event.number("since_ms")
        known = tally.conditions.setdefault(
            event.text("condition_id"),
            _OpenCondition(event.name, event.time_ms if since_ms is None else since_ms, event.severity),
        )
        known.severity = max(known.severity, event.severity, key=lambda one: _WEIGHT[one])
        known.until_ms = event.time_ms if event.text("status") == "resolved" else None

    def strips(self, since_ms: int, until_ms: int, others: Iterable[str] = ()) -> list[GroupStrip]:
        """The strips in this time, the worst first; ``others`` are groups without any event."""
        for group_id in others:
            self._groups.setdefault(group_id, _GroupTally())
        found = [_strip(group_id, tally, since_ms, until_ms) for group_id, tally in self._groups.items()]
        return sorted(
            found, key=lambda one: (-_TONES.index(one.tone), -one.score, -one.rebalance_count, one.group_id)
        )


def strip_bucket_ms(since_ms: int, until_ms: int) -> int:
    """The width of a bucket of a strip."""
    return bucket_width_ms(until_ms - since_ms, _BUCKETS)


def _strip(group_id: str, tally: _GroupTally, since_ms: int, until_ms: int) -> GroupStrip:
    width = strip_bucket_ms(since_ms, until_ms)
    times = [at_ms for at_ms in tally.rebalances if since_ms <= at_ms < until_ms]
    buckets = [0] * max(-(-(until_ms - since_ms) // width), 1)
    for at_ms in times:
        buckets[(at_ms - since_ms) // width] += 1
    spans, score, tone, counts = list[StripSpan](), 0, 0, dict[str, int]()
    for one in tally.conditions.values():
        begin, end = max(one.since_ms, since_ms), min(one.until_ms or until_ms, until_ms)
        if begin <= end:
            spans.append(_span(_KINDS.get(one.name, "condition"), one.name, begin, end))
            counts[one.name] = counts.get(one.name, 0) + 1
            tone = max(tone, _WEIGHT[one.severity])
            score += _WEIGHT[one.severity] * (end - begin + 60_000)
    marks = [mark for mark in tally.marks if since_ms <= mark[1] < until_ms]
    for name, at_ms, severity in marks:
        spans.append(_span(_MARKS.get(name, "condition"), name, at_ms, at_ms))
        tone = max(tone, _WEIGHT[severity])
        score += _WEIGHT[severity] * 60_000
    spans.sort(key=lambda span: span.since_ms - span.until_ms)
    return GroupStrip(
        group_id=group_id,
        group_type=tally.group_type,
        tone=_TONES[tone],
        score=score,
        rebalance_count=len(times),
        moved=tally.moved,
        conditions=counts,
        expiries=sum(name in _MARKS for name, _, _ in marks),
        last_ms=tally.last_ms,
        rebalances=tuple(buckets) if times else (),
        spans=tuple(spans[:_MOST_SPANS]),
        in_full=False,
    )


def _span(kind: str, name: str, since_ms: int, until_ms: int) -> StripSpan:
    return StripSpan(kind=kind, name=name, since_ms=since_ms, until_ms=until_ms)
