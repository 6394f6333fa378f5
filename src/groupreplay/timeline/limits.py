"""The most that a timeline document holds, and how what is too fine is summed up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any, Final, TypeVar

import msgspec

from groupreplay.codecs.kafka_terms import Phase
from groupreplay.state.events.event import Severity
from groupreplay.timeline.document import (
    MIXED,
    ConditionBar,
    GenerationFlag,
    LaneMark,
    OwnerSpan,
    PartitionRow,
    Span,
    StateBar,
    Tenure,
)
from groupreplay.timeline.event_reading import ReadEvent
from groupreplay.timeline.facts import is_trouble

_LONGEST_MS: Final = 1 << 40
#: Buckets that a picture of commits needs at least.
_LEAST_BUCKETS: Final = 24
#: Marks that say what the bars of a lane show anyway.
_ENDS: Final = frozenset({"member.joined", "member.left", "static.replaced"})
#: since_ms, until_ms, number of partitions.
Holdings = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineLimits:
    """The most of each kind in one document; ``event_bytes`` is for the bodies of all events."""

    buckets: int = 720
    events: int = 3_000
    event_bytes: int = 400_000
    generations: int = 4_000
    states: int = 4_000
    holdings: int = 10_000
    owner_spans: int = 20_000
    pauses: int = 10_000
    slots: int = 2_000
    tenures: int = 10_000
    marks: int = 10_000
    partitions: int = 20_000
    conditions: int = 2_000
    deadlines: int = 2_000
    offset_changes: int = 2_000
    trace: int = 4_000

    def scaled(self, share: float) -> TimelineLimits:
        """The limits of a document that has to become smaller, to this share of each; at least one of everything."""
        less = {name: max(int(most * share), 1) for name, most in asdict(self).items()}
        return TimelineLimits(**{**less, "buckets": max(less["buckets"], _LEAST_BUCKETS)})

    def of_many(self, documents: int) -> TimelineLimits:
        """The limits of each of so many documents that share one page."""
        share = max(documents // 4, 1)
        return TimelineLimits(
            buckets=max(self.buckets // min(share, 4), 120),
            events=max(self.events // share, 200),
            event_bytes=max(self.event_bytes // share, 30_000),
            generations=max(self.generations // share, 300),
            states=max(self.states // share, 300),
            holdings=max(self.holdings // share, 1_000),
            owner_spans=max(self.owner_spans // share, 2_000),
            pauses=max(self.pauses // share, 500),
            slots=max(self.slots // share, 200),
            tenures=max(self.tenures // share, 500),
            marks=max(self.marks // share, 300),
            partitions=max(self.partitions // share, 1_000),
            conditions=max(self.conditions // share, 200),
            deadlines=max(self.deadlines // share, 200),
            offset_changes=max(self.offset_changes // share, 200),
            trace=max(self.trace // share, 200),
        )


_Lane = TypeVar("_Lane")
_Item = TypeVar("_Item")


def _joined_until_few(
    lanes: Sequence[_Lane],
    most: int,
    parts: Callable[[_Lane], Sized],
    joined: Callable[[_Lane, int], _Lane],
) -> tuple[list[_Lane], int]:
    """The lanes with at most about ``most`` parts in all, and the length below which neighbours were joined (0: none).

    The length is doubled, from a second on, until the parts are few enough.
    """
    shortest_ms, coarse = 0, list(lanes)
    while sum(len(parts(lane)) for lane in coarse) > max(most, len(lanes)) and shortest_ms < _LONGEST_MS:
        shortest_ms = shortest_ms * 2 or 1_000
        coarse = [joined(lane, shortest_ms) for lane in lanes]
    return coarse, shortest_ms


def _kept(items: Sequence[_Item], most: int, rank: Callable[[_Item], Any]) -> list[_Item]:
    """The ``most`` items of the lowest rank, in their order; of equal rank the first."""
    if len(items) <= most:
        return list(items)
    places = sorted(range(len(items)), key=lambda place: (rank(items[place]), place))[:most]
    return [items[place] for place in sorted(places)]


def coarser_rows(rows: Sequence[PartitionRow], most: int) -> tuple[list[PartitionRow], int]:
    """Rows with at most about ``most`` spans of owners, and the length below which spans were joined (0: none).

    Neighbours that are both shorter become one span of several owners, with the number of changes.
    """
    return _joined_until_few(rows, most, lambda row: row.owners, _coarser)


def _coarser(row: PartitionRow, shortest_ms: int) -> PartitionRow:
    owners: list[OwnerSpan] = []
    for since_ms, until_ms, slot, changes in row.owners:
        if owners and until_ms - since_ms < shortest_ms:
            before = owners[-1]
            if before[2] == MIXED:
                owners[-1] = before[0], until_ms, MIXED, before[3] + 1
                continue
            if before[1] - before[0] < shortest_ms:
                owners[-1] = before[0], until_ms, MIXED, 2
                continue
        owners.append((since_ms, until_ms, slot, changes))
    return PartitionRow(partition=row.partition, owners=tuple(owners), pauses=row.pauses)


def coarser_states(states: Sequence[StateBar], most: int) -> tuple[list[StateBar], int]:
    """At most about ``most`` states, and the length below which neighbours were joined (0: none).

    States that follow each other and are shorter become one with the name of the longest of them.
    """
    if len(states) <= most:
        return list(states), 0
    # Where a rebalance was completed matters less than when it was in progress.
    lanes, shortest_ms = _joined_until_few(
        [_without_completing(states)], most, lambda lane: lane, _coarser_states
    )
    return lanes[0], max(shortest_ms, 1)


def _coarser_states(states: Sequence[StateBar], shortest_ms: int) -> list[StateBar]:
    return [
        bar
        for is_short, run in groupby(states, key=lambda bar: _length(bar) < shortest_ms)
        for bar in ([_summed_up(list(run))] if is_short else run)
    ]


def _without_completing(states: Sequence[StateBar]) -> list[StateBar]:
    """CompletingRebalance as the end of the PreparingRebalance before it."""
    bars: list[StateBar] = []
    for bar in states:
        follows = bool(bars) and bars[-1].state == Phase.PREPARING_REBALANCE.value
        if follows and bar.state == Phase.COMPLETING_REBALANCE.value:
            bars[-1] = replace(bars[-1], until_ms=bar.until_ms, evidence="summed")
        else:
            bars.append(bar)
    return bars


def _length(bar: StateBar) -> int:
    return _LONGEST_MS if bar.until_ms is None else bar.until_ms - bar.since_ms


def _summed_up(run: Sequence[StateBar]) -> StateBar:
    if len(run) == 1:
        return run[0]
    lengths = Counter[str]()
    for bar in run:
        lengths[bar.state] += _length(bar)
    return replace(
        run[0], state=lengths.most_common(1)[0][0], until_ms=run[-1].until_ms, evidence="summed", offset=None
    )


def coarser_holdings(lanes: Sequence[Holdings], most: int) -> tuple[list[Holdings], int]:
    """Holdings of all lanes with at most about ``most`` spans, and the length below which neighbours were joined.

    Neighbours that are both shorter become one span with the number of the last one.
    """
    return _joined_until_few(lanes, most, lambda lane: lane, _coarser_holdings)


def _coarser_holdings(spans: Holdings, shortest_ms: int) -> Holdings:
    joined: list[tuple[int, int, int]] = []
    was_short = False
    for since_ms, until_ms, number in spans:
        is_short = until_ms - since_ms < shortest_ms
        if joined and is_short and was_short and joined[-1][1] == since_ms:
            joined[-1] = joined[-1][0], until_ms, number
        else:
            joined.append((since_ms, until_ms, number))
        was_short = is_short
    return tuple(joined)


def coarser_tenures(lanes: Sequence[Sequence[Tenure]], most: int) -> tuple[list[Sequence[Tenure]], int]:
    """Tenures of all lanes, at most about ``most``, and the length below which neighbours were joined (0: none).

    Neighbours that are both shorter, with a shorter gap between them, become one of several members in turn.
    """
    return _joined_until_few(lanes, most, lambda lane: lane, _coarser_tenures)


def _coarser_tenures(lane: Sequence[Tenure], shortest_ms: int) -> Sequence[Tenure]:
    joined: list[Tenure] = []
    was_short = False
    for tenure in lane:
        is_short = tenure.until_ms is not None and tenure.until_ms - tenure.since_ms < shortest_ms
        ended_ms = joined[-1].until_ms if joined else None
        if is_short and was_short and ended_ms is not None and tenure.since_ms - ended_ms < shortest_ms:
            since_ms, members = joined[-1].since_ms, joined[-1].members + tenure.members
            joined[-1] = replace(tenure, since_ms=since_ms, members=members)
        else:
            joined.append(tenure)
        was_short = is_short
    return joined


def kept_marks(
    marks: Mapping[int, Sequence[LaneMark]], most: int
) -> tuple[Mapping[int, Sequence[LaneMark]], int]:
    """At most so many marks of all lanes, and how many were left out: first those that the bars show anyway."""
    every = [(slot, mark) for slot, of_slot in marks.items() for mark in of_slot]
    kept: dict[int, list[LaneMark]] = {slot: [] for slot in marks}
    for slot, mark in _kept(every, most, lambda item: (item[1].name in _ENDS, -item[1].at_ms, item[0])):
        kept[slot].append(mark)
    return kept, max(len(every) - most, 0)


def kept_conditions(
    conditions: Sequence[tuple[ConditionBar, _Item]], most: int
) -> list[tuple[ConditionBar, _Item]]:
    """The most severe conditions, of these the longest, in order."""
    return _kept(conditions, most, lambda condition: _mildness(condition[0]))


def _mildness(bar: ConditionBar) -> tuple[int, int]:
    return -Severity[bar.severity], bar.since_ms - (_LONGEST_MS * 2 if bar.until_ms is None else bar.until_ms)


def kept_rows(rows: Sequence[PartitionRow], most: int) -> list[int]:
    """The places of the rows in which most happens, in order."""
    return _kept(range(len(rows)), most, lambda place: -len(rows[place].owners) - len(rows[place].pauses))


def longest_pauses(rows: Sequence[PartitionRow], most: int) -> tuple[list[PartitionRow], int]:
    """Rows with the longest ``most`` pauses, and how many were left out."""
    lengths = sorted((until_ms - since_ms for row in rows for since_ms, until_ms in row.pauses), reverse=True)
    if len(lengths) <= most:
        return list(rows), 0
    least_ms = lengths[most]
    kept = [
        PartitionRow(partition=row.partition, owners=row.owners, pauses=_longer(row.pauses, least_ms))
        for row in rows
    ]
    return kept, len(lengths) - sum(len(row.pauses) for row in kept)


def _longer(spans: Iterable[Span], least_ms: int) -> tuple[Span, ...]:
    return tuple(span for span in spans if span[1] - span[0] > least_ms)


def kept_generations(flags: Sequence[GenerationFlag], most: int) -> list[GenerationFlag]:
    """The flags after skipped generations, then those with the most moved partitions; in order."""
    return _kept(flags, most, lambda flag: (-flag.skipped, -(flag.moved or 0), -flag.at_ms))


def kept_events(events: Sequence[ReadEvent], most: int) -> list[ReadEvent]:
    """The events with a row: those that tell of trouble, those of the group, those about members; the latest first."""
    return _kept(events, most, _rank)


def _rank(event: ReadEvent) -> tuple[bool, bool, int]:
    return not is_trouble(event), event.name.startswith("member."), -event.time_ms


def bodies(events: Sequence[ReadEvent], most_bytes: int) -> dict[int, Mapping[str, Any]]:
    """Index -> the CloudEvent of those that fit into so many bytes: those that tell of trouble, then the small ones."""
    sized = [(len(msgspec.json.encode(event.body)), event) for event in events]
    kept, left = dict[int, Mapping[str, Any]](), most_bytes
    for size, event in sorted(sized, key=lambda pair: (not is_trouble(pair[1]), pair[0], pair[1].index)):
        if size <= left:
            kept[event.index] = event.body
            left -= size
    return kept
